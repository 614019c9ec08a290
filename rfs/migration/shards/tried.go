package shards

import (
	"context"
	"maps"
	"sync"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Tried holds the measurements of a trial run. Seconds are summed over the shards.
type Tried struct {
	Scanned int64            `json:"scanned"`           // ordinals that were read
	Setup   float64          `json:"setup_seconds"`     // until the first document was read
	Copying float64          `json:"copying_seconds"`   // after that
	Classes map[string]int64 `json:"classes,omitempty"` // failed documents
}

// Add adds the measurements u.
func (t *Tried) Add(u Tried) {
	t.Scanned, t.Setup, t.Copying = t.Scanned+u.Scanned, t.Setup+u.Setup, t.Copying+u.Copying
	if t.Classes = maps.Clone(t.Classes); t.Classes == nil && len(u.Classes) > 0 {
		t.Classes = map[string]int64{}
	}
	for class, n := range u.Classes {
		t.Classes[class] += n
	}
}

// IndexTried holds the measurements of a trial run for an index, and the estimate for the whole index.
type IndexTried struct {
	Tried
	Documents int64 `json:"whole_documents"`
	Bytes     int64 `json:"whole_bytes"`         // bytes of all sources
	Largest   int64 `json:"largest_shard_bytes"` // bytes of the sources of the largest shard
}

// trying is the bulk.Recorder of one lease of a trial run.
type trying struct {
	bulk.Recorder

	mu      sync.Mutex
	classes map[int64]string // of failed documents, by ordinal
}

// Record notes the classes of failures and passes the failures on.
func (t *trying) Record(ctx context.Context, failures []doc.Failure) error {
	t.mu.Lock()
	for _, f := range failures {
		t.classes[f.Ordinal] = classes.Of(f.Reason, f.Detail).Name
	}
	t.mu.Unlock()
	return t.Recorder.Record(ctx, failures)
}

// classesBelow returns the number of failed documents below a watermark by class.
func (t *trying) classesBelow(watermark int64) map[string]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := map[string]int64{}
	for ordinal, class := range t.classes {
		if ordinal < watermark {
			found[class]++
		}
	}
	return found
}
