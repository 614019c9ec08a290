package trial

import (
	"sync"
	"time"
)

// Bounds of a measurement.
const (
	minFlow = 30 * time.Second // no rate is steady before: a target writes segments in the background, in bursts
	// steady is how far the rates of the last three quarters may lie apart, and those of the beginnings of two measurements by chance.
	steady = 0.1
	// minAnswers are needed in these quarters for a rate to be steady.
	minAnswers = 4
	beginning  = 20 * time.Second // of a measurement, which is compared with that of the one before
)

// Flow measures how many bytes of requests a target takes per second while several are under way. The bytes of a request count
// evenly for the time until its answer, so that there is a rate at every moment, also of few long requests. Times are of one
// monotonic clock. It is safe for concurrent use.
type Flow struct {
	Slots int           // that send
	Most  time.Duration // it lasts, from the first request on
	// Before is the measurement before this one, which has ended; nil: none. Both fill new indices, so that their beginnings
	// differ only when the target itself gets faster.
	Before *Flow
	Again  bool // another measurement follows when this one is a warm-up

	mu      sync.Mutex
	begun   bool
	first   time.Duration // when the first request began
	last    int
	running map[int]time.Duration // when each began
	answers []span
	idle    []span

	compared bool // with the measurement before, so that warmUp is known
	warmUp   bool
}

// span is a part of the time, and the bytes that were taken in it.
type span struct {
	begin, end time.Duration
	bytes      int64
}

// share returns the part of a span that lies in [from, to).
func (s span) share(from, to time.Duration) float64 {
	if s.end == s.begin {
		if s.begin >= from && s.begin < to {
			return 1
		}
		return 0
	}
	return max(0, float64(min(s.end, to)-max(s.begin, from))/float64(s.end-s.begin))
}

// Begin notes the begin of a request, and returns what End takes.
func (f *Flow) Begin(now time.Duration) (request int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.begun {
		f.begun, f.first, f.running = true, now, map[int]time.Duration{}
	}
	f.last++
	f.running[f.last] = now
	return f.last
}

// End notes the end of a request of which the target has taken so many bytes.
func (f *Flow) End(request int, now time.Duration, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = append(f.answers, span{f.running[request], now, bytes})
	delete(f.running, request)
}

// Idle notes a time in which a slot could not send, which does not count.
func (f *Flow) Idle(from, to time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = append(f.idle, span{begin: from, end: to})
}

// Enough reports whether the measurement may end: the rate has settled, it turns out to be a warm-up, or the time is over.
func (f *Flow) Enough(now time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch lasted := now - f.first; {
	case !f.begun:
		return false
	case lasted >= f.Most:
		return true
	case lasted < beginning:
		return false
	}
	known := now
	for _, begin := range f.running {
		known = min(known, begin)
	}
	if !f.compared && known-f.first >= beginning/2 {
		f.compared, f.warmUp = true, f.isWarmUp(known-f.first)
	}
	if f.warmUp {
		return true
	}
	return now-f.first >= minFlow && f.sustained(known).Steady
}

// WarmUp reports whether the measurement says nothing yet: it is the first, or began faster than the one before, as on a node that
// has just started, and another one follows.
func (f *Flow) WarmUp() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.compared {
		return f.warmUp
	}
	return f.isWarmUp(beginning)
}

func (f *Flow) isWarmUp(length time.Duration) bool {
	return f.Again && (f.Before == nil || Faster(f.gain(length)))
}

// Gain returns how many times as fast as the beginning of the measurement before that of this one was; 1 when that is not known.
func (f *Flow) Gain() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gain(beginning)
}

// gain is Gain of the first so much time. The mutex is held.
func (f *Flow) gain(length time.Duration) float64 {
	if f.Before == nil {
		return 1
	}
	f.Before.mu.Lock()
	defer f.Before.mu.Unlock()
	length = min(length, beginning, f.lasted(), f.Before.lasted())
	is, _ := f.rates(f.first, f.first+length)
	was, _ := f.Before.rates(f.Before.first, f.Before.first+length)
	if is <= 0 || was <= 0 {
		return 1
	}
	return is / was
}

