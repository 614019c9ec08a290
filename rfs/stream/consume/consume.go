package consume

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// Kind is the kind of the items of a stream.
const Kind = "consume"

// DefaultLease is the lease duration of a partition.
const DefaultLease = 30 * time.Second

// MaxPartitions is the maximum number of partitions of a stream.
const MaxPartitions = 10_000

var errConfig = fault.ErrConfig

// Indices creates target indices.
type Indices interface {
	// Ensure is called before the first document is sent to an index.
	Ensure(ctx context.Context, name []byte) error
}

// Session binds a session to its topic and its destination; session.Identity is one.
type Session interface {
	Init(ctx context.Context, m session.Meta) (identity map[string]string, err error)
	Bind(ctx context.Context, identity map[string]string) error
}

// Task is the work of one process that consumes a stream. All fields without a default are required.
type Task struct {
	Stream  Stream
	Name    string // of the topic
	Group   string // group for which offsets are committed
	Store   cms.Store
	Session Session
	// Intent returns the operator's intent for the fleet.
	Intent  func(ctx context.Context) (session.Intent, error)
	Clock   timing.Clock
	Log     *slog.Logger
	Indices Indices
	// Identity binds the session to its destination.
	Identity    map[string]string
	Destination engine.Destination
	Failed      bulk.Recorder
	Bulk        bulk.Options // limits of the bodies of one partition

	Format        Format // JSON
	Index         string // of documents that name none
	Latest        bool   // partitions without a committed offset start at their end instead of their start
	IncludeSystem bool   // documents for indices that start with a dot are not left out
	MaxSource     int64  // maximum length of a value that is sent, in bytes; 0: no limit
	UntilEnd      bool   // Run returns once all messages are consumed that existed when it started
	Lease         time.Duration
	SkewTolerance time.Duration // maximum difference between the clock and the store's; 0: any
	Linger        time.Duration // time that a body waits for more messages; 1 s
	Unavailable   time.Duration // tolerated outage of store, brokers or target; bulk.DefaultStallTimeout
	Token         string        // id of this process; "": a random one
	Node          string        // name of the machine, for output

	items   *cms.Coordinator
	nodes   *primitive.Nodes
	runner  *engine.Runner
	pace    *pace
	durable durable
	topicID string
	begins  atomic.Pointer[[]int64]
	until   []int64 // ends when the process started, with UntilEnd
	seen    seen
}

// seen counts the work of this process.
type seen struct{ documents, failed, bytes, running atomic.Int64 }

// Own is the work of this process; messages that were read repeatedly count repeatedly.
type Own struct {
	Documents, Failed, Bytes int64
	Running                  int64 // number of partitions in progress
}

// Own returns the work of this process so far.
func (t *Task) Own() Own {
	return Own{Documents: t.seen.documents.Load(), Failed: t.seen.failed.Load(), Bytes: t.seen.bytes.Load(), Running: t.seen.running.Load()}
}

func (t *Task) prepare(ctx context.Context) error {
	if t.Format == "" {
		t.Format = JSON
	}
	if t.Lease <= 0 {
		t.Lease = DefaultLease
	}
	if t.Unavailable <= 0 {
		t.Unavailable = bulk.DefaultStallTimeout
	}
	if t.Token == "" {
		t.Token = primitive.Token()
	}
	if t.Bulk.StallTimeout <= 0 {
		t.Bulk.StallTimeout = t.Unavailable
	}
	store, err := t.Store.OfKind(ctx, Kind)
	if err != nil {
		return err
	}
	// A lease is a heartbeat, so it does not grow. Items that end their holders are not detected, since the same message is
	// due again in any case.
	t.items = cms.New(cms.Config{Store: store, Kind: Kind, Clock: t.Clock, Creator: t.Token, InitialLease: t.Lease, MaxLease: t.Lease, MaxAttempts: math.MaxInt32, SkewTolerance: t.SkewTolerance})
	t.nodes = &primitive.Nodes{Store: t.Store, Clock: t.Clock}
	t.pace = newPace(t.Bulk, t.Lease, t.Clock, t.seen.running.Load)
	t.Bulk.Bounds = t.pace
	t.runner = &engine.Runner{
		Destination: t.Destination, Failed: t.Failed, Bulk: t.Bulk, Meter: engine.NewMeter(), Clock: t.Clock, Log: t.Log, Endless: true,
	}
	return nil
}

