package wiring

import (
	"context"
	"sync"

	"github.com/rfsd/rfsd/daemon/limits"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Shared holds the resources that the workers of all slots inside a daemon use together: one store, and one export.
type Shared struct {
	o Options
	*limits.Limits
	memory *budget.Budget
	frames *budget.Budget // of the zstd files of an import, in addition to memory
	solo   engine.Solo

	mu    sync.Mutex
	store cms.Store
	files *export.Export
	opened
}

// NewShared returns what the slots share; nothing is open yet.
func NewShared(o Options) *Shared {
	return &Shared{o: o, Limits: o.limits(), memory: o.Memory().Input(), frames: budget.New(importer.MaxBack, 0)}
}

// Open opens the store and the export, once.
func (h *Shared) Open(ctx context.Context) (*cms.Coordinator, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store == nil {
		store, shut, err := OpenStore(ctx, h.o, false)
		if err != nil {
			return nil, err
		}
		h.store, h.opened = store, append(h.opened, shut)
	}
	if h.files == nil && h.o.exportDir != "" {
		x, err := openExport(ctx, h.o, owner.Name())
		if err != nil {
			return nil, err
		}
		h.files, h.opened = x, append(h.opened, x.Close)
	}
	return h.o.StateIn(h.store), nil
}

// Slot returns the resources of one slot, after Open.
func (h *Shared) Slot() *Resources {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &Resources{Limits: h.Limits, flow: throttle.NewFlow(h.o.connections, h.o.bulkBytes), Memory: h.memory, frames: h.frames, store: h.store, files: h.files, solo: &h.solo}
}
