package cms

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

const (
	debtTTL      = 2 * time.Minute // after which no request that was sent can still be applied
	debtInterval = 2 * time.Second // between two attempts
)

// debts are leases that this process may hold without knowing, because the answer to the acquisition was lost, and leases that it could not
// release. No work is done under them.
type debts struct {
	mu   sync.Mutex
	open map[string]debt // by holder, which is unique to an acquisition
	next time.Duration   // monotonic clock: the next attempt
}

type debt struct {
	item  string
	give  Release
	since time.Duration // monotonic clock
}

// owe records that a lease has to be released when the store answers.
func (c *Coordinator) owe(id string, give Release) {
	c.debts.mu.Lock()
	defer c.debts.mu.Unlock()
	if c.debts.open == nil {
		c.debts.open = map[string]debt{}
	}
	c.debts.open[give.Holder] = debt{item: id, give: give, since: c.clock.Read().Mono}
	c.debts.next = 0
}

// repay tries to release each recorded lease once. The store may still apply a request whose answer was lost, so a lease that it does not
// have yet is tried again until debtTTL is over.
func (c *Coordinator) repay(ctx context.Context) {
	now := c.clock.Read().Mono
	c.debts.mu.Lock()
	due := maps.Clone(c.debts.open)
	if now < c.debts.next {
		due = nil
	}
	if len(due) > 0 {
		c.debts.next = now + debtInterval
	}
	c.debts.mu.Unlock()
	for _, holder := range slices.Sorted(maps.Keys(due)) {
		d := due[holder]
		_, v, err := c.store.Apply(ctx, d.item, d.give)
		paid := err == nil && v != Lost || err == nil && now-d.since > debtTTL
		if err != nil && !errors.Is(err, fault.ErrUnavailable) && !errors.Is(err, ErrConflict) && ctx.Err() == nil {
			paid = true // gone, or refused permanently
		}
		if paid {
			c.debts.mu.Lock()
			delete(c.debts.open, holder)
			c.debts.mu.Unlock()
		}
	}
}
