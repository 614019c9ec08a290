package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/cutover"
	"github.com/rfsd/rfsd/rfs/source/live"
)

var block = session.CutoverOptions{Block: true}

// TestCutover_Completes blocks all indices that take writes, and leaves the blocks of others out.
func TestCutover_Completes(t *testing.T) {
	w := newWorld(t)
	w.indices[0].Blocked = true
	w.indices = append(w.indices, live.Index{Name: "system"})
	w.order(block)
	is, err := w.start().Run(t.Context())
	if err != nil || is.State != session.CutoverDone || is.Round != 7 || is.Snapshot != last || is.Blocked == 0 || is.Arrived < is.Blocked {
		t.Errorf("%+v, %v", is, err)
	}
	if got := len(w.blocked()); got != len(w.indices)-1 || len(is.Blocks) != got-1 || w.ended != 1 {
		t.Errorf("%d indices of %d are blocked, %q by the session; ended %d times", got, len(w.indices), is.Blocks, w.ended)
	}
	if _, err := w.records.Return(t.Context(), "late"); !errors.Is(err, session.ErrTooLate) {
		t.Errorf("a return afterwards: %v", err)
	}
}

// TestCutover_EachFailureLeadsBack: no index is blocked, following has not ended, and the reason is recorded.
func TestCutover_EachFailureLeadsBack(t *testing.T) {
	lost := fmt.Errorf("no route: %w", fault.ErrUnavailable)
	fails := func(name string, time int) func(*world, *cutover.Cutover) {
		return func(w *world, _ *cutover.Cutover) {
			n := 0
			w.inject(func(_ int64, at string) error {
				if at == name {
					if n++; n == time {
						return lost
					}
				}
				return nil
			})
		}
	}
	for _, c := range []struct {
		name    string
		options session.CutoverOptions
		make    func(*world, *cutover.Cutover)
		reason  string
	}{
		{"the first round fails", block, fails("round", 1), "no route"},
		{"the last round fails", block, fails("round", 2), "no route"},
		{"the source is down", block, fails("connect", 1), "no route"},
		{"the indices are not listed", block, fails("indices", 1), "no route"},
		{"an index is not blocked", block, fails("block", 1), "no route"},
		{"the answer to a block is lost", block, fails("blocked", 1), "no route"},
		{"shards do not answer", block, fails("shards", 1), "no route"},
		{"the target differs", block, fails("verify", 1), "no route"},
		{"blocks are not permitted", block, func(_ *world, c *cutover.Cutover) { c.MayBlock = false }, "rfsd run --follow was started without --block-source-writes"},
		{"documents failed before", block, func(w *world, _ *cutover.Cutover) { w.failed = 3 }, "3 documents"},
		{"documents fail in the last round", block, func(w *world, _ *cutover.Cutover) {
			w.round = func(context.Context) (cutover.Round, error) { return cutover.Round{Snapshot: last, Failed: 2}, nil }
		}, "2 documents"},
		{"the source goes on without a block", session.CutoverOptions{}, func(w *world, _ *cutover.Cutover) {
			w.round = func(context.Context) (cutover.Round, error) {
				x := w.shards["grows"][0]
				x.MaxSeqNo++
				w.shards["grows"][0] = x
				return cutover.Round{Snapshot: last}, nil
			}
		}, "shard 0 of grows: sequence number"},
		{"an index without numbers has another number of documents", block, func(w *world, _ *cutover.Cutover) {
			x := w.shards["grows"][0]
			x.Numbered, x.Live = false, x.Live+1
			w.shards["grows"][0] = x
		}, "shard 0 of grows"},
		{"documents fail in the first round", block, func(w *world, _ *cutover.Cutover) {
			w.round = func(context.Context) (cutover.Round, error) {
				w.failed = 4
				return cutover.Round{Snapshot: last}, nil
			}
		}, "4 documents"},
		{"a shard does not report", block, func(w *world, _ *cutover.Cutover) { delete(w.shards["grows"], 0) }, "shard 0 of grows"},
		{"the operator returns between two rounds", block, func(w *world, c *cutover.Cutover) {
			c.Clock = slow{timing.SystemClock(), new(time.Duration)}
			w.round = func(context.Context) (cutover.Round, error) {
				_, err := w.records.Return(context.Background(), "not now")
				return cutover.Round{}, err
			}
		}, "not now"},
		{"an index appears", block, func(w *world, _ *cutover.Cutover) { w.indices = append(w.indices, live.Index{Name: "late"}) }, "index late"},
		{"an index is recreated", block, func(w *world, _ *cutover.Cutover) { w.indices[0].UUID = "another" }, "recreated"},
		{"a block is removed", block, func(w *world, _ *cutover.Cutover) {
			w.round = func(context.Context) (cutover.Round, error) {
				process{w}.set([]string{"grows"}, false)
				return cutover.Round{Snapshot: last}, nil
			}
		}, "grows takes writes again"},
		{"the snapshot is gone", block, func(w *world, _ *cutover.Cutover) {
			w.round = func(context.Context) (cutover.Round, error) { return cutover.Round{Snapshot: "snap-9"}, nil }
		}, "snap-9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			own := 0
			w.indices[own].Blocked = true // by the operator
			w.order(c.options)
			x := w.start()
			c.make(w, x)
			is, err := x.Run(t.Context())
			if err != nil || is.State != session.CutoverReturned || !strings.Contains(is.Reason, c.reason) {
				t.Errorf("%s: %q, %v", is.State, is.Reason, err)
			}
			if !slices.Equal(w.blocked(), []string{w.indices[own].Name}) || w.ended > 0 || len(is.Blocks) > 0 {
				t.Errorf("blocked: %q, ended %d times", w.blocked(), w.ended)
			}
			w.inject(nil)
			w.order(c.options) // another order is possible
		})
	}
}

