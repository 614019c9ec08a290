package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/destination/diskwatch"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// resources are what counts and bounds the work of one worker.
type resources struct {
	counters metrics.Counters
	// The pace of sending and of reading; reading may be nil.
	bucket, reading *throttle.Bucket
	// Numbers of the daemon's last orders of the two rates.
	rateOrder, readOrder int64
	memory               *budget.Budget
	frames               *budget.Budget // of the zstd files of an import, in addition to memory
	// Parts of the connections to the target, and of the requests that read ahead, which may be used.
	pace, reads throttle.Pace
	flow        *throttle.Flow // number and length of the requests of documents
	// Opened already, for a slot inside a daemon; nil: open those of the options.
	store cms.Store
	files *export.Dir
	// That the plan of this process has read.
	manifests plan.Manifests
	solo      *engine.Solo // of the slots inside a daemon; nil: the worker has the process to itself
	// run is the name that the daemon of a worker gave itself; "": the process has no daemon. The daemon has opened the state of
	// the work before it started the worker.
	run string
}

// newHolder names this process, so that its leases are never taken for another's. The name of a worker begins with its daemon's.
func (in *resources) newHolder() string {
	if in.run == "" {
		return owner.Name()
	}
	return fmt.Sprintf("%s_pid%d_%s", in.run, os.Getpid(), owner.Suffix())
}

func newResources(o options) *resources {
	return &resources{bucket: throttle.New(o.maxRate), reading: o.reading, flow: throttle.NewFlow(o.connections, o.bulkBytes), memory: o.memory().Input(), frames: budget.New(importer.MaxBack, 0)}
}

// limits are those of all that is sent. They hold until stop is called.
func (in *resources) limits(ctx context.Context, o options, client *target.Client, log *slog.Logger) (limits engine.Limits, stop func() error) {
	admit, end := o.guard.gate(ctx, client, in.bucket, log)
	return engine.Limits{Connections: o.connections, Pace: &in.pace, Flow: in.flow, Admit: admit, MaxLatency: o.maxLatency}, func() error {
		end()
		return nil
	}
}

// sample is what the worker did so far.
func (in *resources) sample(s *phase.Session, blobs *repo.Counting) metrics.Sample {
	sum := in.counters.Sample()
	p := s.Runner.Meter.Read(time.Now())
	sum.Documents, sum.Failed, sum.SourceBytes, sum.Resent, sum.Retries = p.Documents, p.Failed, p.Bytes, p.Resent, p.Retries
	sum.RepoRequests, sum.RepoBytes = blobs.Totals()
	sum.RepoErrors = blobs.Errors()
	return sum
}

// apply takes over what bounds the work.
func (in *resources) apply(o daemon.WorkerCommand) {
	if r := o.Rate; r != nil && r.Number > in.rateOrder {
		in.rateOrder = r.Number
		in.bucket.Allow(r.BytesPerSecond, r.Left(timing.SystemClock()))
	}
	if r := o.ReadRate; r != nil && r.Number > in.readOrder && in.reading != nil {
		in.readOrder = r.Number
		in.reading.Allow(r.BytesPerSecond, r.Left(timing.SystemClock()))
	}
	if o.Pace != nil {
		in.pace.Set(o.Pace.Target)
		in.reads.Set(o.Pace.Repository)
	}
}

// memory returns what the options allow the process to hold.
func (o options) memory() budget.Process {
	return budget.Process{Slots: o.slots, Connections: o.connections, Body: o.bulkBytes, Cluster: o.target.URL != "", Longer: o.maxDocument - shards.DefaultMaxDocument}
}

// permitUse is for how long a process that sends or reads nothing counts as one that has work.
const permitUse = 15 * time.Second

// bucketSpender is a process that sends or reads by itself, as the holder of a permit.
type bucketSpender struct {
	*throttle.Bucket
	slots int
}

// Weight returns the number of slots while they take from the bucket.
func (s bucketSpender) Weight() int {
	if s.Used(permitUse) {
		return max(s.slots, 1)
	}
	return 0
}

// limitOption is an option that limits a rate, and its value in bytes per second; 0: no limit.
type limitOption struct {
	name string
	most int64
}

func (o options) sendLimit() limitOption { return limitOption{"max-rate", o.maxRate} }
func (o options) readLimit() limitOption { return limitOption{"max-read-rate", o.maxReadRate} }

// permits returns the permits of the option in a store.
func (l limitOption) permits(store primitive.Store, log *slog.Logger) *primitive.Permits {
	return &primitive.Permits{Store: store, Clock: timing.SystemClock(), Option: l.name, Limit: func() int64 { return l.most }, Log: log}
}

// holdPermits lets this process send and read no more than its parts of --max-rate and --max-read-rate among all processes that share
// the store, until stop is called.
func (in *resources) holdPermits(ctx context.Context, o options, store cms.Store, log *slog.Logger) (stop func() error) {
	if !o.shares() { // a coordinator file has one process, which has the whole rates
		return func() error { return nil }
	}
	sending, reading := o.sendLimit().hold(ctx, in.bucket, o.slots, store, log), o.readLimit().hold(ctx, in.reading, o.slots, store, log)
	return func() error { reading(); sending(); return nil }
}

// hold keeps a permit for what takes from the bucket, until stop is called; afterwards the bucket has the whole rate, for a comparison.
// When no permit can come any more, what waits ends with the reason.
func (l limitOption) hold(ctx context.Context, bucket *throttle.Bucket, slots int, store cms.Store, log *slog.Logger) (stop func()) {
	if l.most <= 0 {
		return func() {}
	}
	s := bucketSpender{bucket, slots}
	s.Allow(0, nil)                                             // until it has a permit
	held, end := context.WithCancel(context.WithoutCancel(ctx)) // a lease that is handed off needs it, too
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.permits(store, log).Hold(held, s); err != nil {
			bucket.End(err)
		}
	}()
	return func() {
		end()
		<-done
		bucket.Allow(l.most, nil)
	}
}

// nodeLimit returns a limit of a node. Its permit is in a store that it opens, unless only this node can open it.
func (o options) nodeLimit(l limitOption, log *slog.Logger) daemon.Limit {
	if !o.shares() {
		return daemon.Limit{Most: l.most}
	}
	return daemon.Limit{Most: l.most, Hold: func(ctx context.Context, s primitive.Spender) error {
		store, closeStore, err := openPatiently(ctx, o, log)
		if err != nil {
			return nil //nolint:nilerr // ctx is done
		}
		held := l.permits(store, log).Hold(ctx, s)
		if err := closeStore(); err != nil {
			log.Debug("closing the store failed", "error", err)
		}
		return held
	}}
}

// targetGuard protects the target while documents arrive.
type targetGuard struct {
	tune        tuning.Wish
	ignoreDisks bool
}

// gate lets a request start when the rate and the target's disks allow it. The disks are looked at now, while nothing else takes
// the target's time, and from then on until stop is called.
func (o targetGuard) gate(ctx context.Context, client *target.Client, bucket *throttle.Bucket, log *slog.Logger) (admit func(context.Context, int) error, stop func()) {
	if o.ignoreDisks || client.Serverless() {
		return bucket.Take, func() {}
	}
	disks := &diskwatch.Watcher{API: client, Log: log}
	stop = disks.Start(ctx)
	return func(ctx context.Context, n int) error {
		if err := disks.Wait(ctx); err != nil {
			return err
		}
		return bucket.Take(ctx, n)
	}, stop
}
