package lucene

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
)

// segmentsAhead is the number of segments that are opened before they are needed. The requests for the small files of a segment depend on
// each other, so a repository with latency would otherwise delay every segment.
const segmentsAhead = 6

const (
	// streamsAhead is the distance in .fdt, in bytes, at which the stream of the next segment is started before its documents are needed:
	// about as much as a repository with latency delivers in a few round trips.
	streamsAhead = 64 << 20
	// streamHead is the number of bytes to read of a stream when it is started: enough to send the request to the repository.
	streamHead = 4 << 10
)

// openings are the segments that are opened before the reader reaches them.
type openings struct {
	queue  []*opening      // in the order of the segments
	next   int             // index of the next segment to open
	begun  []*begun        // streams, in the order of the segments
	stream int             // index of the next segment whose stream is started
	long   bool            // opening the last of queue takes much memory
	ctx    context.Context // of the openings; close cancels it
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// opening is the opening of one segment; stored and err are valid once done is closed.
type opening struct {
	done   chan struct{}
	stored *storedFields
	err    error
}

// openAhead starts to open the next segments, and blocks until the current segment, the one before r.seg, is open. It returns the stored
// fields of that segment.
func (r *Reader) openAhead(ctx context.Context) (*storedFields, error) {
	a := &r.ahead
	a.next = max(a.next, r.seg-1)
	if a.ctx == nil { // the openings live longer than the call that starts them
		a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	for ; len(a.queue) <= segmentsAhead && a.next < len(r.commit.Segments); a.next++ {
		if s := r.commit.Segments[a.next]; r.reaches(s) {
			long := s.long()
			if len(a.queue) > 0 && (long || a.long) {
				break // it is opened when it is reached
			}
			a.long = long
			o := &opening{done: make(chan struct{})}
			a.queue = append(a.queue, o)
			a.wg.Go(func() {
				defer close(o.done)
				o.stored, o.err = openStored(a.ctx, s)
			})
		}
	}
	first := a.queue[0]
	select {
	case <-first.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	a.queue = a.queue[1:]
	return first.stored, first.err
}

// begun is the stream of a whole .fdt, requested before it is needed. The fields after done are valid once done is closed.
type begun struct {
	segment *Segment
	cancel  context.CancelFunc
	done    chan struct{}
	from    io.ReadCloser
	head    []byte // the first bytes of from
	readErr error  // the error of the read that returned head
	err     error  // the reason why the stream could not be started
}

// beginStreams starts the streams of the following segments that are needed soon. left is the number of bytes of the current segment that
// are still to be read.
func (r *Reader) beginStreams(left int64) {
	a := &r.ahead
	for _, b := range a.begun {
		left += b.segment.StoredSize
	}
	for a.stream = max(a.stream, r.seg); left < streamsAhead && a.stream < len(r.commit.Segments); a.stream++ {
		s := r.commit.Segments[a.stream]
		if !r.reaches(s) {
			continue
		}
		if len(a.begun) == segmentsAhead {
			return
		}
		left += s.StoredSize
		src, err := s.files.core(".fdt")
		a.begun = append(a.begun, beginStream(a.ctx, s, src, err))
	}
}

// beginStream starts the stream of the .fdt of a segment. If err is not nil, fdt could not be opened, and reading the stream returns err.
// The caller closes the stream.
func beginStream(ctx context.Context, s *Segment, fdt *source, err error) *begun {
	b := &begun{segment: s, done: make(chan struct{})}
	ctx, b.cancel = context.WithCancel(ctx)
	go func() {
		defer close(b.done)
		if err == nil {
			b.from, err = fdt.stream(ctx, 0, fdt.size)
		}
		if b.err = err; err != nil {
			return
		}
		p := make([]byte, min(streamHead, fdt.size))
		n, err := b.from.Read(p)
		b.head, b.readErr = p[:n], err
	}()
	return b
}

// markFirst selects the segments whose streams are started while the commit is opened: those within the first streamsAhead bytes.
func markFirst(ctx context.Context, dir Directory, openers []segmentOpener) {
	left := int64(streamsAhead)
	for i := range openers[:min(len(openers), segmentsAhead)] {
		o := &openers[i]
		src, err := openSource(dir, o.entry.name+".fdt")
		if err != nil {
			src, err = openSource(dir, o.entry.name+".cfs")
		}
		if err != nil || left <= 0 {
			return
		}
		o.first, left = ctx, left-src.size
	}
}

// takeBegun returns the streams that were started while the commit was opened, and removes them from c. The caller closes them.
func (c *Commit) takeBegun() []*begun {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.begun
	c.begun = nil
	return all
}

// take moves the streams that were started while the commit was opened to r, and closes the streams of segments that r does not reach.
func (a *openings) take(r *Reader) {
	for _, b := range r.commit.takeBegun() {
		if r.reaches(b.segment) {
			a.begun = append(a.begun, b)
		} else {
			a.wg.Go(func() { _ = b.Close() }) // nothing was read of it
		}
		a.stream = slices.Index(r.commit.Segments, b.segment) + 1
	}
}

// headOf returns the first n bytes of the file if they were read when the stream was started, else nil.
func (b *begun) headOf(ctx context.Context, n int64) []byte {
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return nil
	}
	if int64(len(b.head)) < n {
		return nil
	}
	return b.head[:n]
}

// Close closes the streams that Options.Begin started, unless a Reader has taken them.
func (c *Commit) Close() error { return closeBegun(c.takeBegun()) }

func closeBegun(all []*begun) (err error) {
	for _, b := range all {
		b.cancel()
	}
	for _, b := range all {
		err = errors.Join(err, b.Close())
	}
	return err
}

// streamOf returns the stream of a segment and removes it from a; nil if it was not started.
func (a *openings) streamOf(s *Segment) *begun {
	if len(a.begun) == 0 || a.begun[0].segment != s {
		return nil
	}
	b := a.begun[0]
	a.begun = a.begun[1:]
	return b
}

// stream blocks until the stream is started and returns it. The caller closes it.
func (b *begun) stream(ctx context.Context) (io.ReadCloser, error) {
	select {
	case <-b.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if b.err != nil {
		return nil, b.err
	}
	return b, nil
}

// Read returns the bytes that were read when the stream was started, then the rest.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.head) > 0 {
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	if b.readErr != nil {
		return 0, b.readErr
	}
	return b.from.Read(p)
}

// Close closes the stream, even if it is still being started.
func (b *begun) Close() error {
	b.cancel()
	<-b.done
	if b.from == nil {
		return nil
	}
	return b.from.Close()
}

// long reports whether opening the segment takes much memory: it reads a file longer than longFile whole, or the fields again.
func (s *Segment) long() bool {
	names := []string{".fdm", ".fdx"}
	if s.infos != nil {
		for _, name := range s.infos.idColumns() {
			if f := s.infos.named(name); f != nil {
				names = append(names, "_"+f.columnFile()+".dvm")
			}
		}
	}
	for _, name := range names {
		if src, err := s.files.core(name); err == nil && src.size > longFile {
			return true
		}
	}
	return s.fields == nil || s.wantInfos && s.infos == nil
}

// close cancels the openings in progress, waits for them, and closes the streams that were started.
func (a *openings) close() error {
	if a.cancel != nil {
		a.cancel()
	}
	a.wg.Wait()
	err := closeBegun(a.begun)
	a.begun = nil
	return err
}
