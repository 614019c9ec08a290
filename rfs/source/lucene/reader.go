package lucene

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// ReadOptions select which documents of a commit are read, and which parts of them.
type ReadOptions struct {
	From, To int64 // ordinals [From, To); To 0 or beyond the last means all
	// NestedTerms is set if nested documents carry _primary_term, too, as in indices created before Elasticsearch 6.1. A document without a
	// stored id is then always a nested one.
	NestedTerms bool
	// Values sets Record.Values; the commit must have been opened with Options.Values.
	Values bool
	// Memory bounds the memory of long documents; if it is nil, they are always read.
	Memory Memory
	// Versions sets Record.Version; the commit must have been opened with Options.Values. A segment without versions is
	// fault.ErrUnsupported.
	Versions bool
	// Only reports whether one of the ordinals [from, to) is wanted; nil: all are. Chunks without a wanted document are not read, so Checks
	// returns nothing and the checksum of .fdt is not compared. It excludes Values and Helpers.
	Only func(from, to int64) bool
	// Helpers decompress chunks concurrently with the goroutine that calls Next; nil: only that goroutine does.
	Helpers *Helpers
}

// Reader reads the live root documents of a range of ordinals in order. It belongs to one goroutine.
//
// Of each .fdt file with a live document it reads every chunk of its range, including chunks of dead documents only, so that the readers of
// a shard together read the file once and can check its CRC (Checks). A chunk belongs to the reader whose range contains its first ordinal;
// a reader that starts inside a chunk reads that chunk for its documents but does not own its bytes.
type Reader struct {
	commit      *Commit
	from, to    int64
	nestedTerms bool
	wantValues  bool
	wantVersion bool
	err         error
	crcTracker  crcTracker
	memory      Memory
	helpers     *Helpers
	only        func(from, to int64) bool // nil: every document is wanted

	// The segment in progress.
	seg    int // index of the next segment to open
	cur    *Segment
	stored *storedFields
	fields fieldTable
	marks  *marks
	values *Values   // nil unless they are wanted
	vers   *versions // likewise
	unpack compression
	codec  string // of unpack
	win    window // after the chunks that were read ahead
	buf    []byte
	ahead  openings
	chunks readAhead
	next   int   // index of the next chunk
	start  int32 // the first document to examine: with values, the first nested document of the first root

	// fieldsOnly is set if the record of a document with a stored id consists of stored fields only.
	fieldsOnly bool

	// The chunk in progress.
	at      place
	chunk   *chunk // &direct, or a chunk that was read ahead
	direct  chunk
	raw     []byte // its raw bytes, in own or in the bytes read ahead
	own     []byte
	off     int    // where document i starts in raw
	giant   *giant // the last document of the chunk, if it was read slice by slice
	isGiant bool   // the last document of the chunk is long
	slice   []byte // buffer for a slice
	release func() // releases the memory of raw; nil: none was requested
	i       int    // next document of the chunk
	rec     Record
}

// maxIdleRaw is the memory for raw bytes that is kept from one chunk to the next, in bytes.
const maxIdleRaw = 16 << 20

// Reader returns a Reader of the commit. Nothing is fetched before the first Next, except for streams that Options.Begin started.
func (c *Commit) Reader(opt ReadOptions) *Reader {
	to := opt.To
	if to <= 0 || to > c.MaxOrdinal {
		to = c.MaxOrdinal
	}
	from := min(max(opt.From, 0), to)
	r := &Reader{commit: c, from: from, to: to, nestedTerms: opt.NestedTerms, wantValues: opt.Values, memory: opt.Memory, wantVersion: opt.Versions, helpers: opt.Helpers, only: opt.Only}
	r.chunk = &r.direct
	if r.helpers != nil {
		r.helpers.readers.Add(1)
	}
	if r.from == 0 {
		r.ahead.take(r)
	}
	return r
}

// Close cancels reads in progress, waits for the reader's goroutines and releases its memory. Checks may still be called.
func (r *Reader) Close() error {
	r.dropGiant()
	r.chunks.close()
	if r.helpers != nil {
		r.helpers.readers.Add(-1)
		r.helpers = nil
	}
	return errors.Join(r.ahead.close(), r.win.close())
}

