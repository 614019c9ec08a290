package throttle

import (
	"math"
	"sync/atomic"
)

// Pace is the part of the permitted concurrency that is used. The zero value and nil use all of it. It may be
// changed while it is used.
type Pace struct{ less atomic.Uint64 } // 1 - part, as the bits of a float64

// Set changes the part: between 0 and 1.
func (p *Pace) Set(part float64) {
	if math.IsNaN(part) {
		return
	}
	p.less.Store(math.Float64bits(1 - min(max(part, 0), 1)))
}

// Of returns the part of n, rounded up, and at least 1.
func (p *Pace) Of(n int) int {
	if p == nil {
		return n
	}
	part := 1 - math.Float64frombits(p.less.Load())
	return max(int(math.Ceil(part*float64(n)-1e-9)), 1)
}
