// Package lucene reads the live documents of a Lucene commit in a snapshot as a stream: every generation from Lucene 4.0 to 10.5, by range
// reads. It reads the inverted index on request only. The codec name in the header of each file decides how the file is read.
package lucene

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// Options configures how a commit is opened.
type Options struct {
	// VerifyAll verifies every file of the commit: it reads each whole, once, and compares its CRC with its footer, including files that a
	// migration does not need.
	VerifyAll bool
	// Values keeps the fields that Record.Values and Record.Version need.
	Values bool
	// Parts is for reading a few selected documents: of a long column file only the needed columns are read, and its checksum is not
	// compared.
	Parts bool
	// Begin starts the .fdt streams of the first segments while the commit is opened, for a Reader that starts at ordinal 0. Commit.Close
	// closes the streams if no such Reader was created.
	Begin bool
	// Concurrency is the number of segments that are opened concurrently; 0 means 16.
	Concurrency int
	// Held bounds the memory that the commit holds for all its segments together, in bytes; 0 means 8 MiB.
	Held int64
}

const defaultConcurrency = 16

// Commit is one commit of a shard with everything that is needed to read its documents. Its exported fields do not change after Open, and
// it is safe for concurrent use.
type Commit struct {
	Name     string            // segments_N
	Format   int               // format of segments_N, 0–10
	Version  string            // Lucene that wrote the commit; "" before 5.3
	UserData map[string]string // what Elasticsearch or OpenSearch recorded: local_checkpoint, …

	Segments   []*Segment // ordered by name as strings
	MaxOrdinal int64      // sum of MaxDoc
	LiveDocs   int64      // live Lucene documents, nested ones included

	// Unverified lists files, or parts of files, whose checksum is not compared although a migration may read them, with the reason.
	Unverified []string

	mu    sync.Mutex
	begun []*begun // until a Reader takes them
}

// Segment is one segment of a commit.
type Segment struct {
	Name         string
	Codec        string // as the commit names it; informational
	Version      string // Lucene that wrote it
	StoredFormat string // codec of .fdt; "" if the segment has no live documents
	Base         int64  // ordinal of its first document
	MaxDoc       int    // documents, dead ones included
	DelCount     int    // hard-deleted documents
	SoftDelCount int    // soft-deleted documents that are not hard-deleted
	LiveCount    int
	Compound     bool
	StoredSize   int64 // length of .fdt in bytes

	id     string
	files  *files
	live   bitset // nil: all documents are live, or not held
	roots  rootTest
	unheld *deletions // the files of live and roots if these are not held; else nil

	heldChunks int64 // the maximum number of entries of the chunk index to hold

	sortedBy  string     // the field that its documents are sorted by first, in ascending order; "" for none
	fieldsGen int64      // generation of the .fnm with updated columns; -1: no column was updated
	fields    fieldTable // nil: not held
	wantInfos bool       // ids are computed, or Options.Values is set
	infos     *fieldInfos

	preamble []byte // of .fdt, so that it is not fetched again; nil if the segment has no live documents
}

