package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
)

var (
	errAway = fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
	errOdd  = errors.New("out of order")
)

// since returns a clock that starts now.
func since() func() time.Duration {
	begin := time.Now()
	return func() time.Duration { return time.Since(begin) }
}

func TestPolicy_Do(t *testing.T) {
	const s = time.Second
	half := func(d time.Duration) time.Duration { return d / 2 }
	for _, c := range []struct {
		name   string
		policy retry.Policy
		errs   []error // of the calls, the last one of all others
		calls  []time.Duration
		err    error
		text   string
	}{
		{"a success", retry.Policy{Tries: 3, First: s}, []error{nil}, []time.Duration{0}, nil, ""},
		{"pauses double up to the longest", retry.Policy{Tries: 6, First: s, Max: 3 * s}, []error{errAway}, []time.Duration{0, s, 3 * s, 6 * s, 9 * s, 12 * s}, errAway, "after 6 tries: no route to host: unavailable"},
		{"all pauses are the first", retry.Policy{Tries: 3, First: s}, []error{errAway}, []time.Duration{0, s, 2 * s}, errAway, "after 3 tries: no route to host: unavailable"},
		{"jitter", retry.Policy{Tries: 3, First: 2 * s, Max: 9 * s, Jitter: half}, []error{errAway}, []time.Duration{0, s, 3 * s}, errAway, "after 3 tries: no route to host: unavailable"},
		{"it succeeds later", retry.Policy{Tries: 3, First: s}, []error{errAway, nil}, []time.Duration{0, s}, nil, ""},
		{"an error that does not pass", retry.Policy{Tries: 3, First: s}, []error{errAway, errOdd}, []time.Duration{0, s}, errOdd, "out of order"},
		{"other errors pass", retry.Policy{Tries: 2, First: s, Passes: func(err error) bool { return errors.Is(err, errOdd) }}, []error{errOdd, errAway}, []time.Duration{0, s}, errAway, "no route to host: unavailable"},
		{"a least time", retry.Policy{Tries: 2, First: s, Least: 3 * s}, []error{errAway}, []time.Duration{0, s, 2 * s, 3 * s}, errAway, "after 4 tries: no route to host: unavailable"},
		{"calls within a pause", retry.Policy{Tries: 2, First: 5 * s, Unasked: 2 * s}, []error{errAway}, []time.Duration{0, 2 * s, 4 * s, 5 * s}, errAway, "after 4 tries: no route to host: unavailable"},
		{"no time for the next pause", retry.Policy{Tries: 9, First: s, Max: 9 * s, Left: func() time.Duration { return 4 * s }}, []error{errAway}, []time.Duration{0, s, 3 * s}, errAway, "no time for another try: no route to host: unavailable"},
		{"the context ends in a pause", retry.Policy{Tries: 9, First: time.Hour}, []error{errAway}, []time.Duration{0}, context.DeadlineExceeded, "no route to host: unavailable\ncontext deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				now := since()
				c.policy.Now = now
				var calls []time.Duration
				err := c.policy.Do(ctx, func(context.Context) error {
					calls = append(calls, now())
					return c.errs[min(len(calls), len(c.errs))-1]
				})
				if !errors.Is(err, c.err) || err != nil && err.Error() != c.text {
					t.Errorf("%v, want %s", err, c.text)
				}
				if !slices.Equal(calls, c.calls) {
					t.Errorf("called at %v, want %v", calls, c.calls)
				}
			})
		})
	}
}

func TestPolicy_PauseWithoutOverflow(t *testing.T) {
	p := retry.Policy{First: time.Second, Max: time.Hour}
	for _, n := range []int{13, 64, 1 << 40} {
		if d := p.Pause(n); d != time.Hour {
			t.Errorf("pause %d is %v", n, d)
		}
	}
}

func TestSeries_Reset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := retry.Policy{Tries: 2, First: time.Second, Max: time.Minute}.Start()
		for range 5 {
			begin := time.Now()
			if err := s.Again(t.Context(), errAway); err != nil || time.Since(begin) != time.Second {
				t.Fatalf("%v after %v", err, time.Since(begin))
			}
			s.Reset()
		}
		if err := errors.Join(s.Again(t.Context(), errAway), s.Again(t.Context(), errAway)); err == nil || err.Error() != "after 2 tries: no route to host: unavailable" {
			t.Errorf("%v", err)
		}
	})
}

func TestJitter_StaysWithinThePause(t *testing.T) {
	for range 1000 {
		if d := retry.Full(time.Second); d <= 0 || d > time.Second {
			t.Fatalf("full: %v", d)
		}
		if d := retry.Half(time.Second); d < time.Second/2 || d > time.Second {
			t.Fatalf("half: %v", d)
		}
	}
}
