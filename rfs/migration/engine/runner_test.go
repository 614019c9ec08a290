package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestProgressNeverDisturbsTheEndOfItsOwnLease: records of progress are decided late, at any moment of the hand-off or the completion.
func TestProgressNeverDisturbsTheEndOfItsOwnLease(t *testing.T) {
	for _, c := range []struct {
		name    string
		each    time.Duration // per body of 64 of 1,280 documents
		signal  time.Duration // 0: none
		outcome engine.Outcome
	}{
		{"handed off at the trigger", 12 * time.Second, 0, engine.HandedOff},
		{"handed off after a signal", 3 * time.Second, 28 * time.Second, engine.HandedOff},
		{"completed", 500 * time.Millisecond, 0, engine.Completed},
	} {
		step := 500 * time.Millisecond
		if testing.Short() {
			step *= 4
		}
		for late := time.Duration(0); late <= 6*time.Second; late += step {
			t.Run(fmt.Sprintf("%s/%v late", c.name, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := &migrationtest.SlowStore{Memory: migrationtest.NewMemory(), Answer: migrationtest.Always(700 * time.Millisecond), Decide: func(tr cms.Transition) time.Duration {
						if _, ok := tr.(cms.Progress); ok {
							return late
						}
						return 300 * time.Millisecond
					}}
					defer store.Under.Wait()
					s := migrationtest.NewShard(t, store, &migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}, Each: c.each}, 2*time.Minute, 64)
					s.Runner.RecordEvery = time.Second
					ctx := t.Context()
					if c.signal > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.signal)
						defer cancel()
					}
					outcome, err := s.Run(ctx, s.Lease(t))
					if outcome != c.outcome || err != nil {
						t.Errorf("%v: %v", outcome, err)
					}
					it := s.Item(t)
					if it.Open() || it.FailedItem() || (it.Successors != "") != (c.outcome == engine.HandedOff) {
						t.Errorf("left as %+v", it)
					}
				})
			})
		}
	}
}

// TestASilentStoreDoesNotStopDocuments: the store neither answers nor refuses for 45 s; no request to the target needs it before the trigger.
func TestASilentStoreDoesNotStopDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &migrationtest.SlowStore{Memory: migrationtest.NewMemory(), Decide: migrationtest.Always(0), Answer: migrationtest.Always(0)}
		defer store.Under.Wait()
		to := &migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}, Each: 3 * time.Second}
		s := migrationtest.NewShard(t, store, to, 10*time.Minute, 16) // 80 bodies: 240 s
		l := s.Lease(t)
		store.From = time.Now().Add(20 * time.Second)
		store.To = store.From.Add(45 * time.Second)
		outcome, err := s.Run(t.Context(), l)
		if outcome != engine.Completed || err != nil {
			t.Fatalf("%v: %v", outcome, err)
		}
		for i := 1; i < len(to.Times); i++ {
			if pause := to.Times[i].Sub(to.Times[i-1]); pause > 2*to.Each {
				t.Errorf("no document was sent for %v from %v on", pause, to.Times[i-1].Sub(store.From))
			}
		}
	})
}
