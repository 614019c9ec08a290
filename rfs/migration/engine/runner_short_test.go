package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestALeaseTooShortForItsHandOffIsReleased: what was done is recorded, no attempt is counted, and leases grow until one
// holds a hand-off.
func TestALeaseTooShortForItsHandOffIsReleased(t *testing.T) {
	const initial = 20 * time.Second
	for _, c := range []struct {
		name     string
		each     time.Duration // request to the store
		released int           // leases before the first hand-off
	}{
		{"the store answers immediately", 0, 0},
		{"the store takes 4 s", 4 * time.Second, 2},
		{"the store takes nearly half of the lease", 8500 * time.Millisecond, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &migrationtest.SlowStore{Memory: migrationtest.NewMemory(), Decide: migrationtest.Always(c.each / 2), Answer: migrationtest.Always(c.each / 2)}
				defer store.Under.Wait()
				s := migrationtest.NewShard(t, store, &migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}, Each: time.Second}, initial, 8)
				watermark := int64(0)
				for n := range c.released {
					lease := s.Lease(t)
					if lease.Length != initial<<n {
						t.Fatalf("lease %d is of %v", n, lease.Length)
					}
					outcome, err := s.Run(t.Context(), lease)
					if outcome != engine.Released || err != nil {
						t.Fatalf("lease %d: %v: %v", n, outcome, err)
					}
					it := s.Item(t)
					if it.Holder != "" || it.Attempts != 0 || it.Watermark <= watermark || it.Counts.Ordinals != it.Watermark || it.ReleasedFor != string(cms.CauseOutage) {
						t.Fatalf("lease %d left %+v", n, it)
					}
					watermark = it.Watermark
				}
				lease := s.Lease(t)
				if lease.Length != initial<<c.released || lease.Start() != watermark {
					t.Fatalf("the last lease is of %v from %d on", lease.Length, lease.Start())
				}
				if outcome, err := s.Run(t.Context(), lease); outcome != engine.HandedOff || err != nil {
					t.Errorf("%v: %v", outcome, err)
				}
			})
		})
	}
}

// punctual is a store to which no request is sent that is over already.
type punctual struct{ *migrationtest.Memory }

func (p punctual) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if err := ctx.Err(); err != nil {
		return cms.Item{}, 0, fmt.Errorf("no answer: %w: %w", err, fault.ErrUnavailable)
	}
	return p.Memory.Apply(ctx, id, t)
}

// TestALeaseThatIsStoppedAtItsEnds: a signal comes while the last request is under way, and setup goes on beyond the deadline.
func TestALeaseThatIsStoppedAtItsEnds(t *testing.T) {
	t.Run("every document has arrived after the signal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := migrationtest.NewShard(t, migrationtest.NewMemory(), &migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}, Each: 3 * time.Second}, 10*time.Minute, 2000)
			s.Runner.Bulk.MaxBytes = 1 << 30 // one body
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if outcome, err := s.Run(ctx, s.Lease(t)); outcome != engine.Completed || err != nil {
				t.Errorf("%v: %v, left as %+v", outcome, err, s.Item(t))
			}
		})
	})
	t.Run("the item is free before its lease ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			to := &migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}}
			s := migrationtest.NewShard(t, punctual{migrationtest.NewMemory()}, to, time.Minute, 64)
			lease := s.Lease(t)
			time.Sleep(250 * time.Millisecond) // it ends between two looks at it
			s.Runner.Destination = lateOpen{to, lease.UntilDeadline() + time.Millisecond}
			outcome, err := s.Run(t.Context(), lease)
			if it := s.Item(t); outcome != engine.Lost || err == nil || it.Holder != "" || it.Attempts != 0 || len(to.Docs) != 0 {
				t.Errorf("%v: %v, left as %+v", outcome, err, it)
			}
		})
	})
}