// TestCutover_AKillAtEachStep kills a process at each step; the next one completes the cut-over or returns from it.
func TestCutover_AKillAtEachStep(t *testing.T) {
	ends := map[session.CutoverState]int{}
	for _, fails := range []bool{false, true} {
		for kill := int64(1); ; kill++ {
			w := newWorld(t)
			w.order(block)
			var killed atomic.Bool
			w.inject(func(call int64, _ string) error {
				if call == kill {
					killed.Store(true)
				}
				if killed.Load() {
					return errors.New("killed")
				}
				return nil
			})
			w.round = func(context.Context) (cutover.Round, error) {
				if fails && len(w.blocked()) > 0 {
					return cutover.Round{}, fault.ErrUnavailable
				}
				return cutover.Round{Number: 7, Snapshot: last}, nil
			}
			_, err := w.start().Run(t.Context())
			w.inject(nil)
			is, again := w.start().Run(t.Context())
			done := is.State == session.CutoverDone
			if again != nil || done != (w.ended > 0) || done != (len(w.blocked()) > 0) || !done && is.State != session.CutoverReturned {
				t.Errorf("killed at step %d (%v): %s, %v; ended %d times, blocked %q", kill, err, is.State, again, w.ended, w.blocked())
			}
			if ends[is.State]++; !killed.Load() {
				break
			}
		}
	}
	if ends[session.CutoverDone] < 10 || ends[session.CutoverReturned] < 10 {
		t.Errorf("%v", ends)
	}
}

