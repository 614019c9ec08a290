package bulk

import (
	"context"
	"sync"
)

// aimdLimiter limits the requests in flight. The limit is halved when the target is overloaded, and raised by
// one after a limit's worth of successful requests.
type aimdLimiter struct {
	mu       sync.Mutex
	max      float64
	limit    float64
	inFlight int
	epoch    int           // counts the halvings
	changed  chan struct{} // closed, and replaced, when a slot may be free
}

func newAIMDLimiter(limit int) *aimdLimiter {
	return &aimdLimiter{max: float64(limit), limit: float64(limit), changed: make(chan struct{})}
}

// acquire blocks until a slot is free, or returns the error of ctx when that is done, even if a slot is free. Pass the
// returned epoch to release.
func (g *aimdLimiter) acquire(ctx context.Context) (int, error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		g.mu.Lock()
		if g.inFlight < int(g.limit) {
			g.inFlight++
			epoch := g.epoch
			g.mu.Unlock()
			return epoch, nil
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// outcome classifies the answer to a request by what it implies about the load of the target.
type outcome int

const (
	neutral    outcome = iota // nothing
	accepted                  // it can take more
	overloaded                // see Overloaded
)

// release releases a slot. Concurrent overloaded requests halve the limit once: only
// the first of an epoch counts.
func (g *aimdLimiter) release(epoch int, o outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	switch {
	case o == overloaded && epoch == g.epoch:
		g.limit = max(1, g.limit/2)
		g.epoch++
	case o == accepted:
		g.limit = min(g.max, g.limit+1/g.limit)
	}
	close(g.changed)
	g.changed = make(chan struct{})
}
