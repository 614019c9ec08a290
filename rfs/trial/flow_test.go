package trial

import (
	"math"
	"testing"
	"time"
)

const maxFlow = 45 * time.Second

// flowOf sends requests of 1,000 bytes one after the other, each as long as took says at its begin.
func flowOf(slots int, length time.Duration, took func(at time.Duration) time.Duration) (*Flow, time.Duration) {
	f, at := &Flow{Slots: slots}, time.Duration(0)
	for at < length {
		request := f.Begin(at)
		at += took(at)
		f.End(request, at, 1000)
	}
	return f, at
}

func always(d time.Duration) func(time.Duration) time.Duration {
	return func(time.Duration) time.Duration { return d }
}

func TestTheRateIsThatOfTheSecondHalf(t *testing.T) {
	f, end := flowOf(1, 40*time.Second, func(at time.Duration) time.Duration { // four times as slow at first
		if at < 8*time.Second {
			return time.Second
		}
		return time.Second / 4
	})
	s := f.Until(end)
	if math.Abs(s.Rate-4000) > 1 || !s.Steady || math.Abs(s.Requests-4) > 0.01 || math.Abs(s.Body-1000) > 1 {
		t.Errorf("%+v", s)
	}
	if half := s.In(0.5); half.Rate != s.Rate/2 || half.Least != s.Least/2 || half.Most != s.Most/2 {
		t.Errorf("%+v", half)
	}
}

func TestARequestCountsForAsLongAsItLasts(t *testing.T) {
	f := &Flow{Slots: 1}
	a := f.Begin(0) // 30 s beside others of 1 s
	for at := time.Duration(0); at < 40*time.Second; at += time.Second {
		b := f.Begin(at)
		f.End(b, at+time.Second, 1000)
	}
	f.End(a, 30*time.Second, 30_000)
	if s := f.Until(40 * time.Second); math.Abs(s.Rate-1500) > 1 || math.Abs(s.Least-1000) > 1 || math.Abs(s.Most-2000) > 1 || s.Steady {
		t.Errorf("%+v", s)
	}
}

func TestASlotThatCannotSendDoesNotCount(t *testing.T) {
	f, end := flowOf(2, 40*time.Second, always(time.Second))
	f.Idle(30*time.Second, 40*time.Second) // one of two slots for a half of what counts
	if s := f.Until(end); math.Abs(s.Rate-1000/0.75) > 1 {
		t.Errorf("%+v", s)
	}
	f.Idle(0, 40*time.Second)
	f.Idle(0, 40*time.Second)
	if s := f.Until(end); s.Rate != 0 || s.Steady {
		t.Errorf("nothing was sent: %+v", s)
	}
}

func TestAMeasurementEndsWhenTheRateHasSettled(t *testing.T) {
	f := &Flow{Slots: 1, Most: maxFlow}
	if f.Enough(time.Hour) {
		t.Error("before the first request")
	}
	ends := func(took func(at time.Duration) time.Duration) time.Duration {
		f, at := &Flow{Slots: 1, Most: maxFlow}, time.Duration(0)
		for !f.Enough(at) {
			request := f.Begin(at)
			at += took(at)
			f.End(request, at, 1000)
		}
		return at
	}
	if at := ends(always(time.Second / 2)); at != minFlow {
		t.Errorf("a steady rate: %v", at)
	}
	warm := ends(func(at time.Duration) time.Duration { return max(time.Second/10, time.Second-at/10) })
	if warm <= minFlow || warm >= maxFlow {
		t.Errorf("a rate that settles after 9 s: %v", warm)
	}
	if at := ends(func(at time.Duration) time.Duration {
		if at/(13*time.Second)%2 == 0 {
			return time.Second
		}
		return time.Second / 3
	}); at < maxFlow || at > maxFlow+time.Second {
		t.Errorf("a rate that never settles: %v", at)
	}
	if at := ends(always(20 * time.Second)); at < maxFlow {
		t.Errorf("few long requests: %v", at)
	}
	f.Begin(0) // it is not answered
	if f.Enough(minFlow) || !f.Enough(maxFlow) {
		t.Error("with a request under way")
	}
}
