package throttle

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// flowTarget processes requests concurrently. Requests in flight share a total rate, with a maximum rate each. It rejects requests beyond a
// number.
type flowTarget struct {
	delay time.Duration // of each request, before its bytes
	each  float64       // bytes per second of a request
	all   float64       // bytes per second
	most  int           // requests at the same time; 0: any number

	mu       sync.Mutex
	underWay int
	sharing  int           // of those in progress, the ones whose delay is over
	changed  chan struct{} // closed when sharing changes
	at       time.Time     // of progress
	progress float64       // bytes of a request that has shared from the start
	taken    int64
	refused  int
}

// send processes a request, and returns the accepted bytes.
func (s *flowTarget) send(bytes int) (taken int, overloaded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && s.underWay >= s.most {
		s.refused++
		s.sleep(10 * time.Millisecond)
		return 0, true
	}
	s.underWay++
	s.sleep(s.delay)
	s.share(1)
	for end := s.progress + float64(bytes); s.progress < end; s.share(0) {
		wait := time.Duration((end-s.progress)/s.speed()*float64(time.Second)) + 1
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-changed:
		}
		s.mu.Lock()
	}
	s.share(-1)
	s.underWay--
	s.taken += int64(bytes)
	return bytes, false
}

// sleep sleeps with the mutex unlocked.
func (s *flowTarget) sleep(d time.Duration) {
	s.mu.Unlock()
	defer s.mu.Lock()
	time.Sleep(d)
}

// speed returns the bytes per second of each of the requests in flight.
func (s *flowTarget) speed() float64 { return min(s.each, s.all/float64(s.sharing)) }

// share updates the progress, then changes the number of requests in flight. The mutex is held.
func (s *flowTarget) share(change int) {
	now := time.Now()
	if s.sharing > 0 {
		s.progress += now.Sub(s.at).Seconds() * s.speed()
	}
	s.at = now
	s.sharing += change
	if change != 0 {
		if s.changed != nil {
			close(s.changed)
		}
		s.changed = make(chan struct{})
	}
}

// run sends for a time and returns the bytes per second of the last half of it.
func (s *flowTarget) run(f *Flow, connections int, d time.Duration) float64 {
	var senders sync.WaitGroup
	end := time.Now().Add(d)
	var mu sync.Mutex
	used, free := 0, sync.NewCond(&mu)
	for range connections {
		senders.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for time.Now().Before(end) {
				if used >= f.Requests() {
					free.Wait()
					continue
				}
				used++
				mu.Unlock()
				done := f.Begin()
				taken, overloaded := s.send(f.Bytes())
				done(taken, overloaded)
				mu.Lock()
				used--
				free.Broadcast()
				if overloaded {
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
					mu.Lock()
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

// TestFlowFollowsTheThroughput: the number of requests grows while that raises the throughput, not further, and adapts both ways when the
// target changes.
func TestFlowFollowsTheThroughput(t *testing.T) {
	for _, c := range []struct {
		name        string
		target      *flowTarget
		most        int
		least, last float64 // part of the rate that the target can take; requests at the end, at most
	}{
		{"a target that takes all immediately", &flowTarget{each: 5 * mb, all: 1000 * mb}, 32, 0.95, 32},
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

// TestFlowMeasuresWhatOneNumberBrings: requests that start while their number doubles, or falls, are answered at another speed than later
// ones, and prove nothing.
func TestFlowMeasuresWhatOneNumberBrings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type request struct {
			answered time.Time
			end      func(taken int, overloaded bool)
		}
		const all = 80 * mb
		f := NewFlow(32, 5*mb)
		var requests []request // the first answered first
		most, begin := 0, time.Now()
		for time.Since(begin) < time.Minute {
			for len(requests) < f.Requests() {
				// Four fill the target. It gives each request the part that was left when it was started.
				took := time.Duration(5 * mb * float64(max(len(requests)+1, 4)) / all * float64(time.Second))
				requests = append(requests, request{time.Now().Add(took), f.Begin()})
			}
			slices.SortStableFunc(requests, func(a, b request) int { return a.answered.Compare(b.answered) })
			time.Sleep(time.Until(requests[0].answered))
			requests[0].end(5*mb, false)
			requests = requests[1:]
			most = max(most, f.Requests())
		}
		if most > 8 {
			t.Errorf("%d requests were tried, twice 4 bring nothing", most)
		}
	})
}

// TestFlow_RefusalsOfOneIndex: half of the requests are refused, for their index alone, while more are tried. That says nothing of the target.
func TestFlow_RefusalsOfOneIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFlow(32, mb)
		for range 20 { // the target answers any number of requests after 200 ms
			first := f.Requests() == firstRequests
			var ends []func(taken int, overloaded bool)
			for range f.Requests() {
				ends = append(ends, f.Begin())
			}
			time.Sleep(200 * time.Millisecond)
			for i, end := range ends {
				if !first && i%2 == 0 {
					end(0, false)
				} else {
					end(mb, false)
				}
			}
		}
		if f.Requests() < 16 {
			t.Errorf("%d requests in flight after 4 s", f.Requests())
		}
	})
}

// TestFlowHalvesOnOverload halves number and length, once for all requests in flight; afterwards both rise again.
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
