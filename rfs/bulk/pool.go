package bulk

import "sync"

// maxIdle bounds the bytes of bodies that a Pool keeps: enough for the bodies of two slots that
// fill the next one while one is under way.
const maxIdle = 48 << 20

// Pool keeps the buffers of bodies from one Loader to the next, so that a process does not grow
// them anew for every lease. It is safe for concurrent use; the zero value is ready.
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

// put takes back a batch that nothing refers to any more. The giant body of a giant document,
// longer than most, is not kept.
func (p *Pool) put(b *batch, most int) {
	b.reset()
	p.mu.Lock()
	defer p.mu.Unlock()
	if size := cap(b.body); size <= most && p.idle+size <= maxIdle {
		p.idle += size
		p.free = append(p.free, b)
	}
}
