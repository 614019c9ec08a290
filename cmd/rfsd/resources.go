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
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// resources are what counts and bounds the work of one worker.
type resources struct {
	counters metrics.Counters
	bucket   *throttle.Bucket
	// rateOrder is the number of the daemon's last order of a rate.
	rateOrder int64
	memory    *budget.Budget
	frames    *budget.Budget // of the zstd files of an import, beside memory
	// Parts of the connections to the target, and of the requests that read ahead, which may be used.
	pace, reads throttle.Pace
	flow        *throttle.Flow // number and length of the requests of documents
	// Opened already, for a slot inside a daemon; nil: open those of the options.
	store cms.Store
	files *export.Dir
	// That the plan of this process has read.
	manifests plan.Manifests
	solo      *engine.Solo // of the slots inside a daemon; nil: the worker has the process to itself
	// run is the name that the daemon of a worker gave itself; "": the process has no daemon.
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
	return &resources{bucket: throttle.New(o.maxRate), flow: throttle.NewFlow(o.connections, o.bulkBytes), memory: newBudget(o), frames: budget.New(importer.MaxBack, 0)}
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
		in.bucket.Allow(r.BytesPerSecond, r.Left(cms.SystemClock()))
	}
	if o.Pace != nil {
		in.pace.Set(o.Pace.Target)
		in.reads.Set(o.Pace.Repository)
	}
}
