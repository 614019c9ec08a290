package trial

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
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

// recorded returns the requests of a file, up to one that began at a time. Lines are begin and end in milliseconds, and bytes.
func recorded(t *testing.T, name string, until time.Duration) *Flow {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f := &Flow{Slots: 2}
	for {
		var begin, end, bytes int64
		if _, err := fmt.Fscanln(file, &begin, &end, &bytes); errors.Is(err, io.EOF) {
			return f
		} else if err != nil {
			t.Fatal(err)
		}
		if at := time.Duration(begin) * time.Millisecond; at < until {
			f.End(f.Begin(at), time.Duration(end)*time.Millisecond, bytes)
		}
	}
}

// TestATargetThatWarmsUpIsRecognized replays what nodes of OpenSearch answered right after their start, and what they answered to the
// migration that followed, whose indices were new as well.
func TestATargetThatWarmsUpIsRecognized(t *testing.T) {
	const all = time.Minute
	slower := func(f *Flow, times float64) *Flow {
		g := &Flow{Slots: f.Slots}
		for _, a := range f.answers {
			g.End(g.Begin(time.Duration(times*float64(a.begin))), time.Duration(times*float64(a.end)), a.bytes)
		}
		return g
	}
	for _, version := range []string{"2.19.4", "3.8.0"} {
		cold, warm := recorded(t, "cold-"+version+".txt", all), recorded(t, "warm-"+version+".txt", all)
		for _, c := range []struct {
			name         string
			before, flow *Flow
			again        bool
			warmUp       bool
		}{
			{"the first", nil, warm, true, true},
			{"the first, and no other follows", nil, warm, false, false},
			{"faster", cold, warm, true, true},
			{"faster, and no other follows", cold, warm, false, false},
			{"as fast", warm, recorded(t, "warm-"+version+".txt", all), true, false},
			{"as fast but for chance", slower(warm, 1.05), warm, true, false},
			{"slower", warm, cold, true, false},
			{"after one of a second", recorded(t, "warm-"+version+".txt", time.Second), warm, true, false},
		} {
			if c.flow.Before, c.flow.Again = c.before, c.again; c.flow.WarmUp() != c.warmUp {
				t.Errorf("%s, %s: a warm-up: %v, %.2f times as fast", version, c.name, c.flow.WarmUp(), c.flow.Gain())
			}
		}
	}
	none := &Flow{}
	if f := (&Flow{Before: none, Again: true}); f.Gain() != 1 || f.WarmUp() {
		t.Errorf("nothing was sent: %v times as fast", f.Gain())
	}
}

// TestAWarmUpEndsAfterItsBeginning: a measurement that began faster than the one before ends when that is known, as the first does;
// one that did not goes on.
func TestAWarmUpEndsAfterItsBeginning(t *testing.T) {
	ends := func(before *Flow, again bool, took time.Duration) (*Flow, time.Duration) {
		f, at := &Flow{Slots: 1, Most: maxFlow, Before: before, Again: again}, time.Duration(0)
		for !f.Enough(at) {
			request := f.Begin(at)
			at += took
			f.End(request, at, 1000)
		}
		return f, at
	}
	first, at := ends(nil, true, time.Second)
	if at != beginning {
		t.Errorf("the first lasted %v", at)
	}
	second, at := ends(first, true, time.Second/2)
	if at != beginning || math.Abs(second.Gain()-2) > 0.01 {
		t.Errorf("a faster one lasted %v", at)
	}
	if f, at := ends(second, true, time.Second/2); at != minFlow || f.WarmUp() {
		t.Errorf("one as fast lasted %v", at)
	}
	if f, at := ends(first, false, time.Second/2); at != minFlow || f.WarmUp() || f.Gain() < 1.9 {
		t.Errorf("the last lasted %v, though no other follows", at)
	}
	long := &Flow{Slots: 2, Most: maxFlow, Before: first, Again: true}
	request := long.Begin(0) // it is answered late
	for at := time.Duration(0); at < minFlow; at += time.Second / 4 {
		long.End(long.Begin(at), at+time.Second/4, 1000)
	}
	if long.Enough(minFlow) {
		t.Error("with a request of the beginning in progress")
	}
	if long.End(request, minFlow, 1000); !long.Enough(minFlow) || !long.WarmUp() {
		t.Error("when that was answered")
	}
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
		t.Error("with a request in progress")
	}
}
