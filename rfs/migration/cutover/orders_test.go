package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/cutover"
)

// steps of a cut-over at which an order is given.
var steps = []struct {
	name     string
	at       string // the step of the imitated process
	time     int    // which call of it
	pause    bool   // the step takes long enough to notice the order
	in       string // before, outage or after
	tooLate  bool   // the order is noticed after the conclusion
	finished bool   // the process has ended
}{
	{name: "ordered, not started", in: "before"},
	{name: "a round before the block", at: "round", time: 1, pause: true, in: "before"},
	{name: "the round before the block ends", at: "round ends", time: 1, in: "before"},
	{name: "the outage is recorded", at: "connect", time: 1, in: "outage"},
	{name: "the blocks are recorded", at: "block", time: 1, in: "outage"},
	{name: "writes are blocked", at: "blocked", time: 1, pause: true, in: "outage"},
	{name: "the snapshot is made", at: "round", time: 2, pause: true, in: "outage"},
	{name: "the changes are sent", at: "round ends", time: 2, pause: true, in: "outage"},
	{name: "the shards are counted", at: "shards", time: 1, pause: true, in: "outage"},
	{name: "the target is compared", at: "verify", time: 1, pause: true, in: "outage"},
	{name: "just before the conclusion", at: "move", time: 3, in: "outage", tooLate: true},
	{name: "settings are restored", at: "finish", time: 1, pause: true, in: "after"},
	{name: "reported", in: "after", finished: true},
}