// lasted returns the time from the begin of the first request to that of the last: until then all slots sent.
func (f *Flow) lasted() (d time.Duration) {
	for _, a := range f.answers {
		d = max(d, a.begin-f.first)
	}
	return d
}

// Faster reports whether a gain is more than chance.
func Faster(gain float64) bool { return gain > 1+steady }

// Sustained is the rate of a measurement in bytes per second.
type Sustained struct {
	Rate        float64  // of its second half
	Least, Most float64  // of its last two quarters
	Quarters    [4]Taken // what was answered in each
	Steady      bool     // its last three quarters are close to each other
	Requests    float64  // per second
	Body        float64  // bytes of a request, mean
}

// Taken is what a target took in a part of a measurement, and the seconds in which slots could send.
type Taken struct{ Bytes, Seconds float64 }

// Seconds returns how long the target takes to answer some bytes. New indices get slower while they grow, so the first ones take as
// long as in the measurement, and those that exceed it have a rate.
func (s Sustained) Seconds(bytes, rate float64) (seconds float64) {
	for _, q := range s.Quarters {
		if bytes <= q.Bytes {
			return seconds + q.Seconds*bytes/max(1, q.Bytes)
		}
		seconds, bytes = seconds+q.Seconds, bytes-q.Bytes
	}
	return seconds + bytes/rate
}

// Until returns the rates of the measurement, which ends at a time after which no request began. Every request has been answered.
func (f *Flow) Until(end time.Duration) Sustained {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sustained(end)
}

func (f *Flow) sustained(end time.Duration) (s Sustained) {
	quarter := (end - f.first) / 4
	if !f.begun || quarter <= 0 {
		return s
	}
	for i := range s.Quarters {
		s.Quarters[i] = f.answered(f.first+time.Duration(i)*quarter, f.first+time.Duration(i+1)*quarter)
	}
	half, third := end-2*quarter, end-quarter // in the first half the target may warm up
	before, _ := f.rates(f.first+quarter, half)
	a, _ := f.rates(half, third)
	b, _ := f.rates(third, end)
	s.Rate, s.Requests = f.rates(half, end)
	s.Least, s.Most = min(a, b), max(a, b)
	s.Steady = s.Rate > 0 && max(before, s.Most)-min(before, s.Least) <= steady*s.Rate && s.Requests*(end-half).Seconds() >= minAnswers
	if s.Requests > 0 {
		s.Body = s.Rate / s.Requests
	}
	return s
}

// rates returns the bytes and the requests per second of a part of the time.
func (f *Flow) rates(from, to time.Duration) (bytes, requests float64) {
	for _, a := range f.answers {
		share := a.share(from, to)
		bytes, requests = bytes+share*float64(a.bytes), requests+share
	}
	seconds := f.sending(from, to)
	if seconds <= 0 {
		return 0, 0
	}
	return bytes / seconds, requests / seconds
}

// answered returns what was answered in a part of the time.
func (f *Flow) answered(from, to time.Duration) Taken {
	bytes := int64(0)
	for _, a := range f.answers {
		if from < a.end && a.end <= to {
			bytes += a.bytes
		}
	}
	return Taken{float64(bytes), max(0, f.sending(from, to))}
}

// sending returns the seconds of a part of the time without the part of the slots that could not send.
func (f *Flow) sending(from, to time.Duration) float64 {
	seconds := (to - from).Seconds()
	for _, x := range f.idle {
		seconds -= x.share(from, to) * (x.end - x.begin).Seconds() / float64(max(1, f.Slots))
	}
	return seconds
}

// In returns the same measurement in another unit, of which each byte has so many.
func (s Sustained) In(unit float64) Sustained {
	s.Rate, s.Least, s.Most = s.Rate*unit, s.Least*unit, s.Most*unit
	for i := range s.Quarters {
		s.Quarters[i].Bytes *= unit
	}
	return s
}
