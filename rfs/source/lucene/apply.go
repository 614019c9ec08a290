package lucene

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/postings"
)

// Operation is the last operation on a document in the translog of a shard.
type Operation struct {
	ID                 []byte // as a binary _id
	Seq, Term, Version int64
	Deleted            bool
	Routing            []byte // nil: none
	Source             []byte // as the client sent it
}

// Apply returns the files by which a commit differs from the commit in dir once the operations are applied, as a cluster does when it
// recovers a shard: an operation does nothing if the live document with its id has its sequence number or a higher one; otherwise the document
// is deleted, and written again unless the operation is a deletion. The result is a commit of the same name that states the highest sequence
// number top, files of live documents for segments with deletions, and a segment at the end for written documents. It is the same whenever
// the commit and the operations are.
//
// Each id may have one operation. Apply reads the terms of the field _id of each segment with live documents, and verifies their file. It
// returns fault.ErrUnsupported for forms of commits and of terms that OpenSearch 2.17 and later do not write, and the errors of Open.
func Apply(ctx context.Context, dir Directory, ops []Operation, top int64) ([]*Added, error) {
	c, err := Open(ctx, dir, Options{Parts: true})
	if err != nil {
		return nil, err
	}
	src, info, err := readCommit(ctx, dir)
	if err != nil {
		return nil, err
	}
	if info.format != maxSegmentsFormat {
		return nil, fmt.Errorf("%s: operations are not applied to a commit of format %d: %w", src.name, info.format, fault.ErrUnsupported)
	}
	a := applying{ops: ops, byID: make(map[string]int32, len(ops)), stale: make([]bool, len(ops)), listed: dir.List()}
	for i, o := range ops {
		a.byID[string(o.ID)] = int32(i)
	}
	var out []*Added
	for i, s := range c.Segments {
		e := &info.segments[i]
		gone, err := a.overwritten(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("apply the translog to segment %s: %w", s.Name, err)
		}
		if len(gone) == 0 {
			continue
		}
		live, err := a.delete(ctx, dir, s, e, gone)
		if err != nil {
			return nil, err
		}
		out = append(out, live)
	}
	written := make([]Operation, 0, len(ops))
	for i, o := range ops {
		if !o.Deleted && !a.stale[i] {
			written = append(written, o)
		}
	}
	if n := c.MaxOrdinal + int64(len(written)); n > maxDocs {
		return nil, fmt.Errorf("%s: %d documents with the translog, an index has at most %d: %w", src.name, n, maxDocs, fault.ErrUnsupported)
	}
	slices.SortFunc(written, func(x, y Operation) int { return int(min(max(x.Seq-y.Seq, -1), 1)) })
	id := idOf(info.userData["history_uuid"], written)
	if len(written) > 0 {
		out = append(out, segmentFiles(written, id, c.Version)...)
	}
	b, err := src.readAt(ctx, 0, src.size)
	if err != nil {
		return nil, err
	}
	return append(out, info.with(src.name, b, top, id, len(written) > 0)), nil
}

// idOf returns the id of the segment of operations: their numbers identify them within a history.
func idOf(history string, ops []Operation) string {
	h := sha256.New()
	h.Write([]byte(history)) //nolint:errcheck // a hash takes everything
	for _, o := range ops {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], uint64(o.Seq))
		binary.BigEndian.PutUint64(b[8:], uint64(o.Term))
		h.Write(b[:]) //nolint:errcheck // a hash takes everything
	}
	return string(h.Sum(nil)[:16])
}

// applying is the state of Apply.
type applying struct {
	ops    []Operation
	byID   map[string]int32 // indices in ops
	stale  []bool           // the operation does nothing
	listed []string         // the files of the commit
}

// found is a document of a segment with the id of an operation.
type found struct{ doc, op int32 }

// overwritten returns the live documents of a segment that operations replace or delete, nested ones included, in ascending order.
func (a *applying) overwritten(ctx context.Context, s *Segment) ([]int32, error) {
	if s.LiveCount == 0 || len(a.ops) == 0 {
		return nil, nil
	}
	fields, err := s.readFieldInfos(ctx, nil)
	if err != nil {
		return nil, err
	}
	all, err := a.withIDs(ctx, s, fields)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	slices.SortFunc(all, func(x, y found) int { return int(x.doc) - int(y.doc) })
	m, err := s.marks(ctx)
	if err != nil {
		return nil, err
	}
	numbers, err := s.openNumbers(ctx, &columnMetas{seg: s, fields: fields, only: []string{seqNo}}, seqNo)
	if err != nil {
		return nil, err
	}
	var gone []int32
	end := int32(0) // of the documents whose marks were read
	for _, x := range all {
		if x.doc >= int32(s.MaxDoc) {
			return nil, fault.Corrupt("", s.Name+".tim", -1, "an id is in document %d of %d", x.doc, s.MaxDoc)
		}
		if x.doc >= end {
			end = int32(min(int64(x.doc)+docsAtATime, int64(s.MaxDoc)))
			if _, err := m.advance(ctx, x.doc, end); err != nil {
				return nil, err
			}
		}
		if !m.isLive(x.doc) {
			continue
		}
		n, err := numbers.Advance(ctx, x.doc)
		if err != nil {
			return nil, err
		}
		if n != 1 {
			return nil, fmt.Errorf("document %d has %d sequence numbers: %w", x.doc, n, fault.ErrUnsupported)
		}
		seq, err := numbers.Number(ctx, 0)
		switch {
		case err != nil:
			return nil, err
		case seq >= a.ops[x.op].Seq:
			a.stale[x.op] = true
		default:
			gone = append(gone, x.doc)
		}
	}
	return gone, nil
}