// TestCutover_OrdersInEachStep gives each order at each step of a cut-over, lets the process continue or kills it, and runs the next one.
func TestCutover_OrdersInEachStep(t *testing.T) {
	done := map[string]session.CutoverState{"before": session.CutoverDone, "outage": session.CutoverDone, "after": session.CutoverDone}
	returns := map[string]session.CutoverState{"before": session.CutoverReturned, "outage": session.CutoverReturned, "after": session.CutoverDone}
	holds := map[string]session.CutoverState{"before": session.CutoverOrdered, "outage": session.CutoverReturned, "after": session.CutoverDone}
	gives := func(o session.Order) func(*world) error {
		return func(w *world) error {
			o.Who = "ann"
			_, err := w.orders.Issue(context.Background(), o)
			return err
		}
	}
	again := func(group ...string) func(*world) error {
		return func(w *world) error {
			_, err := w.records.Order(context.Background(), session.CutoverOptions{Block: true, MaxOutage: time.Minute.Milliseconds(), Indices: group}, "ann")
			return err
		}
	}
	for _, order := range []struct {
		name    string
		give    func(*world) error
		ends    map[string]session.CutoverState
		refused map[string]string // the answer to the operator
		reason  string            // of the return
		request bool              // the process notices it only when it looks
		alone   bool              // not followed by a kill
	}{
		{name: "cutover", give: again(), ends: done, refused: map[string]string{"before": "is ORDERED already; this order was not stored: rfsctl status shows how far it is, and rfsctl cutover --abort withdraws it", "outage": "is BLOCKED already", "after": ""}},
		{name: "cutover of a group", give: again("gro*"), ends: done, refused: map[string]string{"before": "is ORDERED already", "outage": "is BLOCKED already", "after": ""}},
		{name: "abort", ends: returns, reason: "not now", refused: map[string]string{"after": "too late: everything has arrived"}, give: func(w *world) error {
			_, err := w.records.Return(context.Background(), "not now")
			return err
		}},
		{name: "pause", give: gives(session.Order{Kind: session.OrderPause}), ends: holds, reason: "the operator (ann) wants no work: PAUSE", request: true},
		{name: "drain", give: gives(session.Order{Kind: session.OrderDrain}), ends: holds, reason: "the operator (ann) wants no work: DRAIN", request: true},
		{name: "scale 0", give: gives(session.Order{Kind: session.OrderScale, Workers: new(0)}), ends: returns, reason: "the operator (ann) wants no workers: scale 0", request: true},
		{name: "scale 2", give: gives(session.Order{Kind: session.OrderScale, Workers: new(2)}), ends: done, alone: true},
		{name: "drain of a node", give: gives(session.Order{Kind: session.OrderDrain, Nodes: []string{"n1"}}), ends: done, alone: true},
		{name: "resume", give: gives(session.Order{Kind: session.OrderResume}), ends: done, alone: true},
		{name: "set max-rate", give: gives(session.Order{Kind: session.OrderSet, Setting: session.MaxRate, Value: new(int64(1024))}), ends: done, alone: true},
		{name: "a second process", ends: done, give: func(w *world) error {
			_, err := w.start().Run(context.Background())
			return err
		}},
		{name: "a process that may not block", ends: returns, reason: "was started without --block-source-writes", give: func(w *world) error {
			x := w.start()
			x.MayBlock = false
			_, err := x.Run(context.Background())
			return err
		}},
	} {
		for _, step := range steps {
			for _, kill := range []bool{false, true} {
				if kill && order.alone {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/killed %t", order.name, step.name, kill), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t)
						w.order(block)
						var killed, gave atomic.Bool
						give := func() {
							gave.Store(true)
							err := order.give(w)
							if want, is := order.refused[step.in]; is != (err != nil) || is && err != nil && !strings.Contains(err.Error(), want) || is && !errors.Is(err, fault.ErrConfig) {
								t.Errorf("the answer: %v, want %q", err, want)
							}
							killed.Store(kill)
						}
						n := 0
						w.inject(func(_ int64, at string) error {
							if killed.Load() {
								return errors.New("killed")
							}
							if at != step.at || gave.Load() {
								return nil
							}
							if n++; n != step.time {
								return nil
							}
							if give(); killed.Load() {
								return errors.New("killed")
							}
							if step.pause {
								time.Sleep(3 * time.Second)
							}
							return nil
						})
						w.round = w.takes(5 * time.Second)
						if step.at == "" && !step.finished {
							give()
						}
						begin := time.Now()
						if _, err := w.start().Run(t.Context()); kill != (err != nil) && step.at != "" && !(order.ends[step.in] == session.CutoverOrdered) {
							t.Errorf("the process: %v", err)
						}
						if step.finished {
							give()
						}
						killed.Store(false)
						blocks := 0
						w.inject(func(_ int64, at string) error {
							if at == "block" {
								blocks++
							}
							return nil
						})
						is, err := w.start().Run(t.Context()) // the next one, or the same again
						outage := time.Since(begin)
						want := order.ends[step.in]
						if order.request && step.tooLate && !kill {
							want = session.CutoverDone // the order comes too late to be noticed
						}
						var paused *session.PausedError
						if is.State != want || (err != nil) != (want == session.CutoverOrdered) || err != nil && !errors.As(err, &paused) {
							t.Fatalf("%s (%s), %v; want %s", is.State, is.Reason, err, want)
						}
						if want == session.CutoverReturned && !strings.Contains(is.Reason, order.reason) {
							t.Errorf("the reason %q lacks %q", is.Reason, order.reason)
						}
						if order.request && want == session.CutoverReturned && blocks > 0 {
							t.Error("writes were blocked although the operator wants no work")
						}
						if outage > time.Minute {
							t.Errorf("it took %s", outage)
						}
						w.whole(is)
						if want != session.CutoverOrdered {
							return
						}
						gives(session.Order{Kind: session.OrderResume})(w) //nolint:errcheck // the state shows it
						if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverDone {
							t.Errorf("resumed: %+v, %v", is, err)
						} else {
							w.whole(is)
						}
					})
				})
			}
		}
	}
}

// meanwhile has f called once, when a process takes a step for the nth time, before the step.
func (w *world) meanwhile(step string, time int, f func()) {
	n := 0
	w.inject(func(_ int64, at string) error {
		if at != step {
			return nil
		}
		if n++; n == time {
			w.inject(nil)
			f()
		}
		return nil
	})
}

