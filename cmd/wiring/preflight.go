package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
)

// Preflight returns what a migration would do, and what would prevent it.
func Preflight(ctx context.Context, o Options, ask config.Planning, log *slog.Logger) (*preflight.Report, error) {
	only, err := preflight.Choose(preflight.Sections(ask.Only), o.Target.URL != "", ask.Version)
	if err != nil {
		return nil, err
	}
	if o.Snapshot == "" {
		return nil, config.Usage("plan needs a snapshot that is there (--snapshot-name)")
	}
	o.WarnOfRisks(log)
	memory := o.Memory().Input()
	counted, err := OpenCounted(ctx, o, memory)
	if err != nil {
		return nil, err
	}
	budget.LimitMemory(budget.MemoryOfInput, os.Getenv) // no documents are read at the same time
	budget.SaveMemory(os.Getenv)                        // the metadata of all indices is kept
	o.Target.Memory = memory
	p, err := plan.New(ctx, counted, o.Request())
	if err != nil {
		return nil, PlanError(err)
	}
	e := &preflight.Evaluator{
		Target: preflight.Offline{}, Version: preflight.VersionOf(ask.Version), Repo: counted, Existing: o.existing, Only: only, Documents: ask.Documents,
		Needs: preflight.Needs{BulkBytes: int64(o.bulkBytes), Tolerance: o.skewTolerance(), Session: o.Session, Now: time.Now},
	}
	var refused error // by the session that exists
	followed := false
	indices := &creation.Indices{Rules: o.rules, Overrides: o.overrides, Log: log, AllowSource: o.allowSource}
	if o.Target.URL != "" && only.NeedTarget() {
		client, err := target.New(ctx, o.Target)
		if err != nil {
			return nil, err
		}
		defer client.Close() //nolint:errcheck // nothing was written through it
		if e.Version, err = client.Info(ctx); err != nil {
			return nil, err
		}
		e.Target, indices.UUIDs = client, client
		shut, err := o.keeps(ctx, &e.Needs)
		if err != nil {
			return nil, err
		}
		defer shut() //nolint:errcheck // nothing was written through it
		e.Own, followed, err = o.ownTargets(ctx, o.SessionSettings(counted))
		var differs *session.ConfigMismatch
		if errors.Is(err, session.ErrUndone) || errors.As(err, &differs) {
			refused = err
		} else if err != nil {
			log.Warn("whether the session exists is unknown", "session", o.SessionOrDefault(), "reason", fault.Text(err))
		}
	}
	dry := objects.DryRunCluster{Target: e.Target}
	e.Globals = &creation.Globals{Cluster: dry, Version: e.Version, Wanted: o.globals, Log: log}
	indices.Cluster, indices.Version, indices.Requester, indices.Globals = dry, e.Version, e.Target, e.Globals
	e.Indices = indices
	r, err := e.Evaluate(ctx, p)
	if err == nil && refused != nil {
		r.Stops = append(r.Stops, fault.Text(refused))
	} else if err == nil && e.Own != nil {
		continues := "rfsd migrate"
		if followed {
			continues = "rfsd follow"
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("the session %s exists and has %d target indices: %s with the same options continues it, and rfsctl status shows it", o.SessionOrDefault(), len(e.Own), continues))
	}
	return r, err
}

// keeps adds to the needs where the state of the work is kept, if that is not the target. shut closes its connections.
func (o Options) keeps(ctx context.Context, needs *preflight.Needs) (shut func() error, err error) {
	shut = func() error { return nil }
	switch {
	case o.coordinatorFile != "":
		needs.Keep = func(context.Context) (time.Time, time.Duration, error) {
			return time.Time{}, 0, state.CheckFile(o.coordinatorFile)
		}
	case o.bucket.URI != "":
		needs.Keep = o.place(false).Check
	case !o.stateInTarget():
		client, err := target.New(ctx, o.coordinator)
		if err != nil {
			return nil, fmt.Errorf("coordinator: %w", err)
		}
		needs.Work, shut = client, client.Close
	}
	return shut, nil
}

// ownTargets returns the target indices that the session of the options has recorded, with their UUIDs, and whether it has rounds; nil if it
// does not exist. It returns session.ErrUndone if it was undone, and a *session.ConfigMismatch if it was started with other settings.
func (o Options) ownTargets(ctx context.Context, settings map[string]string) (own map[string]string, followed bool, err error) {
	var store cms.Store
	var shut func() error
	if o.Shares() {
		store, shut, err = o.place(true).Create(ctx)
	} else if o.coordinatorFile != "" {
		var kept *boltcms.Store
		if kept, err = state.OpenFile(o.coordinatorFile); err == nil {
			store, shut = kept, kept.Close
		}
	}
	if store == nil || err != nil {
		if errors.Is(err, cms.ErrStoreGone) || errors.Is(err, state.ErrNone) {
			err = nil
		}
		return nil, false, err
	}
	c := o.StateIn(store)
	if err = session.IdentityOf(c).CheckUndone(ctx); err == nil {
		own, err = session.EntriesOf(c).Targets(ctx)
	}
	if err == nil {
		var rounds session.Followed
		rounds, err = session.RoundsOf(c).Read(ctx)
		followed = len(rounds.Rounds) > 0
	}
	if err == nil {
		err = checkSession(ctx, c, followed, settings)
	}
	return own, followed, errors.Join(err, shut())
}

// checkSession returns a *session.ConfigMismatch if a session was started with other settings. The rounds of a followed cluster have other
// snapshots than its first one.
func checkSession(ctx context.Context, c *cms.Coordinator, followed bool, settings map[string]string) error {
	recorded, err := session.IdentityOf(c).Settings(ctx)
	switch {
	case errors.Is(err, cms.ErrNotFound):
		return nil
	case err != nil:
		return err
	case followed || recorded[plan.FollowKey] != "":
		return follow.CheckSettings(recorded, settings)
	}
	return session.CheckSettings(recorded, settings)
}
