// Package worker wires the stages of a migration: it plans what a snapshot holds, seeds
// the work, runs leases (from the claim of an item to its completion or hand-off), and
// sums up what became of every document.
package worker

import (
	"context"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/export"
)

// Destination is where the documents of items go: a cluster, files, or nowhere.
type Destination interface {
	// Open starts the output of one item. mayStart is asked immediately before a request is
	// started, after every wait for a free connection; its error is given instead of sending.
	Open(ctx context.Context, id cms.ItemID, mayStart func() error) (Output, error)
	// Durable says whether a body that was taken survives the death of this process
	// before Commit. Only then may a watermark be recorded while the item runs.
	Durable() bool
}

// Output takes the bodies of one item.
type Output interface {
	bulk.Sender
	// Commit makes everything sent durable; the item may be handed off or completed only after it.
	Commit(ctx context.Context) error
	// Abort gives up what is not committed.
	Abort() error
}

// limiter bounds the requests under way over all slots of a process, and their rate.
type limiter struct {
	next  bulk.Sender
	free  chan struct{}
	admit func(ctx context.Context, bytes int) error // waits until so much may be sent; may be nil
}

func newLimiter(next bulk.Sender, connections int, admit func(context.Context, int) error) *limiter {
	return &limiter{next: next, free: make(chan struct{}, connections), admit: admit}
}

// send waits for a free connection, then sends if it still may: the wait can be longer than a lease.
func (l *limiter) send(ctx context.Context, body []byte, n int, mayStart func() error) (bulk.Result, error) {
	select {
	case l.free <- struct{}{}:
		defer func() { <-l.free }()
	case <-ctx.Done():
		return bulk.Result{}, ctx.Err()
	}
	if l.admit != nil {
		if err := l.admit(ctx, len(body)); err != nil {
			return bulk.Result{}, err
		}
	}
	if err := mayStart(); err != nil {
		return bulk.Result{}, err
	}
	return l.next.Send(ctx, body, n)
}

// cluster sends every item's bodies to the same cluster.
type cluster struct{ limiter *limiter }

// ToCluster makes a Destination of a cluster, with at most connections requests under way. Before
// each request admit, when not nil, waits until its bytes may be sent.
func ToCluster(sender bulk.Sender, connections int, admit func(ctx context.Context, bytes int) error) Destination {
	return cluster{newLimiter(sender, connections, admit)}
}

// Open is ready at once.
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

func (f files) Open(_ context.Context, id cms.ItemID, _ func() error) (Output, error) {
	return f.dir.Create(id.Index, id.Shard, id.Cursor)
}
func (f files) Durable() bool { return false }

// nowhere takes every body and drops it.
type nowhere struct{ *export.Discard }

// ToNowhere makes a Destination that takes everything and keeps nothing: rehearsal and benchmark.
func ToNowhere() Destination { return nowhere{&export.Discard{}} }

func (w nowhere) Open(context.Context, cms.ItemID, func() error) (Output, error) {
	return discarded{w}, nil
}
func (w nowhere) Durable() bool { return true }

// discarded is an output that needs no end.
type discarded struct{ bulk.Sender }

func (discarded) Commit(context.Context) error { return nil }
func (discarded) Abort() error                 { return nil }
