package lucene

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

const (
	// earlyFile is the length up to which a file is read before it is needed, in bytes.
	earlyFile = 64 << 10
	// earlyBytes bounds the bytes that are read early of a segment.
	earlyBytes = 256 << 10
	// earlyRequests bounds the reads of a commit that are in progress at the same time.
	earlyRequests = 32
)

// earlyReads reads the short files of a segment concurrently while it is opened. Each file refers to the next, so otherwise a repository
// with latency would delay each of them. It belongs to one goroutine.
type earlyReads struct {
	ctx    context.Context // of the reads; end cancels it
	cancel context.CancelFunc
	tokens chan struct{} // one per read of the commit that is in progress
	left   int64         // bytes that may still be read
	reads  map[string]*earlyRead
	wg     sync.WaitGroup
}

// earlyRead is a read of the start of a file; data and err are valid once done is closed.
type earlyRead struct {
	done chan struct{}
	n    int64
	data []byte
	err  error
}

func newEarlyReads(ctx context.Context, tokens chan struct{}) *earlyReads {
	if tokens == nil { // no other segment is opened with it
		tokens = make(chan struct{}, earlyRequests)
	}
	e := &earlyReads{tokens: tokens, left: earlyBytes, reads: map[string]*earlyRead{}}
	e.ctx, e.cancel = context.WithCancel(ctx)
	return e
}

// begin starts to read the first n bytes of a file, unless they exceed the limits of early reads.
func (e *earlyReads) begin(s *source, n int64) {
	if n = min(n, s.size); n <= 0 || n > earlyFile || n > e.left || e.reads[s.name] != nil || s.data != nil {
		return
	}
	e.left -= n
	e.start(s, n)
}

// start starts to read the first n bytes of a file, regardless of the limits.
func (e *earlyReads) start(s *source, n int64) {
	r := &earlyRead{done: make(chan struct{}), n: n}
	e.reads[s.name] = r
	e.wg.Go(func() {
		defer close(r.done)
		select {
		case e.tokens <- struct{}{}:
		case <-e.ctx.Done():
			r.err = context.Cause(e.ctx)
			return
		}
		defer func() { <-e.tokens }()
		r.data, r.err = s.readAt(e.ctx, 0, n)
	})
}

// beginFile is begin for a whole file of the directory; it ignores a missing file.
func (e *earlyReads) beginFile(dir Directory, name string) {
	if s, err := openSource(dir, name); err == nil {
		e.begin(s, s.size)
	}
}

// serve makes s return bytes that were read early, and returns s. On a nil earlyReads it has no effect.
func (e *earlyReads) serve(s *source) *source {
	if e != nil {
		s.early = e.reads[s.name]
	}
	return s
}

// end cancels the reads in progress and waits for them.
func (e *earlyReads) end() {
	e.cancel()
	e.wg.Wait()
}

// at blocks until the read is complete and returns n bytes at off; nil if the read does not cover them. A nil earlyRead covers none.
func (r *earlyRead) at(ctx context.Context, off, n int64) ([]byte, error) {
	if r == nil || n == 0 || off > r.n-n {
		return nil, nil
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.data[off : off+n], nil
}

// begin starts to read the short files next to the compound file, and the compound file itself if it is kept while the segment is
// opened.
func (o *segmentOpener) begin() {
	e := o.entry
	names := append([]string{e.name + ".si", e.name + ".cfe"}, e.updates...)
	if e.delGen >= 0 {
		names = append(names, laterName(e.name, e.delGen, ".liv"))
	}
	for _, name := range names {
		o.early.beginFile(o.dir, name)
	}
	if s, err := openSource(o.dir, e.name+".cfs"); err == nil && s.size <= cachedCompound {
		o.early.start(s, s.size)
	}
}

// beginParts starts to read the short files inside the compound file, or the same files next to it if the segment has none. The start of
// .fdt is read by its stream if that is to be started.
func (o *segmentOpener) beginParts() {
	suffixes := []string{".fdm", ".fdx", ".fnm"}
	var metas []string
	for name := range o.seg.files.sections {
		if strings.HasSuffix(name, ".dvm") {
			metas = append(metas, name)
		}
	}
	if len(metas) == 1 { // a single column file has the columns that are needed
		suffixes = append(suffixes, metas[0])
		if o.entry.softDelCount > 0 && o.entry.fieldInfosGen < 0 {
			suffixes = append(suffixes, strings.TrimSuffix(metas[0], "m")+"d") // it is read whole if it is short
		}
	}
	for _, suffix := range suffixes {
		if s, err := o.seg.files.core(suffix); err == nil {
			o.early.begin(s, s.size)
		}
	}
	s, err := o.seg.files.core(".fdt")
	switch {
	case err != nil:
	case o.first != nil && o.seg.DelCount < o.seg.MaxDoc:
		o.begun = beginStream(o.first, o.seg, s, nil)
	default:
		o.early.begin(s, fdtPreamble)
	}
}

// keepIndex keeps the chunk index files that were read early, for the readers of the segment. It ignores damage, which a reader finds
// again.
func (o *segmentOpener) keepIndex(ctx context.Context) error {
	kept := map[string][]byte{}
	for _, suffix := range []string{".fdm", ".fdx"} {
		s, err := o.seg.files.core(suffix)
		if err != nil {
			continue
		}
		b, err := s.early.at(ctx, 0, s.size)
		if errors.Is(err, fault.ErrUnavailable) {
			return err
		}
		if s.data != nil && s.size <= earlyFile {
			b = bytes.Clone(s.data[s.base : s.base+s.size])
		}
		if b != nil && o.hold(int64(len(b))) {
			kept[suffix] = b
		}
	}
	o.seg.files.kept = kept
	return nil
}
