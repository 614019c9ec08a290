package wiring

import (
	"context"
	"errors"
	"log/slog"
	"runtime"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// OpenMigration connects to the destination of a migration and opens the state of the work. The function that is returned closes all.
func OpenMigration(ctx context.Context, o Options, log *slog.Logger, blobs *repo.Counting, in *Resources) (*phase.Session, func() error, error) {
	var all opened
	give := func(err error) (*phase.Session, func() error, error) {
		return nil, nil, errors.Join(err, all.Close())
	}
	LimitMemory(o, blobs)
	o.Target.Memory, o.coordinator.Memory = in.Memory, in.Memory
	writer := in.newHolder()
	request := o.Request()
	s := &phase.Session{
		Holder: writer, Log: log, Phases: o.phases, Settings: o.SessionSettings(blobs), Existing: o.existing,
		Source:   phase.Source{Request: &request},
		Transfer: phase.Transfer{Solo: in.solo, Order: o.order, SplitOver: o.conversion.SplitOver},
	}
	s.Snapshot = o.snapshotOptions(s.Settings)
	s.SnapshotUUID = func(ctx context.Context, name string) (string, error) {
		id, err := plan.SnapshotIdentity(ctx, blobs, name)
		return id, PlanError(err)
	}
	if o.origin.derived {
		s.Snapshots = o.LiveSource()
	}
	destination, client, closeDest, err := openDestination(ctx, o, s, in)
	if err != nil {
		return give(err)
	}
	all = append(all, closeDest)
	store, err := in.openStore(ctx, o, writer, log, &all)
	if err != nil {
		return give(err)
	}
	rules := o.coordination(in.counters.Store(store), writer)
	rules.MinExponent, rules.Tries = o.minExponent, o.tries
	s.Coordinator = cms.New(rules)
	recorder, closeRecorder, err := openRecorder(ctx, o, s.Coordinator, writer, log)
	if err != nil {
		return give(err)
	}
	all = append(all, closeRecorder)
	kept, name := s.Coordinator, o.Session // the records of the target
	if o.first != nil {
		if kept, err = openFirst(ctx, *o.first, writer, log, &all); err != nil {
			return give(err)
		}
		if err := o.round.Join(ctx, kept, s.Coordinator, o.skewTolerance()); err != nil {
			return give(err)
		}
		s.Root, s.DeleteVanished, name = kept, o.DeleteVanished, o.first.Session
	}
	if client != nil {
		ledger := rollback.NewLedger(client, kept, name, log)
		s.Ledger = ledger
		if !client.Serverless() {
			s.Tuner, s.Tune = &tuning.Tuner{API: client, Records: session.TuningsOf(kept), Mark: ledger.Mark, Follows: o.follow != nil, Log: log}, o.guard.tune
		}
	}
	s.Shards = shards.Reader{
		Repo: blobs, Manifests: &in.Manifests, Log: log, VerifyFirst: o.verifyFirst, Edit: shards.Edits(o.rules), Merges: o.rules.Merges(), Memory: in.Memory, MaxDocument: o.maxDocument,
		Helpers: lucene.NewHelpers(runtime.GOMAXPROCS(0) - 1), // the slot that reads a shard uses one core itself
	}
	s.Runner = &engine.Runner{
		Destination: destination, Failed: recorder, Meter: engine.NewMeter(),
		Clock: timing.SystemClock(), Log: log, RecordEvery: o.recordEvery, Bulk: bulkOptions(o, in, client),
	}
	if client != nil {
		s.Shards.MaxBody = maxBody(client, log)
	}
	return s, all.Close, nil
}