// recordTime is the minimum interval between two records of progress of a process: it writes at most 10 a second.
const recordTime = 100 * time.Millisecond

// runnerOf returns the runner of a process with the given number of partitions. After a kill, all messages since the last
// record are sent again, so with few partitions each is recorded every half second.
func (t *Task) runnerOf(partitions int) *engine.Runner {
	r := *t.runner
	r.RecordEvery = min(t.Lease/3, max(recordTime*time.Duration(partitions), 5*recordTime))
	return &r
}

// beat is the heartbeat interval of a process.
func (t *Task) beat() time.Duration { return max(t.Lease/6, time.Second) }

// Run consumes messages until ctx is done, this process cannot continue, or, with UntilEnd, all messages are consumed (then without
// an error). It may be called once.
func (t *Task) Run(outer context.Context) (Account, error) {
	err := t.prepare(outer)
	if err == nil {
		err = t.retry(outer, t.bind)
	}
	if err == nil {
		err = t.takePart(outer)
	}
	if outer.Err() != nil && errors.Is(err, outer.Err()) {
		err = nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(outer), lastTimeout)
	defer cancel()
	a, rerr := Read(last, t.items)
	if rerr != nil {
		t.Log.Warn("the state of the session cannot be read", "error", rerr)
	}
	return a, err
}

// lastTimeout limits the last requests of a process that ends.
const lastTimeout = 5 * time.Second

// errEnd ends a process that has consumed all messages, with UntilEnd.
var errEnd = errors.New("everything is consumed")

// takePart works until ctx is done or an error occurs, and then leaves the list of nodes.
func (t *Task) takePart(outer context.Context) error {
	all, ctx := errgroup.WithContext(outer)
	committing, stop := context.WithCancel(context.WithoutCancel(outer))
	committed := make(chan struct{})
	go func() { defer close(committed); t.commit(committing) }()
	all.Go(func() error { return t.advertise(ctx) })
	all.Go(func() error { return t.lead(ctx) })
	all.Go(func() error { return t.follow(ctx) })
	if t.UntilEnd {
		all.Go(func() error { return t.awaitEnd(ctx) })
	}
	err := all.Wait()
	stop()
	<-committed // including the offsets of the last leases
	last, cancel := context.WithTimeout(context.WithoutCancel(outer), lastTimeout)
	defer cancel()
	if werr := t.nodes.Withdraw(last, t.Token); werr != nil {
		t.Log.Info("this process stays in the list of nodes until it is found missing", "error", werr)
	}
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// advertise keeps this process in the list of nodes.
func (t *Task) advertise(ctx context.Context) error {
	for {
		if err := t.nodes.Advertise(ctx, primitive.Node{Token: t.Token, Workers: 1, Task: Kind, API: t.Node}); err != nil && ctx.Err() == nil {
			t.Log.Warn("this process cannot be listed as a node", "error", err)
		}
		if err := t.Clock.Sleep(ctx, t.beat()); err != nil {
			return err
		}
	}
}

// mends reports whether an error may be temporary: store, brokers or target did not answer, for example within a lease,
// or another process was faster.
func mends(err error) bool {
	return errors.Is(err, fault.ErrUnavailable) || errors.Is(err, cms.ErrConflict) || errors.Is(err, context.DeadlineExceeded)
}

// retry calls f until it succeeds, or fails with an error that waiting does not fix.
func (t *Task) retry(ctx context.Context, f func(context.Context) error) error {
	outage := t.outage("the session cannot start yet")
	return outage.Do(ctx, time.Second, t.Clock.Sleep, f)
}

// outage returns a retry.Outage that logs the start of an outage.
func (t *Task) outage(msg string, attrs ...any) *retry.Outage {
	return &retry.Outage{Limit: t.Unavailable, Now: func() time.Duration { return t.Clock.Read().Mono }, Passes: mends, Begins: func(err error) {
		t.Log.Warn(msg, append(attrs, "error", err, "for_at_most", t.Unavailable)...)
	}}
}

// awaitEnd returns errEnd once every partition is consumed up to its end at the start of the process.
func (t *Task) awaitEnd(ctx context.Context) error {
	for {
		if err := t.Clock.Sleep(ctx, time.Second); err != nil {
			return err
		}
		a, err := Read(ctx, t.items)
		if err != nil {
			continue // the other goroutines give up if the store does not answer
		}
		if a.reached(t.until) {
			return errEnd
		}
	}
}
