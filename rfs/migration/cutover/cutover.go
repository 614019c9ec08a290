// Package cutover ends the following of a cluster: it blocks writes to the source, runs a last round, compares the source with the last
// snapshot, and ends the following.
//
// Each step is recorded in the session of round 0 before it is taken, and is idempotent, so that another process can continue after a
// crash. Until the last round has arrived, a failure is rolled back: write blocks are removed, and following continues. After that, a
// cut-over can only be completed.
//
//	ORDERED ──► BLOCKED ──► FINISHING ──► DONE
//	   │           │
//	   └───────────┴──► RETURNING ──► RETURNED
package cutover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Records stores the order to cut over. session.Cutovers implements it.
type Records interface {
	Read(ctx context.Context) (is session.Cutover, now time.Time, err error)
	Move(ctx context.Context, from session.Cutover, f func(c *session.Cutover, now int64)) (session.Cutover, error)
	Return(ctx context.Context, reason string) (session.Cutover, error)
}

// Source is the source cluster. *live.Cluster implements it.
type Source interface {
	Indices(ctx context.Context, selects func(name string) bool) ([]live.Index, error)
	Block(ctx context.Context, names []string) error
	Unblock(ctx context.Context, names []string) error
	Shards(ctx context.Context, names []string) (map[string]map[int]live.Shard, error)
}

// Round is a round that has arrived.
type Round struct {
	Number   int
	Snapshot string
	Failed   int64 // failed documents
}

// Cutover executes an order to cut over.
type Cutover struct {
	Records Records
	// Intent returns the operator's intent for this process. Workers is nil if the process takes no such order.
	Intent func(ctx context.Context) (session.Intent, error)
	// Connect opens the source, and returns the UUID of its cluster; "" if it is unknown.
	Connect func(ctx context.Context) (source Source, uuid string, err error)
	// Program is the command that follows, for messages: rfsd follow, or rfsd run --follow.
	Program string
	// MayBlock permits blocking writes to the source. The order alone does not suffice, because others may write to the store.
	MayBlock bool
	// Selects reports whether an index of the source is migrated.
	Selects func(index string) bool
	// Round runs a round whose snapshot starts after the call, and returns it once it has arrived. group holds patterns of the round's
	// indices; none: all that are followed.
	Round func(ctx context.Context, group []string) (Round, error)
	// Verify compares what a round changed with the target. A difference is an error.
	Verify func(ctx context.Context, round Round) error
	// Failed returns the number of documents that failed in the rounds so far.
	Failed func(ctx context.Context) (int64, error)
	// Finish ends the following, and Move ends it for some indices. Both are idempotent.
	Finish func(ctx context.Context) error
	Move   func(ctx context.Context, indices []string) error
	Repo   snapshot.Repository
	Clock  timing.Clock
	Log    *slog.Logger

	last session.Cutover // as last read or recorded by this process
	over time.Duration   // when the permitted outage ends; monotonic clock
	// concluding states that the conclusion was sent to the store without a response.
	concluding bool
}

const (
	// attempts is the number of snapshots that may lack operations of the source. A snapshot can miss a flush that ran concurrently
	// (elasticsearch#144067), and before Elasticsearch 7.9 writes may end after their block.
	attempts = 3
	// watchEvery is the interval at which the record is read, in which an operator can cancel a cut-over.
	watchEvery = time.Second
	// recordWithin is the time for recording a return, after which write blocks are removed without a record.
	recordWithin = 10 * time.Second
	// blockWithin is the time for setting write blocks, also after an abort. The source waits for writes in progress.
	blockWithin = 30 * time.Second
	// returnWithin is the time for the return of a process that is stopped.
	returnWithin = 30 * time.Second
	// share is the divisor of the permitted outage for the round before the block.
	share = 4
)

// errTooLong is the reason of a return.
var errTooLong = errors.New("the permitted outage is over")