// Next returns the next live root document. The record and its slices are valid until the following call. It returns io.EOF at the end of
// the range; after any error it returns that error again. Damage is a fault.Damage.
func (r *Reader) Next(ctx context.Context) (*Record, error) {
	for r.err == nil {
		for r.i < len(r.chunk.lengths) {
			rec, err := r.document(ctx)
			if err != nil {
				r.err = err
				return nil, err
			}
			if rec != nil {
				return rec, nil
			}
		}
		r.err = r.advance(ctx)
	}
	return nil, r.err
}

// document returns the next document of the chunk, or nil if it is not a live root in range.
func (r *Reader) document(ctx context.Context) (*Record, error) {
	doc := r.chunk.first + int32(r.i)
	begin := r.off
	r.off += int(r.chunk.lengths[r.i])
	fields := r.chunk.fields[r.i]
	r.i++
	ordinal := r.cur.Base + int64(doc)
	if doc < r.start || ordinal >= r.to {
		return nil, nil
	}
	if !r.marks.isLive(doc) || r.only != nil && !r.only(ordinal, ordinal+1) {
		return nil, nil
	}
	r.rec = Record{} // set in place: a copy takes as long as the rest for short documents
	r.rec.Ordinal, r.rec.Segment, r.rec.DocID = ordinal, r.cur, doc
	last := r.i == len(r.chunk.lengths)
	if r.giant != nil && last {
		r.giant.fill(&r.rec)
	} else if fields != 2 || !parsePair(r.raw[begin:r.off], r.fields, &r.rec) {
		if err := r.stored.format.layout.parse(r.raw[begin:r.off], fields, r.fields, &r.rec); err != nil {
			return nil, r.stored.damaged(r.next-1, r.at, fmt.Errorf("document %d: %w", doc, err))
		}
	}
	if r.fieldsOnly && r.rec.IDKind != IDNone && !r.isGiant {
		return &r.rec, nil
	}
	if r.isGiant && last {
		r.rec.Giant, r.rec.drop = true, r.dropGiant
	}
	if r.values != nil && (r.values.id >= 0 || doc == r.start) { // the previous document was a root
		r.values.children, r.values.block, r.values.id = r.values.children[:0], r.values.block[:0], -1
	}
	if r.rec.IDKind == IDNone && (r.nestedTerms || !r.isRoot(doc)) {
		if r.values != nil && !(r.giant != nil && last) {
			r.values.addChild(r.raw[begin:r.off], fields, doc)
		}
		return nil, nil
	}
	if r.rec.IDKind == IDNone && r.stored.series != nil {
		if err := r.stored.series.fill(ctx, &r.rec); err != nil {
			return nil, err
		}
	}
	if r.vers != nil {
		if err := r.vers.fill(ctx, &r.rec); err != nil {
			return nil, err
		}
	}
	if r.values != nil && !(r.giant != nil && last) {
		r.values.storedDoc = storedDoc{r.cur, r.stored.infos, r.raw[begin:r.off], fields, doc, r.stored.le}
		r.rec.Values = r.values
	}
	return &r.rec, nil
}

// advance loads the next chunk, or goes to the next segment; the chunk is empty if none of its documents is wanted. It returns io.EOF at
// the end of the range.
func (r *Reader) advance(ctx context.Context) error {
	r.direct.lengths, r.chunk, r.i = r.direct.lengths[:0], &r.direct, 0
	r.dropGiant()
	if r.stored == nil {
		return r.openSegment(ctx)
	}
	if r.only != nil {
		return r.advanceSelected(ctx)
	}
	if r.next == r.stored.index.chunks() {
		return r.leaveSegment()
	}
	k := r.next
	s, err := r.readAhead(ctx)
	if err != nil {
		return err
	}
	if s != nil {
		r.at = s.places[r.chunks.pos]
	} else if r.at, err = r.stored.index.place(ctx, k); err != nil {
		return err
	}
	if r.cur.Base+int64(r.at.first) >= r.to {
		return r.leaveRange()
	}
	live, err := r.advanceMarks(ctx, k)
	if err != nil {
		return err
	}
	if live {
		if s != nil {
			err = r.take(ctx, s)
		} else {
			err = r.load(ctx, &r.win, k, r.at)
		}
		if err != nil {
			return err
		}
	}
	if s != nil {
		err = r.chunks.passed()
	} else {
		err = r.pass(ctx, k, r.at)
	}
	if err != nil {
		return err
	}
	r.next++
	return ctx.Err()
}

