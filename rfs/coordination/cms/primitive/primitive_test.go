package primitive_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// counting counts reads of records.
type counting struct {
	primitive.Store
	reads atomic.Int64
}

func (c *counting) Record(ctx context.Context, id string) (cms.Record, error) {
	c.reads.Add(1)
	return c.Store.Record(ctx, id)
}

// run runs f in virtual time with a store and locks on it.
func run(t *testing.T, f func(t *testing.T, s *counting, l *primitive.Locks)) {
	synctest.Test(t, func(t *testing.T) {
		s := boltstore.Open(t)
		c := &counting{Store: s}
		f(t, c, &primitive.Locks{Store: c, Clock: cmstest.Clock{Start: time.Now()}})
	})
}

func try(t *testing.T, l *primitive.Locks, name string, ttl time.Duration) *primitive.Lock {
	t.Helper()
	lock, err := l.Try(t.Context(), name, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestALockHasOneHolderUntilItExpires(t *testing.T) {
	run(t, func(t *testing.T, s *counting, l *primitive.Locks) {
		a := try(t, l, "x", time.Minute)
		_, err := l.Try(t.Context(), "x", time.Minute)
		var held *primitive.Held
		if !errors.As(err, &held) || held.Holder != a.Holder() || time.Until(held.Until) != time.Minute {
			t.Fatalf("got %v", err)
		}
		time.Sleep(50 * time.Second)
		if err := a.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		if _, err := l.Try(t.Context(), "x", time.Minute); !errors.As(err, &held) {
			t.Fatalf("renewed lock was taken: %v", err)
		}
		time.Sleep(11 * time.Second)
		b := try(t, l, "x", time.Minute)
		if err := a.Renew(t.Context()); !errors.Is(err, fault.ErrLeaseLost) {
			t.Errorf("renewal of a lost lock: %v", err)
		}
		if err := a.Unlock(t.Context()); err != nil { // must not free b's
			t.Error(err)
		}
		if _, err := l.Try(t.Context(), "x", time.Minute); !errors.As(err, &held) || held.Holder != b.Holder() {
			t.Errorf("got %v", err)
		}
		if err := b.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := s.Record(t.Context(), "lock:x")
		if err != nil || r.Expire != 0 || r.Holder != "" {
			t.Errorf("%+v %v", r, err)
		}
		try(t, l, "x", time.Minute)
	})
}

func TestNoProcessPollsBeforeALockExpires(t *testing.T) {
	run(t, func(t *testing.T, s *counting, l *primitive.Locks) {
		try(t, l, "x", time.Hour)
		before, start := s.reads.Load(), time.Now()
		if _, err := l.Acquire(t.Context(), "x", time.Minute); err != nil {
			t.Fatal(err)
		}
		if n := s.reads.Load() - before; n > 2 {
			t.Errorf("%d reads", n)
		}
		if d := time.Since(start); d < time.Hour || d > time.Hour+time.Second {
			t.Errorf("waited %v", d)
		}
	})
}

func TestTheGuardEndsBeforeTheLock(t *testing.T) {
	run(t, func(t *testing.T, _ *counting, l *primitive.Locks) {
		a := try(t, l, "x", time.Minute)
		ctx, stop := a.Watch(t.Context(), nil)
		defer stop()
		start := time.Now()
		<-ctx.Done()
		if d := time.Since(start); d >= time.Minute || d < 50*time.Second || !errors.Is(context.Cause(ctx), fault.ErrLeaseLost) {
			t.Errorf("ended after %v: %v", d, context.Cause(ctx))
		}
	})
}

func TestOneOfManyGetsTheLock(t *testing.T) {
	run(t, func(t *testing.T, _ *counting, l *primitive.Locks) {
		var got atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := l.Try(t.Context(), "x", time.Minute); err == nil {
					got.Add(1)
				}
			})
		}
		wg.Wait()
		if got.Load() != 1 {
			t.Errorf("%d holders", got.Load())
		}
	})
}

func TestALeaderThatStopsIsReplacedAndNeverTwoLead(t *testing.T) {
	run(t, func(t *testing.T, s *counting, l *primitive.Locks) {
		var leading, most, terms atomic.Int64
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				err := l.Lead(t.Context(), "fleet", time.Minute, func(ctx context.Context) error {
					most.Store(max(most.Load(), leading.Add(1)))
					defer leading.Add(-1)
					terms.Add(1)
					select {
					case <-time.After(5 * time.Minute): // longer than the lock: it is renewed
					case <-ctx.Done():
						t.Error("a healthy leader was stopped")
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if terms.Load() != 5 || most.Load() != 1 {
			t.Errorf("%d terms, %d leaders at a time", terms.Load(), most.Load())
		}
	})
}

func TestALeaderWhoseLockWasTakenIsStopped(t *testing.T) {
	run(t, func(t *testing.T, s *counting, l *primitive.Locks) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		err := l.Lead(ctx, "fleet", time.Minute, func(ctx context.Context) error {
			if n++; n == 2 {
				return nil
			}
			r, err := s.Record(t.Context(), "lock:leader/fleet")
			if err != nil {
				return err
			}
			r.Holder, r.Expire = "thief", time.Now().Add(time.Minute).UnixMilli()
			if _, err := s.Put(t.Context(), r); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != nil || n != 2 {
			t.Errorf("%d terms, %v", n, err)
		}
	})
}

func TestNodesAdvertiseThemselvesAtTheSameTime(t *testing.T) {
	run(t, func(t *testing.T, s *counting, l *primitive.Locks) {
		n := &primitive.Nodes{Store: s, Clock: l.Clock}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if err := n.Advertise(t.Context(), primitive.Node{Token: fmt.Sprintf("n%d", i), Workers: i}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		got, err := n.List(t.Context())
		if err != nil || len(got) != 8 || got[3].Token != "n3" || got[3].Workers != 3 {
			t.Fatalf("%+v %v", got, err)
		}
		time.Sleep(time.Hour)
		if err := n.Advertise(t.Context(), primitive.Node{Token: "n5", Workers: 1}); err != nil {
			t.Fatal(err)
		}
		if err := n.Expire(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got, err = n.List(t.Context()); err != nil || len(got) != 1 || got[0].Token != "n5" {
			t.Errorf("%+v %v", got, err)
		}
	})
}
