package throttle

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSlotsTogetherKeepToTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, body, bodies, slots = 10_000_000, 5_000_000, 20, 4
		b := New(rate)
		begin := time.Now()
		var wg sync.WaitGroup
		for range slots {
			wg.Go(func() {
				for range bodies / slots {
					if err := b.Take(t.Context(), body); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); took < 9990*time.Millisecond || took > 10100*time.Millisecond {
			t.Errorf("took %v for %d bytes at %d per second", took, bodies*body, rate)
		}
	})
}

func TestABodyLargerThanTheRatePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1000)
		begin := time.Now()
		if err := errors.Join(b.Take(t.Context(), 5000), b.Take(t.Context(), 1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 5*time.Second || took > 5100*time.Millisecond {
			t.Errorf("both took %v", took)
		}
	})
}

func TestAChangedRateWakesThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1)
		begin := time.Now()
		done := make(chan error)
		go func() { done <- b.Take(t.Context(), 1_000_000) }()
		synctest.Wait()
		b.SetRate(0)
		if err := <-done; err != nil || time.Since(begin) != 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if b.Rate() != 0 {
			t.Error(b.Rate())
		}
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Take(ctx, 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		// What was not sent is nobody's debt.
		begin := time.Now()
		if err := b.Take(t.Context(), 1); err != nil || time.Since(begin) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestWhatIsNotUsedIsKeptForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100)
		time.Sleep(time.Hour)
		begin := time.Now()
		if err := errors.Join(b.Take(t.Context(), 100), b.Take(t.Context(), 100)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 990*time.Millisecond || took > 1100*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}
