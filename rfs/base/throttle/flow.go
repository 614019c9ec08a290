package throttle

import (
	"math"
	"sync"
	"time"
)

// Constants of a Flow.
const (
	firstRequests = 4         // in flight at the start, until more have proven useful
	leastBytes    = 256 << 10 // of a request
	sectionTime   = time.Second
	gain          = 1.05 // required rise of the throughput to keep more requests
	enough        = 0.98 // fraction of the throughput required to keep fewer requests
	busy          = 0.7  // required average fraction of the requests in flight for the throughput to be meaningful
	firstHold     = 8    // sections until the next try after one without a gain; doubled each time up to maxHold
	maxHold       = 64
)

// Flow adapts the number of requests in flight and their length to the measured throughput. It tries more or longer requests, keeps them
// while the throughput rises, and otherwise reverts; it also tries fewer. When the target reports overload, it halves both, once for all
// requests that were in flight together. Then successful responses raise the number again to the previously kept one, and the length is
// tried. It is safe for concurrent use.
type Flow struct {
	maxRequests, maxBytes int

	mu       sync.Mutex
	requests float64
	bytes    int
	part     float64 // fraction of the length in use
	kept     step    // the last that proved useful
	inFlight int
	epoch    int // counts the halvings

	section *section // nil: not started
	rate    float64  // bytes per second of kept; 0: not measured
	tries   int      // kind of the current try; 0: none
	next    int      // kind of the next try
	fast    bool     // steps double, until the first one without a gain
	hold    int      // sections until the next try
	pause   int      // length of the next hold
}

// step is a number and a length of requests.
type step struct {
	requests float64
	bytes    int
}

// Kinds of tries.
const (
	none = iota
	moreRequests
	longerRequests
	fewerRequests
)

// section is a period in which throughput is measured. It starts when the allowed number of requests is in flight: requests that start
// while the number still rises or falls are answered at the speed of another number, so that each step would seem to be a gain.
type section struct {
	begin, last time.Time // last: when the number of requests in flight last changed
	area        float64   // requests in flight × seconds
	// Requests that started and ended in the section; the target accepted at least a part of each:
	answers   int
	bytes     int64
	spent     time.Duration
	disturbed bool // by an overload
}

// NewFlow returns a Flow that starts with at most firstRequests requests of full length. The limits are at least 1.
func NewFlow(maxRequests, maxBytes int) *Flow {
	maxRequests, maxBytes = max(maxRequests, 1), max(maxBytes, 1)
	f := &Flow{maxRequests: maxRequests, maxBytes: maxBytes, requests: float64(min(maxRequests, firstRequests)), bytes: maxBytes, part: 1, fast: true, pause: firstHold}
	f.kept = step{f.requests, f.bytes}
	return f
}

// Requests returns how many requests may be in flight.
func (f *Flow) Requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int(f.requests)
}

// Bytes returns the maximum length of a request.
func (f *Flow) Bytes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(f.bytes, max(leastBytes, int(f.part*float64(f.bytes))))
}

// Shorten reduces the length of requests to a fraction between 0 and 1, until it is called again.
func (f *Flow) Shorten(part float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.part = part
}

// Begin is called when a request is sent, and end when it has ended, with the bytes that the target accepted and whether it reported
// overload.
func (f *Flow) Begin() (end func(taken int, overloaded bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	epoch, begin := f.epoch, time.Now()
	f.count(begin, 1)
	s := f.section
	return func(taken int, overloaded bool) { f.end(epoch, s, begin, taken, overloaded) }
}

// count changes the number of requests in flight, and starts a section if due. f.mu is held.
func (f *Flow) count(now time.Time, change int) {
	before := f.inFlight
	f.inFlight += change
	switch s := f.section; {
	case s != nil:
		s.area += float64(before) * now.Sub(s.last).Seconds()
		s.last = now
	case f.inFlight == int(f.requests):
		f.section = &section{begin: now, last: now}
	}
}

// end counts the response to a request that started in s.
func (f *Flow) end(epoch int, s *section, begin time.Time, taken int, overloaded bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.count(now, -1)
	if s != nil && s == f.section && taken > 0 { // failures and the refusals of one index prove nothing about the throughput
		s.answers++
		s.bytes += int64(taken)
		s.spent += now.Sub(begin)
	}
	switch {
	case overloaded && epoch == f.epoch:
		f.halve()
	case overloaded:
		f.disturb()
	case taken > 0 && f.tries == none && f.requests < f.kept.requests:
		f.requests = min(f.kept.requests, f.requests+1/f.requests)
		f.disturb()
	}
	f.measure(now)
}

// disturb makes the section inconclusive. f.mu is held.
func (f *Flow) disturb() {
	if f.section != nil {
		f.section.disturbed = true
	}
}

// halve halves number and length. f.mu is held.
func (f *Flow) halve() {
	f.epoch++
	f.requests = max(1, math.Floor(f.requests/2))
	f.bytes = max(min(leastBytes, f.maxBytes), f.bytes/2)
	if f.rate > 0 { // before the first measurement the refusals may be those for one index
		f.fast, f.hold = false, firstHold
	}
	f.kept.bytes, f.rate, f.tries, f.pause = f.bytes, 0, none, firstHold
	f.section = nil
}

// measure ends a section once it is conclusive. f.mu is held.
func (f *Flow) measure(now time.Time) {
	s := f.section
	if s == nil || now.Sub(s.begin) < sectionTime || s.answers < 2*int(f.requests) {
		return
	}
	took := now.Sub(s.begin)
	f.section = nil
	if s.disturbed || s.area < busy*math.Floor(f.requests)*took.Seconds() {
		return // inconclusive about the target's capacity
	}
	// Bytes per second of one request, times the number of requests: it does not matter that the section ends between responses.
	rate := float64(s.bytes) / max(s.spent.Seconds(), 1e-9) * s.area / took.Seconds()
	switch {
	case f.tries == none && f.rate == 0:
		f.rate = rate
	case f.tries == none:
		f.rate = (f.rate + rate) / 2
	case rate >= f.rate*gain, f.tries == fewerRequests && rate >= f.rate*enough:
		f.kept, f.rate, f.pause, f.hold = step{f.requests, f.bytes}, rate, firstHold, 0
		f.next = f.tries // the same again
	default:
		f.requests, f.bytes = f.kept.requests, f.kept.bytes
		f.next = f.tries%fewerRequests + 1
		if f.fast && f.tries == moreRequests {
			f.fast = false
		} else {
			f.hold, f.pause = f.pause, min(2*f.pause, maxHold)
		}
	}
	f.tries = none
	if f.hold > 0 {
		f.hold--
		return
	}
	f.try()
}

// try takes the next step, of another kind if the first is at its limit. f.mu is held.
func (f *Flow) try() {
	if f.next == none {
		f.next = moreRequests
	}
	for range fewerRequests {
		switch {
		case f.next == moreRequests && f.requests < float64(f.maxRequests):
			step := max(1, math.Floor(f.requests/4))
			if f.fast {
				step = f.requests
			}
			f.requests = min(float64(f.maxRequests), f.requests+step)
			f.tries = moreRequests
			return
		case f.next == fewerRequests && f.requests > firstRequests:
			f.requests = max(firstRequests, math.Floor(f.requests*3/4))
			f.tries = fewerRequests
			return
		case f.next == longerRequests && f.bytes < f.maxBytes:
			f.bytes = min(f.maxBytes, 2*f.bytes)
			f.tries = longerRequests
			return
		}
		f.next = f.next%fewerRequests + 1
	}
}
