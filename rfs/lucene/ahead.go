package lucene

import (
	"context"
	"sync"
)

// segmentsAhead is how many segments are opened before they are needed: the requests for the small files
// of one segment follow each other, so without it a repository with latency is waited for at every segment.
const segmentsAhead = 6

// openings are the stored fields of segments that a reader will come to, being opened.
type openings struct {
	queue  []*opening      // in the order of the segments
	next   int             // index of the next segment to begin with
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

// openAhead returns the stored fields of the segment before r.seg, after it began to open those that follow.
func (r *Reader) openAhead(ctx context.Context) (*storedFields, error) {
	a := &r.ahead
	a.next = max(a.next, r.seg-1)
	if a.ctx == nil { // the openings live longer than the call that begins them
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

// long reports whether one of the files that are read whole when the segment is opened is long.
func (s *Segment) long() bool {
	names := []string{".fnm", ".fdm", ".fdx"}
	if s.fieldsGen >= 0 || !s.wantInfos && s.fields != nil {
		names = names[1:]
	}
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

// close ends what is being opened and waits for it.
func (a *openings) close() {
	if a.cancel != nil {
		a.cancel()
	}
	a.wg.Wait()
}