// Run executes the order until it is done or has returned, from the state in which an earlier process left it. It returns the final
// cut-over, and an error if it is still open, so that the next process continues. If ctx ends while writes are blocked, Run returns from
// the cut-over first. If the operator wants no work, an order whose outage has not started remains, with a *session.PausedError, and
// another one returns.
func (c *Cutover) Run(ctx context.Context) (is session.Cutover, err error) {
	for {
		var now time.Time
		is, now, err = c.Records.Read(ctx)
		if gone(is, err) {
			return is, c.forgotten(ctx, errors.Join(err, session.ErrNotOrdered))
		}
		if err != nil {
			return is, err
		}
		c.last = is
		switch is.State {
		case session.CutoverOrdered:
			err = c.approach(ctx, is)
		case session.CutoverBlocked:
			err = c.within(ctx, is, now)
		case session.CutoverFinishing:
			err = c.end(ctx, is)
		case session.CutoverReturning:
			err = c.unblock(ctx, is)
		default:
			return is, nil
		}
		var paused *session.PausedError
		switch {
		case err == nil, errors.Is(err, session.ErrCutoverMoved):
			continue
		case !is.Returns():
			return is, err
		case is.State == session.CutoverOrdered && (ctx.Err() != nil || errors.As(err, &paused)):
			return is, err // nothing has to be undone: the order remains
		case ctx.Err() != nil:
			return c.leave(ctx, is, err)
		}
		if err = c.back(ctx, is, err); err != nil {
			return is, err
		}
	}
}

// gone reports whether the records of the session were removed.
func gone(is session.Cutover, err error) bool {
	return err == nil && is.State == "" || errors.Is(err, session.ErrNotOrdered) || errors.Is(err, cms.ErrStoreGone)
}

// forgotten removes the write blocks that this process knows of, after the records of the session were removed: no other process knows them.
func (c *Cutover) forgotten(ctx context.Context, reason error) error {
	is := c.last
	if c.last = (session.Cutover{}); len(is.Blocks) == 0 || !is.Open() || is.State == session.CutoverFinishing || c.concluding {
		return reason
	}
	c.Log.Warn("the records of the session are gone: removing the write blocks of the cut-over", "indices", is.Blocks)
	return errors.Join(reason, c.remove(ctx, is))
}

// leave returns from a cut-over because the process is stopped.
func (c *Cutover) leave(ctx context.Context, is session.Cutover, reason error) (session.Cutover, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnWithin)
	defer cancel()
	if err := c.back(within, is, reason); err != nil {
		return is, err
	}
	is, err := c.Run(within)
	return is, errors.Join(err, ctx.Err())
}

// approach runs rounds until one is short enough for the permitted outage, and then records the start of the outage.
func (c *Cutover) approach(ctx context.Context, is session.Cutover) error {
	if err := c.accepts(ctx, is); err != nil {
		return err
	}
	for {
		begin := c.Clock.Read().Mono
		if _, err := c.Round(ctx, nil); err != nil {
			return err
		}
		took, most := c.Clock.Read().Mono-begin, maxOutage(is)/share
		if took <= most {
			break
		}
		c.Log.Info("the round took too long to cut over after it: another one follows", "took", took, "most", most)
		if now, _, err := c.Records.Read(ctx); err != nil || !same(now, is) {
			return err
		}
	}
	if err := c.accepts(ctx, is); err != nil {
		return err
	}
	if no := c.unwanted(ctx); no != nil && no.Intent.State != session.Run {
		return no
	}
	_, err := c.Records.Move(ctx, is, func(x *session.Cutover, now int64) {
		x.State, x.Blocked = session.CutoverBlocked, now
	})
	return err
}

// same reports whether both are the same order, in the same state.
func same(a, b session.Cutover) bool { return a.State == b.State && a.Ordered == b.Ordered }

// unwanted returns the operator's intent if it excludes work or workers; nil otherwise, and while the store is silent.
func (c *Cutover) unwanted(ctx context.Context) *session.PausedError {
	i, err := c.Intent(ctx)
	if err != nil || i.State == session.Run && (i.Workers == nil || *i.Workers > 0) {
		return nil
	}
	return &session.PausedError{Intent: i}
}

func maxOutage(is session.Cutover) time.Duration {
	return time.Duration(is.MaxOutage) * time.Millisecond
}

// accepts returns an error if blocking is not permitted or if documents failed.
func (c *Cutover) accepts(ctx context.Context, is session.Cutover) error {
	if is.Block && !c.MayBlock {
		return fmt.Errorf("%s was started without --block-source-writes, which permits it: %w", c.Program, fault.ErrConfig)
	}
	n, err := c.Failed(ctx)
	if err == nil && n > 0 && !is.AcceptFailed {
		err = fmt.Errorf("%d documents failed in the rounds so far: deliver them with rfsd redrive, and order the cut-over with --accept-failed: %w", n, fault.ErrConfig)
	}
	return err
}

