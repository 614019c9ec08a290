package bulk

import "sync"

// maxIdle limits the idle bodies of a Pool, in bytes: enough for two slots that each fill a body while
// another one is in flight.
const maxIdle = 48 << 20

// Pool reuses the buffers of bodies across Loaders, so that a process does not allocate
// them again for every lease. It is safe for concurrent use; the zero value is ready.
type Pool struct {
	mu   sync.Mutex
	free []*batch
	idle int // bytes of their bodies
}

// get returns an empty batch.
func (p *Pool) get() *batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		return new(batch)
	}
	b := p.free[n-1]
	p.free[n-1], p.free = nil, p.free[:n-1]
	p.idle -= cap(b.body)
	return b
}

// put adds a batch without references. A body with a capacity above most, from a giant document, is not
// kept.
func (p *Pool) put(b *batch, most int) {
	b.reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	if size := cap(b.body); size <= most && p.idle+size <= maxIdle {
		p.idle += size
		p.free = append(p.free, b)
	}
}
