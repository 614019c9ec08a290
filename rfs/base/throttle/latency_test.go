package throttle_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/throttle"
)

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// answered makes one request with a duration, and returns its part and the pause of its reader.
func answered(t *testing.T, l *throttle.Latency, took time.Duration) (part float64, paused time.Duration) {
	t.Helper()
	part, end := l.Begin()
	time.Sleep(took)
	begin := time.Now()
	if err := end(t.Context()); err != nil {
		t.Fatal(err)
	}
	return part, time.Since(begin)
}

func fixed(limit time.Duration) func() time.Duration { return func() time.Duration { return limit } }

// TestLatency_LimitChanges: a limit that is set or removed during requests takes effect.
func TestLatency_LimitChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := time.Duration(0)
		l := throttle.NewLatency(func() time.Duration { return limit }, sleep)
		for _, c := range []struct{ limit, took, paused time.Duration }{
			{0, time.Hour, 0}, {time.Second, 2 * time.Second, 0}, {time.Second, 2 * time.Second, 0}, {time.Second, 2 * time.Second, 0}, {time.Second, 2 * time.Second, 0},
			{time.Second, 2 * time.Second, 2 * time.Second}, {0, 2 * time.Second, 0}, {time.Hour, 2 * time.Second, 0},
		} {
			limit = c.limit
			if _, paused := answered(t, l, c.took); paused != c.paused {
				t.Errorf("limit %v, an answer after %v: a pause of %v, want %v", c.limit, c.took, paused, c.paused)
			}
		}
		if l.Share() != 1 {
			t.Errorf("a share of %v at the end", l.Share())
		}
	})
}

func TestLatency(t *testing.T) {
	const limit = 100 * time.Millisecond
	for _, c := range []struct {
		name   string
		took   []time.Duration // of answers in sequence
		share  float64         // behind them
		part   float64         // of the next request
		paused time.Duration   // behind the last
	}{
		{"fast answers change nothing", []time.Duration{limit / 2, limit / 2}, 1, 1, 0},
		{"one slow answer halves the load", []time.Duration{2 * limit}, 0.5, 0.5, 0},
		{"requests become smaller before readers pause", []time.Duration{2 * limit, 2 * limit, 2 * limit, 2 * limit}, 1. / 16, 1. / 16, 0},
		{"then readers pause", []time.Duration{2 * limit, 2 * limit, 2 * limit, 2 * limit, 2 * limit}, 1. / 32, 1. / 16, 2 * limit},
		{"the load never becomes nothing", []time.Duration{
			2 * limit, 2 * limit, 2 * limit, 2 * limit, 2 * limit, 2 * limit, 2 * limit, 2 * limit, 2 * limit, 2 * limit,
		}, 1. / 256, 1. / 16, 30 * limit},
		{"it rises step by step", []time.Duration{2 * limit, limit / 2, limit / 2}, 0.5 + 2./32, 0.5 + 2./32, 0},
		{"near the limit it stays", []time.Duration{2 * limit, limit * 9 / 10, limit}, 0.5, 0.5, 0},
		{"it rises to the full load at most", []time.Duration{0, 0, 0}, 1, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := throttle.NewLatency(fixed(limit), sleep)
				var paused time.Duration
				for _, took := range c.took {
					_, paused = answered(t, l, took)
				}
				part, _ := l.Begin()
				if l.Share() != c.share || part != c.part || paused != c.paused {
					t.Errorf("share %v, part %v, paused %v, want %v, %v, %v", l.Share(), part, paused, c.share, c.part, c.paused)
				}
			})
		})
	}
}

func TestRequestsUnderWayLowerTheLoadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := throttle.NewLatency(fixed(time.Second), sleep)
		var ends []func(context.Context) error
		for range 8 {
			_, end := l.Begin()
			ends = append(ends, end)
		}
		time.Sleep(2 * time.Second)
		for _, end := range ends {
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if l.Share() != 0.5 {
			t.Errorf("share %v, want 0.5", l.Share())
		}
	})
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := throttle.NewLatency(fixed(time.Second), sleep)
		for range 9 {
			answered(t, l, 2*time.Second)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, end := l.Begin()
		time.Sleep(2 * time.Second)
		cancel()
		if err := end(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
