package lucene

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
)

// segmentsAhead is the number of segments that are opened before they are needed. The requests for the small
// files of one segment follow each other, so a repository with latency would otherwise delay every segment.
const segmentsAhead = 6

const (
	// streamsAhead is the distance in .fdt, in bytes, at which the stream of the next segment is started before its documents are
	// needed: about what a repository with latency delivers in a few round trips.
	streamsAhead = 64 << 20
	// streamHead is the number of bytes that are read of a stream when it is started: enough to send the request to the repository.
	streamHead = 4 << 10
)

// openings are the stored fields of segments that a reader will come to, being opened.
type openings struct {
	queue  []*opening      // in the order of the segments
	next   int             // index of the next segment to start with
	begun  []*begun        // streams, in the order of the segments
	stream int             // index of the next segment whose stream is started
	long   bool            // the last of queue takes much memory
	ctx    context.Context // of the openings; close ends it
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// opening is one segment; stored and err are valid when done is closed.
type opening struct {
	done   chan struct{}
	stored *storedFields
	err    error
}

// openAhead returns the stored fields of the segment before r.seg, after it started to open those that follow.
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
				break // it is opened when it is needed
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

// begun is the stream of a whole .fdt that was requested before it is needed. The fields after done are valid once done is closed.
type begun struct {
	segment *Segment
	cancel  context.CancelFunc
	done    chan struct{}
	from    io.ReadCloser
	head    []byte // the first bytes of from
	readErr error  // that was met behind them
	err     error  // the reason why the stream could not be started
}

// beginStreams starts the streams of the following segments that are needed soon. left is the number of bytes of the current
// segment that precede them.
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

// beginStream starts the stream of the .fdt of a segment; if err is not nil, it is recorded as the reason why the stream is missing. Close ends the stream.
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

// markFirst chooses the segments whose streams are started while the commit is opened: those within the first streamsAhead bytes.
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

// takeBegun returns the streams that were started while the commit was opened, once: the caller closes them.
func (c *Commit) takeBegun() []*begun {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.begun
	c.begun = nil
	return all
}

// take hands the streams that were started while the commit was opened to r, and ends the streams that r does not reach.
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

// Close ends the streams that were started with Options.Begin, unless a Reader has taken them.
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

// streamOf returns the stream of a segment if it was started, else nil.
func (a *openings) streamOf(s *Segment) *begun {
	if len(a.begun) == 0 || a.begun[0].segment != s {
		return nil
	}
	b := a.begun[0]
	a.begun = a.begun[1:]
	return b
}

// stream waits for the stream, which the caller closes.
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

// Close ends the stream, even if it is still being started.
func (b *begun) Close() error {
	b.cancel()
	<-b.done
	if b.from == nil {
		return nil
	}
	return b.from.Close()
}

// long reports whether one of the files that are read whole when the segment is opened is long.
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

// close stops the openings in progress and waits for them.
func (a *openings) close() error {
	if a.cancel != nil {
		a.cancel()
	}
	a.wg.Wait()
	err := closeBegun(a.begun)
	a.begun = nil
	return err
}
