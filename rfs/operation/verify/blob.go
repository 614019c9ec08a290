package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	recordKind = "verify"
	// chunkBytes is the maximum part of a blob in one record.
	chunkBytes = 4 << 20
	// maxChunks is the maximum number of chunks of a blob.
	maxChunks = 64
)

// chunk is the body of a record with a part of a blob.
type chunk struct {
	Of    int    `json:"of"` // chunks of the blob
	Bytes []byte `json:"bytes"`
}

func chunkID(id string, i int) string { return fmt.Sprintf("%s:%s:%d", recordKind, id, i) }

// saveBlob writes bytes under an id and replaces existing ones. The first chunk is written last: if it exists, all do.
func (s *session) saveBlob(ctx context.Context, id string, b []byte) error {
	n := max(1, (len(b)+chunkBytes-1)/chunkBytes)
	if n > maxChunks {
		return fmt.Errorf("%d bytes are too many to be kept in the coordination store: name fewer differences (--differences) or compare fewer indices at a time (--index-allowlist): %w", len(b), fault.ErrUnsupported)
	}
	for i := n - 1; i >= 0; i-- {
		body, err := json.Marshal(chunk{Of: n, Bytes: b[i*chunkBytes : min((i+1)*chunkBytes, len(b))]})
		if err != nil {
			return err
		}
		if err := s.records.Put(ctx, cms.Record{ID: chunkID(id, i), Kind: recordKind, Body: body}); err != nil {
			return fmt.Errorf("keep the results of the comparison: %w", err)
		}
	}
	return nil
}

// blob returns the bytes saved under an id, or cms.ErrNotFound.
func (s *session) blob(ctx context.Context, id string) (b []byte, err error) {
	for i, n := 0, 1; i < n; i++ {
		r, err := s.records.Record(ctx, chunkID(id, i))
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

// savedBlob is like blob for an id that was saved. It returns ErrNotShared if another process, which looked while this one held no lease, has
// started a new comparison and removed it.
func (s *session) savedBlob(ctx context.Context, id string) ([]byte, error) {
	b, err := s.blob(ctx, id)
	if !errors.Is(err, cms.ErrNotFound) {
		return b, err
	}
	r, rerr := s.records.Record(ctx, stateID)
	if rerr != nil {
		return nil, rerr
	}
	var is state
	if rerr := r.Decode(&is); rerr != nil {
		return nil, rerr
	}
	if is.Run != s.state.Run {
		err = fmt.Errorf("%w: another process has started a new comparison in this session", ErrNotShared)
	}
	return nil, err
}

// forget removes the records of a comparison, if run is not empty, except records whose ids contain except ("": no exception). Records that
// cannot be removed stay until the session is cleaned up.
func (s *session) forget(ctx context.Context, run, except string) {
	if run == "" {
		return
	}
	prefix := recordKind + ":" + run + ":"
	var found []cms.Record
	for r, err := range s.records.List(ctx, recordKind) {
		if err != nil {
			s.Log.DebugContext(ctx, "records of a comparison are left", "error", err)
			return
		}
		if strings.HasPrefix(r.ID, prefix) && (except == "" || !strings.HasPrefix(r.ID, prefix+except+":")) {
			r.Body = nil
			found = append(found, r)
		}
	}
	for _, r := range found {
		if err := s.Work.Store.Delete(ctx, r); err != nil {
			s.Log.DebugContext(ctx, "a record of a comparison is left", "record", r.ID, "error", err)
		}
	}
}