// TestCutover_ReturnsWhenTheOutageIsOver: also when the store is silent, and the next process returns, too.
func TestCutover_ReturnsWhenTheOutageIsOver(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.order(session.CutoverOptions{Block: true, MaxOutage: (2 * time.Minute).Milliseconds()})
			w.round = func(ctx context.Context) (cutover.Round, error) {
				if len(w.blocked()) == 0 {
					return cutover.Round{Snapshot: last}, nil
				}
				if silent {
					w.inject(func(_ int64, name string) error {
						if slices.Contains([]string{"read", "move", "return"}, name) {
							return fault.ErrUnavailable
						}
						return nil
					})
				}
				<-ctx.Done()
				return cutover.Round{}, ctx.Err()
			}
			begin := time.Now()
			is, err := w.start().Run(t.Context())
			if took := time.Since(begin); took > 3*time.Minute || took < 2*time.Minute || len(w.blocked()) > 0 || (err == nil) == silent {
				t.Errorf("after %s: %+v, %v, blocked %q", took, is, err, w.blocked())
			}
			w.inject(nil)
			if is, err = w.start().Run(t.Context()); err != nil || is.State != session.CutoverReturned || w.ended > 0 || len(w.blocked()) > 0 {
				t.Errorf("the next process: %+v, %v", is, err)
			}
		})
	}
}

// TestCutover_SilenceAfterTheBlock: the store does not answer any more when writes are blocked. They are permitted again when the permitted
// outage is over.
func TestCutover_SilenceAfterTheBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.order(session.CutoverOptions{Block: true, MaxOutage: (2 * time.Minute).Milliseconds()})
		w.inject(func(_ int64, name string) error {
			if len(w.blocked()) > 0 && slices.Contains([]string{"read", "move", "return"}, name) {
				return fault.ErrUnavailable
			}
			return nil
		})
		begin := time.Now()
		is, err := w.start().Run(t.Context())
		if took := time.Since(begin); took > 3*time.Minute || took < 2*time.Minute || len(w.blocked()) > 0 || err == nil {
			t.Errorf("after %s: %+v, %v, blocked %q", took, is, err, w.blocked())
		}
		w.inject(nil)
		if is, err = w.start().Run(t.Context()); err != nil || is.State != session.CutoverReturned || len(w.blocked()) > 0 {
			t.Errorf("the next process: %+v, %v", is, err)
		}
	})
}

// TestCutover_LateConclusionIsRefused: a process that was held up records its end after the permitted outage.
func TestCutover_LateConclusionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.order(session.CutoverOptions{Block: true, MaxOutage: time.Minute.Milliseconds()})
		n := 0
		w.inject(func(_ int64, name string) error {
			if name == "move" {
				if n++; n == 3 {
					time.Sleep(2 * time.Minute)
				}
			}
			return nil
		})
		x := w.start()
		x.Clock = still{timing.SystemClock()}
		if is, err := x.Run(t.Context()); err != nil || is.State != session.CutoverReturned || w.ended > 0 || len(w.blocked()) > 0 {
			t.Errorf("%+v, %v", is, err)
		}
	})
}

// still is a clock of a process that sleeps until its context ends.
type still struct{ timing.Clock }

func (still) Sleep(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestCutover_ReturnsOnOrder: by an operator, and when the process is stopped.
func TestCutover_ReturnsOnOrder(t *testing.T) {
	for _, by := range []string{"operator", "signal"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.order(block)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w.round = func(ctx context.Context) (cutover.Round, error) {
				if len(w.blocked()) == 0 {
					return cutover.Round{Snapshot: last}, nil
				}
				if by == "signal" {
					stop()
				} else if _, err := w.records.Return(context.Background(), "aborted"); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				return cutover.Round{}, ctx.Err()
			}
			is, err := w.start().Run(ctx)
			if is.State != session.CutoverReturned || len(w.blocked()) > 0 || w.ended > 0 || errors.Is(err, context.Canceled) != (by == "signal") {
				t.Errorf("%s: %+v, %v", by, is, err)
			}
		})
	}
}

