package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// comparison compares a source with a target within the budget of the process.
type comparison struct {
	options
	ask    config.Verification
	reuse  bool // the result of a comparison of the same session counts, unless the target was written to since
	memory *budget.Budget
	log    *slog.Logger
	screen *terminal.Screen
}

// compared is the source's side.
type compared struct {
	// identity identifies the source and all settings that decide what is sent of it; "": that is not known.
	identity string
	// marks reads the sequence numbers that the target had when the source had arrived. state is that of the session; nil: there
	// is none.
	marks  func(ctx context.Context, client *target.Client, state *cms.Coordinator) (rollback.Marks, error)
	groups func(ctx context.Context, client *target.Client, v target.Version) ([]verify.Group, error)
	// fields compares the mappings of the target, of which failed documents did not arrive, and adds the result to the report; nil: they
	// are not known.
	fields func(ctx context.Context, client *target.Client, v target.Version, failed *verify.Failed, r *verify.Report) error
	// add completes the report; nil: nothing to add.
	add func(*verify.Report)
}

// snapshot compares the snapshot of a repository.
func (c *comparison) snapshot(ctx context.Context, blobs repo.Repository) (*verify.Report, error) {
	plan, err := plan.New(ctx, blobs, c.request())
	if err != nil {
		return nil, planError(err)
	}
	identity := comparedIdentity(c.options, blobs.URI(), plan)
	return c.report(ctx, blobs.URI(), compared{
		identity: identity,
		marks: func(ctx context.Context, client *target.Client, state *cms.Coordinator) (rollback.Marks, error) {
			return sessionMarks(ctx, client, state, plan)
		},
		groups: func(ctx context.Context, client *target.Client, v target.Version) ([]verify.Group, error) {
			indices := &creation.Indices{Cluster: client, Version: v, Rules: c.rules, Requester: client, Log: c.log}
			if err := indices.Locate(ctx, plan); err != nil {
				return nil, err
			}
			return c.source(blobs, identity).Groups(plan), nil
		},
		fields: func(ctx context.Context, client *target.Client, v target.Version, failed *verify.Failed, r *verify.Report) error {
			mappings := compare.Fields{
				Source: c.source(blobs, identity), Target: client, Failed: failed.Has, TypesOnly: c.ask.Quick,
				Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: client}, Version: v, Rules: c.rules, Overrides: c.overrides, Requester: client, Log: c.log},
			}
			all, warnings, err := mappings.Fields(ctx, plan)
			for _, x := range r.Indices {
				x.Fields = all[x.Target]
			}
			r.Warnings = append(r.Warnings, warnings...)
			return err
		},
		add: func(r *verify.Report) {
			r.Snapshot = c.options.snapshot
			for _, x := range plan.Unread {
				r.Indices = append(r.Indices, &verify.Index{Target: x.Entry.Naming.Index, Sources: []string{x.Name}, State: verify.Unreadable, Problems: []string{x.Reason}})
			}
			for _, m := range plan.Missing {
				r.Warnings = append(r.Warnings, "the snapshot lacks a shard: "+m)
			}
		},
	})
}

// source returns the source's side of the comparison of a snapshot.
func (c *comparison) source(blobs repo.Repository, identity string) compare.Comparison {
	return compare.Comparison{Repo: blobs, Edit: c.editor, Redirects: c.rules.Targets, Memory: c.memory, MaxDocument: c.maxDocument, Identity: identity}
}

// files compares files, such as those of an export.
func (c *comparison) files(ctx context.Context, files repo.Repository, types importer.Types) (*verify.Report, error) {
	source := importer.Comparison{Source: files, Types: types, AllowPartial: c.allowPartial, IncludeSystem: c.includeSystem, MaxDocument: c.maxDocument,
		Memory: c.memory, Frames: budget.New(importer.MaxBack, 0), Log: c.log}
	return c.report(ctx, files.URI(), compared{
		identity: fmt.Sprintf("%s %s %s %t %d", version, repositoryIdentity(files.URI()), types, c.includeSystem, c.maxDocument),
		marks: func(ctx context.Context, client *target.Client, state *cms.Coordinator) (m rollback.Marks, err error) {
			if state == nil {
				return m, errNoImport
			}
			if _, err := importer.NewAgain(ctx, source, state); err != nil {
				return m, err
			}
			return rollback.ReadMarks(ctx, client, session.Of(state))
		},
		groups: func(ctx context.Context, _ *target.Client, _ target.Version) ([]verify.Group, error) {
			return source.Groups(ctx)
		},
		fields: func(ctx context.Context, client *target.Client, v target.Version, _ *verify.Failed, r *verify.Report) error {
			return c.compareExportedMappings(ctx, files, client, v, r)
		},
	})
}

