package throttle

import (
	"math"
	"sync/atomic"
)

// Pace is the used fraction of the permitted concurrency. The zero value and nil use all of it. It is safe for concurrent use.
type Pace struct{ less atomic.Uint64 } // 1 - part, as the bits of a float64

// Set sets the fraction, between 0 and 1.
func (p *Pace) Set(part float64) {
	if math.IsNaN(part) {
		return
	}
	p.less.Store(math.Float64bits(1 - min(max(part, 0), 1)))
}

// Of returns the fraction of n, rounded up, and at least 1.
func (p *Pace) Of(n int) int {
	if p == nil {
		return n
	}
	part := 1 - math.Float64frombits(p.less.Load())
	return max(int(math.Ceil(part*float64(n)-1e-9)), 1)
}