// TestCutover_AnOrderWaits: a process that is stopped before the outage leaves the order to the next one, and rounds follow until one is
// short.
func TestCutover_AnOrderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.order(block)
		ctx, stop := context.WithCancel(t.Context())
		w.round = func(ctx context.Context) (cutover.Round, error) {
			stop()
			return cutover.Round{}, ctx.Err()
		}
		if is, err := w.start().Run(ctx); !errors.Is(err, context.Canceled) || is.State != session.CutoverOrdered {
			t.Errorf("%+v, %v", is, err)
		}
		rounds := 0
		w.round = func(context.Context) (cutover.Round, error) {
			if rounds++; rounds < 3 {
				time.Sleep(3 * time.Minute)
			}
			if len(w.blocked()) > 0 != (rounds == 4) {
				t.Errorf("round %d: blocked %q", rounds, w.blocked())
			}
			return cutover.Round{Number: rounds, Snapshot: last}, nil
		}
		if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverDone || is.Round != 4 {
			t.Errorf("%+v, %v", is, err)
		}
	})
}

// TestCutover_AForgedRecordUnblocksNothingElse: names that the session does not migrate, and patterns.
func TestCutover_AForgedRecordUnblocksNothingElse(t *testing.T) {
	w := newWorld(t)
	w.indices = append(w.indices, live.Index{Name: "system", Blocked: true})
	w.order(block)
	for _, to := range []session.CutoverState{session.CutoverBlocked, session.CutoverReturning} {
		is, _, err := w.records.Read(t.Context())
		if err == nil {
			_, err = w.records.Move(t.Context(), is, func(c *session.Cutover, _ int64) { c.State, c.Blocks = to, []string{"system", "*", "_all"} })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverReturned || !slices.Equal(w.blocked(), []string{"system"}) {
		t.Errorf("%+v, %v, blocked %q", is, err, w.blocked())
	}
}

// TestCutover_ClosedIndex: a closed index gets no write block and is cut over as its snapshot has it. The block of an index that was closed
// later is removed when the cut-over returns.
func TestCutover_ClosedIndex(t *testing.T) {
	w := newWorld(t)
	w.indices[0].Closed = true
	shards := w.shards
	w.shards = maps.Clone(shards)
	delete(w.shards, w.indices[0].Name) // the source reports nothing of it
	w.order(block)
	if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverDone || slices.Contains(w.blocked(), w.indices[0].Name) {
		t.Errorf("%+v, %v, blocked %q", is, err, w.blocked())
	}

	w = newWorld(t)
	w.order(block)
	w.round = func(context.Context) (cutover.Round, error) {
		if len(w.blocked()) > 0 {
			w.indices[0].Closed = true
			return cutover.Round{}, errors.New("the round fails")
		}
		return cutover.Round{Number: 1, Snapshot: last}, nil
	}
	if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverReturned || len(w.blocked()) > 0 {
		t.Errorf("%+v, %v, blocked %q", is, err, w.blocked())
	}
}

// slow is a clock on which each round takes an hour.
type slow struct {
	timing.Clock
	mono *time.Duration
}

func (s slow) Read() timing.Reading {
	*s.mono += time.Hour
	return timing.Reading{Mono: *s.mono}
}

// TestCutover_AcceptsWhatTheOperatorAccepts: failed documents, and indices without sequence numbers, whose comparison is noted.
func TestCutover_AcceptsWhatTheOperatorAccepts(t *testing.T) {
	w := newWorld(t)
	w.failed = 3
	w.round = func(context.Context) (cutover.Round, error) { return cutover.Round{Snapshot: last, Failed: 2}, nil }
	x := w.shards["grows"][0]
	x.Numbered = false
	w.shards["grows"][0] = x
	w.order(session.CutoverOptions{Block: true, AcceptFailed: true})
	if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverDone || !strings.Contains(is.Note, "1 shards have no sequence numbers") {
		t.Errorf("%+v, %v", is, err)
	}
}

// TestCutover_WhatIsLeftIsNamed: settings that are not restored, and write blocks that are not removed. The next process goes on.
func TestCutover_WhatIsLeftIsNamed(t *testing.T) {
	for _, c := range []struct {
		fails        string
		round        error // of the last round
		words        string
		before, then session.CutoverState
	}{
		{"finish", nil, "what follows the cut-over is not done yet", session.CutoverFinishing, session.CutoverDone},
		{"unblock", errors.New("no round"), "write blocks of the cut-over stay on the source", session.CutoverReturning, session.CutoverReturned},
		{"read", nil, "no answer", "", session.CutoverDone},
	} {
		w := newWorld(t)
		w.order(block)
		w.round = func(context.Context) (cutover.Round, error) {
			if len(w.blocked()) > 0 && c.round != nil {
				return cutover.Round{}, c.round
			}
			return cutover.Round{Snapshot: last}, nil
		}
		w.inject(func(_ int64, name string) error {
			if name == c.fails {
				return errors.New("no answer")
			}
			return nil
		})
		if is, err := w.start().Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.words) || is.State != c.before {
			t.Errorf("%s: %+v, %v", c.fails, is, err)
		}
		w.inject(nil)
		if is, err := w.start().Run(t.Context()); err != nil || is.State != c.then {
			t.Errorf("%s: %+v, %v", c.fails, is, err)
		}
	}
}

// TestCutover_AConclusionWithoutAnAnswer may be stored later: the write blocks stay until the store answers.
func TestCutover_AConclusionWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.order(session.CutoverOptions{Block: true, MaxOutage: time.Minute.Milliseconds()})
		var silent atomic.Bool
		w.inject(func(_ int64, name string) error {
			if name == "moved" && len(w.blocked()) > 0 || silent.Load() && slices.Contains([]string{"read", "move", "return"}, name) {
				silent.Store(true)
				time.Sleep(2 * time.Minute)
				return fault.ErrUnavailable
			}
			return nil
		})
		is, err := w.start().Run(t.Context())
		if err == nil || len(w.blocked()) == 0 {
			t.Errorf("%+v, %v, blocked %q", is, err, w.blocked())
		}
		w.inject(nil)
		if is, err = w.start().Run(t.Context()); err != nil || is.State != session.CutoverDone || len(w.blocked()) == 0 {
			t.Errorf("the next process: %+v, %v, blocked %q", is, err, w.blocked())
		}
	})
}