// withIDs returns the documents of a segment, dead ones included, with the ids of operations.
func (a *applying) withIDs(ctx context.Context, s *Segment, fields *fieldInfos) (all []found, err error) {
	f := fields.named("_id")
	if f == nil || !f.indexed {
		return nil, fmt.Errorf("its ids are not indexed: %w", fault.ErrUnsupported)
	}
	format := f.attrs[attrPostings]
	if !postings.Known(format) {
		return nil, fmt.Errorf("the terms of its ids have the unknown format %q: %w", format, fault.ErrUnsupported)
	}
	v := &Values{storedDoc: storedDoc{seg: s, infos: fields}}
	d, err := v.dictionary(ctx, format, format+"_"+f.attrs[attrPostingsSuffix], false)
	if err != nil {
		return nil, err
	}
	wanted := func(term []byte) bool { _, ok := a.byID[string(term)]; return ok }
	err = d.Find(ctx, f.number, wanted, func(term []byte, doc int32) error {
		all = append(all, found{doc, a.byID[string(term)]})
		return nil
	})
	return all, err
}

// delete returns the file of the live documents of a segment without the documents gone, and states it in the segment's entry.
func (a *applying) delete(ctx context.Context, dir Directory, s *Segment, e *segmentEntry, gone []int32) (*Added, error) {
	live := make(bitset, (s.MaxDoc+63)/64)
	if e.delGen < 0 {
		ones(live, int32(s.MaxDoc))
	} else {
		src, err := openSource(dir, laterName(s.Name, e.delGen, ".liv"))
		if err != nil {
			return nil, err
		}
		l, err := openLiv(ctx, src, s.id, e.delGen, int32(s.MaxDoc))
		if err != nil {
			return nil, err
		}
		if err := l.fill(ctx, 0, live); err != nil {
			return nil, err
		}
	}
	for _, doc := range gone {
		live[doc>>6] &^= 1 << (doc & 63)
	}
	e.delCount += int32(len(gone))
	e.delGen = max(e.delGen, 0) + 1
	for slices.Contains(a.listed, laterName(s.Name, e.delGen, ".liv")) {
		e.delGen++
	}
	w := indexHeader(laterName(s.Name, e.delGen, ".liv"), "Lucene90LiveDocs", 0, s.id, codec.Base36(e.delGen))
	for _, word := range live {
		w.i64(int64(word))
	}
	return w.end(), nil
}

// with returns the commit b with the entries of the segments as they are now, and with the added segment of an id.
func (c *commitInfo) with(name string, b []byte, top int64, id string, adds bool) *Added {
	b = bytes.Clone(b)
	for _, e := range c.segments {
		binary.BigEndian.PutUint64(b[e.at:], uint64(e.delGen))
		binary.BigEndian.PutUint32(b[e.at+8:], uint32(e.delCount))
	}
	w := &writer{Added: Added{Name: name}}
	n := len(c.segments)
	w.bytes(b[:c.counted])
	if !adds {
		w.bytes(b[c.counted:c.listed])
	} else {
		w.i32(int32(n + 1))
		if n == 0 {
			w.bytes([]byte{0, 0, 0}) // the lowest version of a segment
		}
		w.bytes(b[c.counted+4 : c.listed])
		w.str(addedSegment)
		w.text(id)
		w.str("")                         // no codec
		w.i64(-1)                         // generation of the live documents
		w.i32(0)                          // deletions
		w.i64(-1)                         // generation of the fields
		w.i64(-1)                         // generation of the columns
		w.i32(0)                          // soft deletions
		w.bytes([]byte{0, 0, 0, 0, 0, 0}) // no id of the entry, no files, no updated columns
	}
	data := maps.Clone(c.userData)
	for _, key := range []string{"max_seq_no", "local_checkpoint"} {
		data[key] = strconv.FormatInt(top, 10)
	}
	w.strings(data)
	return w.end()
}
