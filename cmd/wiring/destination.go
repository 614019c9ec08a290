package wiring

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/diskwatch"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// openDestination connects to the cluster, opens the export, or none for a dry run.
func openDestination(ctx context.Context, o Options, s *phase.Session, in *Resources) (engine.Destination, *target.Client, func() error, error) {
	nothing := func() error { return nil }
	switch {
	case o.Discard:
		s.Identity = map[string]string{phase.DestinationKey: phase.KindDryRun}
		return engine.Limited(engine.ToNowhere(), in.Sending.Take), nil, nothing, nil
	case in.files != nil:
		identifyFiles(o, s, in.files)
		return engine.Limited(engine.ToFiles(in.files), in.Sending.Take), nil, nothing, nil
	case o.exportDir != "":
		x, err := openExport(ctx, o, s.Holder)
		if err != nil {
			return nil, nil, nil, err
		}
		identifyFiles(o, s, x)
		return engine.Limited(engine.ToFiles(x), in.Sending.Take), nil, x.Close, nil
	}
	o.Target.Log = s.Log
	client, err := target.New(ctx, o.Target)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := o.Target.CheckUses(target.Uses{State: o.stateInTarget(), Compare: o.Verify, Measure: o.Measure > 0}); err != nil {
		return nil, nil, nil, err
	}
	v, err := askTarget(ctx, client, o.Unavailable, s.Log)
	if err != nil {
		return nil, nil, nil, err
	}
	warning, err := v.CheckIDs(o.allowDuplicates, o.existing)
	if err != nil {
		return nil, nil, nil, err
	}
	if warning != "" {
		s.Log.Warn(warning)
	}
	s.Version = v
	s.Identity = phase.ClusterIdentity(v.ClusterUUID, o.Target.RunPipelines)
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

// openExport opens the export in a bucket; or in a directory, for this process alone or for all processes that share the work.
func openExport(ctx context.Context, o Options, writer string) (*export.Export, error) {
	c := export.Compression(o.compression)
	if repo.IsBucket(o.exportDir) {
		objects, err := repo.OpenObjects(ctx, o.exportDir, o.stores)
		if err != nil {
			return nil, fmt.Errorf("export %s: %w", o.exportDir, err)
		}
		x, err := export.OpenBucket(ctx, objects.UpTo(export.MaxManifest), c)
		if err != nil {
			return nil, fmt.Errorf("export %s: %w", o.exportDir, err)
		}
		return x, nil
	}
	open := export.Open
	if o.Shares() {
		open = export.OpenShared
	}
	x, err := open(o.exportDir, writer, c)
	if err != nil {
		return nil, fmt.Errorf("export directory %s: %w", o.exportDir, err)
	}
	return x, nil
}

// writeMappings writes the description of the indices of an export next to its files.
func writeMappings(ctx context.Context, o Options, body []byte) error {
	if repo.IsBucket(o.exportDir) {
		to, err := repo.OpenBucket(ctx, o.exportDir, o.stores, retry.Policy{})
		if err != nil {
			return err
		}
		return to.Put(ctx, creation.ExportedName, body)
	}
	return files.Replace(filepath.Join(o.exportDir, creation.ExportedName), 0o644, func(w io.Writer) error {
		_, err := w.Write(body)
		return err
	})
}

// identifyFiles binds a session to its export, which describes its indices, and to how files are compressed.
func identifyFiles(o Options, s *phase.Session, x *export.Export) {
	s.Exported = func(ctx context.Context, p *plan.Plan) error {
		body, err := creation.EncodeExported(ctx, &creation.Indices{Rules: o.rules, Overrides: o.overrides}, p)
		if err != nil {
			return err
		}
		return writeMappings(ctx, o, body)
	}
	s.Identity = map[string]string{phase.DestinationKey: phase.KindFiles, phase.DestinationIDKey: x.ID(), phase.CompressionKey: string(export.Compression(o.compression).Method())}
}

// bulkOptions bounds the bodies of one slot, so that all slots together keep to --max-connections.
// client reads documents that the target has already; nil without a cluster.
func bulkOptions(o Options, in *Resources, client *target.Client) bulk.Options {
	recovery := &bulk.Recovery{}
	b := bulk.Options{
		Existing: o.existing,
		MaxBytes: o.bulkBytes, MaxDocs: o.bulkDocs,
		MaxInFlight:  max(1, (o.connections+o.Slots-1)/o.Slots),
		Breaker:      bulk.NewBreaker(o.maxFailed),
		Pool:         &bulk.Pool{},
		Recovery:     recovery,
		StallTimeout: o.Unavailable,
		Bounds:       bulk.Share{Requests: in.flow, Slots: o.Slots, Recovery: recovery},
	}
	if client != nil {
		b.Finder = client
	}
	if o.Target.URL != "" {
		b.MaxID = target.MaxID
	}
	return b
}

// maxBody returns a function that asks the target for the longest body of a request that it takes; 0: unknown.
func maxBody(client *target.Client, log *slog.Logger) func(ctx context.Context) int64 {
	return func(ctx context.Context) int64 {
		most, err := client.MaxBody(ctx)
		if err != nil {
			log.DebugContext(ctx, "size of requests unknown", "error", err)
		}
		return most
	}
}

// longestSource returns the bytes of the longest source that is sent: what the user permits, or what the target takes in a
// request; 0: unknown. The errors are of ctx.
func longestSource(ctx context.Context, o Options, client *target.Client, log *slog.Logger) (int64, error) {
	most := maxBody(client, log)(ctx)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if o.maxDocument > 0 && (most <= 0 || most > o.maxDocument) {
		most = o.maxDocument
	}
	return most, nil
}

// askTarget returns what the target is, and logs it. It asks again for as long as patience while the target answers that it is busy or not
// ready. An address where nothing answers may be wrong: that error is returned immediately.
func askTarget(ctx context.Context, client *target.Client, patience time.Duration, log *slog.Logger) (v target.Version, err error) {
	clock := timing.SystemClock()
	busy := retry.Outage{
		Limit: patience, Now: func() time.Duration { return clock.Read().Mono },
		Passes: func(err error) bool {
			return fault.HasStatus(err, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout)
		},
		Begins: func(err error) {
			log.Warn("unavailable; trying again", "error", fault.Text(err), "for_at_most", patience)
		},
	}
	err = busy.Do(ctx, time.Second, clock.Sleep, func(ctx context.Context) (err error) {
		v, err = client.Info(ctx)
		return err
	})
	if err != nil {
		return v, err
	}
	log.Debug("target", "url", client.Name(), "distribution", v.Distribution, "version", v.Number)
	if warning := v.Untested(); warning != "" {
		log.Warn(warning)
	}
	return v, nil
}

// targetGuard protects the target while documents arrive.
type targetGuard struct {
	tune        tuning.Scope
	ignoreDisks bool
}

// gate lets a request start when the rate and the target's disks allow it. The disks are looked at now, while nothing else takes
// the target's time, and from then on until stop is called. disks is nil if they are not looked at.
func (o targetGuard) gate(ctx context.Context, client *target.Client, bucket *throttle.Bucket, log *slog.Logger) (admit func(context.Context, int) error, disks *diskwatch.Watcher, stop func()) {
	if o.ignoreDisks || client.Serverless() {
		return bucket.Take, nil, func() {}
	}
	disks = &diskwatch.Watcher{API: client, Log: log}
	stop = disks.Start(ctx)
	return func(ctx context.Context, n int) error {
		if err := disks.Wait(ctx); err != nil {
			return err
		}
		return bucket.Take(ctx, n)
	}, disks, stop
}
