package daemon

import (
	"fmt"
	"sync/atomic"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// connection holds the coordination store once it was reached. Every use of the store calls coordinator, because a node may run for hours
// before the store answers for the first time.
type connection struct {
	to atomic.Pointer[cms.Coordinator]
}

// coordinator returns the store, or fault.ErrUnavailable before it was reached.
func (c *connection) coordinator() (*cms.Coordinator, error) {
	if store := c.to.Load(); store != nil {
		return store, nil
	}
	return nil, fmt.Errorf("the coordination store was not reached yet: %w", fault.ErrUnavailable)
}

// reached reports whether coordinator returns the store.
func (c *connection) reached() bool { return c.to.Load() != nil }

// set is called once, when the store was reached.
func (c *connection) set(store *cms.Coordinator) { c.to.Store(store) }
