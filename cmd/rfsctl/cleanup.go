package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

const cleanupHelp = `Removes what rfsd keeps about one migration: the indices .migrations_working_state, .rfs_items-*
and .rfs_control of its session (with _SESSION appended to their names) and their aliases, or the
coordinator file, or with --coordinator-bucket the objects below PREFIX/SESSION/ (without a
session name PREFIX/_common/; other objects there stay, and are named). Migrated indices and
other sessions are not touched. The list of created objects (rfsctl created) is removed,
too. Files of failed documents stay; a later session of the same name leaves them out.

--trial removes the trial run of the session (rfsd migrate --trial with the same --session-name
and --coordinator-file): first the indices that it created, as rfsctl undo does, then its
records. Without --yes it lists the indices and removes nothing. An index with another
UUID, or that others wrote to, is refused by name and stays, together with the records.
Sequence numbers are recorded when the trial run ends; after a kill, and of the indices that it
fills only to measure, mark and UUID alone are compared. Run it when the trial run has ended.

Only a complete migration is removed, a followed session when its following has ended, and an
undone session when rfsctl undo has left nothing, unless --force is given. Settings of the target
that the session has changed have to be restored before. The later rounds of a
followed session are removed with it. Snapshots that the session made stay on the source, and are
named. Stop the daemons of the session first.`

func cleanupCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "cleanup", Usage: "remove the records of a complete migration", Description: cleanupHelp,
	}, cleanup)
}

func cleanup(ctx context.Context, call *config.Call, o config.Cleanup) error {
	s, err := openCoordination(ctx, call, o.Stored)
	if errors.Is(err, cms.ErrStoreGone) && (o.Force.Yes || o.Trial.Only) {
		return dropRest(ctx, call, o.Stored) // half of it is gone already, so that it cannot be opened any more
	}
	if err != nil {
		return err
	}
	if o.Trial.Only {
		if err := removeTrial(ctx, call, o, s); err != nil {
			return errors.Join(err, s.close())
		}
		return forget(ctx, call, o.Stored, s, nil)
	}
	m, _, err := s.read(ctx)
	if err != nil && !o.Force.Yes {
		return errors.Join(err, s.close())
	}
	if err == nil && !m.Complete && !m.Undone && !o.Force.Yes {
		return errors.Join(fmt.Errorf("the migration kept in %s is not complete (%d items open); --force forgets it all the same: %w", s.place, m.Totals.ItemsOpen, fault.ErrConfig), s.close())
	}
	if left, err := undoLeft(ctx, s.Coordinator, m); (err != nil || left > 0) && !o.Force.Yes {
		err = cmp.Or(err, fmt.Errorf("rfsctl undo has left %s, which rfsctl created lists: remove the reasons and run it again; --force removes the records all the same: %w", progress.Plural(int64(left), "object"), fault.ErrConfig))
		return errors.Join(err, s.close())
	}
	if err := errors.Join(session.CutoversOf(s.Coordinator).CheckEnded(ctx), session.RoundsOf(s.Coordinator).CheckEnded(ctx)); err != nil && !o.Force.Yes {
		return errors.Join(withForce(err, "forgets it all the same"), s.close())
	}
	if err := settingsLeft(ctx, s.Coordinator, m); err != nil {
		if !o.Force.Yes {
			return errors.Join(withForce(err, "forgets the former values"), s.close())
		}
		fmt.Fprintf(call.Err, "rfsctl: warning: %s\n", fault.Text(err))
	}
	if cut, _, err := session.CutoversOf(s.Coordinator).Read(ctx); err == nil && cut.Open() && len(cut.Blocks) > 0 {
		fmt.Fprintf(call.Err, "rfsctl: warning: a cut-over is %s; if its process does not run any more, remove index.blocks.write on the source from %s\n", cut.State, terminal.Clean(strings.Join(cut.Blocks, ", ")))
	}
	rounds, err := forgetRounds(ctx, call, o.Stored)
	if err != nil {
		return errors.Join(err, s.close())
	}
	return forget(ctx, call, o.Stored, s, rounds)
}

