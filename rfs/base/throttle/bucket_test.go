package throttle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/throttle"
)

func TestSlotsTogetherKeepToTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, body, bodies, slots = 10_000_000, 5_000_000, 20, 4
		b := throttle.New(rate)
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
		b := throttle.New(1000)
		begin := time.Now()
		if err := errors.Join(b.Take(t.Context(), 5000), b.Take(t.Context(), 1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 5*time.Second || took > 5100*time.Millisecond {
			t.Errorf("both took %v", took)
		}
	})
}

func TestAllow(t *testing.T) {
	ends := func(after time.Duration) func() time.Duration {
		end := time.Now().Add(after)
		return func() time.Duration { return time.Until(end) }
	}
	// Each case takes one body of 1000 bytes while the rate changes; want is when it may be sent.
	for _, c := range []struct {
		name   string
		change func(*throttle.Bucket)
		want   time.Duration
	}{
		{"a higher rate holds for a request that waits", func(b *throttle.Bucket) { b.Allow(1, nil); time.Sleep(time.Second); b.Allow(999, nil) }, 2 * time.Second},
		{"a lower rate does, too", func(b *throttle.Bucket) { b.Allow(1000, nil); time.Sleep(500 * time.Millisecond); b.Allow(50, nil) }, 19500 * time.Millisecond},
		{"nothing is sent without a permit", func(b *throttle.Bucket) { b.Allow(0, nil); time.Sleep(time.Hour); b.Allow(1000, nil) }, time.Hour + time.Second},
		{"nothing is sent after the end", func(b *throttle.Bucket) {
			b.Allow(100, ends(5*time.Second))
			time.Sleep(time.Minute)
			b.Allow(100, nil)
		}, time.Minute + 6*time.Second},
		{"an end that moves changes nothing else", func(b *throttle.Bucket) {
			for range 20 {
				b.Allow(100, ends(time.Second))
				time.Sleep(500 * time.Millisecond)
			}
		}, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := throttle.New(1)
				b.Allow(0, nil)
				begin, took := time.Now(), time.Duration(0)
				var sent sync.WaitGroup
				sent.Go(func() {
					if err := b.Take(t.Context(), 1000); err != nil {
						t.Error(err)
					}
					took = time.Since(begin)
				})
				synctest.Wait()
				c.change(b)
				sent.Wait()
				if off := took - c.want; off.Abs() > 600*time.Millisecond {
					t.Errorf("sent after %v, want %v", took, c.want)
				}
			})
		})
	}
}

func TestInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := throttle.New(0)
		if b.InUse() != 0 || b.Take(t.Context(), 1<<30) != nil {
			t.Errorf("%d without a limit", b.InUse())
		}
		end := time.Now().Add(time.Minute)
		b.Allow(70, func() time.Duration { return time.Until(end) })
		if b.InUse() != 70 || !b.Used(time.Second) {
			t.Errorf("%d before the end", b.InUse())
		}
		time.Sleep(2 * time.Minute)
		if b.InUse() != 0 || b.Used(time.Second) {
			t.Errorf("%d after the end", b.InUse())
		}
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := throttle.New(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Take(ctx, 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		// What was not sent is not charged.
		begin := time.Now()
		if err := b.Take(t.Context(), 1); err != nil || time.Since(begin) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestWhatIsNotUsedIsKeptForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := throttle.New(100)
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

// TestBucket_End: waiting and later requests return the reason, even if the rate is changed afterwards.
func TestBucket_End(t *testing.T) {
	for _, rate := range []int64{0, 10, 1 << 30} {
		synctest.Test(t, func(t *testing.T) {
			b, gone := throttle.New(1), errors.New("gone")
			b.Allow(rate, nil)
			waits := make(chan error, 1)
			if rate < 100 {
				go func() { waits <- b.Take(t.Context(), 1<<20) }()
				time.Sleep(time.Second)
			} else {
				waits <- gone
			}
			b.End(gone)
			b.Allow(1<<30, nil)
			if err := <-waits; !errors.Is(err, gone) {
				t.Errorf("rate %d: the request that waited: %v", rate, err)
			}
			if err := b.Take(t.Context(), 1); !errors.Is(err, gone) {
				t.Errorf("rate %d: a later request: %v", rate, err)
			}
		})
	}
}
