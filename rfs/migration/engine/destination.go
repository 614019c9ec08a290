package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
)

// Destination receives the documents of items: a cluster, files, or nothing.
type Destination interface {
	// Open starts the output of one item. The output calls mayStart immediately before each request, after any wait for a connection. If
	// mayStart returns an error, the output returns it and sends nothing.
	Open(ctx context.Context, id cms.ItemID, mayStart func() error) (Output, error)
	// Durable reports whether a body that was accepted survives a crash of this process before Commit. Only then may a watermark be
	// recorded while the item is in progress.
	Durable() bool
}

// Output accepts the bodies of one item.
type Output interface {
	bulk.Sender
	// Commit makes everything sent durable. The item may be handed off or completed only afterwards.
	Commit(ctx context.Context) error
	// Abort discards uncommitted documents.
	Abort() error
}

// Limits apply to all requests of a process together.
type Limits struct {
	Connections int            // requests in flight at the same time
	Pace        *throttle.Pace // share of Connections that may be used; nil: all
	// Admit blocks until the given number of bytes may be sent; nil: immediately.
	Admit func(ctx context.Context, bytes int) error
	// Flow decides how many of the Connections are used; nil: all.
	Flow *throttle.Flow
	// MaxLatency is the latency of requests above which the load is reduced: first fewer concurrent requests, then pauses between them. The
	// load rises again when latency falls. The value may change at any time; nil or 0: no limit.
	MaxLatency func() time.Duration
}

// limiter bounds the requests in flight over all slots of a process, and their rate.
type limiter struct {
	Limits
	next    bulk.Sender
	latency *throttle.Latency // nil: the load is never reduced
	busy    throttle.Overloads

	mu      sync.Mutex
	used    int
	waiting []chan struct{} // each is closed when its waiter gets a connection
	resumes time.Time       // no request starts before this time
}

func newLimiter(next bulk.Sender, limits Limits) *limiter {
	l := &limiter{next: next, Limits: limits}
	if limits.MaxLatency != nil {
		l.latency = throttle.NewLatency(limits.MaxLatency, l.rest)
	}
	return l
}

// rest prevents new requests for d. It returns immediately, so the slow response itself is not delayed.
func (l *limiter) rest(_ context.Context, d time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := time.Now().Add(d); at.After(l.resumes) {
		l.resumes = at
	}
	return nil
}

// rested blocks until requests may start again, or ctx is done.
func (l *limiter) rested(ctx context.Context) error {
	for {
		l.mu.Lock()
		d := time.Until(l.resumes)
		l.mu.Unlock()
		if d <= 0 {
			return nil
		}
		if err := wait.For(ctx, d); err != nil {
			return err
		}
	}
}

// allowed returns the number of requests that may be in flight now.
func (l *limiter) allowed() int {
	n := l.Connections
	if l.Flow != nil {
		n = min(n, l.Flow.Requests())
	}
	n = l.Pace.Of(n)
	if l.latency != nil {
		n = max(1, int(math.Ceil(l.latency.Share()*float64(n))))
	}
	return n
}

// acquire blocks until a connection is free or ctx is done.
func (l *limiter) acquire(ctx context.Context) error {
	l.mu.Lock()
	if len(l.waiting) == 0 && l.used < l.allowed() {
		l.used++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, turn)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // the connection was granted at the same moment
		l.release()
	}
	return ctx.Err()
}

// release frees a connection and wakes waiters while connections are free. At least one connection is always allowed, so every waiter
// is eventually woken by a release, even if the limit has only risen.
func (l *limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
	for len(l.waiting) > 0 && l.used < l.allowed() {
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.used++
	}
}

// send waits for a free connection, then checks mayStart again before sending, because the wait can outlast the lease.
func (l *limiter) send(ctx context.Context, body []byte, n int, mayStart func() error) (bulk.Result, error) {
	if err := l.acquire(ctx); err != nil {
		return bulk.Result{}, err
	}
	defer l.release()
	if err := l.rested(ctx); err != nil {
		return bulk.Result{}, err
	}
	if l.Admit != nil {
		if err := l.Admit(ctx, len(body)); err != nil {
			return bulk.Result{}, err
		}
	}
	if err := mayStart(); err != nil {
		return bulk.Result{}, err
	}
	answered := func(context.Context) error { return nil }
	if l.latency != nil {
		_, answered = l.latency.Begin()
	}
	var end func(taken int, overloaded bool)
	if l.Flow != nil {
		if l.latency != nil {
			l.Flow.Shorten(l.latency.Share())
		}
		end = l.Flow.Begin()
	}
	res, err := l.next.Send(ctx, body, n)
	if end != nil {
		taken, overloaded := len(body), bulk.Overloaded(res, err)
		if err != nil || overloaded {
			taken = 0
		}
		// If only one index is overloaded, the back-off of its own requests is enough.
		end(taken, l.busy.Note(string(bulk.FirstIndex(body)), overloaded))
	}
	return res, errors.Join(err, answered(ctx))
}

// cluster sends every item's bodies to the same cluster.
type cluster struct{ limiter *limiter }

// ToCluster returns a Destination that sends to a cluster through sender, within limits.
func ToCluster(sender bulk.Sender, limits Limits) Destination {
	return cluster{newLimiter(sender, limits)}
}

// Open returns an output that shares the connections of the cluster.
func (c cluster) Open(_ context.Context, _ cms.ItemID, mayStart func() error) (Output, error) {
	return clusterOutput{c.limiter, mayStart}, nil
}
func (c cluster) Durable() bool { return true }

// clusterOutput is the output of one item to a cluster. Acknowledged documents are durable.
type clusterOutput struct {
	limiter  *limiter
	mayStart func() error
}

// Send sends one body.
func (o clusterOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	return o.limiter.send(ctx, body, n, o.mayStart)
}

func (clusterOutput) Commit(context.Context) error { return nil }
func (clusterOutput) Abort() error                 { return nil }

// files writes each item into files of an export.
type files struct{ export *export.Export }

// ToFiles returns a Destination that writes to an export, in a directory or a bucket.
func ToFiles(x *export.Export) Destination { return files{x} }

func (f files) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (Output, error) {
	return f.export.Create(ctx, id.Index, id.Shard, id.Cursor, mayStart)
}
func (f files) Durable() bool { return false }

// nowhere accepts every body and drops it.
type nowhere struct{ export.Discard }

// ToNowhere returns a Destination that discards everything, for dry runs and benchmarks.
func ToNowhere() Destination { return nowhere{} }

func (w nowhere) Open(context.Context, cms.ItemID, func() error) (Output, error) {
	return discarded{w}, nil
}
func (w nowhere) Durable() bool { return true }

// discarded is an output that has nothing to commit.
type discarded struct{ bulk.Sender }

func (discarded) Commit(context.Context) error { return nil }
func (discarded) Abort() error                 { return nil }

// Finisher is a Destination, such as an export, that is notified when no item is open any more.
type Finisher interface {
	// Finish ends the destination. missing is the reason why the output is incomplete; empty if it is complete.
	Finish(ctx context.Context, missing string) error
}

// Finish writes the manifest of the export.
func (f files) Finish(ctx context.Context, missing string) error {
	return f.export.Finish(ctx, missing)
}

// Finish ends the wrapped destination.
func (l limited) Finish(ctx context.Context, missing string) error {
	if f, ok := l.Destination.(Finisher); ok {
		return f.Finish(ctx, missing)
	}
	return nil
}