// withForce adds to a refusal what --force does, and leaves other errors as they are.
func withForce(err error, does string) error {
	if errors.Is(err, fault.ErrConfig) {
		return fmt.Errorf("%s; --force %s: %w", fault.Text(err), does, fault.ErrConfig)
	}
	return err
}

// forgetRounds removes the sessions of the later rounds of a followed cluster: a new session of the same name would take them for its own.
func forgetRounds(ctx context.Context, call *config.Call, at config.Stored) (all []removed, err error) {
	name, _ := nameOf(&at)
	root := *name
	var names []string
	if at.State.File != "" {
		names, err = filesNextTo(root)
	} else {
		names, err = state.Sessions(ctx, at, func(c config.Cluster, role string) (*target.Client, error) { return connect(ctx, call, c, role) })
	}
	if err != nil {
		return nil, err
	}
	for _, *name = range follow.LaterRounds(root, names) {
		s, err := openCoordination(ctx, call, at)
		if err != nil {
			return all, fmt.Errorf("session %s of a round: %w", *name, err)
		}
		of, _, err := follow.LaterRound(ctx, s.Coordinator, *name)
		if err != nil || of != root { // another session
			if err = errors.Join(err, s.close()); err != nil {
				return all, fmt.Errorf("session %s: %w", *name, err)
			}
			continue
		}
		x, err := remove(ctx, call, at, s)
		if all = append(all, x); err != nil {
			return all, err
		}
	}
	return all, nil
}

// filesNextTo returns the files whose paths start with path.
func filesNextTo(path string) (paths []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), filepath.Base(path)); ok {
			paths = append(paths, path+rest)
		}
	}
	return paths, nil
}

// undoLeft counts the objects that rfsctl undo has left of a session; 0: it was not undone.
func undoLeft(ctx context.Context, c *cms.Coordinator, m *progress.Migration) (n int, err error) {
	if m == nil || !m.Undone {
		return 0, nil
	}
	for _, err := range session.CreatedOf(c).All(ctx) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// settingsLeft returns a fault.ErrConfig that names the settings of target indices that the session has changed and not restored. What
// rfsctl undo has left is not its matter.
func settingsLeft(ctx context.Context, c *cms.Coordinator, m *progress.Migration) error {
	if m == nil || m.Undone {
		return nil
	}
	var left []string
	for x, err := range session.TuningsOf(c).All(ctx) {
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(x.Set)) {
			was := "not set"
			if v := x.Was[key]; v != nil {
				was = *v
			}
			left = append(left, fmt.Sprintf("%s of %s is %s, was %s", key, x.Target, x.Set[key], was))
		}
	}
	if len(left) == 0 {
		return nil
	}
	remedy := "rfsctl target restore"
	if m.Rounds != nil {
		remedy = "rfsd follow --finish"
	}
	return fmt.Errorf("settings of the target are not restored yet, which %s does: %s: %w", remedy, terminal.Clean(fault.Names(left, mostSettings)), fault.ErrConfig)
}

// mostSettings limits the settings that a message names.
const mostSettings = 20

// removeTrial removes what a trial run created; without --yes it lists that and returns an error.
func removeTrial(ctx context.Context, call *config.Call, o config.Cleanup, s *coordination) error {
	settings, err := session.IdentityOf(s.Coordinator).Settings(ctx)
	if errors.Is(err, cms.ErrNotFound) {
		return nil // it was killed before anything was recorded
	}
	if err != nil {
		return err
	}
	if settings[plan.TrialKey] == "" {
		return fmt.Errorf("the session %s in %s is not a trial run, but a migration of that name: nothing was removed: %w", o.Stored.State.Session.Name, s.place, fault.ErrConfig)
	}
	documents, err := session.PhasesOf(s.Coordinator).Read(ctx, session.DocsPhase)
	if err != nil {
		return err
	}
	return undoWith(ctx, call, config.Undo{Stored: o.Stored, Removal: o.Removal}, s, documents.State != session.PhaseCompleted)
}

// removed is the result of rfsctl cleanup.
type removed struct {
	Place   string   `json:"place"`             // where the records of the session were
	Names   []string `json:"indices,omitempty"` // of a cluster, with their aliases
	Objects int      `json:"objects,omitempty"` // of a bucket
	Left    []string `json:"left,omitempty"`    // objects there that rfsd did not write
	// Rounds are the sessions of the later rounds of a followed cluster.
	Rounds []removed `json:"rounds,omitempty"`
	// Snapshots are the snapshots that the session made, which stay on the source.
	Snapshots []string `json:"snapshots,omitempty"`
}