// leaveRange closes the last segment of the range and returns io.EOF.
func (r *Reader) leaveRange() error {
	if err := r.leaveSegment(); err != nil {
		return err
	}
	return io.EOF
}

// advanceMarks moves the marks to chunk k, which r.at describes, and reports whether a document of it in the range is live.
func (r *Reader) advanceMarks(ctx context.Context, k int) (live bool, err error) {
	if r.cur.unheld != nil {
		if n := r.at.end - r.at.first; n > maxChunkDocs {
			return false, r.stored.damaged(k, r.at, codec.Errorf(r.at.start, "chunk of %d documents", n))
		}
		if _, err := r.marks.advance(ctx, r.at.first, r.at.end); err != nil {
			return false, err
		}
	}
	return r.anyLive(r.at), nil
}

// anyLive reports whether a document of a chunk in the range is live. Marks that are not held must be at the chunk.
func (r *Reader) anyLive(at place) bool {
	return r.marks.anyLive(max(at.first, r.start), min(at.end, r.clip(r.to)))
}

// pass moves the window past chunk k, and past the end of the file after the last chunk.
func (r *Reader) pass(ctx context.Context, k int, at place) error {
	if err := r.win.skip(ctx, at.stop); err != nil {
		return err
	}
	if k+1 == r.stored.index.chunks() {
		return r.readTail(ctx)
	}
	r.beginStreams(r.stored.fdt.size - at.stop)
	if at.stop > r.win.own {
		r.crcTracker.boundary(r.cur.Base+int64(at.end), at.stop, r.win.crc)
	}
	return nil
}

// isRoot reports whether a live document without a stored id is a root.
func (r *Reader) isRoot(doc int32) bool { return r.cur.roots.known && r.marks.isRoot(doc) }

// clip converts an ordinal to a document of the current segment.
func (r *Reader) clip(ordinal int64) int32 {
	return int32(min(max(ordinal-r.cur.Base, 0), int64(r.cur.MaxDoc)))
}

// reaches reports whether the range contains wanted ordinals of a segment that has live documents.
func (r *Reader) reaches(s *Segment) bool {
	end := s.Base + int64(s.MaxDoc)
	return s.Base < r.to && end > r.from && s.LiveCount > 0 && (r.only == nil || r.only(max(s.Base, r.from), min(end, r.to)))
}

// openSegment opens the next segment that the range reaches, or returns io.EOF.
func (r *Reader) openSegment(ctx context.Context) error {
	for ; r.seg < len(r.commit.Segments); r.seg++ {
		if s := r.commit.Segments[r.seg]; r.reaches(s) {
			r.seg++
			return r.enter(ctx, s)
		}
	}
	return io.EOF
}

