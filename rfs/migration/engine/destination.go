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
	// Open starts the output of one item. mayStart is asked immediately before a request is
	// started, after every wait for a free connection; its error is given instead of sending.
	Open(ctx context.Context, id cms.ItemID, mayStart func() error) (Output, error)
	// Durable reports whether a body that was taken survives the death of this process
	// before Commit. Only then may a watermark be recorded while the item runs.
	Durable() bool
}

// Output takes the bodies of one item.
type Output interface {
	bulk.Sender
	// Commit makes everything sent durable; the item may be handed off or completed only after it.
	Commit(ctx context.Context) error
	// Abort discards uncommitted documents.
	Abort() error
}

// Limits hold for all requests of a process together.
type Limits struct {
	Connections int            // requests in flight at the same time
	Pace        *throttle.Pace // part of them that may be used; nil: all
	// Admit blocks until the given number of bytes may be sent; nil: immediately.
	Admit func(ctx context.Context, bytes int) error
	// Flow decides how many of the Connections are used; nil: all.
	Flow *throttle.Flow
	// MaxLatency lowers the load while requests take longer to be answered, and raises it again: fewer of them at the same
	// time, then pauses between them. It may change; nil, and while it returns 0: never.
	MaxLatency func() time.Duration
}

// limiter bounds the requests in flight over all slots of a process, and their rate.
type limiter struct {
	Limits
	next    bulk.Sender
	latency *throttle.Latency // nil: the load is never lowered
	busy    throttle.Overloads

	mu      sync.Mutex
	used    int
	waiting []chan struct{} // closed when it is their turn
	resumes time.Time       // before it no request is started
}

func newLimiter(next bulk.Sender, limits Limits) *limiter {
	l := &limiter{next: next, Limits: limits}
	if limits.MaxLatency != nil {
		l.latency = throttle.NewLatency(limits.MaxLatency, l.rest)
	}
	return l
}

// rest lets no request start for d. It does not hold up the answer that was slow.
func (l *limiter) rest(_ context.Context, d time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := time.Now().Add(d); at.After(l.resumes) {
		l.resumes = at
	}
	return nil
}

// rested blocks until requests may be started again, or ctx is done.
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

// acquire waits for a connection.
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
	if i < 0 { // it was its turn at the same moment
		l.release()
	}
	return ctx.Err()
}

// release frees a connection and wakes waiters while connections are free. At least one is always allowed, so every
// waiter is woken by a release, also after the limit has risen.
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

// send waits for a free connection, then sends if it still may: the wait can be longer than a lease.
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
		// A single overloaded index is left to the pauses of its own requests.
		end(taken, l.busy.Note(string(bulk.FirstIndex(body)), overloaded))
	}
	return res, errors.Join(err, answered(ctx))
}

// cluster sends every item's bodies to the same cluster.
type cluster struct{ limiter *limiter }

// ToCluster makes a Destination of a cluster.
func ToCluster(sender bulk.Sender, limits Limits) Destination {
	return cluster{newLimiter(sender, limits)}
}

// Open returns immediately.
func (c cluster) Open(_ context.Context, _ cms.ItemID, mayStart func() error) (Output, error) {
	return clusterOutput{c.limiter, mayStart}, nil
}
func (c cluster) Durable() bool { return true }

// clusterOutput: what a cluster acknowledged is durable there.
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

// files writes each item into files of an export directory.
type files struct{ dir *export.Dir }

// ToFiles makes a Destination of an export directory.
func ToFiles(dir *export.Dir) Destination { return files{dir} }

func (f files) Open(_ context.Context, id cms.ItemID, mayStart func() error) (Output, error) {
	return f.dir.Create(id.Index, id.Shard, id.Cursor, mayStart)
}
func (f files) Durable() bool { return false }

// nowhere takes every body and drops it.
type nowhere struct{ *export.Discard }

// ToNowhere makes a Destination that takes everything and keeps nothing: dry run and benchmark.
func ToNowhere() Destination { return nowhere{&export.Discard{}} }

func (w nowhere) Open(context.Context, cms.ItemID, func() error) (Output, error) {
	return discarded{w}, nil
}
func (w nowhere) Durable() bool { return true }

// discarded is an output that needs no end.
type discarded struct{ bulk.Sender }

func (discarded) Commit(context.Context) error { return nil }
func (discarded) Abort() error                 { return nil }

// Finisher is a Destination that is notified when no item is open any more, such as an export directory.
type Finisher interface {
	// Finish ends the destination. missing is why it is not complete; empty when it is.
	Finish(missing string) error
}

// Finish writes the manifest of the export.
func (f files) Finish(missing string) error { return f.dir.Finish(missing) }

// Finish ends the destination behind the limit.
func (l limited) Finish(missing string) error {
	if f, ok := l.Destination.(Finisher); ok {
		return f.Finish(missing)
	}
	return nil
}
