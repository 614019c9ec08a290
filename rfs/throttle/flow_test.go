package throttle

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// flowTarget takes requests side by side at a rate for each, up to a rate of all, and refuses those beyond a number.
type flowTarget struct {
	mu       sync.Mutex
	delay    time.Duration // of each request, besides its bytes
	each     float64       // bytes per second of a request
	all      float64       // bytes per second
	most     int           // requests at the same time; 0: any number
	underWay int
	taken    int64
	refused  int
}

// send takes a request, and returns how much of it.
func (s *flowTarget) send(bytes int) (taken int, overloaded bool) {
	s.mu.Lock()
	if s.most > 0 && s.underWay >= s.most {
		s.refused++
		s.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		return 0, true
	}
	s.underWay++
	took := s.delay + time.Duration(float64(bytes)/min(s.each, s.all/float64(s.underWay))*float64(time.Second))
	s.mu.Unlock()
	time.Sleep(took)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	s.taken += int64(bytes)
	return bytes, false
}

// run sends for a time and returns the bytes per second of its last half.
func (s *flowTarget) run(f *Flow, connections int, d time.Duration) float64 {
	var senders sync.WaitGroup
	end := time.Now().Add(d)
	var mu sync.Mutex
	used := 0
	for range connections {
		senders.Go(func() {
			for time.Now().Before(end) {
				mu.Lock()
				if used >= f.Requests() {
					mu.Unlock()
					time.Sleep(5 * time.Millisecond)
					continue
				}
				used++
				mu.Unlock()
				done := f.Begin()
				taken, overloaded := s.send(f.Bytes())
				done(taken, overloaded)
				mu.Lock()
				used--
				mu.Unlock()
				if overloaded {
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
	}
	time.Sleep(d / 2)
	s.mu.Lock()
	before := s.taken
	s.mu.Unlock()
	senders.Wait()
	return float64(s.taken-before) / (d / 2).Seconds()
}

const mb = 1 << 20

// TestFlowFollowsTheThroughput: more requests while that brings more, no more than are of use, and both ways when the target
// changes.
func TestFlowFollowsTheThroughput(t *testing.T) {
	for _, c := range []struct {
		name        string
		target      *flowTarget
		most        int
		least, last float64 // part of the rate that the target can take; requests at the end, at most
	}{
		{"a target that takes all at once", &flowTarget{each: 5 * mb, all: 1000 * mb}, 32, 0.95, 32},
		{"one that four fill", &flowTarget{each: 20 * mb, all: 80 * mb}, 32, 0.95, 6},
		{"one that ten fill", &flowTarget{each: 10 * mb, all: 100 * mb}, 32, 0.9, 20},
		{"one request is allowed", &flowTarget{each: 10 * mb, all: 100 * mb}, 1, 0.95, 1},
		{"a target that refuses more than six", &flowTarget{each: 10 * mb, all: 60 * mb, most: 6}, 32, 0.6, 12},
		{"one that takes a second for each request", &flowTarget{each: 100 * mb, all: 1000 * mb, delay: time.Second}, 16, 0.9, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := NewFlow(c.most, 5*mb)
				can := min(c.target.all, c.target.each*float64(c.most))
				if c.target.delay > 0 {
					can = float64(c.most) * 5 * mb / (c.target.delay.Seconds() + 5*mb/c.target.each)
				}
				rate := c.target.run(f, c.most, time.Minute)
				if rate < c.least*can || f.Requests() > int(c.last) {
					t.Errorf("%.1f MiB/s of %.1f, %d requests of %d bytes", rate/mb, can/mb, f.Requests(), f.Bytes())
				}
				t.Logf("%.1f MiB/s of %.1f, %d requests of %d KiB, %d refused", rate/mb, can/mb, f.Requests(), f.Bytes()>>10, c.target.refused)
			})
		})
	}
}

// TestFlowHalvesOnOverload, number and length, once for all that were under way; afterwards both rise again.
func TestFlowHalvesOnOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFlow(4, 4*mb)
		var ends []func(int, bool)
		for range 4 {
			ends = append(ends, f.Begin())
		}
		for _, end := range ends {
			end(0, true)
		}
		if f.Requests() != 2 || f.Bytes() != 2*mb {
			t.Errorf("%d requests of %d bytes", f.Requests(), f.Bytes())
		}
		for range 10 {
			f.Begin()(0, true)
		}
		if f.Requests() != 1 || f.Bytes() != leastBytes {
			t.Errorf("%d requests of %d bytes after more of them", f.Requests(), f.Bytes())
		}
		// A request takes 100 ms whatever its length.
		s := &flowTarget{delay: 100 * time.Millisecond, each: 1e12, all: 1e12}
		s.run(f, 4, 2*time.Second)
		if f.Requests() != 4 {
			t.Errorf("%d requests 2 s later", f.Requests())
		}
		s.run(f, 4, time.Minute)
		if f.Bytes() != 4*mb {
			t.Errorf("%d bytes 2 minutes later", f.Bytes())
		}
		f.Shorten(1.0 / 8)
		if f.Bytes() != mb/2 {
			t.Errorf("%d bytes of an eighth", f.Bytes())
		}
	})
}
