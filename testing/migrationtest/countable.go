package migrationtest

import (
	"context"
	"encoding/json"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Countable is a target with configurable counts for its indices.
type Countable struct {
	UUIDs   map[string]string
	Docs    map[string]int64 // visible after a refresh
	Aliases string
	Set     map[string]string
	Denied  error
	Lucene  int64             // Lucene documents of each index
	Hidden  error             // error of CountLucene
	Did     target.Operations // on index a
	Untold  error             // error of Operations

	mu        sync.Mutex
	Refreshed map[string]bool
	Counted   int
	Takes     time.Duration // of each count
}

// IndexUUID returns the UUID of an index.
func (h *Countable) IndexUUID(_ context.Context, name string) (string, error) {
	if h.UUIDs[name] == "" {
		return "", fs.ErrNotExist
	}
	return h.UUIDs[name], nil
}

// Refresh makes the documents of an index visible to Count.
func (h *Countable) Refresh(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Refreshed[name] = true
	return h.Denied
}

// Count returns the visible documents of an index.
func (h *Countable) Count(_ context.Context, name string) (int64, error) {
	time.Sleep(h.Takes)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Counted++
	if !h.Refreshed[name] {
		return 0, nil
	}
	return h.Docs[name], nil
}

// CountLucene returns the Lucene documents of an index.
func (h *Countable) CountLucene(_ context.Context, name string) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.Refreshed[name] {
		return 0, nil
	}
	return h.Lucene, h.Hidden
}

// Operations returns the operations on an index.
func (h *Countable) Operations(_ context.Context, name string) (target.Operations, error) {
	if name != "a" {
		return target.Operations{Executed: 5}, h.Untold
	}
	return h.Did, h.Untold
}

// GetIndex returns an index with its aliases and settings.
func (h *Countable) GetIndex(_ context.Context, name string) ([]target.Index, error) {
	return []target.Index{{Name: name, Aliases: json.RawMessage(h.Aliases), Settings: h.Set}}, nil
}

// HaveIndex records an index of the snapshot that was created on the target.
func HaveIndex(t *testing.T, c *cms.Coordinator, name, uuid string, e plan.Entry) {
	t.Helper()
	if _, err := session.EntriesOf(c).ClaimTarget(t.Context(), name, uuid); err != nil {
		t.Fatal(err)
	}
	body, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.EntriesOf(c).Create(t.Context(), session.IndexEntry{Name: name, State: session.PhaseCompleted, Shards: 1, Body: body}); err != nil {
		t.Fatal(err)
	}
}
