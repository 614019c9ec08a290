package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
)

const (
	recordKind = "verify"
	// chunkBytes is how much of a blob one record holds.
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

// retry calls f again while the store does not answer or another writer was quicker.
func (v *Verifier) retry(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || try >= v.Tries || !errors.Is(err, fault.ErrUnavailable) && !errors.Is(err, cms.ErrConflict) {
			return err
		}
		if err := v.Pause(ctx, 100*time.Millisecond<<try); err != nil {
			return err
		}
	}
}

// saveBlob writes bytes under an id, over what is there. The first chunk comes last: where it is, all are.
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
		err = v.retry(ctx, func() error { return v.putRecord(ctx, cms.Record{ID: chunkID(id, i), Kind: recordKind, Body: body}) })
		if err != nil {
			return fmt.Errorf("keep what was compared: %w", err)
		}
	}
	return nil
}

// putRecord writes a record over what is there.
func (v *Verifier) putRecord(ctx context.Context, r cms.Record) error {
	old, err := v.Work.Store.Record(ctx, r.ID)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return err
	}
	now, _, err := v.Work.Store.Now(ctx)
	if err != nil {
		return err
	}
	r.Revision, r.CreatedAt, r.UpdatedAt = old.Revision, now.UnixMilli(), now.UnixMilli()
	if old.CreatedAt != 0 {
		r.CreatedAt = old.CreatedAt
	}
	_, err = v.Work.Store.Put(ctx, r)
	return err
}

// blob returns what was saved under an id, or cms.ErrNotFound.
func (v *Verifier) blob(ctx context.Context, id string) (b []byte, err error) {
	for i, n := 0, 1; i < n; i++ {
		var r cms.Record
		err := v.retry(ctx, func() (err error) {
			r, err = v.Work.Store.Record(ctx, chunkID(id, i))
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read what was compared: %w", err)
		}
		var c chunk
		if err := json.Unmarshal(r.Body, &c); err != nil || c.Of < 1 || c.Of > maxChunks {
			return nil, fmt.Errorf("record %s is none of a comparison: %w", r.ID, errors.Join(err, fault.ErrCorrupt))
		}
		n, b = c.Of, append(b, c.Bytes...)
	}
	return b, nil
}

// dropBlob removes what was saved under an id. What cannot be removed stays until the session is cleaned up.
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
		if err := v.Work.Store.Delete(ctx, r); err != nil {
			v.Log.DebugContext(ctx, "a record of a comparison is left", "record", r.ID, "error", err)
		}
	}
}
