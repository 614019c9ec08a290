package trial

import (
	"sync"
	"time"
)

// Meter measures the bytes of requests that a target accepts per second while several slots send. The bytes of a request are distributed
// evenly over the time until its answer. Times are of one monotonic clock. It is safe for concurrent use.
type Meter struct {
	Slots int // number of sending slots

	mu      sync.Mutex
	answers []span
	idle    []span
}

// span is a period, and the bytes accepted in it.
type span struct {
	begin, end time.Duration
	bytes      int64
}

// share returns the fraction of a span within [from, to).
func (s span) share(from, to time.Duration) float64 {
	if s.end == s.begin {
		if s.begin >= from && s.begin < to {
			return 1
		}
		return 0
	}
	return max(0, float64(min(s.end, to)-max(s.begin, from))/float64(s.end-s.begin))
}

// Sent records a request, from its first byte to its answer, and the number of its bytes that the target accepted.
func (m *Meter) Sent(begin, end time.Duration, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = append(m.answers, span{begin, end, bytes})
}

// Idle records a period in which a slot could not send. It is excluded from the rate.
func (m *Meter) Idle(begin, end time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = append(m.idle, span{begin: begin, end: end})
}

// Rate is the result of a measurement, in bytes per second.
type Rate struct {
	Mean        float64 // of the second half
	Least, Most float64 // lowest and highest rate of the thirds of the second half
	Gain        float64 // rate of the last third of the second half, divided by the rate of its first; 0: unknown
	Requests    float64 // per second
	Body        float64 // mean bytes of a request
}

// Rate returns the rate between two times. All requests have been answered.
func (m *Meter) Rate(begin, end time.Duration) Rate {
	m.mu.Lock()
	defer m.mu.Unlock()
	half, third := begin+(end-begin)/2, (end-begin)/6
	r := Rate{}
	var bytes float64
	r.Mean, r.Requests, bytes = m.between(half, end)
	if r.Requests > 0 {
		r.Body = bytes / r.Requests
	}
	if s := (end - half).Seconds(); s > 0 {
		r.Requests /= s
	}
	r.Least, r.Most = r.Mean, r.Mean
	var thirds [3]float64
	for i := range thirds {
		thirds[i], _, _ = m.between(half+time.Duration(i)*third, half+time.Duration(i+1)*third)
		r.Least, r.Most = min(r.Least, thirds[i]), max(r.Most, thirds[i])
	}
	if thirds[0] > 0 {
		r.Gain = thirds[2] / thirds[0]
	}
	return r
}

// between returns the rate, and the numbers of requests and bytes, of a part of the measurement.
func (m *Meter) between(from, to time.Duration) (rate, requests, bytes float64) {
	for _, a := range m.answers {
		share := a.share(from, to)
		requests, bytes = requests+share, bytes+share*float64(a.bytes)
	}
	sending := (to - from).Seconds() * float64(max(1, m.Slots))
	for _, i := range m.idle {
		sending -= max(0, (min(i.end, to) - max(i.begin, from)).Seconds())
	}
	if sending > 1e-6 {
		rate = bytes / sending * float64(max(1, m.Slots))
	}
	return rate, requests, bytes
}

// In returns the rate in another unit; unit is the number of units per byte of a request.
func (r Rate) In(unit float64) Rate {
	r.Mean, r.Least, r.Most = r.Mean*unit, r.Least*unit, r.Most*unit
	return r
}