// forget removes the state of a session, whose rounds were removed, and closes it.
func forget(ctx context.Context, call *config.Call, at config.Stored, s *coordination, rounds []removed) error {
	made, err := madeSnapshots(ctx, s)
	if err != nil {
		fmt.Fprintf(call.Err, "rfsctl: warning: snapshots of the session that stay on the source are not listed: %s\n", fault.Text(err))
	}
	x, err := remove(ctx, call, at, s)
	if x.Rounds, x.Snapshots = rounds, made; err == nil && len(made) > 0 {
		fmt.Fprintf(call.Out, "snapshots of the session stay on the source, where rfsd does not need them any more: %s\n", terminal.Clean(strings.Join(made, ", ")))
	}
	return errors.Join(err, call.Out.Result(x))
}

// madeSnapshots returns the names of the snapshots that a session made on the source.
func madeSnapshots(ctx context.Context, s *coordination) ([]string, error) {
	if s.Coordinator == nil { // it cannot be opened
		return nil, nil
	}
	all, err := session.RoundsOf(s.Coordinator).Read(ctx)
	if made := follow.Made(all); err != nil || len(made) > 0 {
		return made, err
	}
	settings, err := session.IdentityOf(s.Coordinator).Settings(ctx)
	if errors.Is(err, cms.ErrNotFound) || err == nil && settings["snapshot"] != "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := session.PhasesOf(s.Coordinator).Read(ctx, session.SnapshotPhase)
	if err != nil || p.State != session.PhaseCompleted {
		return nil, err
	}
	is, err := phase.DecodeSnapshot(p.Body)
	if err != nil {
		return nil, err
	}
	return []string{is.Name}, nil
}

// remove removes the state of a session, and closes it.
func remove(ctx context.Context, call *config.Call, at config.Stored, s *coordination) (removed, error) {
	if s.bucket != nil {
		x, err := emptyBucket(ctx, call, s)
		return x, errors.Join(err, s.close())
	}
	x := removed{Place: s.place}
	if client, ok := s.cluster(); ok {
		var err error
		if x.Names, err = oscms.Drop(ctx, client, at.State.Session.Name); len(x.Names) > 0 {
			fmt.Fprintf(call.Out, "removed from %s: %s\n", s.place, strings.Join(x.Names, ", "))
		}
		return x, errors.Join(err, s.close())
	}
	if err := s.close(); err != nil {
		return x, err
	}
	if err := os.Remove(s.place); err != nil {
		return x, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	fmt.Fprintf(call.Out, "removed %s\n", s.place)
	return x, nil
}

// emptyBucket removes the objects of a session from a bucket.
func emptyBucket(ctx context.Context, call *config.Call, s *coordination) (removed, error) {
	folder := strings.TrimSuffix(s.place, "/") + "/" + s3cms.Folder(s.session) + "/"
	fmt.Fprintf(call.Out, "removing the objects of the session below %s\n", folder)
	objects, others, err := s3cms.Drop(ctx, s.bucket, s.session)
	fmt.Fprintf(call.Out, "removed %s\n", progress.Plural(int64(objects), "object"))
	if len(others) > 0 {
		fmt.Fprintf(call.Out, "left there, because rfsd did not write them: %s\n", strings.Join(others, ", "))
	}
	return removed{Place: folder, Objects: objects, Left: others}, err
}

// dropRest removes the remaining objects of a session whose store cannot be opened.
func dropRest(ctx context.Context, call *config.Call, at config.Stored) error {
	cluster, role := at.Which()
	client, err := connect(ctx, call, cluster, role)
	if err != nil {
		return err
	}
	rounds, err := forgetRounds(ctx, call, at)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	return forget(ctx, call, at, &coordination{place: client.Name(), client: client, close: client.Close}, rounds)
}

// cluster is the client of the cluster that keeps the state, when a cluster does.
func (s *coordination) cluster() (*target.Client, bool) { return s.client, s.client != nil }
