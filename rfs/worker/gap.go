package worker

import (
	"context"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// maxGap: a longer silence between two looks at the clocks means that the machine or the
// process was stopped, and that somebody else may hold the item by now.
const maxGap = 2 * time.Second

// gapGuard notices that a process stood still, before it sends anything more.
type gapGuard struct {
	mu   sync.Mutex
	last cms.Reading
}

// look notes that the process is awake.
func (g *gapGuard) look(now cms.Reading) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = now
}

// check asks the store whether the lease is still ours when the last look was long ago by
// any clock that runs on while a process is stopped or a machine sleeps.
func (g *gapGuard) check(ctx context.Context, clock cms.Clock, lease *cms.Lease) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := clock.Read()
	if now.Boot-g.last.Boot <= maxGap && now.Wall.Round(0).Sub(g.last.Wall.Round(0)) <= maxGap {
		return nil
	}
	if err := lease.Validate(ctx); err != nil {
		return err
	}
	g.last = clock.Read()
	return nil
}
