package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// wire puts the parts together; the function that is returned closes them.
func wire(ctx context.Context, o options, log *slog.Logger, blobs *repo.Counting, in *resources) (*phase.Session, func() error, error) {
	var all opened
	give := func(err error) (*phase.Session, func() error, error) {
		return nil, nil, errors.Join(err, all.Close())
	}
	limitMemory(o, blobs)
	o.target.Memory, o.coordinator.Memory = in.memory, in.memory
	writer := in.newHolder()
	request := o.request()
	s := &phase.Session{
		Holder: writer, Log: log, Phases: o.phases, Settings: o.sessionSettings(blobs), Existing: o.existing,
		Source:   phase.Source{Request: &request},
		Transfer: phase.Transfer{Solo: in.solo, Order: o.order, SplitOver: o.splitOver},
	}
	s.Snapshot = o.snapshotOptions(s.Settings)
	s.SnapshotUUID = func(ctx context.Context, name string) (string, error) {
		id, err := plan.SnapshotIdentity(ctx, blobs, name)
		return id, planError(err)
	}
	if o.origin.derived {
		s.Snapshots = o.liveSource()
	}
	destination, client, closeDest, err := openDestination(ctx, o, s, in)
	if err != nil {
		return give(err)
	}
	all = append(all, closeDest)
	store, err := in.openStore(ctx, o, log, &all)
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
	kept, name := s.Coordinator, o.session // the records of the target
	if o.first != nil {
		if kept, err = openFirst(ctx, *o.first, writer, log, &all); err != nil {
			return give(err)
		}
		s.Root, s.DeleteVanished, name = kept, o.deleteVanished, o.first.session
	}
	if client != nil {
		ledger := rollback.NewLedger(client, kept, name, log)
		s.Ledger = ledger
		if !client.Serverless() {
			s.Tuner, s.Tune = &tuning.Tuner{API: client, Records: session.TuningsOf(kept), Mark: ledger.Mark, Follows: o.follow != nil, Log: log}, o.guard.tune
		}
	}
	s.Shards = shards.Reader{
		Repo: blobs, Manifests: &in.manifests, Log: log, VerifyFirst: o.verifyFirst, Edit: o.editor, Merges: o.rules.Merges(), Memory: in.memory, MaxDocument: o.maxDocument,
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

// openFirst opens the state of the session that migrated the first snapshot of a cluster that is followed.
func openFirst(ctx context.Context, first options, writer string, log *slog.Logger, all *opened) (*cms.Coordinator, error) {
	store, closeStore, err := openPatiently(ctx, first, log)
	if err != nil {
		return nil, fmt.Errorf("session %s, which is followed: %w", first.sessionOrDefault(), err)
	}
	*all = append(*all, closeStore)
	return cms.New(first.coordination(store, writer)), nil
}

// bulkOptions bounds the bodies of one slot, so that all slots together keep to --max-connections.
// client reads documents that the target has already; nil where there is no cluster.
func bulkOptions(o options, in *resources, client *target.Client) bulk.Options {
	recovery := &bulk.Recovery{}
	b := bulk.Options{
		Existing: o.existing,
		MaxBytes: o.bulkBytes, MaxDocs: o.bulkDocs,
		MaxInFlight:  max(1, (o.connections+o.slots-1)/o.slots),
		Breaker:      bulk.NewBreaker(o.maxFailed),
		Pool:         &bulk.Pool{},
		Recovery:     recovery,
		StallTimeout: o.unavailable,
		Bounds:       bulk.Share{Requests: in.flow, Slots: o.slots, Recovery: recovery},
	}
	if client != nil {
		b.Finder = client
	}
	if o.target.URL != "" {
		b.MaxID = target.MaxID
	}
	return b
}

// coordination returns the rules of work items for a process.
func (o options) coordination(store cms.Store, creator string) cms.Config {
	return cms.Config{
		Store: store, Creator: creator, InitialLease: o.leases.Initial, MaxLease: o.leases.Longest, MaxAttempts: o.leases.Attempts, SkewTolerance: o.skewTolerance(),
	}
}

// stateIn returns the state of the work in a store.
func (o options) stateIn(store cms.Store) *cms.Coordinator {
	return cms.New(o.coordination(store, owner.Name()))
}

// taskLeases are the rules of windows and partitions, whose lengths are options of their own.
var taskLeases = config.Leases{Skew: config.Skew{Tolerance: timing.DefaultTolerance}}

// skewTolerance is the allowed distance to the clock of the coordination store; 0, which is any, for a file,
// whose clock is that of this process.
func (o options) skewTolerance() time.Duration {
	if !o.shares() {
		return 0
	}
	return o.leases.Skew.Tolerance
}

// openStore opens the state of the work, with connections of its own, which requests with documents cannot take. With join it has to
// exist already.
func openStore(ctx context.Context, o options, join bool) (cms.Store, func() error, error) {
	if !o.shares() {
		return state.CreateFile(o.coordinatorFile)
	}
	return o.place(join).Create(ctx)
}

// place returns the place of the state of the work, for processes that share it.
func (o options) place(join bool) state.Place {
	at := state.Place{Session: o.session, Bucket: o.bucket, Apart: o.splitOver > 0, Join: join}
	switch {
	case o.stateInTarget():
		at.Cluster = o.target
	case o.bucket.URI == "":
		at.Cluster = o.coordinator
	}
	return at
}

// openDestination connects to the cluster, opens the export directory, or none for a dry run.
func openDestination(ctx context.Context, o options, s *phase.Session, in *resources) (engine.Destination, *target.Client, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case o.discard:
		s.Identity = map[string]string{phase.DestinationKey: phase.KindDryRun}
		return engine.Limited(engine.ToNowhere(), in.bucket.Take), nil, nothing, nil
	case in.files != nil:
		identifyFiles(o, s, in.files)
		return engine.Limited(engine.ToFiles(in.files), in.bucket.Take), nil, nothing, nil
	case o.exportDir != "":
		dir, err := openExport(o, s.Holder)
		if err != nil {
			return nil, nil, nil, err
		}
		identifyFiles(o, s, dir)
		return engine.Limited(engine.ToFiles(dir), in.bucket.Take), nil, dir.Close, nil
	}
	o.target.Log = s.Log
	client, err := target.New(ctx, o.target)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := o.checkCollection(client); err != nil {
		return nil, nil, nil, err
	}
	v, err := askTarget(ctx, client, s.Log)
	if err == nil {
		err = o.checkRepeats(v, s.Log)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	s.Version = v
	s.Identity = phase.ClusterIdentity(v.ClusterUUID, o.target.RunPipelines)
	s.Identity[phase.ExistingKey] = string(o.existing)
	s.Targets, s.UUIDs, s.Counts, s.Redirects = client, client.IndexUUIDs, client, o.rules.Targets
	indices := &creation.Indices{Cluster: client, Version: v, Rules: o.rules, Overrides: o.overrides, Requester: client, Log: s.Log, UUIDs: client, AllowSource: o.allowSource}
	globals := &creation.Globals{Cluster: client, Version: v, Wanted: o.globals, Log: s.Log}
	if o.phases.Has(phase.PhaseMetadata) {
		indices.Globals = globals
	}
	s.Indices, s.Globals, s.Preview = indices, globals.Migrate, preflight.Preview(client, indices, globals)
	s.Streams = indices.StreamUUID
	if o.globals.Attach {
		s.Policies = globals
	}
	limits, stop := in.sending(ctx, o, client, s.Log)
	return engine.ToCluster(in.counters.Sender(client), limits), client, stop, nil
}

// openExport opens the export directory, for this process alone or beside those with which it shares the work.
func openExport(o options, writer string) (*export.Dir, error) {
	open := export.Open
	if o.shares() {
		open = export.OpenShared
	}
	dir, err := open(o.exportDir, writer, export.Compression(o.compression))
	if err != nil {
		return nil, fmt.Errorf("export directory %s: %w", o.exportDir, err)
	}
	return dir, nil
}

// identifyFiles binds a session to its export directory, which gets the mappings, and to how files are compressed.
func identifyFiles(o options, s *phase.Session, dir *export.Dir) {
	s.Exported = func(ctx context.Context, p *plan.Plan) error {
		return compare.WriteMappings(ctx, o.exportDir, &creation.Indices{Rules: o.rules, Overrides: o.overrides}, p)
	}
	s.Identity = map[string]string{phase.DestinationKey: phase.KindFiles, phase.DestinationIDKey: dir.ID(), phase.CompressionKey: string(export.Compression(o.compression).Method())}
}

// openRepository opens the repository. When this session creates the snapshot, the repository
// may not be there before the source has written to it: then it is opened when it is read first.
func openRepository(ctx context.Context, o options) (repo.Repository, error) {
	if o.origin.derived {
		return &repo.Lazy{Address: o.repoURI, Options: o.stores}, nil
	}
	blobs, err := repo.OpenFederation(ctx, o.repoURI, o.remotes, o.stores)
	if err != nil {
		return nil, exit.With(exit.Snapshot, fmt.Errorf("repository %s: %w", o.repoURI, err))
	}
	return blobs, nil
}

// openCounted opens the repository, counts its requests, and reads large blobs within memory.
func openCounted(ctx context.Context, o options, memory *budget.Budget) (*repo.Counting, error) {
	blobs, err := openRepository(ctx, o)
	if err != nil {
		return nil, err
	}
	counted := repo.NewCounting(blobs)
	counted.LargeAlone(memory.Alone)
	return counted, nil
}

// maxBody returns what asks the target, once it is needed, for the longest body of a request that it takes; 0 when that is
// not known.
func maxBody(client *target.Client, log *slog.Logger) func(ctx context.Context) int64 {
	return func(ctx context.Context) int64 {
		most, err := client.MaxBody(ctx)
		if err != nil {
			log.DebugContext(ctx, "size of requests unknown", "error", err)
		}
		return most
	}
}

// storeRetry is the time between two tries to open a store.
const storeRetry = 2 * time.Second

// openPatiently opens the store of the options as soon as that is possible. The error is that of ctx.
func openPatiently(ctx context.Context, o options, log *slog.Logger) (cms.Store, func() error, error) {
	for warned := false; ; warned = true {
		store, closeStore, err := openStore(ctx, o, false)
		if err == nil {
			return store, closeStore, nil
		}
		if !warned && ctx.Err() == nil {
			log.Warn("store not opened", "error", fault.Text(err), "next_try_in", storeRetry)
		}
		if err := timing.SystemClock().Sleep(ctx, storeRetry); err != nil {
			return nil, nil, err
		}
	}
}

// openCoordinator connects to the store that the workers use.
func openCoordinator(ctx context.Context, o options) (*cms.Coordinator, error) {
	store, _, err := openStore(ctx, o, false)
	if err != nil {
		return nil, err
	}
	return o.stateIn(store), nil
}

// openFiles opens the files of an import.
func openFiles(ctx context.Context, o options) (repo.Repository, error) {
	files, err := repo.Open(ctx, o.from, o.stores)
	if err != nil {
		return nil, fmt.Errorf("--from %s: %w", o.from, err)
	}
	return files, nil
}