// TestCutover_AnEarlierOrder: a process that was held up in an order which was withdrawn changes nothing about the next one.
func TestCutover_AnEarlierOrder(t *testing.T) {
	for _, step := range []struct {
		at   string
		time int
	}{{"connect", 1}, {"move", 2}, {"block", 1}, {"blocked", 1}, {"shards", 1}, {"verify", 1}, {"move", 3}} {
		for _, next := range []string{"ordered", "blocked"} {
			t.Run(fmt.Sprint(step.at, step.time, " ", next), func(t *testing.T) {
				w := newWorld(t)
				w.round = w.takes(0)
				w.order(block)
				w.meanwhile(step.at, step.time, func() {
					if _, err := w.records.Return(t.Context(), "not now"); err != nil {
						t.Fatal(err)
					}
					if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverReturned || len(w.blocked()) > 0 {
						t.Fatalf("%+v, %v", is, err)
					}
					w.order(session.CutoverOptions{Block: true, AcceptFailed: true})
					if next == "ordered" {
						return
					}
					w.inject(func(_ int64, at string) error { // the next process is killed when it has blocked writes
						if at == "round" && len(w.blocked()) > 0 {
							return errors.New("killed")
						}
						if len(w.blocked()) > 0 && slices.Contains([]string{"return", "unblock"}, at) {
							return errors.New("killed")
						}
						return nil
					})
					if is, err := w.start().Run(t.Context()); err == nil || len(w.blocked()) == 0 {
						t.Fatalf("%+v, %v", is, err)
					}
					w.inject(nil)
				})
				is, err := w.start().Run(t.Context())
				if err != nil || is.State != session.CutoverDone || !is.AcceptFailed {
					t.Errorf("%+v, %v", is, err)
				}
				w.whole(is)
			})
		}
	}
}

// TestCutover_ASlowBlockIsAwaited: the source waits for writes in progress when it sets a block, and sets it although the operator aborts or
// the process is stopped meanwhile.
func TestCutover_ASlowBlockIsAwaited(t *testing.T) {
	for _, by := range []string{"abort", "pause", "signal"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.round, w.slow = w.takes(time.Second), 10*time.Second
				w.order(block)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				w.meanwhile("block", 1, func() {
					var err error
					switch by {
					case "abort":
						_, err = w.records.Return(context.Background(), "not now")
					case "pause":
						_, err = w.orders.Issue(context.Background(), session.Order{Kind: session.OrderPause})
					default:
						stop()
					}
					if err != nil {
						t.Error(err)
					}
				})
				begin := time.Now()
				is, err := w.start().Run(ctx)
				if is.State != session.CutoverReturned || (err != nil) != (by == "signal") || time.Since(begin) > 30*time.Second {
					t.Errorf("%+v, %v after %s", is, err, time.Since(begin))
				}
				process{w}.set(w.late, true)
				w.whole(is)
			})
		})
	}
}

// TestCutover_AnotherSource: a process that is started with another source after a kill neither blocks nor unblocks it, and reports no
// return until the write blocks are removed from the source that has them.
func TestCutover_AnotherSource(t *testing.T) {
	w := newWorld(t)
	w.round, w.uuid = w.takes(0), "one"
	w.order(block)
	w.inject(func(_ int64, at string) error {
		if len(w.blocked()) > 0 {
			return errors.New("killed")
		}
		return nil
	})
	if is, err := w.start().Run(t.Context()); err == nil || len(w.blocked()) == 0 {
		t.Fatalf("%+v, %v", is, err)
	}
	w.uuid = "two"
	w.inject(func(_ int64, at string) error {
		if at == "block" || at == "unblock" {
			t.Errorf("%s on another source", at)
		}
		return nil
	})
	is, err := w.start().Run(t.Context())
	if is.State != session.CutoverReturning || err == nil || !strings.Contains(err.Error(), "is the cluster two, and the write blocks are on the cluster one") {
		t.Errorf("%+v, %v", is, err)
	}
	w.uuid = "one"
	w.inject(nil)
	if is, err = w.start().Run(t.Context()); err != nil || is.State != session.CutoverReturned || !strings.Contains(is.Reason, "is the cluster two") {
		t.Errorf("%+v, %v", is, err)
	}
	w.whole(is)
}

