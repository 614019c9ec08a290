// Package mirror packs the leader's reading of the coordination store, so that other nodes can show it. Another node's reading is shown,
// and no decision depends on it.
package mirror

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Format: a zstd frame of JSON values, one per line: a header, then the number of items, indices, phases and records of re-driven documents
// in the header.

// Limits of a packed reading. The nodes that send it are authenticated, but may be wrong.
const (
	MaxPacked = 24 << 20
	maxPlain  = 192 << 20
	maxRows   = 1 << 20
	maxShards = 1 << 20 // in the sum of a reading
	maxWindow = 4 << 20
)

type header struct {
	At         int64           `json:"at"` // epoch ms by the store's clock
	Kind       string          `json:"kind,omitempty"`
	Session    string          `json:"session,omitempty"`
	Seeded     bool            `json:"seeded,omitempty"`
	Intent     progress.Intent `json:"intent"`
	Repository string          `json:"repository,omitempty"`
	Snapshot   string          `json:"snapshot,omitempty"`
	Followed   bool            `json:"followed,omitempty"`
	Undone     bool            `json:"undone,omitempty"`
	Items      int             `json:"items"`
	Indices    int             `json:"indices"`
	Phases     int             `json:"phases"`
	Redriven   int             `json:"redriven"`
	// For a followed cluster.
	Rounds  *session.Followed `json:"rounds,omitempty"`
	Cutover *session.Cutover  `json:"cutover,omitempty"`
}

// item and record are documents of the store with their ids.
type item struct {
	ID string `json:"id"`
	cms.Item
}

type record struct {
	ID string `json:"id"`
	cms.Record
}

// itemOf returns an item without the fields that only its workers read.
func itemOf(it cms.Item) item {
	is := cms.Item{
		CreatorID: it.CreatorID, Holder: it.Holder, Expiration: it.Expiration, Exponent: it.Exponent, CompletedAt: it.CompletedAt,
		Successors: it.Successors, Status: it.Status, Failure: it.Failure, Attempts: it.Attempts, AcquiredAt: it.AcquiredAt, ReportedAt: it.ReportedAt,
		Watermark: it.Watermark, Counts: it.Counts, SetupMs: it.SetupMs, ReleasedFor: it.ReleasedFor, Task: it.Task, End: it.End,
	}
	if ordinals, live := progress.ShardSize(it); ordinals > 0 || live > 0 {
		is.Checks = fmt.Sprintf(`[{"ordinals":%d,"live":%d}]`, ordinals, live)
	}
	return item{it.ID, is}
}

// Pack returns a reading without the parts that its sum does not need. It returns fault.ErrUnsupported if the reading is too large.
func Pack(r *progress.Reading) ([]byte, error) {
	if rows := len(r.Items) + len(r.Indices) + len(r.Phases) + len(r.Redriven); rows > maxRows || r.Shards() > maxShards {
		return nil, fmt.Errorf("%d items and records are too many for other nodes: %w", rows, fault.ErrUnsupported)
	}
	r = r.Compact()
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(maxWindow))
	if err != nil {
		return nil, fmt.Errorf("pack the reading of the coordination store: %w", err)
	}
	plain := &counter{w: z}
	if err := write(json.NewEncoder(plain), r); err != nil {
		_ = z.Close() // the first error is returned
		return nil, fmt.Errorf("pack the reading of the coordination store: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack the reading of the coordination store: %w", err)
	}
	if plain.n > maxPlain || packed.Len() > MaxPacked {
		return nil, fmt.Errorf("a reading of %d bytes, %d compressed, is too large for other nodes: %w", plain.n, packed.Len(), fault.ErrUnsupported)
	}
	return packed.Bytes(), nil
}

func write(to *json.Encoder, r *progress.Reading) error {
	h := header{
		At: r.At.UnixMilli(), Kind: r.Kind, Session: r.Session, Seeded: r.Seeded, Intent: r.Intent, Repository: r.Repository, Snapshot: r.Snapshot, Followed: r.Followed, Undone: r.Undone,
		Items: len(r.Items), Indices: len(r.Indices), Phases: len(r.Phases), Redriven: len(r.Redriven),
	}
	if len(r.Rounds.Rounds) > 0 {
		h.Rounds, h.Cutover = &r.Rounds, &r.Cutover
	}
	if err := to.Encode(h); err != nil {
		return err
	}
	for _, it := range r.Items {
		if err := to.Encode(itemOf(it)); err != nil {
			return err
		}
	}
	for _, all := range [][]cms.Record{r.Indices, r.Phases, r.Redriven} {
		for _, rec := range all {
			if err := to.Encode(record{rec.ID, rec}); err != nil {
				return err
			}
		}
	}
	return nil
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.w.Write(b)
}

// Unpack returns the reading packed by another node. It returns fault.ErrCorrupt if it is invalid or exceeds the limits.
func Unpack(packed []byte) (*progress.Reading, error) {
	r, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("the leader's reading of the coordination store: %w: %w", err, fault.ErrCorrupt)
	}
	return r, nil
}

func unpack(packed []byte) (*progress.Reading, error) {
	if len(packed) > MaxPacked {
		return nil, fmt.Errorf("%d bytes", len(packed))
	}
	z, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	from := json.NewDecoder(io.LimitReader(z, maxPlain))
	var h header
	if err := from.Decode(&h); err != nil {
		return nil, err
	}
	rows := 0
	for _, n := range []int{h.Items, h.Indices, h.Phases, h.Redriven} {
		if n < 0 || n > maxRows-rows {
			return nil, fmt.Errorf("%d items or records", n)
		}
		rows += n
	}
	r := &progress.Reading{
		At: time.UnixMilli(h.At), Kind: h.Kind, Session: h.Session, Seeded: h.Seeded, Intent: h.Intent, Repository: h.Repository, Snapshot: h.Snapshot, Followed: h.Followed,
		Undone: h.Undone,
	}
	if h.Rounds != nil && h.Cutover != nil {
		r.Rounds, r.Cutover = *h.Rounds, *h.Cutover
	}
	for range h.Items {
		var it item
		if err := from.Decode(&it); err != nil {
			return nil, err
		}
		it.Item.ID = it.ID
		r.Items = append(r.Items, it.Item)
	}
	for _, part := range []struct {
		into *[]cms.Record
		n    int
	}{{&r.Indices, h.Indices}, {&r.Phases, h.Phases}, {&r.Redriven, h.Redriven}} {
		for range part.n {
			var rec record
			if err := from.Decode(&rec); err != nil {
				return nil, err
			}
			rec.Record.ID = rec.ID
			*part.into = append(*part.into, rec.Record)
		}
	}
	if n := r.Shards(); n > maxShards {
		return nil, fmt.Errorf("%d shards", n)
	}
	return r, nil
}