// report compares the target with a source.
func (c *comparison) report(ctx context.Context, uri string, source compared) (*verify.Report, error) {
	r := &verify.Report{Version: version, Begin: time.Now().UTC().Truncate(time.Second), Source: uri, Sample: float64(c.ask.Sample), Quick: c.ask.Quick, Strict: c.ask.Strict}
	if err := c.with(ctx, r, source); err != nil {
		return nil, err
	}
	if source.add != nil {
		source.add(r)
	}
	r.End = time.Now().UTC().Truncate(time.Second)
	r.Conclude()
	return r, nil
}

// with compares the target with a source and adds the result to a report.
func (c *comparison) with(ctx context.Context, r *verify.Report, source compared) (err error) {
	c.target.Memory = c.memory
	client, err := target.New(ctx, c.target)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is under way
	v, err := client.Info(ctx)
	if err != nil {
		return err
	}
	r.Target = client.Name()
	groups, err := source.groups(ctx, client, v)
	if err != nil {
		return err
	}
	bucket, pause := throttle.New(c.maxRate), cms.SystemClock().Sleep
	held := compare.Target{Client: client, Version: v, Longest: c.maxDocument, Admit: bucket.Take, Pause: pause, Log: c.log,
		Sequence: func(ctx context.Context, name string) (map[string]int64, error) {
			return rollback.Sequence(ctx, client, name)
		}}
	if latency := throttle.NewLatency(c.maxLatency, pause); latency != nil {
		held.Pace = latency
	}
	session, end, why := stateOfSession(ctx, c.options, client)
	defer func() { err = errors.Join(err, end()) }()
	if errors.Is(why, state.ErrNone) {
		return why
	}
	refused, err := accountOfFailures(ctx, c.options, session)
	if err != nil {
		return err
	}
	if why == nil {
		held.Marks, why = readMarks(ctx, source, client, session)
	}
	if why == nil { // the session is of this source
		if err := addRecorded(ctx, refused, session); err != nil {
			return err
		}
	} else {
		held.Marks = nil
		c.log.Info("documents that were changed after the migration are not recognized as such", "reason", fault.Text(why))
	}
	options := verify.Options{
		Target: held, Sample: verify.Sample(float64(c.ask.Sample)), Failed: refused, Names: c.ask.Differences, Readers: c.slots, Pause: pause, Log: c.log,
		Work: verify.Work{Clock: cms.SystemClock(), Holder: newHolder(), Identity: source.identity + " " + v.ClusterUUID, Reuse: c.reuse, Lease: min(c.leases.Initial, verify.DefaultLease)},
	}
	if c.ask.Quick {
		if r.Indices, err = verify.New(options).Count(ctx, groups); err != nil {
			return err
		}
		return compareFields(ctx, source, client, v, refused, r)
	}
	if source.identity == "" { // nothing that it shares with another
		options.Work.Identity, session = options.Work.Holder, nil
	}
	if r.Indices, err = c.compare(ctx, options, groups, session); err != nil {
		return err
	}
	return compareFields(ctx, source, client, v, refused, r)
}

// compareFields adds the fields of mappings that differ to a report, where the source states mappings.
func compareFields(ctx context.Context, source compared, client *target.Client, v target.Version, failed *verify.Failed, r *verify.Report) error {
	if source.fields == nil {
		return nil
	}
	return source.fields(ctx, client, v, failed, r)
}

// compare compares with all processes that do so in the session, or by itself where that is not possible.
func (c *comparison) compare(ctx context.Context, o verify.Options, groups []verify.Group, state *cms.Coordinator) ([]*verify.Index, error) {
	run := func() ([]*verify.Index, error) {
		checker := verify.New(o)
		stop := showProgress(verifyProgress(checker), c.log, c.screen)
		defer stop()
		return checker.Compare(ctx, groups)
	}
	name := ""
	if o.Work.Identity != o.Work.Holder {
		sum := sha256.Sum256([]byte(o.Work.Identity))
		name = "verify-" + hex.EncodeToString(sum[:8])
	}
	if state != nil {
		own := c.options
		if dir, err := stateDir(); err == nil {
			own.ownerFile = filepath.Join(dir, name+".owner")
		}
		w, err := claimOwnership(own, o.Work.Holder)
		if err != nil { // another process of this machine, whose leases are waited for as those of others
			w = &owner{}
		}
		o.Work.Store, o.Work.Dead = state.Store(), w.dead
		all, err := run()
		if (err == nil || errors.Is(err, verify.ErrNotShared)) && w.file != nil { // no lease is left
			err = errors.Join(err, os.Remove(w.file.Name()))
		}
		if err = errors.Join(err, w.release()); !errors.Is(err, verify.ErrNotShared) {
			return all, err
		}
		c.log.Info("this process compares by itself", "reason", fault.Text(err))
	}
	store, end, err := ownStore(name)
	if err != nil {
		return nil, err
	}
	o.Work.Store, o.Work.Dead = store, nil
	all, err := run()
	return all, errors.Join(err, end(err == nil))
}

