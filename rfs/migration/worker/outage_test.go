package worker_test

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
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// unready is a destination that opens nothing as long as it has a reason.
type unready struct {
	engine.Destination
	why func(id cms.ItemID) error
}

func (u unready) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	if err := u.why(id); err != nil {
		return nil, err
	}
	return u.Destination.Open(ctx, id, mayStart)
}

// TestARunEndsWithWhatTheTargetRefuses runs a migration of one index against a target that is not well, and again when it is.
func TestARunEndsWithWhatTheTargetRefuses(t *testing.T) {
	blocked := fmt.Errorf("index stored: 403 cluster_block_exception: %w", bulk.ErrIndexBlocked)
	refused := fmt.Errorf("index stored: 100 of 100 documents: %w", bulk.ErrTooManyRefusals)
	away := fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
	damaged := fmt.Errorf("blob __0: %w", fault.ErrCorrupt)
	odd := errors.New("out of order")
	once := func(err error) func(time.Duration, cms.ItemID) error {
		var given atomic.Bool
		return func(time.Duration, cms.ItemID) error {
			if given.Swap(true) {
				return nil
			}
			return err
		}
	}
	for _, c := range []struct {
		name     string
		why      func(since time.Duration, id cms.ItemID) error
		fails    error // of the run; nil: it ends well
		words    string
		paused   bool
		problems int
		least    time.Duration
		most     time.Duration
	}{
		{name: "an index that is blocked is paused", why: func(time.Duration, cms.ItemID) error { return blocked }, words: "index stored is paused: ", paused: true, most: 5 * time.Second},
		{name: "an index that refuses too much is paused", why: func(time.Duration, cms.ItemID) error { return refused }, words: "index stored is paused: ", paused: true, most: 5 * time.Second},
		{name: "an outage is waited for", why: func(since time.Duration, _ cms.ItemID) error {
			if since < 50*time.Second {
				return away
			}
			return nil
		}, least: 50 * time.Second, most: 58 * time.Second},
		{name: "but not without end", why: func(time.Duration, cms.ItemID) error { return away }, fails: away, words: "gave up after 1m0s", least: time.Minute, most: 70 * time.Second},
		{name: "a damaged shard fails alone", why: func(_ time.Duration, id cms.ItemID) error {
			if id.Shard == 1 {
				return damaged
			}
			return nil
		}, problems: 1, most: 5 * time.Second},
		{name: "a lease that is lost is another's", why: once(fmt.Errorf("taken over: %w", fault.ErrLeaseLost)), most: 5 * time.Second},
		{name: "what is unknown ends the run", why: once(odd), fails: odd, words: "out of order", most: 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				begin := time.Now()
				w.wrap = func(d engine.Destination) engine.Destination {
					return unready{d, func(id cms.ItemID) error { return c.why(time.Since(begin), id) }}
				}
				sum, err := w.run(t, 1, &migrationtest.Life{})
				took := time.Since(begin)
				if took < c.least || took > c.most {
					t.Errorf("it took %v, want %v to %v", took, c.least, c.most)
				}
				var paused *worker.PausedError
				if errors.As(err, &paused) != c.paused || !errors.Is(err, c.fails) && !c.paused || err == nil != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
					t.Fatalf("%v", err)
				}
				if (sum.Indices[0].Paused != "") != c.paused || len(sum.Problems) != c.problems || sum.Complete != (err == nil) {
					t.Errorf("%+v", sum)
				}
				w.wrap = nil
				sum, err = w.run(t, 2, &migrationtest.Life{})
				if err != nil || !sum.Complete || len(sum.Problems) != 0 || sum.Totals.Indexed != int64(len(w.docs["stored"])) || sum.Totals.Indexed == 0 {
					t.Errorf("the next run: %+v, %v", sum, err)
				}
			})
		})
	}
}

// dies runs a process that dies in its work on an item, whose lease it leaves.
func dies(t *testing.T, w *world) {
	t.Helper()
	life := &migrationtest.Life{}
	w.wrap = func(d engine.Destination) engine.Destination {
		return unready{d, func(cms.ItemID) error {
			life.Mu.Lock()
			defer life.Mu.Unlock()
			life.Dead = true
			return migrationtest.ErrDead
		}}
	}
	if _, err := w.run(t, 1, life); !errors.Is(err, migrationtest.ErrDead) {
		t.Fatalf("%v", err)
	}
}

// TestAnOutageAfterAWaitIsWaitedFor: a process waits for a lease of a dead one, for longer than an outage may last, and finds the target
// away for a moment then.
func TestAnOutageAfterAWaitIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dies(t, w)
		begin := time.Now()
		outages := 0
		w.wrap = func(d engine.Destination) engine.Destination {
			return unready{d, func(cms.ItemID) error {
				if time.Since(begin) < time.Minute || outages > 0 {
					return nil
				}
				outages++
				return fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
			}}
		}
		sum, err := w.run(t, 2, &migrationtest.Life{})
		if err != nil || !sum.Complete || outages != 1 {
			t.Errorf("%v after %v, with %d outages", err, time.Since(begin), outages)
		}
	})
}

// TestAnOutageEndsTheRunThoughSlotsHaveNoWork: the store, which they ask for work, answers.
func TestAnOutageEndsTheRunThoughSlotsHaveNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.with = func(m *worker.Migration) { m.Slots = 8 }
		begin := time.Now()
		w.wrap = func(d engine.Destination) engine.Destination {
			return unready{d, func(cms.ItemID) error {
				if time.Since(begin) > time.Hour {
					return nil
				}
				time.Sleep(20 * time.Second) // its requests are repeated
				return fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
			}}
		}
		sum, err := w.run(t, 1, &migrationtest.Life{})
		if took := time.Since(begin); !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "gave up after 1m0s") || sum.Complete || took > 2*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestAnOutageAtTheEndOfALongLeaseIsWaitedFor: a lease has lasted for longer than an outage may when the target is away for a moment.
