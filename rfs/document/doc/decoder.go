package doc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// Decoder converts the stored fields of one shard to Documents. It reuses buffers between
// documents and is used by one goroutine.
type Decoder struct {
	index       []byte
	shard       int
	mappingType []byte
	originals   bool
	lacking     Lacking
	out         Document
	id          []byte // buffer of the current document
	conv        converter
	long        bool // the last source was longer than conv.most
}

// NewDecoder returns a Decoder for a shard; index is the name in the snapshot.
func NewDecoder(index string, shard int) *Decoder {
	return &Decoder{index: []byte(index), shard: shard}
}

// SetType sets the type of documents that do not store one: the mapping's only type (5.x with a single
// type, and later). "_doc" and "" mean none.
func (d *Decoder) SetType(mappingType string) { d.mappingType = meaningful([]byte(mappingType)) }

// SendOriginals makes Decode return the original (_recovery_source) if it is stored in addition to a filtered source.
func (d *Decoder) SendOriginals(on bool) { d.originals = on }

// Lacking states which of the stored forms of a document lack indexed parts.
type Lacking struct {
	Source   bool `json:"source,omitempty"`   // _source, which is filtered or lacks vectors
	Original bool `json:"original,omitempty"` // _recovery_source, which is filtered, too
	Rebuilt  bool `json:"rebuilt,omitempty"`  // the source rebuilt from other fields, which the cluster itself does not do
	Vectors  bool `json:"vectors,omitempty"`  // both stored forms, unless the vectors are restored (lucene.Record.Patched)
}

// SetLacking sets the stored forms that are incomplete; Decode marks documents from such a form as Reduced.
func (d *Decoder) SetLacking(l Lacking) { d.lacking = l }

// reduced reports whether the source that was chosen may lack parts.
func (d *Decoder) reduced(rec *lucene.Record, original bool) bool {
	vectors := d.lacking.Vectors && !rec.Patched
	switch {
	case rec.Rebuilt && !rec.Patched:
		return d.lacking.Rebuilt || vectors
	case original:
		return d.lacking.Original || vectors
	}
	whole := rec.HasRecovery && !d.lacking.Original && bytes.Equal(rec.Source, rec.RecoverySource)
	return d.lacking.Source && !whole || vectors
}

// SetMaxSource limits the next source that is not stored as JSON in one line: if it becomes longer than n bytes, Decode fails with TooLarge,
// and Outgrew returns true. 0: 8 MiB.
func (d *Decoder) SetMaxSource(n int64) { d.conv.most = int(min(n, math.MaxInt)) }

// Outgrew reports whether the last Decode failed because of the limit of SetMaxSource.
func (d *Decoder) Outgrew() bool { return d.long }

// Stored returns the stored form of the source that Decode sends, or nil.
func (d *Decoder) Stored(rec *lucene.Record) []byte {
	stored, _, _, _ := sourceOf(rec, d.originals)
	return stored
}

// Copied reports whether the source of the last Decode is in a buffer of the Decoder.
func (d *Decoder) Copied() bool { return d.conv.copied }

// Forget releases the large buffers of the last document.
func (d *Decoder) Forget() { d.conv.forget() }

// Type returns the mapping type of a record, nil for none or "_doc".
func (d *Decoder) Type(rec *lucene.Record) []byte {
	var out Document
	if _, err := d.identify(rec, &out); err != nil {
		return nil
	}
	return out.Type
}

// Decode returns the document of a record, or nil and the reason why it cannot be sent. The
// document is borrowed until the next Decode or the reader's next step; a Failure is a copy.
func (d *Decoder) Decode(rec *lucene.Record) (*Document, *Failure) {
	d.long, d.conv.copied = false, false
	out := &d.out
	*out = Document{} // set in place: for short documents, a copy would take as long as the rest
	out.Ordinal, out.Index = rec.Ordinal, d.index
	if rec.Routing != nil || rec.Parent != nil {
		out.Routing = routingOf(rec)
	}
	stored, original, reason, err := sourceOf(rec, d.originals)
	if reason, err := d.identify(rec, out); err != nil {
		return nil, d.failure(stored, reason, err)
	}
	out.Version, out.Rebuilt = rec.Version, rec.Rebuilt
	if n := d.beyond(rec); n > 0 {
		return nil, d.failure(nil, TooLarge, fmt.Errorf("a source of %d bytes; it was not read", n))
	}
	if err != nil {
		return nil, d.failure(stored, reason, err)
	}
	if out.Routing != nil && !utf8.Valid(out.Routing) {
		return nil, d.failure(stored, BadID, errors.New("routing is not UTF-8"))
	}
	if d.lacking != (Lacking{}) {
		out.Reduced = d.reduced(rec, original)
	}
	if plain(stored) {
		out.Source = stored
		return out, nil
	}
	if out.Source, err = d.conv.oneLine(stored); errors.Is(err, ErrTooLong) {
		d.long = true
		return nil, d.failure(nil, TooLarge, fmt.Errorf("a source of %d bytes; %w", len(stored), err))
	}
	if err != nil {
		reason = BadSource
		if errors.Is(err, ErrLineBreak) {
			reason = LineBreak
		}
		return nil, d.failure(stored, reason, err)
	}
	return out, nil
}

// beyond returns the length of the form to send if it was too long to read, else 0.
func (d *Decoder) beyond(rec *lucene.Record) int64 {
	switch {
	case rec.Beyond == 0 && rec.RecoveryBeyond == 0:
		return 0
	case d.originals && rec.RecoveryBeyond > 0:
		return rec.RecoveryBeyond
	case d.originals && rec.HasRecovery:
		return 0
	case rec.HasSource:
		return 0
	case rec.Beyond > 0:
		return rec.Beyond
	case rec.HasRecovery:
		return 0
	}
	return rec.RecoveryBeyond
}

// sourceOf returns the stored source to send and whether it is the original: _source, or _recovery_source if _source is missing or
// originals is set.
func sourceOf(rec *lucene.Record, originals bool) (stored []byte, original bool, reason Reason, err error) {
	switch {
	case originals && rec.HasRecovery && len(rec.RecoverySource) > 0:
		return rec.RecoverySource, true, "", nil
	case rec.HasSource && len(rec.Source) > 0:
		return rec.Source, false, "", nil
	case rec.HasRecovery && len(rec.RecoverySource) > 0:
		return rec.RecoverySource, true, "", nil
	case errors.Is(rec.Unbuilt, ErrTooLong):
		return nil, false, TooLarge, rec.Unbuilt
	case rec.Unbuilt != nil:
		return nil, false, NoSource, rec.Unbuilt
	case rec.HasSource:
		return nil, false, BadSource, errors.New("_source is empty")
	case rec.SyntheticParts:
		return nil, false, NoSource, errors.New("no _source is stored: the source is synthetic")
	}
	return nil, false, NoSource, errors.New("neither _source nor _recovery_source is stored")
}

// failure returns the Failure of the current document.
func (d *Decoder) failure(stored []byte, reason Reason, err error) *Failure {
	out := &d.out
	return &Failure{
		Index: string(d.index), ID: string(out.ID), Type: string(out.Type), Routing: string(out.Routing),
		Shard: d.shard, Ordinal: out.Ordinal, Reason: reason, Detail: err.Error(), Source: bytes.Clone(stored),
	}
}