// ownStore opens the state of a comparison of one process, which the same comparison goes on from after a kill. end closes it,
// and removes it when the comparison is over. Without a name it has none that another process could find.
func ownStore(name string) (store cms.Store, end func(over bool) error, err error) {
	dir, err := stateDir()
	if err == nil && name != "" {
		path := filepath.Join(dir, name+".db")
		file, err := boltcms.Open(path, time.Now)
		if errors.Is(err, fault.ErrCorrupt) { // as after a crash of the machine: nothing is lost but time
			if err = os.Remove(path); err == nil {
				file, err = boltcms.Open(path, time.Now)
			}
		}
		if err == nil {
			return file, func(over bool) error {
				err := file.Close()
				if over {
					err = errors.Join(err, os.Remove(path))
				}
				return err
			}, nil
		}
	}
	temporary, closeStore, err := openFile(options{}) // another process has it, or there is no such directory
	return temporary, func(bool) error { return closeStore() }, err
}

// comparedIdentity identifies the snapshot and all settings that decide what is sent of it; "" when the snapshot has no identity.
func comparedIdentity(o options, uri string, plan *plan.Plan) string {
	if plan.Identity == "" {
		return ""
	}
	settings, err := json.Marshal(o.request().Settings(repositoryIdentity(uri)))
	if err != nil { // texts only
		return ""
	}
	return version + " " + plan.Identity + " " + string(settings)
}

// Why nothing is known of what was written later.
var (
	errNoMarks  = errors.New("no session of this name has migrated this snapshot to this target, as far as its state shows")
	errNoImport = errors.New("no session of this name has imported files to this target, as far as its state shows")
)

// stateOfSession opens the state of the session; nil where none was named and there is none. A named one that does not exist is a
// state.ErrNone.
func stateOfSession(ctx context.Context, o options, client *target.Client) (*cms.Coordinator, func() error, error) {
	nothing := func() error { return nil }
	session, end, err := openSession(ctx, o, client)
	if errors.Is(err, state.ErrNone) && o.session == "" && o.coordinatorFile == "" {
		return nil, nothing, nil
	}
	if err != nil {
		return nil, nothing, err
	}
	return session, end, nil
}

// addRecorded adds the failed documents that a fleet has recorded in the control index of the session.
func addRecorded(ctx context.Context, all *verify.Failed, state *cms.Coordinator) error {
	for d, err := range session.Of(state).Refused(ctx) {
		if err != nil {
			return fmt.Errorf("failed documents in the %s: %w", controlIndex, err)
		}
		if d.ID != "" && !all.Add(d.Index, d.ID) {
			return tooManyFailures("the "+controlIndex, all)
		}
	}
	return nil
}

func tooManyFailures(where string, all *verify.Failed) error {
	return config.Usage("%s names more than %d failed documents, which is more than can be held", where, all.Len())
}

// readMarks reads the sequence numbers that the target had when the source had arrived.
func readMarks(ctx context.Context, source compared, client *target.Client, state *cms.Coordinator) (compare.Marks, error) {
	m, err := source.marks(ctx, client, state)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// sessionMarks reads the sequence numbers that the target had at the end of the migration of this snapshot.
func sessionMarks(ctx context.Context, client *target.Client, state *cms.Coordinator, plan *plan.Plan) (m rollback.Marks, err error) {
	if state == nil {
		return m, errNoMarks
	}
	identity, err := session.Of(state).Identity(ctx)
	switch {
	case errors.Is(err, cms.ErrNotFound), err == nil && !worker.IsOf(identity, plan):
		return m, errNoMarks
	case err != nil:
		return m, err
	}
	return rollback.ReadMarks(ctx, client, session.Of(state))
}

// accountOfFailures reads which documents the migration has recorded as failed: from its directory or bucket. state is that of its
// session, or nil: then the files of all sessions count.
func accountOfFailures(ctx context.Context, o options, state *cms.Coordinator) (*verify.Failed, error) {
	all := &verify.Failed{}
	if o.failedDir == "" {
		return all, nil
	}
	mark := ""
	if state != nil {
		var err error
		if mark, err = session.Of(state).Mark(ctx); err != nil {
			return nil, err
		}
	}
	kept, err := repo.Open(ctx, o.failedDir, o.s3)
	if err != nil {
		if _, serr := os.Stat(o.failedDir); !config.InBucket(o.failedDir) && errors.Is(serr, fs.ErrNotExist) {
			return all, nil
		}
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	for blob, err := range kept.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", o.failedDir, err)
		}
		if !strings.HasSuffix(blob.Name, ".ndjson") || state != nil && failed.OfAnother(blob.Name, mark) {
			continue
		}
		r, err := kept.Open(ctx, blob.Name, 0, -1)
		if err != nil {
			return nil, fmt.Errorf("failed documents: %w", err)
		}
		err = failed.Names(r, func(index, id string) error {
			if !all.Add(index, id) {
				return tooManyFailures(o.failedDir, all)
			}
			return nil
		})
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", blob.Name, err)
		}
	}
	return all, nil
}
