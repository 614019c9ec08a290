package consume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// planInterval is the interval at which a process reads the plan.
const planInterval = time.Second

// running is a partition that this process works on.
type running struct {
	stop context.CancelFunc
	done chan struct{}
}

// follow processes the partitions that the plan assigns to this process, until ctx ends or one of them cannot continue. A plan
// that cannot be read changes nothing: the leases decide.
func (t *Task) follow(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	parts := map[int]running{}
	defer func() {
		fail(nil)
		for _, r := range parts {
			<-r.done
		}
	}()
	for {
		wanted, err := t.wanted(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !mends(err):
			return err
		case err == nil:
			t.change(ctx, parts, wanted, fail)
		}
		if t.Clock.Sleep(ctx, planInterval) != nil {
			return context.Cause(ctx)
		}
	}
}

// wanted returns the partitions assigned to this process; none while the session is paused or drained.
func (t *Task) wanted(ctx context.Context) ([]int, error) {
	intent, err := t.Intent(ctx)
	if err != nil {
		return nil, err
	}
	if intent.State != session.Run {
		return nil, nil
	}
	plan, err := readPlan(ctx, t.Store)
	if err != nil {
		return nil, err
	}
	mine := plan.of(t.Token)
	if len(mine) > 0 && slices.Max(mine) >= len(*t.begins.Load()) { // the leader has added partitions
		s, err := readState(ctx, t.Store)
		if err != nil || s == nil {
			return nil, errors.Join(err, fault.ErrUnavailable)
		}
		t.begins.Store(&s.Begins)
		if slices.Max(mine) >= len(s.Begins) {
			return nil, fmt.Errorf("plan of the stream: partition %d of %d: %w", slices.Max(mine), len(s.Begins), fault.ErrCorrupt)
		}
	}
	return mine, nil
}

// change stops the partitions that are not in wanted, and then starts the new ones.
func (t *Task) change(ctx context.Context, parts map[int]running, wanted []int, fail context.CancelCauseFunc) {
	var stopped []running
	for p, r := range parts {
		if !slices.Contains(wanted, p) {
			r.stop()
			stopped = append(stopped, r)
			delete(parts, p)
		}
	}
	for _, r := range stopped {
		<-r.done
	}
	runner := t.runnerOf(len(wanted))
	for _, p := range wanted {
		if _, ok := parts[p]; ok {
			continue
		}
		one, stop := context.WithCancel(ctx)
		r := running{stop, make(chan struct{})}
		parts[p] = r
		go func() {
			defer close(r.done)
			t.seen.running.Add(1)
			defer t.seen.running.Add(-1)
			if err := t.work(one, p, runner); err != nil && one.Err() == nil {
				fail(err)
			}
		}()
	}
}

// work leases a partition repeatedly, until ctx is done or a permanent error occurs.
func (t *Task) work(ctx context.Context, partition int, runner *engine.Runner) error {
	id := cms.ItemID{Kind: Kind, Index: t.Name, Shard: partition, Cursor: (*t.begins.Load())[partition]}
	outage := t.outage("a partition has to wait", "partition", partition)
	for ctx.Err() == nil {
		pause := time.Duration(0)
		err := t.once(ctx, id, runner, outage)
		var none *cms.NoneAvailable
		switch {
		case ctx.Err() != nil:
		case errors.As(err, &none): // the previous holder has yet to stop, or its lease to end
			pause = planInterval / 2
		case errors.Is(err, cms.ErrAllDone): // FAILED, until an operator opens it again
			pause = 10 * planInterval
		case errors.Is(err, fault.ErrLeaseLost):
			t.Log.Warn("the lease of a partition was lost", "partition", partition, "error", err)
		default:
			if cerr := outage.Check(outage.Now(), err); cerr != nil {
				return cerr
			}
			if err != nil {
				pause = planInterval
			}
		}
		if pause > 0 && t.Clock.Sleep(ctx, pause) != nil {
			break
		}
	}
	return nil
}

// once leases a partition and works on it until the lease ends. Progress of the lease ends an outage.
func (t *Task) once(ctx context.Context, id cms.ItemID, runner *engine.Runner, outage *retry.Outage) error {
	lease, err := t.items.AcquireItem(ctx, id, t.Token)
	if err != nil {
		return err
	}
	outcome, err := runner.Run(ctx, lease, part{t}, func(context.Context, time.Duration) error { return nil })
	if at, moved := lease.MovedAt(); moved {
		outage.OverAt(at)
	}
	if outcome == engine.Failed {
		t.Log.Error("a partition is given up until an operator opens it again (rfsctl items retry)", "partition", id.Shard, "error", err)
		return nil
	}
	return err
}