// TestCutover_Group: only the indices of the group are blocked and compared, and following does not end.
func TestCutover_Group(t *testing.T) {
	w := newWorld(t)
	delete(w.shards["again"], 0) // it is not asked
	w.order(session.CutoverOptions{Block: true, Indices: []string{"gro*", "system"}})
	is, err := w.start().Run(t.Context())
	if err != nil || is.State != session.CutoverDone || !slices.Equal(is.Moved, []string{"grows"}) || !slices.Equal(w.blocked(), is.Moved) || w.ended > 0 {
		t.Errorf("%+v, %v, blocked %q, ended %d times", is, err, w.blocked(), w.ended)
	}
	if got := fmt.Sprint(w.groups); got != "[[] [gro* system]]" { // the round before the block brings all indices
		t.Errorf("the rounds bring %s", got)
	}
	all, err := w.rounds.Read(t.Context())
	if err != nil || !slices.Equal(all.EndedBefore(1), []string{"grows"}) || len(all.EndedBefore(0)) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
	for patterns, words := range map[string]string{"nothing-*": "matches", "regex:(": "indices to cut over"} {
		w.order(session.CutoverOptions{Block: true, Indices: []string{patterns}})
		if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverReturned || !strings.Contains(is.Reason, words) {
			t.Errorf("%s: %+v, %v", patterns, is, err)
		}
	}
}

// TestCutover_ALateBlockIsRemoved: while a process blocks writes, another one returns from the cut-over.
func TestCutover_ALateBlockIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.order(block)
	w.inject(func(_ int64, name string) error {
		if name != "block" {
			return nil
		}
		w.inject(nil)
		if _, err := w.records.Return(t.Context(), "not now"); err != nil {
			t.Error(err)
		}
		_, err := w.start().Run(t.Context())
		return err
	})
	if is, err := w.start().Run(t.Context()); err != nil || is.State != session.CutoverReturned || len(w.blocked()) > 0 {
		t.Errorf("%+v, %v, blocked %q", is, err, w.blocked())
	}
}