// within completes the cut-over within the permitted outage, unless the operator cancels it.
func (c *Cutover) within(ctx context.Context, is session.Cutover, now time.Time) error {
	left := time.UnixMilli(is.Blocked).Add(maxOutage(is)).Sub(now)
	c.over = c.Clock.Read().Mono + max(left, 0)
	if left <= 0 {
		return errTooLong
	}
	if no := c.unwanted(ctx); no != nil {
		return no
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel(nil)
	watchers.Go(func() {
		if c.Clock.Sleep(ctx, left) == nil {
			cancel(errTooLong)
		}
	})
	watchers.Go(func() {
		for c.Clock.Sleep(ctx, watchEvery) == nil {
			if now, _, err := c.Records.Read(ctx); err == nil && !same(now, is) {
				cancel(session.ErrCutoverMoved)
			}
			if no := c.unwanted(ctx); no != nil {
				cancel(no)
			}
		}
	})
	err := c.complete(ctx, is)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// complete blocks writes, runs a round, compares the source with its snapshot, and compares the round's changes with the target.
func (c *Cutover) complete(ctx context.Context, is session.Cutover) error {
	source, uuid, err := c.connect(ctx, is)
	if err != nil {
		return err
	}
	var lacks []string
	if err := c.accepts(ctx, is); err != nil {
		return err
	}
	for range attempts {
		if err := c.block(ctx, source, uuid, is); err != nil {
			return err
		}
		round, err := c.Round(ctx, is.Indices)
		if err != nil {
			return err
		}
		if round.Failed > 0 && !is.AcceptFailed {
			return fmt.Errorf("%d documents failed in the last round; rfsctl failures names them (--session-name of that round): %w", round.Failed, fault.ErrConfig)
		}
		proof, err := c.compare(ctx, source, round.Snapshot, is)
		if err != nil {
			return err
		}
		if lacks = proof.lacks; len(lacks) > 0 {
			c.Log.Warn("the source holds more than its snapshot: another round follows", "snapshot", round.Snapshot, "differences", lacks)
			continue
		}
		if err := c.Verify(ctx, round); err != nil {
			return err
		}
		c.concluding = true
		_, err = c.Records.Move(ctx, is, func(x *session.Cutover, now int64) {
			if now-x.Blocked < x.MaxOutage { // another process may be returning without a record
				x.State, x.Arrived, x.Round, x.Snapshot, x.Note = session.CutoverFinishing, now, round.Number, round.Snapshot, proof.note()
				if len(is.Indices) > 0 {
					x.Moved = proof.indices
				}
			}
		})
		c.concluding = err != nil && !errors.Is(err, session.ErrCutoverMoved)
		return err
	}
	return fmt.Errorf("the source holds what %d snapshots lack: %s: %w", attempts, strings.Join(lacks, "; "), fault.ErrConfig)
}

// connect opens the source. It returns a fault.ErrConfig if the write blocks of the cut-over are on another cluster.
func (c *Cutover) connect(ctx context.Context, is session.Cutover) (Source, string, error) {
	source, uuid, err := c.Connect(ctx)
	if err == nil && differ(uuid, is.Source) {
		err = fmt.Errorf("--source-host is the cluster %s, and the write blocks are on the cluster %s: %w", uuid, is.Source, fault.ErrConfig)
	}
	return source, uuid, err
}

// block records write blocks and sets them on all indices that accept writes.
func (c *Cutover) block(ctx context.Context, source Source, uuid string, is session.Cutover) error {
	selects, err := c.selects(is)
	if err != nil {
		return err
	}
	all, err := source.Indices(ctx, selects)
	if err != nil {
		return err
	}
	if len(all) == 0 && len(is.Indices) > 0 {
		return fmt.Errorf("no index of the source that is followed matches %q: %w", is.Indices, fault.ErrConfig)
	}
	if !is.Block {
		return nil
	}
	names := namesOf(all, func(x live.Index) bool { return !x.Blocked && !x.Closed })
	if len(names) == 0 {
		return nil
	}
	is, err = c.Records.Move(ctx, is, func(x *session.Cutover, _ int64) {
		x.Source, x.Blocks = uuid, append(x.Blocks, names...)
	})
	if err != nil {
		return err
	}
	c.last = is
	c.Log.Info("blocking writes to the source", "indices", len(names))
	// A request that is given up may come into force after the blocks were removed: its response is awaited.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), blockWithin)
	defer cancel()
	return errors.Join(source.Block(within, names), c.stillBlocks(ctx, source, is, names))
}

// stillBlocks removes write blocks that were set after another process had returned from the cut-over was. A later cut-over keeps its own.
func (c *Cutover) stillBlocks(ctx context.Context, source Source, was session.Cutover, names []string) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	is, _, err := c.Records.Read(within)
	if err != nil {
		return fmt.Errorf("whether writes may still be blocked: %w", err)
	}
	switch {
	case gone(is, nil):
		return session.ErrNotOrdered
	case is.State == session.CutoverFinishing, is.State == session.CutoverDone:
		return nil
	case is.Ordered != was.Ordered:
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(is.Blocks, name) })
	case is.State == session.CutoverBlocked:
		return nil
	}
	for {
		err := source.Unblock(within, names)
		if err == nil {
			return session.ErrCutoverMoved
		}
		if c.Clock.Sleep(within, watchEvery) != nil {
			c.Log.Error("write blocks of a cut-over that has returned stay on the source: remove index.blocks.write", "indices", names, "error", err)
			return err
		}
	}
}

