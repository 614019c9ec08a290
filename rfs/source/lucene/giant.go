package lucene

import (
	"context"
	"slices"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
A writer ends a chunk with the document that fills it, so only the last document of a chunk can be long. It is read slice
by slice: fields that a migration does not need are dropped immediately, and a source that exceeds the limit is neither
kept nor decompressed to its end.
*/

const (
	// giantChunk is the raw length of a chunk beyond which Memory is asked for permission, in bytes.
	giantChunk = 4 << 20
	// maxFieldHead bounds the number, type and length of a field, or all of a numeric field, in bytes.
	maxFieldHead = 32
)

// Memory bounds the memory of long documents. A Reader asks it before it reads a chunk of more than 4 MiB.
type Memory interface {
	// MaxSource returns the length of the longest source that is worth reading, in bytes; 0 means any length. For
	// longer sources Record.Beyond is set.
	MaxSource(ctx context.Context) (int64, error)
	// Hold blocks until the process may hold raw bytes of a chunk and one document of at most source bytes, which has
	// Record.Giant. The Reader calls release when it has dropped the raw bytes.
	Hold(ctx context.Context, raw, source int64) (release func(), err error)
}

// giant parses the fields of one document while its bytes are decompressed.
type giant struct {
	table   fieldTable
	fixed   bool  // numbers have the lengths that they had before Lucene 5.0
	size    int64 // of the document
	fields  int32 // that have not started yet
	max     int64 // length of a source that is kept; 0: any
	whole   bool  // the source would be rebuilt from all fields, which exceed the limit
	parts   []giantPart
	raw     []byte // kept values
	head    []byte // start of the current field
	value   int64  // bytes of its value that are still to come
	keep    bool
	small   int64 // kept bytes other than sources
	sourced [2]bool
}

// giantPart is a value that the record needs.
type giantPart struct {
	what     role
	text     bool
	from, to int   // in raw
	beyond   int64 // the length of a source that is not kept; else 0
}

// feed takes the next bytes of the document.
func (g *giant) feed(p []byte) error {
	for len(p) > 0 {
		if g.value > 0 {
			n := min(g.value, int64(len(p)))
			if g.keep {
				g.raw = append(g.raw, p[:n]...)
			}
			g.value -= n
			p = p[n:]
			continue
		}
		if g.fields == 0 {
			return codec.Errorf(g.size, "%d bytes left after the last field", len(p))
		}
		have := len(g.head)
		g.head = append(g.head, p[:min(len(p), maxFieldHead-have)]...)
		used, err := g.begin()
		if err != nil {
			return err
		}
		if used == 0 {
			if len(g.head) == maxFieldHead {
				return codec.Errorf(0, "a field without a length")
			}
			return nil
		}
		p, g.head = p[used-have:], g.head[:0]
		g.fields--
	}
	return nil
}

// begin parses the head of a field and returns its length, or 0 if more bytes are needed.
func (g *giant) begin() (used int, err error) {
	head, n := uvarint(g.head)
	if n <= 0 {
		return 0, nil
	}
	number, kind := head>>3, head&7
	if number >= uint64(len(g.table)) || g.table[number] == roleUnknown {
		return 0, codec.Errorf(0, "field %d is not in the field infos", number)
	}
	if kind > 1 {
		if kind > 5 {
			return 0, codec.Errorf(0, "field of type %d", kind)
		}
		return max(skipNumber(g.head, n, kind, g.fixed), 0), nil
	}
	size, m := uvarint(g.head[n:])
	if m <= 0 {
		return 0, nil
	}
	if size > uint64(g.size) {
		return 0, codec.Errorf(0, "value of %d bytes in a document of %d", size, g.size)
	}
	g.value = int64(size)
	return n + m, g.choose(g.table[number], kind == 0)
}

// choose decides whether the current value is kept.
func (g *giant) choose(what role, text bool) error {
	part := giantPart{what: what, text: text, from: len(g.raw), to: len(g.raw)}
	g.keep = false
	switch what {
	case roleSkip:
		return nil
	case roleSynthetic:
	case roleSource, roleRecovery:
		if g.sourced[what-roleSource] {
			return nil // the first of several wins
		}
		g.sourced[what-roleSource] = true
		if g.max > 0 && g.value > g.max {
			part.beyond = g.value
			break
		}
		g.keep, g.raw = true, slices.Grow(g.raw, int(g.value))
	default:
		if g.small += g.value; g.small > maxUnit {
			return codec.Errorf(0, "ids of %d bytes", g.small)
		}
		g.keep = true
	}
	if g.keep {
		part.to += int(g.value)
	}
	g.parts = append(g.parts, part)
	return nil
}

// known reports whether the rest of the document is not needed: its source exceeds the limit, and its id is complete.
func (g *giant) known() bool {
	if g.value > 0 && g.keep {
		return false
	}
	return slices.ContainsFunc(g.parts, func(p giantPart) bool { return p.what == roleSource && p.beyond > 0 }) &&
		slices.ContainsFunc(g.parts, func(p giantPart) bool { return p.what == roleID || p.what == roleUID })
}

// end checks that the document is complete.
func (g *giant) end() error {
	if g.fields > 0 || g.value > 0 || len(g.head) > 0 {
		return codec.Errorf(g.size, "document ends within its fields: %d are missing", g.fields)
	}
	return nil
}

// fill sets the values in a record.
func (g *giant) fill(rec *Record) {
	for _, p := range g.parts {
		switch {
		case p.beyond == 0:
			rec.take(p.what, p.text, g.raw[p.from:p.to:p.to])
		case p.what == roleSource:
			rec.Beyond = p.beyond
		default:
			rec.RecoveryBeyond = p.beyond
		}
	}
	if g.whole && !rec.HasSource {
		rec.Beyond = g.size
	}
}

// loadGiant reads a chunk of more than giantChunk bytes, which is at [pos, end) of .fdt, into r.own.
func (r *Reader) loadGiant(ctx context.Context, w *window, k int, pos, end int64) error {
	c := r.chunk
	last := len(c.lengths) - 1
	size := int64(c.lengths[last])
	before := c.total - size
	if before > maxUnit && r.unpack != nil {
		return codec.Errorf(pos, "%d bytes before the last document of a chunk", before)
	}
	limit, err := r.memory.MaxSource(ctx)
	if err != nil {
		return err
	}
	whole := r.values != nil && limit > 0 && size > 2*limit
	if !c.sliced || r.values != nil && !whole { // all of it is needed, or it is one unit
		if r.release, err = r.memory.Hold(ctx, c.total, size); err != nil {
			return err
		}
		r.isGiant = true
		r.own, err = r.stored.unpackChunk(ctx, w, r.unpack, k, c, r.own, pos, end)
		return err
	}
	doc := c.first + int32(last)
	wanted := doc >= r.start && r.cur.Base+int64(doc) < r.to && r.marks.isLive(doc)
	if wanted && !whole {
		kept, source := size, size
		if limit > 0 { // a source and an original
			kept, source = min(size, 2*limit), min(size, limit)
		}
		if r.release, err = r.memory.Hold(ctx, before+kept, source); err != nil {
			return err
		}
	}
	r.own = slices.Grow(r.own, int(before))
	r.isGiant = true
	r.giant = &giant{table: r.fields, fixed: r.stored.numbersFixed(), size: size, fields: c.fields[last], max: limit, whole: whole}
	return r.unpackGiant(ctx, w, pos, end, before, wanted)
}

// unpackGiant decompresses the documents before the last into r.own, and the last one, if it is wanted, slice by slice.
func (r *Reader) unpackGiant(ctx context.Context, w *window, pos, end, before int64, wanted bool) error {
	if r.stored.chunkSize < 1 {
		return codec.Errorf(pos, "sliced chunk with slices of %d bytes", r.stored.chunkSize)
	}
	for left := r.chunk.total; left > 0; {
		if before == 0 && !wanted || r.giant.known() {
			return nil
		}
		slice := min(r.stored.chunkSize, left)
		left -= slice
		p, err := w.at(ctx, pos, min(end-pos, unitBound(slice)))
		if err != nil {
			return err
		}
		var took int
		if r.slice, took, err = r.unpack.unit(r.slice[:0], p, int(slice), nil, false); err != nil {
			return err
		}
		pos += int64(took)
		w.advance(pos)
		n := min(before, int64(len(r.slice)))
		r.own, before = append(r.own, r.slice[:n]...), before-n
		if !wanted {
			continue
		}
		if err := r.giant.feed(r.slice[n:]); err != nil {
			return err
		}
	}
	if pos != end {
		return codec.Errorf(pos, "the chunk ends at %d, the index states %d", pos, end)
	}
	return r.giant.end()
}

// dropGiant releases the memory of a long document.
func (r *Reader) dropGiant() {
	if r.isGiant {
		r.raw, r.own, r.giant, r.isGiant = nil, nil, nil, false
	}
	if r.release != nil {
		r.release()
		r.release = nil
	}
}
