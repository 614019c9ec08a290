package throttle

import (
	"math"
	"sync"
	"time"
)

// Constants of a Flow.
const (
	firstRequests = 4         // in progress at the same time, until more of them have proven to be of use
	leastBytes    = 256 << 10 // of a request
	sectionTime   = time.Second
	gain          = 1.05 // by which the throughput has to rise for more to be kept
	enough        = 0.98 // to which it may fall for less to be kept
	busy          = 0.7  // part of the requests that were in progress on average, where throughput states what the target can do
	firstHold     = 8    // sections until the next try after one without a gain; doubled with each, up to maxHold
	maxHold       = 64
)

// Flow decides how many requests are in progress at the same time and how long they are, by the throughput that is measured.
// It tries more or longer ones, keeps them while the throughput rises, and goes back otherwise; it also tries whether fewer do.
// When the target reports
// overload it halves both, once for all that were in progress together; then good answers raise the number again up to the one
// that was kept before, and the length is tried. It is safe for concurrent use.
type Flow struct {
	maxRequests, maxBytes int

	mu       sync.Mutex
	requests float64
	bytes    int
	part     float64 // of the length that is used
	kept     step    // the last that has proven to be of use
	underWay int
	epoch    int // counts the halvings

	section *section // nil: not started
	rate    float64  // bytes per second with kept; 0: not measured
	tries   int      // kind of the try in progress, 0: none
	next    int      // kind of the next
	fast    bool     // steps double, until the first without a gain
	hold    int      // sections until the next try
	pause   int      // how long the next hold is
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

// section is a part of the time in which throughput is measured. It starts when as many requests are in progress as may be: those
// that are started while the number still rises or falls are answered at the speed of another number, so that each step would
// seem to be a gain.
type section struct {
	begin, last time.Time // last: when the number of requests in progress has changed
	area        float64   // requests in progress × seconds
	// Of the requests that were started and answered in it:
	answers   int
	bytes     int64 // that the target has taken
	spent     time.Duration
	disturbed bool // by an overload
}

// NewFlow returns a Flow that starts with at most firstRequests requests of the full length. The bounds are at least 1.
func NewFlow(maxRequests, maxBytes int) *Flow {
	maxRequests, maxBytes = max(maxRequests, 1), max(maxBytes, 1)
	f := &Flow{maxRequests: maxRequests, maxBytes: maxBytes, requests: float64(min(maxRequests, firstRequests)), bytes: maxBytes, part: 1, fast: true, pause: firstHold}
	f.kept = step{f.requests, f.bytes}
	return f
}

// Requests returns how many requests may be in progress at the same time.
func (f *Flow) Requests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int(f.requests)
}

// Bytes returns how long a request may be.
func (f *Flow) Bytes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(f.bytes, max(leastBytes, int(f.part*float64(f.bytes))))
}

// Shorten makes requests shorter: part of their length, between 0 and 1, until it is called again.
func (f *Flow) Shorten(part float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.part = part
}

// Begin is called when a request is sent, and end when it was answered: with the bytes that the target has taken, and whether it
// reports overload.
func (f *Flow) Begin() (end func(taken int, overloaded bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	epoch, begin := f.epoch, time.Now()
	f.count(begin, 1)
	s := f.section
	return func(taken int, overloaded bool) { f.end(epoch, s, begin, taken, overloaded) }
}

// count changes how many requests are in progress, and starts a section. The mutex is held.
func (f *Flow) count(now time.Time, change int) {
	before := f.underWay
	f.underWay += change
	switch s := f.section; {
	case s != nil:
		s.area += float64(before) * now.Sub(s.last).Seconds()
		s.last = now
	case f.underWay == int(f.requests):
		f.section = &section{begin: now, last: now}
	}
}

// end counts the answer to a request that was started in s.
func (f *Flow) end(epoch int, s *section, begin time.Time, taken int, overloaded bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.count(now, -1)
	if s != nil && s == f.section {
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

// disturb makes the section inconclusive. The mutex is held.
func (f *Flow) disturb() {
	if f.section != nil {
		f.section.disturbed = true
	}
}

// halve lowers number and length. The mutex is held.
func (f *Flow) halve() {
	f.epoch++
	f.requests = max(1, math.Floor(f.requests/2))
	f.bytes = max(min(leastBytes, f.maxBytes), f.bytes/2)
	if f.rate > 0 { // else the steps have not started: the refusals may be of one index
		f.fast, f.hold = false, firstHold
	}
	f.kept.bytes, f.rate, f.tries, f.pause = f.bytes, 0, none, firstHold
	f.section = nil
}

// measure ends a section when it is conclusive. The mutex is held.
func (f *Flow) measure(now time.Time) {
	s := f.section
	if s == nil || now.Sub(s.begin) < sectionTime || s.answers < 2*int(f.requests) {
		return
	}
	took := now.Sub(s.begin)
	f.section = nil
	if s.disturbed || s.area < busy*math.Floor(f.requests)*took.Seconds() {
		return // it states nothing about what the target can do
	}
	// Bytes per second of one request, by the number of requests: the end of a section between answers does not matter.
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

// try takes the next step, of the other kind where one is at its bound. The mutex is held.
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
