package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/retry"
)

func TestOutage_Check(t *testing.T) {
	const s, limit = time.Second, 10 * time.Second
	type call struct {
		took, pause time.Duration
		err         error
	}
	for _, c := range []struct {
		name   string
		calls  []call
		err    error // of the last one; the others may be repeated
		begins int
	}{
		{"as long as the limit", []call{{0, limit, errAway}, {0, 0, errAway}}, nil, 1},
		{"longer than the limit", []call{{0, limit, errAway}, {1, 0, errAway}}, errAway, 1},
		{"it begins with the call that fails", []call{{limit + 1, 0, errAway}}, errAway, 1},
		{"not with the pause before it", []call{{0, time.Hour, nil}, {s, 0, errAway}}, nil, 1},
		{"a success ends it", []call{{0, 9 * s, errAway}, {0, 9 * s, nil}, {s, 0, errAway}}, nil, 2},
		{"an error that does not pass", []call{{0, 0, errOdd}}, errOdd, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begins := 0
				o := retry.Outage{Limit: limit, Now: since(), Begins: func(error) { begins++ }}
				for i, x := range c.calls {
					began := o.Now()
					time.Sleep(x.took)
					err := o.Check(began, x.err)
					if last := i == len(c.calls)-1; !last && err != nil || last && !errors.Is(err, c.err) {
						t.Errorf("call %d: %v", i, err)
					}
					time.Sleep(x.pause)
				}
				if begins != c.begins {
					t.Errorf("%d outages began, want %d", begins, c.begins)
				}
			})
		})
	}
}

// TestOutage_IsOverForAllCallers: one of two callers succeeds while a long call of the other one fails.
func TestOutage_IsOverForAllCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := retry.Outage{Limit: 10 * time.Second, Now: since()}
		time.Sleep(20 * time.Second)
		o.Over()
		time.Sleep(5 * time.Second)
		if err := o.Check(0, errAway); err != nil {
			t.Errorf("%v, 5 s after the success", err)
		}
		time.Sleep(6 * time.Second)
		if err := o.Check(o.Now(), errAway); !errors.Is(err, errAway) {
			t.Errorf("%v, 11 s after the success", err)
		}
	})
}

// TestOutage_OverAt: a success that is recorded later ends only the outages that started before it.
func TestOutage_OverAt(t *testing.T) {
	for _, c := range []struct {
		name    string
		success time.Duration
		err     error
	}{
		{"before the outage", 4 * time.Second, errAway},
		{"during the outage", 14 * time.Second, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := retry.Outage{Limit: 10 * time.Second, Now: since()}
				time.Sleep(5 * time.Second)
				if err := o.Check(o.Now(), errAway); err != nil {
					t.Fatal(err)
				}
				time.Sleep(11 * time.Second)
				o.OverAt(c.success)
				if err := o.Check(c.success, errAway); !errors.Is(err, c.err) {
					t.Errorf("%v, 16 s after the start", err)
				}
			})
		})
	}
}

func TestOutage_Do(t *testing.T) {
	for _, c := range []struct {
		name  string
		errs  []error
		calls int
		took  time.Duration
		text  string
	}{
		{"until it succeeds", []error{errAway, errAway, nil}, 3, 2 * time.Second, ""},
		{"until the limit", []error{errAway}, 5, 4 * time.Second, "gave up after 3s without success; run the same command again to continue: no route to host: unavailable"},
		{"until an error that does not pass", []error{errAway, errOdd}, 2, time.Second, "out of order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now, calls := since(), 0
				o := retry.Outage{Limit: 3 * time.Second, Now: now}
				sleep := func(_ context.Context, d time.Duration) error { time.Sleep(d); return nil }
				err := o.Do(t.Context(), time.Second, sleep, func(context.Context) error {
					calls++
					return c.errs[min(calls, len(c.errs))-1]
				})
				if calls != c.calls || now() != c.took || err == nil != (c.text == "") || err != nil && err.Error() != c.text {
					t.Errorf("%d calls in %v: %v", calls, now(), err)
				}
			})
		})
	}
}