// enter opens the stored fields of a segment at the first chunk of the range.
func (r *Reader) enter(ctx context.Context, s *Segment) error {
	stored, err := r.openAhead(ctx)
	if err != nil {
		return err
	}
	r.cur, r.stored, r.fields, r.values, r.vers = s, stored, stored.fields, nil, nil
	if r.marks, err = s.marks(ctx); err != nil {
		return err
	}
	if r.wantVersion {
		if r.vers, err = openVersions(ctx, s, stored.infos); err != nil {
			return err
		}
	}
	if r.wantValues && stored.infos != nil && !stored.numbersFixed() {
		r.values = &Values{storedDoc: storedDoc{seg: s, infos: stored.infos, id: -1, le: stored.le}, marks: r.marks,
			metas: columnMetas{seg: s, fields: stored.infos}, opened: map[string]*Column{}}
	}
	r.fieldsOnly = r.values == nil && r.vers == nil
	if f := stored.format.compression; f == nil {
		r.unpack = nil
	} else if r.unpack == nil || r.codec != stored.codec {
		r.unpack = f()
	}
	r.codec = stored.codec
	x := &stored.index
	size, limit := stored.fdt.size, stored.fdt.size
	if stored.hasFooter() {
		limit -= 8
	}
	from := r.clip(r.from)
	r.start = from
	if r.values != nil && s.roots.known {
		if r.start, err = s.firstAfterRoot(ctx, from); err != nil {
			return err
		}
		r.marks.last = r.start - 1
	}
	if r.next, err = x.find(ctx, r.start); err != nil {
		return err
	}
	if r.only != nil {
		r.enterSelected()
		return nil
	}
	begin, err := x.place(ctx, r.next)
	if err != nil {
		return err
	}
	ownDoc, own, err := r.firstOwn(ctx, x, from)
	if err != nil {
		return err
	}
	start := begin.start
	switch {
	case from == 0:
		start, own = 0, 0
	case ownDoc == int32(s.MaxDoc):
		own = size
	}
	r.win.open(stored.fdt, start, own, limit, r.buf)
	if start == 0 {
		r.win.begun = r.ahead.streamOf(s)
	}
	r.beginStreams(size - start)
	r.chunks.next = r.next
	r.crcTracker.file(s, stored.fdt, own, stored.hasFooter())
	r.crcTracker.boundary(s.Base+int64(ownDoc), own, 0)
	return r.win.skip(ctx, begin.start)
}

// firstOwn returns the first document and the offset of the first chunk that this reader owns.
func (r *Reader) firstOwn(ctx context.Context, x *chunkIndex, from int32) (doc int32, pointer int64, err error) {
	k, err := x.find(ctx, from)
	if err != nil {
		return 0, 0, err
	}
	doc, pointer, err = x.entry(ctx, k)
	if err == nil && from > doc {
		doc, pointer, err = x.entry(ctx, k+1)
	}
	return doc, pointer, err
}

func (r *Reader) leaveSegment() error {
	err := r.win.close()
	r.buf, r.stored = r.win.buf, nil // the next segment reuses the buffer
	return err
}

// readTail reads the rest of the file after the last chunk and, if this reader has read the whole file, compares its CRC with the footer.
func (r *Reader) readTail(ctx context.Context) error {
	fdt := r.stored.fdt
	tail, err := r.win.at(ctx, r.stored.maxPointer, fdt.size-r.stored.maxPointer)
	if err != nil {
		return err
	}
	if !r.stored.hasFooter() {
		r.win.advance(fdt.size)
		r.crcTracker.end(r.win.crc, 0)
		return nil
	}
	at := fdt.size - codec.FooterLen
	if len(tail) < codec.FooterLen {
		return fdt.corrupt(at, "the chunks reach into the footer")
	}
	want, err := codec.ParseFooter(tail[len(tail)-codec.FooterLen:], at)
	if err != nil {
		return fdt.wrap(err)
	}
	r.win.advance(fdt.size)
	r.crcTracker.end(r.win.crc, want)
	if r.win.own == 0 && r.win.crc != want {
		return fdt.corrupt(at, "checksum %08x, footer states %08x", r.win.crc, want)
	}
	return fdt.compareManifest(want)
}

// load decompresses chunk k, whose bytes are read from w.
func (r *Reader) load(ctx context.Context, w *window, k int, at place) error {
	s := r.stored
	n, err := s.head(ctx, w, at, &r.direct)
	if err != nil {
		return err
	}
	r.chunk = &r.direct
	if r.only != nil {
		r.chunk.needed = r.selected(r.chunk)
	}
	if cap(r.own) > maxIdleRaw && r.chunk.total < maxIdleRaw/4 {
		r.own = nil
	}
	r.own, r.off = r.own[:0], 0
	if r.chunk.total > giantChunk && r.memory != nil {
		err = r.loadGiant(ctx, w, k, at.start+n, at.stop)
	} else {
		r.own, err = s.unpackChunk(ctx, w, r.unpack, k, r.chunk, r.own, at.start+n, at.stop)
	}
	if r.raw = r.own; err != nil {
		r.chunk.lengths = r.chunk.lengths[:0]
		return s.damaged(k, at, err)
	}
	return nil
}