// selects returns a function that reports whether an index is cut over.
func (c *Cutover) selects(is session.Cutover) (func(index string) bool, error) {
	if len(is.Indices) == 0 {
		return c.Selects, nil
	}
	group, err := pattern.ParseList(is.Indices)
	if err != nil {
		return nil, fmt.Errorf("indices to cut over: %w: %w", err, fault.ErrConfig)
	}
	return func(index string) bool { return group.Match(index) && c.Selects(index) }, nil
}

func namesOf(all []live.Index, f func(live.Index) bool) (names []string) {
	for _, x := range all {
		if f(x) {
			names = append(names, x.Name)
		}
	}
	return names
}

// end ends the following of the source, or of a group of its indices.
func (c *Cutover) end(ctx context.Context, is session.Cutover) error {
	finish := c.Finish
	if len(is.Indices) > 0 {
		finish = func(ctx context.Context) error { return c.Move(ctx, is.Moved) }
	}
	if err := finish(ctx); err != nil {
		return fmt.Errorf("everything has arrived; what follows the cut-over is not done yet (%s with the same options does it): %w", c.Program, err)
	}
	_, err := c.Records.Move(ctx, is, func(x *session.Cutover, now int64) { x.State, x.Ended = session.CutoverDone, now })
	return err
}

// back records that the cut-over returns, with the reason. If the store does not answer and the permitted outage is over, it removes the
// write blocks without a record, because no process can complete the cut-over any more.
func (c *Cutover) back(ctx context.Context, is session.Cutover, reason error) error {
	c.Log.Warn("returning from the cut-over", "reason", reason)
	alone := is.State == session.CutoverBlocked && is.Block && !c.concluding
	for {
		err := c.recordReturn(ctx, reason, alone)
		if gone(is, err) {
			return c.forgotten(ctx, err)
		}
		if err == nil || !alone || ctx.Err() != nil {
			return err
		}
		if left := c.over - c.Clock.Read().Mono; left > 0 {
			if !errors.Is(err, fault.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			if serr := c.Clock.Sleep(ctx, min(watchEvery, left)); serr != nil {
				return errors.Join(err, serr)
			}
			continue
		}
		is.Blocks = append(is.Blocks, c.last.Blocks...)
		return errors.Join(fmt.Errorf("the store does not answer; the write blocks are removed from the source all the same: %w", err), c.remove(ctx, is))
	}
}

// recordReturn records that the cut-over returns, unless it is too late. If bounded, it waits for the store for at most recordWithin.
func (c *Cutover) recordReturn(ctx context.Context, reason error, bounded bool) error {
	if bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, recordWithin)
		defer cancel()
	}
	_, err := c.Records.Return(ctx, fault.Text(reason))
	if errors.Is(err, session.ErrTooLate) {
		return nil
	}
	return err
}

// unblock removes the write blocks of the session.
func (c *Cutover) unblock(ctx context.Context, is session.Cutover) error {
	if err := c.remove(ctx, is); err != nil {
		return err
	}
	_, err := c.Records.Move(ctx, is, func(x *session.Cutover, now int64) {
		x.State, x.Ended, x.Blocks = session.CutoverReturned, now, nil
	})
	return err
}

// remove removes write blocks from indices that the session has blocked. The record is not trusted: only migrated indices are unblocked.
func (c *Cutover) remove(ctx context.Context, is session.Cutover) error {
	source, _, err := c.connect(ctx, is)
	var all []live.Index
	if err == nil {
		all, err = source.Indices(ctx, c.Selects)
	}
	if err == nil {
		err = source.Unblock(ctx, namesOf(all, func(x live.Index) bool { return x.Blocked && slices.Contains(is.Blocks, x.Name) }))
	}
	if err != nil {
		return fmt.Errorf("write blocks of the cut-over stay on the source: run %s with the same options, or remove index.blocks.write from the indices that rfsctl status names: %w", c.Program, err)
	}
	return nil
}
