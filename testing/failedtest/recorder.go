package failedtest

import (
	"context"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Recorder stores failed documents in memory. The zero Recorder is empty and ready to use.
type Recorder struct {
	mu  sync.Mutex
	all []doc.Failure
}

// Record stores failures.
func (r *Recorder) Record(_ context.Context, x []doc.Failure) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, x...)
	return nil
}

// Sync does nothing and returns nil.
func (r *Recorder) Sync(context.Context) error { return nil }

// All returns the failures in the order in which they were recorded.
func (r *Recorder) All() []doc.Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}
