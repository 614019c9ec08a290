package timing_test

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

func TestLeaseDoublesUpToItsLimit(t *testing.T) {
	for _, tc := range []struct {
		k    int
		want time.Duration
	}{{0, 10 * time.Minute}, {1, 20 * time.Minute}, {2, 40 * time.Minute}, {5, 320 * time.Minute}, {6, 6 * time.Hour}, {10, 6 * time.Hour}, {1 << 30, 6 * time.Hour}, {-3, 10 * time.Minute}} {
		if got := timing.LeaseLength(10*time.Minute, tc.k, 6*time.Hour); got != tc.want {
			t.Errorf("k=%d: %v, want %v", tc.k, got, tc.want)
		}
	}
}

func TestHandoffStartsEarly(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 7*time.Minute + 30*time.Second,
		18 * time.Minute: 13*time.Minute + 30*time.Second,
		60 * time.Minute: 55*time.Minute + 30*time.Second,
		20 * time.Second: 15 * time.Second,
	} {
		if got := timing.TriggerAfter(lease); got != want {
			t.Errorf("%v: %v, want %v", lease, got, want)
		}
	}
}

func TestMarginsShrinkWithShortLeases(t *testing.T) {
	if timing.Margin(10*time.Minute) != 15*time.Second || timing.Margin(20*time.Second) != 2*time.Second {
		t.Error("margin")
	}
	if timing.Grace(10*time.Minute) != 5*time.Second || timing.Grace(20*time.Second) != time.Second {
		t.Error("grace")
	}
	if timing.SetupLease(10*time.Minute) != 5*time.Minute || timing.SetupLease(20*time.Second) != 20*time.Second {
		t.Error("setup lease")
	}
}

func TestSuccessorLeaseIsSizedByTheShareOfSetup(t *testing.T) {
	const w = 10 * time.Minute
	for _, tc := range []struct {
		name         string
		lease, setup time.Duration
		want         int
	}{
		{"exactly 2.5 %", 40 * time.Minute, time.Minute, 2},
		{"under 2.5 %", 40 * time.Minute, time.Minute - time.Millisecond, 1},
		{"exactly 10 %", 40 * time.Minute, 4 * time.Minute, 2},
		{"over 10 %", 40 * time.Minute, 4*time.Minute + time.Millisecond, 3},
		{"short and at the floor", w, 0, 0},
		{"too short a lease", w, 2 * time.Minute, 1},
		{"another initial lease than the parent's", 80 * time.Minute, 4 * time.Minute, 3},
		{"shorter than the initial lease", time.Minute, 3 * time.Second, 0},
		{"never above the limit", w << 10, w << 9, timing.MaxExponent},
	} {
		if got := timing.RightSize(tc.lease, w, tc.setup); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}
