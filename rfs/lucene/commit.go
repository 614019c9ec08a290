// Package lucene reads the live documents of a Lucene commit as it lies in a snapshot:
// every generation from Lucene 4.0 to 10.5, as a stream, by range reads, without the
// inverted index. Each file is dispatched by the codec name in its own header.
package lucene

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene/codec"
)

// Options configures how a commit is opened.
type Options struct {
	// VerifyAll reads every file of the commit whole, once, and compares its CRC with its
	// footer, also those that a migration does not need.
	VerifyAll bool
	// Values keeps what Record.Values and Record.Version need.
	Values bool
	// Concurrency is how many segments are opened at once; 0 means 4.
	Concurrency int
}

const defaultConcurrency = 16

// Commit is one commit of a shard with everything that is needed to read its documents.
// It does not change and is safe for concurrent use.
type Commit struct {
	Name     string            // segments_N
	Format   int               // format of segments_N, 0–10
	Version  string            // Lucene that wrote the commit; "" before 5.3
	UserData map[string]string // what Elasticsearch or OpenSearch recorded: local_checkpoint, …

	Segments   []*Segment // ordered by name as strings
	MaxOrdinal int64      // sum of MaxDoc
	LiveDocs   int64      // living Lucene documents, nested ones included

	// Unverified are files, or parts of files, whose checksum is not computed although a
	// migration may read of them, with the reason.
	Unverified []string
}

// Segment is one segment of a commit.
type Segment struct {
	Name         string
	Codec        string // as the commit names it; informational
	Version      string // Lucene that wrote it
	StoredFormat string // codec of .fdt; "" when nothing lives in the segment
	Base         int64  // ordinal of its first document
	MaxDoc       int    // documents, dead ones included
	DelCount     int    // hard-deleted documents
	SoftDelCount int    // soft-deleted documents that are not hard-deleted
	LiveCount    int
	Compound     bool
	StoredSize   int64 // length of .fdt in bytes

	id     string
	files  *files
	live   bitset // nil: all documents live
	fields fieldTable
	roots  rootTest

	sortedBy string      // the field by which its documents are sorted first, in rising order; "" for none
	infos    *fieldInfos // kept where ids are computed, or Options.Values asks for it; else nil

	preamble []byte // of .fdt, so that it is not fetched again; nil when nothing lives
}

// anyLive reports whether one of the documents [from, to) lives.
func (s *Segment) anyLive(from, to int32) bool {
	if s.live == nil {
		return from < to
	}
	return s.live.any(from, to)
}

