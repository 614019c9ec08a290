package worker

import (
	"context"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// maxPause is the longest time between two readings of the clocks in a process that runs. After a
// longer one the process or the machine was stopped, and another worker may hold the item.
const maxPause = 2 * time.Second

// pauseDetector detects that a process was stopped, before it sends anything more. It relies on touch
// being called at intervals much shorter than maxPause by a goroutine that waits for no request.
type pauseDetector struct {
	mu     sync.Mutex
	last   cms.Reading // zero before the first touch
	pauses int         // detected
	asked  int         // pauses after which the store has confirmed the lease
}

// touch records that the process runs and reports how many pauses there were, and whether the store
// has yet to confirm the lease since the last one. Readings that go back are no pause.
func (p *pauseDetector) touch(now cms.Reading) (pauses int, unconfirmed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != (cms.Reading{}) && (now.Boot-p.last.Boot > maxPause || now.Wall.Round(0).Sub(p.last.Wall.Round(0)) > maxPause) {
		p.pauses++
	}
	p.last = now
	return p.pauses, p.asked < p.pauses
}

// check returns nil unless the process was paused since the store last confirmed the lease; then it
// asks the store, and returns its error.
func (p *pauseDetector) check(ctx context.Context, clock cms.Clock, lease *cms.Lease) error {
	pauses, unconfirmed := p.touch(clock.Read())
	if !unconfirmed {
		return nil
	}
	if err := lease.Validate(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = max(p.asked, pauses)
	return nil
}
