package consume

import (
	"context"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// Limits of a pace.
const (
	firstBody = 64 << 10 // bytes of a body before the first answer
	leastBody = 16 << 10
	// The maximum time for a response is longestAnswer, or a lease divided by longestPart if that is shorter.
	longestAnswer = time.Second
	longestPart   = 20
)

// pace limits the bodies of a process so that each is answered within a part of a lease: bodies without a response when the
// lease or the process ends are sent again. It is safe for concurrent use.
type pace struct {
	bounds  bulk.Bounds // of the process; nil: none
	most    int         // maximum bytes of a body
	under   int         // maximum concurrent bodies of a partition, without bounds
	running func() int64
	clock   timing.Clock
	within  time.Duration

	mu    sync.Mutex
	bytes int
}

func newPace(o bulk.Options, lease time.Duration, clock timing.Clock, running func() int64) *pace {
	p := &pace{bounds: o.Bounds, most: o.MaxBytes, under: o.MaxInFlight, clock: clock, running: running, within: min(longestAnswer, lease/longestPart)}
	if p.most <= 0 {
		p.most = bulk.DefaultMaxBytes
	}
	if p.under <= 0 {
		p.under = bulk.DefaultMaxInFlight
	}
	p.bytes = min(firstBody, p.most)
	return p
}

// Bytes returns the maximum length of a body.
func (p *pace) Bytes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bounds == nil {
		return p.bytes
	}
	return min(p.bytes, p.bounds.Bytes())
}

// InFlight returns the number of bodies of one partition that may be in flight: the partitions of the process share its requests.
func (p *pace) InFlight() int {
	n := p.under
	if p.bounds != nil {
		n = min(n, p.bounds.InFlight())
	}
	return max(1, n/max(1, int(p.running())))
}

// note records the time that a body of the given size took, from the moment when it was ready. Short bodies are ignored, since they do not predict
// longer ones.
func (p *pace) note(bytes int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case took > p.within:
		p.bytes = max(min(leastBody, p.most), min(p.bytes, int(float64(bytes)*float64(p.within)/float64(2*took))))
	case took < p.within/4 && 2*bytes >= p.bytes:
		p.bytes = min(p.most, 2*p.bytes)
	}
}

// paced measures the bodies of a partition.
type paced struct {
	bulk.Sender
	pace *pace
}

// Send sends a body. If the body is abandoned, the time until then is recorded, as a lower bound.
func (s paced) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	begin := s.pace.clock.Read().Mono
	res, err := s.Sender.Send(ctx, body, n)
	if took := s.pace.clock.Read().Mono - begin; err == nil || took > s.pace.within {
		s.pace.note(len(body), took)
	}
	return res, err
}
