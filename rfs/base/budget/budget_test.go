package budget

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, 10)
		take := func(ctx context.Context, n int64) (s *Share, err error) {
			t.Helper()
			done := make(chan struct{})
			go func() { defer close(done); s, err = b.Take(ctx, n) }()
			synctest.Wait()
			select {
			case <-done:
				return s, err
			default:
				return nil, errWaits
			}
		}
		first, err := take(t.Context(), 60)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := take(ctx, 1000); !errors.Is(err, errWaits) {
			t.Fatalf("one larger than the whole, beside another: %v", err)
		}
		if _, err := take(ctx, 1); !errors.Is(err, errWaits) {
			t.Errorf("one that comes later goes first: %v", err)
		}
		if s, ok := b.Try(40); !ok {
			t.Error("the reserve waits for those who start work")
		} else {
			s.Release()
		}
		if _, ok := b.Try(41); ok {
			t.Error("more than there is")
		}
		cancel()
		synctest.Wait()
		if b.used != 60 || len(b.waiting) != 0 {
			t.Fatalf("%d used, %d wait after they gave up", b.used, len(b.waiting))
		}
		first.Release()
		first.Release()
		all, err := take(t.Context(), 1000)
		if err != nil || b.used != 90 {
			t.Fatalf("alone: %d used, %v", b.used, err)
		}
		rest := all.Split(40)
		all.Release()
		if b.used != 40 {
			t.Errorf("%d used after a part came back", b.used)
		}
		if more := rest.Split(1000); more.n != 40 || rest.n != 0 {
			t.Errorf("%d and %d of 40", more.n, rest.n)
		} else {
			more.Release()
		}
		if b.used != 0 {
			t.Errorf("%d used at the end", b.used)
		}
	})
}

var errWaits = errors.New("it waits")

// TestTheBudgetIsNeverExceeded: with many concurrent requests the sum stays within the budget, and all are granted.
func TestTheBudgetIsNeverExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1000, 0)
		var held, most, served atomic.Int64
		for i := range int64(200) {
			go func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%7 == 0 {
					cancel()
				}
				n := i*37%1300 + 1
				s, err := b.Take(ctx, n)
				if err != nil {
					served.Add(1)
					return
				}
				now := held.Add(min(n, 1000))
				for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
				}
				held.Add(-min(n, 1000))
				s.Release()
				served.Add(1)
			}()
		}
		synctest.Wait()
		if served.Load() != 200 || most.Load() > 1000 || b.used != 0 || len(b.waiting) != 0 {
			t.Errorf("%d served, %d at most, %d used, %d wait", served.Load(), most.Load(), b.used, len(b.waiting))
		}
	})
}

func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, 10)
		first, err := b.Take(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		held := make(chan func(), 1)
		go func() {
			release, err := b.Alone(t.Context())
			if err != nil {
				t.Error(err)
			}
			held <- release
		}()
		synctest.Wait()
		if len(held) != 0 {
			t.Fatal("it holds beside another")
		}
		first.Release()
		release := <-held
		if b.used != 90 {
			t.Errorf("%d used", b.used)
		}
		release()
		if b.used != 0 {
			t.Errorf("%d used at the end", b.used)
		}
	})
}

func TestNoBudget(t *testing.T) {
	var b *Budget
	s, err := b.Take(t.Context(), 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	s.Split(5).Release()
	s.Release()
	if s, ok := b.Try(1); !ok {
		t.Error("nothing bounds")
	} else {
		s.Release()
	}
}
