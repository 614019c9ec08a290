package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/stream/consume"
)

const createdHelp = `Lists what a migration or an import created: on the target, indices with their UUIDs, data
streams, aliases, templates, pipelines, scripts and policies, and settings that --tune-target
changed, with their former values; on the source, the repository and the snapshot. Objects that
existed before the migration are not listed. With --target-host the target is asked, and the list
states what rfsctl undo would refuse, and why.`

const undoHelp = `Removes from the target what rfsctl created lists, and nothing else. Without --yes it lists
everything and removes nothing.

It refuses, with the reason and what to do: what does not carry the mark that the session gave to
everything it created (give the same --session-name); stored scripts, which can carry none;
indices with another UUID; indices that were written to after the migration (by their sequence
numbers; if these are unknown, because the migration did not end: all that have documents);
indices with aliases that the session did not set; data streams whose creation was not confirmed;
pipelines and other objects that the target still needs. Changed settings and changed templates
that carry the mark go with the object. Nothing is removed on the source.

Stop the daemons of the session and all writing applications first: a session in which a process
holds a lease is refused. After the first removal no process can join the session any more. After
a kill, or after the cause of a refusal is removed, run the same command again; rfsctl cleanup
--force removes the list itself.`

func createdCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "created", Usage: "list what a migration or an import created", Description: createdHelp,
	}, showCreated)
}

func undoCommand() *cli.Command {
	return config.Command(cli.Command{
		Name: "undo", Usage: "remove what a migration or an import created", Description: undoHelp,
	}, undo)
}

func showCreated(ctx context.Context, call *config.Call, o config.Stored) error {
	s, err := openCoordination(ctx, call, o)
	if err != nil {
		return err
	}
	all, err := listCreated(ctx, call, o, s)
	if err = errors.Join(err, s.close()); err != nil {
		return err
	}
	if call.Out.JSON {
		return call.Out.Result(all)
	}
	return printCreated(call.Out, all)
}

func listCreated(ctx context.Context, call *config.Call, o config.Stored, s *coordination) ([]rollback.Entry, error) {
	u, done, err := undoOf(ctx, call, o, s)
	if err != nil {
		return nil, err
	}
	all, err := u.List(ctx)
	return all, errors.Join(err, done())
}

// undoOf returns what lists and removes; it asks the target only where one is named. done closes it.
func undoOf(ctx context.Context, call *config.Call, o config.Stored, s *coordination) (u *rollback.Undo, done func() error, err error) {
	u = &rollback.Undo{Records: session.CreatedOf(s.Coordinator), Phases: session.PhasesOf(s.Coordinator), Tuned: session.TuningsOf(s.Coordinator).All}
	done = func() error { return nil }
	if o.Target.Cluster.Host == "" {
		return u, done, nil
	}
	client := s.client
	if client == nil || o.State.Coordinator.Host != "" {
		if client, err = connect(ctx, call, o.Target.Cluster, "target"); err != nil {
			return nil, nil, err
		}
		done = client.Close
	}
	if err := sameCluster(ctx, s, client); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	if u.Mark, err = s.mark(ctx, o); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	stream, err := consume.Read(ctx, s.Coordinator)
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	u.API, u.Endless = client, stream.Began
	u.Restore = func(ctx context.Context) (map[string]string, error) {
		restored, err := s.tuner(client, o).Restore(ctx)
		left := map[string]string{}
		for _, x := range restored {
			for _, key := range x.Left {
				left[x.Target+" "+key] = cmp.Or(x.Reason, "changed by others and left")
			}
		}
		return left, err
	}
	return u, done, nil
}

// mark returns what objects of the session carry.
func (s *coordination) mark(ctx context.Context, o config.Stored) (objects.Mark, error) {
	token, err := session.IdentityOf(s.Coordinator).Mark(ctx)
	return objects.Mark{Session: o.State.Session.Name, Token: token}, err
}

// tuner restores settings of indices of the session.
func (s *coordination) tuner(client *target.Client, o config.Stored) *tuning.Tuner {
	mark := func(ctx context.Context) (objects.Mark, error) { return s.mark(ctx, o) }
	return &tuning.Tuner{API: client, Records: session.TuningsOf(s.Coordinator), Mark: mark, Log: slog.New(slog.DiscardHandler)}
}

// sameCluster refuses a target that is not the one of the session.
func sameCluster(ctx context.Context, s *coordination, client *target.Client) error {
	identity, err := session.IdentityOf(s.Coordinator).Read(ctx)
	if errors.Is(err, cms.ErrNotFound) {
		return fmt.Errorf("%s holds no session: no process has recorded one, so nothing was created: %w", s.place, fault.ErrConfig)
	}
	if err != nil {
		return err
	}
	v, err := client.Info(ctx)
	if err != nil {
		return err
	}
	if was := identity[phase.DestinationIDKey]; was != "" && v.ClusterUUID != "" && was != v.ClusterUUID {
		return fmt.Errorf("%s is the cluster %s, the session's target was %s: %w", client.Name(), v.ClusterUUID, was, fault.ErrConfig)
	}
	return nil
}