func TestAnOutageAtTheEndOfALongLeaseIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.with = func(m *worker.Migration) { m.Unavailable = 20 * time.Second }
		var opened atomic.Int64
		w.wrap = func(d engine.Destination) engine.Destination {
			return unready{d, func(cms.ItemID) error {
				if opened.Add(1) > 1 {
					return nil
				}
				time.Sleep(30 * time.Second)
				return fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
			}}
		}
		sum, err := w.run(t, 1, &migrationtest.Life{})
		if err != nil || !sum.Complete || opened.Load() < 3 {
			t.Errorf("%v, opened %d times", err, opened.Load())
		}
	})
}

func TestPausedIndicesAreNamed(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"a"}, "not complete: index a is paused: full; repair"},
		{[]string{"a", "b"}, "not complete: 2 indices (a, b) are paused: full; repair"},
	} {
		if err := (&worker.PausedError{Indices: c.names, Why: "full"}); !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v", err)
		}
	}
}

// byIndex returns the order of the indices' names; -1: its reverse.
func byIndex(direction int) cms.Hints {
	return func(items []cms.Item) {
		slices.SortFunc(items, func(a, b cms.Item) int { return direction * strings.Compare(a.ID, b.ID) })
	}
}

// TestItemsOfPausedIndicesComeLast: while an index is paused, a process with one slot does all other work, and waits for the work that a
// dead process holds.
func TestItemsOfPausedIndicesComeLast(t *testing.T) {
	for _, c := range []struct {
		name        string
		died        bool // a process died in its work on the other index
		least, most time.Duration
	}{
		{name: "the other index is free", most: 900 * time.Millisecond}, // without the pause after a lease that it may not work on
		{name: "a dead process holds a part of the other index", died: true, least: 30 * time.Second, most: 2 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.req.Sizes = false // a slot works on one item at a time
				w.plan = func(p *plan.Plan) { multiply(p, 2) }
				if c.died {
					w.with = func(m *worker.Migration) { m.Order = byIndex(-1) }
					dies(t, w)
				}
				var opened []string
				w.wrap = func(d engine.Destination) engine.Destination {
					return unready{d, func(id cms.ItemID) error {
						if opened = append(opened, id.Index); id.Index == "stored0" {
							return fmt.Errorf("index stored0: %w", bulk.ErrIndexBlocked)
						}
						return nil
					}}
				}
				w.with = func(m *worker.Migration) { m.Order = byIndex(1) }
				begin := time.Now()
				sum, err := w.run(t, 2, &migrationtest.Life{})
				var paused *worker.PausedError
				if !errors.As(err, &paused) || !slices.Equal(paused.Indices, []string{"stored0"}) {
					t.Fatalf("%v", err)
				}
				if took := time.Since(begin); took < c.least || took > c.most {
					t.Errorf("it took %v, want %v to %v", took, c.least, c.most)
				}
				if sum.Indices[0].Done != 0 || sum.Indices[1].Done != 2 || len(w.docs["stored1"]) == 0 || !slices.Equal(opened, []string{"stored0", "stored1", "stored1"}) {
					t.Errorf("opened %v; %+v", opened, sum.Indices)
				}
			})
		})
	}
}

// TestWhatTheDeadHeldIsFreedAtOnce lets a process die in its work on an item; the next one knows of its death.
func TestWhatTheDeadHeldIsFreedAtOnce(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			dies(t, w)
			w.wrap = nil
			begin, freed := time.Now(), 0
			if known {
				w.dead, w.freed = []string{"process1_0"}, func() error { freed++; return nil }
			}
			sum, err := w.run(t, 2, &migrationtest.Life{})
			if err != nil || !sum.Complete {
				t.Fatalf("%+v, %v", sum, err)
			}
			if took := time.Since(begin); known != (took < 10*time.Second) || known != (freed == 1) {
				t.Errorf("the death is known: %v; it took %v, freed was called %d times", known, took, freed)
			}
		})
	}
}

// TestATargetThatWasReplacedFailsItsIndex makes the index of the target anew between two runs.
func TestATargetThatWasReplacedFailsItsIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.wrap = func(d engine.Destination) engine.Destination {
			return unready{d, func(cms.ItemID) error { return fmt.Errorf("not yet: %w", bulk.ErrIndexBlocked) }}
		}
		if _, err := w.run(t, 1, &migrationtest.Life{}); err == nil {
			t.Fatal("it ended well")
		}
		w.wrap = nil
		w.on.UUIDs["stored"] = "another"
		sum, err := w.run(t, 2, &migrationtest.Life{})
		if err != nil || len(sum.Problems) != 3 || sum.Indices[0].Damaged != 2 || len(w.docs["stored"]) != 0 {
			t.Fatalf("%+v, %v", sum, err)
		}
		for _, p := range sum.Problems { // of the index and of its two shards
			if !strings.Contains(p.Reason, "has the UUID another, this session started with uuid of stored") {
				t.Errorf("%+v", p)
			}
		}
		if i := slices.IndexFunc(sum.Events, func(e summary.Event) bool { return strings.HasPrefix(e.Code, "retried") }); i >= 0 {
			t.Errorf("what cannot succeed was tried again: %+v", sum.Events[i])
		}
	})
}