// TestCutover_RemovedRecords: rfsctl cleanup --force removes the records at each step. The process removes its write blocks, which nothing
// else knows of, unless everything has arrived.
func TestCutover_RemovedRecords(t *testing.T) {
	for _, step := range steps[1 : len(steps)-1] {
		t.Run(step.name, func(t *testing.T) {
			w := newWorld(t)
			w.round = w.takes(0)
			w.order(block)
			w.meanwhile(step.at, step.time, func() {
				for _, kind := range []string{"cutover", "rounds"} {
					if err := w.all.Leases().Forget(t.Context(), kind); err != nil {
						t.Fatal(err)
					}
				}
			})
			_, err := w.start().Run(t.Context())
			if blocked := w.blocked(); !errors.Is(err, session.ErrNotOrdered) && step.in != "after" || (len(blocked) > 0) != (step.in == "after") {
				t.Errorf("%v, blocked %q", err, blocked)
			}
		})
	}
}

// TestCutover_ALateBlockIsRemovedWithPatience: the source refuses to remove the blocks for a while.
func TestCutover_ALateBlockIsRemovedWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.order(block)
		w.meanwhile("block", 1, func() {
			if _, err := w.records.Return(t.Context(), "not now"); err != nil {
				t.Error(err)
			}
			if _, err := w.start().Run(t.Context()); err != nil {
				t.Error(err)
			}
			n := 0
			w.inject(func(_ int64, at string) error {
				if at == "unblock" {
					if n++; n < 4 {
						return fault.ErrUnavailable
					}
				}
				return nil
			})
		})
		if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverReturned || len(w.blocked()) > 0 {
			t.Errorf("%+v, %v, blocked %q", is, err, w.blocked())
		}
	})
}

// takes returns a round that takes a while, fails when the operator wants no work, as rounds do, and notes whether writes were blocked for
// all of it.
func (w *world) takes(d time.Duration) func(context.Context) (cutover.Round, error) {
	number := 0
	return func(ctx context.Context) (cutover.Round, error) {
		if i, err := w.orders.Intent(ctx); err != nil || i.State != session.Run {
			return cutover.Round{}, errors.Join(err, &session.PausedError{Intent: i})
		}
		blocked := len(w.blocked()) == len(w.indices)
		select {
		case <-ctx.Done():
			return cutover.Round{}, ctx.Err()
		case <-time.After(d):
		}
		if err := (process{w}).step(ctx, "round ends"); err != nil {
			return cutover.Round{}, err
		}
		number++
		if w.quiet == nil {
			w.quiet = map[int]bool{}
		}
		w.quiet[number] = blocked && len(w.blocked()) == len(w.indices)
		return cutover.Round{Number: number, Snapshot: last}, nil
	}
}

// whole fails the test unless the cut-over is done with all writes blocked during its last round, or has left no write block.
func (w *world) whole(is session.Cutover) {
	w.t.Helper()
	done := is.State == session.CutoverDone
	if blocked := w.blocked(); done && (len(blocked) != len(w.indices) || !slices.Equal(is.Blocks, blocked)) || !done && (len(blocked) > 0 || len(is.Blocks) > 0) {
		w.t.Errorf("%s: the source blocks writes to %q, and the record names %q", is.State, blocked, is.Blocks)
	}
	if done != (w.ended > 0) || done && !w.quiet[is.Round] {
		w.t.Errorf("%s: the following has ended %d times; writes ended before round %d: %t", is.State, w.ended, is.Round, w.quiet[is.Round])
	}
}