// Open reads segments_N, and of each segment .si, .cfe, .fnm, the live documents and the
// soft deletes, and verifies the checksums of what it reads. It does not read documents.
func Open(ctx context.Context, dir Directory, opt Options) (*Commit, error) {
	src, info, err := readCommit(ctx, dir)
	if err != nil {
		return nil, err
	}
	if opt.VerifyAll {
		if err := verifyAll(ctx, dir, dir.List()); err != nil {
			return nil, err
		}
	}
	c := &Commit{Name: src.name, Format: int(info.format), Version: info.version, UserData: info.userData}
	openers := make([]segmentOpener, len(info.segments))
	shared := inAll{most: opt.Held, early: make(chan struct{}, earlyRequests)}
	for i, e := range info.segments {
		openers[i] = segmentOpener{dir: dir, commit: src, entry: e, all: opt.VerifyAll, parts: opt.Parts, values: opt.Values, inAll: &shared}
	}
	if opt.Begin {
		markFirst(context.WithoutCancel(ctx), dir, openers) // they live longer than this call
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(opt.Concurrency, defaultConcurrency))
	for i := range openers {
		g.Go(func() error { return openers[i].open(gctx) })
	}
	err = g.Wait()
	for i := range openers {
		if b := openers[i].begun; b != nil {
			c.begun = append(c.begun, b)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for _, o := range openers {
		s := o.seg
		s.Base = c.MaxOrdinal
		c.MaxOrdinal += int64(s.MaxDoc)
		c.LiveDocs += int64(s.LiveCount)
		c.Segments = append(c.Segments, s)
		c.Unverified = append(c.Unverified, o.unverified...)
	}
	return c, nil
}

// verifyAll compares the CRC of every file with its footer.
func verifyAll(ctx context.Context, dir Directory, names []string) error {
	for _, n := range slices.Sorted(slices.Values(names)) {
		src, err := openSource(dir, n)
		if err != nil {
			return err
		}
		if err := src.verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

// segmentOpener opens one segment.
type segmentOpener struct {
	dir        Directory
	entry      segmentEntry
	commit     *source
	all        bool
	parts      bool
	values     bool
	seg        *Segment
	unverified []string
	early      *earlyReads
	first      context.Context // of the stream to start while opening; nil: none
	begun      *begun          // that stream
	*inAll
}

// inAll is the state that the openers of a commit share.
type inAll struct {
	docs     atomic.Int64
	sections atomic.Int64  // of compound files
	held     atomic.Int64  // memory held by all segments, in bytes
	most     int64         // the limit of held; 0: mostHeld
	early    chan struct{} // one element per early read in progress
	long     sync.Mutex    // held while a long file is read and parsed
}

const (
	// mostHeld bounds the memory that a commit holds for all its segments together, in bytes: the marks of live documents, the fields, and
	// short files. The rest is read again, in pages, as documents are read. It is enough for the marks of 64 million documents.
	mostHeld = 8 << 20
	// maxSegments and maxSections bound the memory per segment and per file. Shards have at most a few hundred segments, with a dozen files
	// each.
	maxSegments = 1 << 14
	maxSections = 1 << 18
)

// hold reports whether n bytes may be held, and counts them.
func (a *inAll) hold(n int64) bool {
	if a.held.Add(n) <= cmp.Or(a.most, mostHeld) {
		return true
	}
	a.held.Add(-n)
	return false
}

// maxDocs is the maximum number of documents in a Lucene index, deleted ones included.
const maxDocs = math.MaxInt32

// maxDocsPerByte bounds the documents of a segment by the length of its .fdt: a chunk of
// at most maxChunkDocs empty documents takes several bytes, real ones far more.
const maxDocsPerByte = 1024

func (o *segmentOpener) open(ctx context.Context) error {
	e := o.entry
	o.early = newEarlyReads(ctx, o.inAll.early)
	defer o.early.end()
	o.begin()
	src, err := openSource(o.dir, e.name+".si")
	if err != nil {
		return err
	}
	b, err := o.early.serve(src).readAll(ctx)
	if err != nil {
		return err
	}
	si, err := parseSegmentInfo(b)
	if err != nil {
		return src.wrap(err)
	}
	if e.id != "" && si.id != "" && e.id != si.id {
		return src.corrupt(-1, "the file belongs to segment %x, the commit names %x", si.id, e.id)
	}
	f, err := openFiles(ctx, o.dir, e.name, si.id, si.compound, o.early)
	if err != nil {
		return err
	}
	o.seg = &Segment{
		Name: e.name, Codec: e.codec, Version: si.version, MaxDoc: int(si.maxDoc),
		DelCount: int(e.delCount), Compound: si.compound, id: si.id, files: f, sortedBy: si.sortedBy,
	}
	o.beginParts()
	if n := o.sections.Add(int64(len(f.sections))); n > maxSections {
		return fmt.Errorf("%s.cfe: more than %d files in the compound files of a commit: %w", e.name, maxSections, fault.ErrUnsupported)
	}
	fdt, err := f.core(".fdt")
	if err != nil {
		return err
	}
	o.seg.StoredSize = fdt.size
	if int64(si.maxDoc) > fdt.size*maxDocsPerByte {
		return src.corrupt(-1, "%d documents in %d bytes of stored fields", si.maxDoc, fdt.size)
	}
	if n := o.inAll.docs.Add(int64(si.maxDoc)); n > maxDocs {
		return o.commit.corrupt(-1, "%d documents in the segments, an index has at most %d", n, maxDocs)
	}
	o.seg.fieldsGen = e.fieldInfosGen
	if o.seg.heldChunks = mostChunks; o.most > 0 {
		o.seg.heldChunks = o.most
	}
	fi, err := o.readFields(ctx)
	if err != nil {
		return err
	}
	if err := o.readDeletions(ctx, fi); err != nil {
		return err
	}
	if fdt, err = f.core(".fdt"); err != nil { // again, with the bytes that were read early meanwhile
		return err
	}
	if err = o.readStoredFormat(ctx, fdt); err == nil && o.seg.LiveCount > 0 {
		err = o.keepIndex(ctx)
	}
	f.forget()
	return err
}

// readFields reads the fields of the segment, and holds them if they fit into the memory limit.
func (o *segmentOpener) readFields(ctx context.Context) (*fieldInfos, error) {
	fi, err := o.seg.readFieldInfos(ctx, &o.long)
	if err != nil {
		return nil, err
	}
	o.seg.wantInfos = o.values || fi.idColumns() != nil
	if table := newFieldTable(fi); o.hold(int64(len(table))) {
		o.seg.fields = table
	}
	if o.seg.wantInfos && o.hold(fieldCost*int64(len(fi.fields)+len(fi.updated))) {
		o.seg.infos = fi
	}
	return fi, nil
}

// readFieldInfos reads the fields of the segment, including updated columns. Unless long is nil, it is held while a long file is read and
// parsed.
func (s *Segment) readFieldInfos(ctx context.Context, long *sync.Mutex) (*fieldInfos, error) {
	src, err := s.files.core(".fnm")
	if err != nil {
		return nil, err
	}
	fi, err := s.parseFields(ctx, src, long)
	if err != nil || s.fieldsGen < 0 {
		return fi, err
	}
	if src, err = s.files.later(s.fieldsGen, ".fnm"); err != nil {
		return nil, err
	}
	later, err := s.parseFields(ctx, src, long)
	if err != nil {
		return nil, err
	}
	fi.update(later)
	return fi, nil
}

// parseFields reads one .fnm file.
func (s *Segment) parseFields(ctx context.Context, src *source, long *sync.Mutex) (*fieldInfos, error) {
	if long != nil && src.size > longFile {
		long.Lock()
		defer long.Unlock()
	}
	b, err := src.readAll(ctx)
	if err != nil {
		return nil, err
	}
	fi, err := parseFieldInfos(b, s.id)
	return fi, src.wrap(err)
}

// readerFields returns the fields of the segment for a reader, from memory or from the file; the field infos are nil unless wanted.
func (s *Segment) readerFields(ctx context.Context) (fieldTable, *fieldInfos, error) {
	if s.fields != nil && (s.infos != nil || !s.wantInfos) {
		return s.fields, s.infos, nil
	}
	fi, err := s.readFieldInfos(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	table := newFieldTable(fi)
	if !s.wantInfos {
		fi = nil
	}
	return table, fi, nil
}

// readStoredFormat sets the format of the stored fields. It returns an error for an unknown format, before any document is sent.
func (o *segmentOpener) readStoredFormat(ctx context.Context, fdt *source) error {
	if o.seg.LiveCount == 0 {
		if !o.all {
			o.unverified = append(o.unverified, fdt.name+": no live documents, not read")
		}
		return nil
	}
	n := min(fdt.size, fdtPreamble)
	p := o.begun.headOf(ctx, n)
	if p == nil {
		var err error
		if p, err = fdt.readAt(ctx, 0, n); err != nil {
			return err
		}
	}
	s, _, err := parseStoredHeader(p, fdt, o.seg.id)
	if err != nil {
		return err
	}
	o.seg.preamble = bytes.Clone(p)
	o.seg.StoredFormat = s.codec
	if !s.hasFooter() {
		o.unverified = append(o.unverified, fdt.name+": this version of Lucene wrote no checksum")
	}
	return nil
}

// readDeletions reads which documents are live, and compares their number with the counts of the commit.
func (o *segmentOpener) readDeletions(ctx context.Context, fi *fieldInfos) error {
	s, e := o.seg, o.entry
	var d deletions
	var err error
	if e.delGen >= 0 {
		if d.live, err = o.findLive(ctx); err != nil {
			return err
		}
	}
	if d.soft, d.roots, err = o.findColumns(ctx, fi); err != nil {
		return err
	}
	hard, live, err := o.readMarks(ctx, d)
	if err != nil {
		return err
	}
	if dead := s.MaxDoc - hard; dead != s.DelCount {
		return o.commit.corrupt(-1, "segment %s has %d deleted documents, the commit states %d", s.Name, dead, s.DelCount)
	}
	s.SoftDelCount = hard - live
	if e.softDelCount >= 0 && s.SoftDelCount != int(e.softDelCount) {
		return o.commit.corrupt(-1, "segment %s has %d soft-deleted documents, the commit states %d", s.Name, s.SoftDelCount, e.softDelCount)
	}
	s.LiveCount = live
	return nil
}

// readMarks reads which documents are live and which are roots, and holds the marks if they fit. It returns the number of documents that
// are not hard-deleted, and the number of live ones among them.
func (o *segmentOpener) readMarks(ctx context.Context, d deletions) (hard, live int, err error) {
	s, maxDoc := o.seg, int32(o.seg.MaxDoc)
	if d.none() {
		return s.MaxDoc, s.MaxDoc, nil
	}
	m, err := openMarks(ctx, d, maxDoc)
	if err != nil {
		return 0, 0, err
	}
	words := (int64(maxDoc) + 63) / 64
	held := o.hold(8 * words * d.sets())
	if held {
		s.live = make(bitset, 0, words)
	}
	roots := 0
	for from := int64(0); from < int64(maxDoc); from += docsAtATime {
		n, err := m.advance(ctx, int32(from), int32(min(from+docsAtATime, int64(maxDoc))))
		if err != nil {
			return 0, 0, err
		}
		hard, live, roots = hard+n, live+m.live.count(), roots+m.roots.count()
		if held {
			s.live, s.roots.docs = append(s.live, m.live...), append(s.roots.docs, m.roots...)
		}
	}
	if live == s.MaxDoc {
		s.live, d.live, d.soft = nil, nil, nil
	}
	if roots == s.MaxDoc {
		s.roots.docs, d.roots = nil, nil
	}
	if !held && !d.none() {
		s.unheld = d.uncached()
	}
	return hard, live, nil
}

// findLive opens and verifies the file of the live documents.
func (o *segmentOpener) findLive(ctx context.Context) (*liveFile, error) {
	s := o.seg
	f := &liveFile{id: s.id, gen: o.entry.delGen}
	var err error
	f.src, err = s.files.later(f.gen, ".liv")
	if errors.Is(err, fault.ErrCorrupt) {
		// Segments of Lucene 4 have the older kind of file.
		f.old = true
		stem := s.Name + "_" + codec.Base36(f.gen)
		if f.src, err = s.files.later(f.gen, ".del"); errors.Is(err, fault.ErrCorrupt) {
			return nil, fault.Corrupt("", stem+".liv", -1, "the snapshot lists neither this file of the commit nor the older %s.del", stem)
		}
	}
	if err != nil {
		return nil, err
	}
	return f, f.src.check(ctx)
}
