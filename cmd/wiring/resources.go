package wiring

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/limits"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/diskwatch"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Resources count and bound the work of one worker.
type Resources struct {
	counters metrics.Counters
	*limits.Limits
	Memory *budget.Budget
	frames *budget.Budget // of the zstd files of an import, in addition to memory
	// Parts of the connections to the target, and of the requests that read ahead, which may be used.
	pace, reads throttle.Pace
	flow        *throttle.Flow                    // number and length of the requests of documents
	disks       atomic.Pointer[diskwatch.Watcher] // of the target; nil: they are not looked at
	// Opened already, for a slot inside a daemon; nil: open them by the options.
	store cms.Store
	files *export.Export
	// That the plan of this process has read.
	Manifests plan.Manifests
	solo      *engine.Solo // of the slots inside a daemon; nil: the worker has the process to itself
	// Daemon is the name that the daemon of a worker gave itself; "": the process has no daemon. The daemon has opened the state of
	// the work before it started the worker.
	Daemon string
	// Led means that the daemon of the worker divides the rates.
	Led bool
}

// newHolder names this process, so that its leases are never taken for another's. The name of a daemon is the prefix of its workers' names.
func (in *Resources) newHolder() string {
	if in.Daemon == "" {
		return owner.Name()
	}
	return fmt.Sprintf("%s_pid%d_%s", in.Daemon, os.Getpid(), owner.Suffix())
}

// limits returns the limits of the options.
func (o Options) limits() *limits.Limits {
	return limits.New(limits.Options{MaxRate: o.maxRate, MaxReadRate: o.maxReadRate, MaxLatency: o.maxLatency, Alone: !o.Shares(), Slots: o.Slots, Reading: o.reading})
}

// NodeLimits return the limits of a node for sending and for reading. Their permits are in a store that each opens, unless only this node
// can open it. claim is of the node, or nil.
func (o Options) NodeLimits(claim *daemon.Owner, log *slog.Logger) (send, read daemon.Limit) {
	if !o.Shares() {
		return daemon.Limit{Most: o.maxRate}, daemon.Limit{Most: o.maxReadRate}
	}
	open := func(ctx context.Context) (cms.Store, func() error, error) { return OpenWithRetry(ctx, o, false, log) }
	return limits.OfNode(session.MaxRate, o.maxRate, claim.Holder(), open, log), limits.OfNode(session.MaxReadRate, o.maxReadRate, claim.Holder(), open, log)
}

// NewResources returns the resources of the only worker of a process.
func NewResources(o Options) *Resources {
	return &Resources{Limits: o.limits(), flow: throttle.NewFlow(o.connections, o.bulkBytes), Memory: o.Memory().Input(), frames: budget.New(importer.MaxBack, 0)}
}

// sending returns the limits of all that is sent. They hold until stop is called.
func (in *Resources) sending(ctx context.Context, o Options, client *target.Client, log *slog.Logger) (bounds engine.Limits, stop func() error) {
	admit, disks, end := o.guard.gate(ctx, client, in.Sending, log)
	in.disks.Store(disks)
	return engine.Limits{Connections: o.connections, Pace: &in.pace, Flow: in.flow, Admit: admit, MaxLatency: in.Latency}, func() error {
		in.disks.Store(nil)
		end()
		return nil
	}
}

// counted returns everything counted so far, and why nothing is sent, if so.
func (in *Resources) counted() metrics.Sample {
	sum := in.counters.Sample()
	if disks := in.disks.Load(); disks != nil {
		sum.Held = disks.Held()
	}
	return sum
}

// Sample returns what the worker has done so far.
func (in *Resources) Sample(s *phase.Session, blobs *repo.Counting) metrics.Sample {
	sum := in.counted()
	p := s.Runner.Meter.Read(time.Now())
	sum.Documents, sum.Failed, sum.SourceBytes, sum.Resent, sum.Retries = p.Documents, p.Failed, p.Bytes, p.Resent, p.Retries
	sum.RepoRequests, sum.RepoBytes = blobs.Totals()
	sum.RepoErrors = blobs.Errors()
	return sum
}

// Apply takes over what bounds the work.
func (in *Resources) Apply(o daemon.WorkerCommand) {
	in.Limits.Apply(o)
	if o.Pace != nil {
		in.pace.Set(o.Pace.Target)
		in.reads.Set(o.Pace.Repository)
	}
}