// Open reads segments_N, and of each segment .si, .cfe, .fnm, the live documents and the
// soft deletes, and verifies the checksums of what it reads. It does not read documents.
func Open(ctx context.Context, dir Directory, opt Options) (*Commit, error) {
	names := dir.List()
	name, err := commitFile(names)
	if err != nil {
		return nil, err
	}
	src, err := openSource(dir, name)
	if err != nil {
		return nil, err
	}
	if err := src.bound(maxCommit); err != nil {
		return nil, err
	}
	b, err := src.readAt(ctx, 0, src.size)
	if err != nil {
		return nil, err
	}
	info, err := parseSegments(name, b)
	if err != nil {
		return nil, src.wrap(err)
	}
	if opt.VerifyAll {
		if err := verifyAll(ctx, dir, names); err != nil {
			return nil, err
		}
	}
	c := &Commit{Name: name, Format: int(info.format), Version: info.version, UserData: info.userData}
	openers := make([]segmentOpener, len(info.segments))
	var shared inAll
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(opt.Concurrency, defaultConcurrency))
	for i, e := range info.segments {
		openers[i] = segmentOpener{dir: dir, commit: src, entry: e, all: opt.VerifyAll, values: opt.Values, inAll: &shared}
		g.Go(func() error { return openers[i].open(gctx) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
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

// verifyAll checks the footer of every file.
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
	values     bool
	seg        *Segment
	unverified []string
	*inAll
}

// inAll is what the openers of a commit share.
type inAll struct {
	docs atomic.Int64
	long sync.Mutex // held while a long file is read and parsed
}

// maxDocs is how many documents an index of Lucene can have, deleted ones included.
const maxDocs = math.MaxInt32

// maxDocsPerByte bounds the documents of a segment by the length of its .fdt: a chunk of
// at most maxChunkDocs empty documents takes several bytes, real ones far more.
const maxDocsPerByte = 1024

func (o *segmentOpener) open(ctx context.Context) error {
	e := o.entry
	src, err := openSource(o.dir, e.name+".si")
	if err != nil {
		return err
	}
	b, err := src.readAll(ctx)
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
	f, err := openFiles(ctx, o.dir, e.name, si.id, si.compound)
	if err != nil {
		return err
	}
	o.seg = &Segment{
		Name: e.name, Codec: e.codec, Version: si.version, MaxDoc: int(si.maxDoc),
		DelCount: int(e.delCount), Compound: si.compound, id: si.id, files: f, sortedBy: si.sortedBy,
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
	fi, err := o.readFieldInfos(ctx)
	if err != nil {
		return err
	}
	o.seg.fields = newFieldTable(fi)
	if o.values || fi.synthetic() {
		o.seg.infos = fi
	}
	if err := o.readDeletions(ctx, fi); err != nil {
		return err
	}
	err = o.readStoredFormat(ctx, fdt)
	f.forget()
	return err
}

func (o *segmentOpener) readFieldInfos(ctx context.Context) (*fieldInfos, error) {
	var src *source
	var err error
	if gen := o.entry.fieldInfosGen; gen >= 0 {
		src, err = o.seg.files.later(gen, ".fnm")
	} else {
		src, err = o.seg.files.core(".fnm")
	}
	if err != nil {
		return nil, err
	}
	if src.size > longFile {
		o.long.Lock()
		defer o.long.Unlock()
	}
	b, err := src.readAll(ctx)
	if err != nil {
		return nil, err
	}
	fi, err := parseFieldInfos(b, o.seg.id)
	return fi, src.wrap(err)
}

// readStoredFormat names the stored fields, and refuses what cannot be read before
// anything is sent.
func (o *segmentOpener) readStoredFormat(ctx context.Context, fdt *source) error {
	if o.seg.LiveCount == 0 {
		if !o.all {
			o.unverified = append(o.unverified, fdt.name+": no document lives, not read")
		}
		return nil
	}
	p, err := fdt.readAt(ctx, 0, min(fdt.size, fdtPreamble))
	if err != nil {
		return err
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

// readDeletions finds the live documents, and proves the counts of the commit.
func (o *segmentOpener) readDeletions(ctx context.Context, fi *fieldInfos) error {
	s, e := o.seg, o.entry
	maxDoc := int32(s.MaxDoc)
	if e.delGen >= 0 {
		live, err := o.readLive(ctx)
		if err != nil {
			return err
		}
		s.live = live
	}
	dead := 0
	if s.live != nil {
		dead = s.MaxDoc - s.live.count()
	}
	if dead != s.DelCount {
		return o.commit.corrupt(-1, "segment %s has %d deleted documents, the commit says %d", s.Name, dead, s.DelCount)
	}
	soft, err := o.readColumns(ctx, fi)
	if err != nil {
		return err
	}
	if soft != nil && s.live == nil {
		s.live = newBitset(maxDoc)
		s.live.fill(maxDoc)
	}
	if soft != nil {
		for i := range s.live {
			s.live[i] &^= soft[i]
		}
		s.SoftDelCount = s.MaxDoc - s.live.count() - dead
	}
	if e.softDelCount >= 0 && s.SoftDelCount != int(e.softDelCount) {
		return o.commit.corrupt(-1, "segment %s has %d soft-deleted documents, the commit says %d", s.Name, s.SoftDelCount, e.softDelCount)
	}
	s.LiveCount = s.MaxDoc - dead - s.SoftDelCount
	return nil
}

func (o *segmentOpener) readLive(ctx context.Context) (bitset, error) {
	s, gen := o.seg, o.entry.delGen
	maxDoc := int32(s.MaxDoc)
	parse := func(b []byte) (bitset, error) { return parseLive(b, s.id, gen, maxDoc) }
	src, err := s.files.later(gen, ".liv")
	if errors.Is(err, fault.ErrCorrupt) {
		// Segments of Lucene 4 have the older kind of file.
		stem := s.Name + "_" + codec.Base36(gen)
		if src, err = s.files.later(gen, ".del"); errors.Is(err, fault.ErrCorrupt) {
			return nil, fault.Corrupt("", stem+".liv", -1, "the snapshot lists neither this file of the commit nor the older %s.del", stem)
		}
		parse = func(b []byte) (bitset, error) { return parseDel(b, maxDoc) }
	}
	if err != nil {
		return nil, err
	}
	b, err := src.readAll(ctx)
	if err != nil {
		return nil, err
	}
	live, err := parse(b)
	return live, src.wrap(err)
}
