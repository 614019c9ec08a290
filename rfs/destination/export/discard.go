package export

import (
	"context"
	"sync/atomic"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// Discard is a Sender that accepts every body and drops it, for dry runs and benchmarks.
type Discard struct{ documents, bytes atomic.Int64 }

// Send counts a body.
func (d *Discard) Send(_ context.Context, body []byte, n int) (bulk.Result, error) {
	d.documents.Add(int64(n))
	d.bytes.Add(int64(len(body)))
	return bulk.Result{}, nil
}

// Dropped returns the numbers of documents and bytes dropped so far.
func (d *Discard) Dropped() (documents, bytes int64) { return d.documents.Load(), d.bytes.Load() }
