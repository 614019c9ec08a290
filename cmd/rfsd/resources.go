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
	*limits
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
	// led means that the daemon of the worker divides the rates.
	led bool
}

// newHolder names this process, so that its leases are never taken for another's. The name of a worker begins with its daemon's.
func (in *resources) newHolder() string {
	if in.run == "" {
		return owner.Name()
	}
	return fmt.Sprintf("%s_pid%d_%s", in.run, os.Getpid(), owner.Suffix())
}

func newResources(o options) *resources {
	return &resources{limits: newLimits(o), flow: throttle.NewFlow(o.connections, o.bulkBytes), memory: o.memory().Input(), frames: budget.New(importer.MaxBack, 0)}
}

// sending returns the limits of all that is sent. They hold until stop is called.
func (in *resources) sending(ctx context.Context, o options, client *target.Client, log *slog.Logger) (limits engine.Limits, stop func() error) {
	admit, end := o.guard.gate(ctx, client, in.bucket, log)
	return engine.Limits{Connections: o.connections, Pace: &in.pace, Flow: in.flow, Admit: admit, MaxLatency: in.latency}, func() error {
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
	if o.Set != nil {
		in.set.Store(o.Set)
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

// limitMemory limits the memory of the process to what the options allow for a repository.
func limitMemory(o options, blobs repo.Repository) {
	budget.LimitMemory(o.memory().Budget(repo.IsRemote(blobs.URI())), os.Getenv)
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