func printCreated(out io.Writer, all []rollback.Entry) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "nothing is recorded")
		return err
	}
	w := terminal.NewTable(terminal.NewWriter(out))
	fmt.Fprintln(w, "KIND\tNAME\tUUID\tSINCE\tSTATE\tREASON")
	for _, e := range all {
		since := "-"
		if e.Since != nil {
			since = e.Since.Local().Format(time.DateTime)
		}
		reason := e.Reason
		if e.Kind == rollback.Setting {
			was := "not set"
			if e.Was != nil {
				was = *e.Was
			}
			reason = fmt.Sprintf("was %s, set to %s %s", was, e.Set, reason)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Kind, terminal.Clean(e.Name), orDash(e.UUID), since, e.State, orDash(terminal.Clean(reason)))
	}
	return w.Flush()
}

func undo(ctx context.Context, call *config.Call, o config.Undo) error {
	s, err := openCoordination(ctx, call, o.Stored)
	if err != nil {
		return err
	}
	return errors.Join(undoWith(ctx, call, o, s, false), s.close())
}

// undoWith removes what a session created; unended is rollback.Undo.Unended.
func undoWith(ctx context.Context, call *config.Call, o config.Undo, s *coordination, unended bool) error {
	if err := errors.Join(notOfRound(ctx, o.Stored, s), settled(ctx, call, o.Stored, s)); err != nil {
		return err
	}
	u, done, err := undoOf(ctx, call, o.Stored, s)
	if err != nil {
		return err
	}
	defer done() //nolint:errcheck // every response that matters was read
	u.Unended = unended
	var all []rollback.Entry
	if o.Removal.Yes {
		if err := session.IdentityOf(s.Coordinator).BeginUndo(ctx); err != nil {
			return err
		}
		if err := settled(ctx, call, o.Stored, s); err != nil { // a process may have joined a moment before
			return err
		}
		all, err = u.Run(ctx)
	} else {
		all, err = u.List(ctx)
	}
	if perr := printUndo(call.Out, all); perr != nil || err != nil {
		return errors.Join(err, perr)
	}
	refused := 0
	for _, e := range all {
		if e.State == rollback.Refused {
			refused++
		}
	}
	switch {
	case len(all) == 0: // nothing needs --yes
	case !o.Removal.Yes:
		return fmt.Errorf("nothing was removed; --yes removes the objects listed as %q: %w", rollback.Created, fault.ErrConfig)
	case refused > 0:
		return exit.With(exit.Parts, fmt.Errorf("%d of %d objects were refused; the others were removed", refused, len(all)))
	}
	return nil
}

// notOfRound refuses the session of a round: the session of round 0 keeps the records of what all rounds created.
func notOfRound(ctx context.Context, at config.Stored, s *coordination) error {
	name, option := nameOf(&at)
	root, number, err := follow.LaterRound(ctx, s.Coordinator, *name)
	if err == nil && number > 0 {
		err = fmt.Errorf("%s is round %d of a cluster that is followed; what all rounds created is removed together: give %s %s: %w", *name, number, option, root, fault.ErrConfig)
	}
	return err
}

// nameOf returns the setting that names a session among the rounds of a cluster, and its option.
func nameOf(at *config.Stored) (name *string, option string) {
	if at.State.File != "" {
		return &at.State.File, "--coordinator-file"
	}
	at.State.Session.Name = at.State.Session.OrDefault()
	return &at.State.Session.Name, "--session-name"
}

func printUndo(out *output.Writer, all []rollback.Entry) error {
	if out.JSON {
		return out.Result(all)
	}
	return printCreated(out, all)
}

// settled refuses a session that a process works on, also on the last round where it is followed, and one whose cut-over has not ended.
func settled(ctx context.Context, call *config.Call, at config.Stored, s *coordination) error {
	if err := errors.Join(idle(ctx, s), session.CutoversOf(s.Coordinator).CheckEnded(ctx)); err != nil {
		return err
	}
	last, running, err := follow.Running(ctx, s.Coordinator)
	if err != nil || !running {
		return err
	}
	name, _ := nameOf(&at)
	*name = follow.NameOf(*name, last)
	round, err := openCoordination(ctx, call, at)
	if errors.Is(err, state.ErrNone) || errors.Is(err, cms.ErrStoreGone) {
		return nil // it has no state yet, or was removed
	}
	if err != nil {
		return fmt.Errorf("round %d of the session: %w", last, err)
	}
	return errors.Join(idle(ctx, round), round.close())
}

// idle refuses a session that a process works on.
func idle(ctx context.Context, s *coordination) error {
	err := status.Busy(ctx, s.Coordinator)
	var busy *cms.NoneAvailable
	if errors.As(err, &busy) {
		return exit.With(exit.NotYet, fmt.Errorf("the session runs: %s holds a lease until %s; stop its processes, and run the command again when the lease has ended",
			busy.Holder, busy.NextExpiry.UTC().Format(time.RFC3339)))
	}
	return err
}
