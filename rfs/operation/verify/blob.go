package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	recordKind = "verify"
	// chunkBytes is the maximum part of a blob in one record.
	chunkBytes = 4 << 20
	// maxChunks bounds a blob.
	maxChunks = 64
)

// chunk is the body of a record that holds a part of a blob.
type chunk struct {
	Of    int    `json:"of"` // chunks of the blob
	Bytes []byte `json:"bytes"`
}

func chunkID(id string, i int) string { return fmt.Sprintf("%s:%s:%d", recordKind, id, i) }

// saveBlob writes bytes under an id and replaces existing ones. The first chunk is written last: if it exists, all do.
func (v *Verifier) saveBlob(ctx context.Context, id string, b []byte) error {
	n := max(1, (len(b)+chunkBytes-1)/chunkBytes)
	if n > maxChunks {
		return fmt.Errorf("%d bytes are too many to be kept in the coordination store: name fewer differences (--differences) or compare fewer indices at a time (--index-allowlist): %w", len(b), fault.ErrUnsupported)
	}
	for i := n - 1; i >= 0; i-- {
		body, err := json.Marshal(chunk{Of: n, Bytes: b[i*chunkBytes : min((i+1)*chunkBytes, len(b))]})
		if err != nil {
			return err
		}
		err = v.changeRecord(ctx, chunkID(id, i), func(r *cms.Record) (bool, error) {
			r.Body = body
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("keep the results of the comparison: %w", err)
		}
	}
	return nil
}

// changeRecord updates a record with f, and creates it if it is missing. Nothing is written if f returns false.
func (v *Verifier) changeRecord(ctx context.Context, id string, f func(r *cms.Record) (write bool, err error)) error {
	return cms.NewLeases(v.Work.Store, v.Work.Clock, nil).Change(ctx, id, recordKind, func(_ context.Context, r cms.Record, _ time.Time, _ time.Duration) (cms.Record, cms.Result, error) {
		write, err := f(&r)
		if !write || err != nil {
			return r, cms.Already, err
		}
		return r, cms.Applied, nil
	})
}

// blob returns the bytes saved under an id, or cms.ErrNotFound.
func (v *Verifier) blob(ctx context.Context, id string) (b []byte, err error) {
	for i, n := 0, 1; i < n; i++ {
		var r cms.Record
		err := v.tries(200*time.Millisecond).Do(ctx, func(ctx context.Context) (err error) {
			r, err = v.Work.Store.Record(ctx, chunkID(id, i))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the results of the comparison: %w", err)
		}
		var c chunk
		if err := json.Unmarshal(r.Body, &c); err != nil || c.Of < 1 || c.Of > maxChunks {
			return nil, fmt.Errorf("record %s does not belong to a comparison: %w", r.ID, errors.Join(err, fault.ErrCorrupt))
		}
		n, b = c.Of, append(b, c.Bytes...)
	}
	return b, nil
}

// dropBlob removes the bytes saved under an id. If that fails, they stay until the session is cleaned up.
func (v *Verifier) dropBlob(ctx context.Context, id string) {
	for i, n := 0, 1; i < n; i++ {
		r, err := v.Work.Store.Record(ctx, chunkID(id, i))
		if err != nil {
			return
		}
		var c chunk
		if json.Unmarshal(r.Body, &c) == nil && c.Of <= maxChunks {
			n = c.Of
		}
		v.dropRecord(ctx, r)
	}
}

func (v *Verifier) dropRecord(ctx context.Context, r cms.Record) {
	if err := v.Work.Store.Delete(ctx, r); err != nil {
		v.Log.DebugContext(ctx, "a record of a comparison is left", "record", r.ID, "error", err)
	}
}
