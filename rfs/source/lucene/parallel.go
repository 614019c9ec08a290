package lucene

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// stretchBytes is the number of bytes of .fdt that are decompressed together: decompressing a single chunk of 16 KiB takes less time
	// than waking a goroutine.
	stretchBytes = 64 << 10
	// maxAheadChunk is the length in .fdt beyond which a chunk is not read ahead.
	maxAheadChunk = 1 << 20
	// maxStretches bounds the stretches that a reader reads ahead.
	maxStretches = 16
	// maxAhead bounds the bytes of .fdt that a reader has read ahead, not counting the last stretch.
	maxAhead = 4 << 20
	// maxAheadRaw bounds the raw bytes of chunks that a reader has decompressed ahead.
	maxAheadRaw = 8 << 20
	// maxIdleStretch is the memory for raw bytes that an idle stretch keeps, in bytes.
	maxIdleStretch = 2 << 20
)

// Helpers are the goroutines that decompress chunks ahead for the Readers of a process, in addition to the goroutines that call Next. They
// are safe for concurrent use. A nil *Helpers starts no goroutines.
type Helpers struct {
	tokens  chan struct{} // one per running goroutine
	readers atomic.Int64  // open readers; each uses a core
	stretch int64         // stretchBytes

	mu   sync.Mutex
	idle map[string][]compression // by codec of .fdt
}

// NewHelpers returns Helpers of at most n concurrent goroutines while one Reader is open, and one fewer for each further open Reader; nil
// if n is less than 1. A goroutine runs only while a Reader has something to decompress.
func NewHelpers(n int) *Helpers {
	if n < 1 {
		return nil
	}
	return &Helpers{tokens: make(chan struct{}, n), stretch: stretchBytes, idle: map[string][]compression{}}
}

// most returns the current maximum number of goroutines. If each core has a Reader, decompressing a chunk in another goroutine only moves
// it from one core's cache to another's.
func (h *Helpers) most() int { return cap(h.tokens) + 1 - int(h.readers.Load()) }

// borrow returns a decompressor of stored fields, or nil if they are not compressed.
func (h *Helpers) borrow(s *storedFields) compression {
	if s.format.compression == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.idle[s.codec]
	if len(list) == 0 {
		return s.format.compression()
	}
	c := list[len(list)-1]
	h.idle[s.codec] = list[:len(list)-1]
	return c
}

func (h *Helpers) giveBack(s *storedFields, c compression) {
	if c == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle[s.codec] = append(h.idle[s.codec], c)
}

// readAhead is the queue of the stretches of a segment that were read ahead.
type readAhead struct {
	next int // the first chunk whose bytes were not read yet
	pos  int // of the current chunk, within the first stretch

	mu    sync.Mutex
	queue []*stretch // in order; the first holds the current chunk
	idle  []*stretch
	size  int          // bytes of .fdt in queue; only the reader's goroutine uses it
	raw   atomic.Int64 // bytes of decompressed chunks in queue
	wg    sync.WaitGroup
}

// stretch is a run of consecutive chunks whose bytes were read. The goroutine that claims it decompresses all of them.
type stretch struct {
	stored *storedFields
	first  int // its first chunk
	places []place
	chunks []aheadChunk
	data   []byte // their bytes in .fdt
	raw    []byte
	held   int64 // its share of readAhead.raw
	// err is returned after the last of places; without places, or if missing is set, when the chunk after it is needed.
	err     error
	missing bool

	claimed bool          // guarded by readAhead.mu
	done    chan struct{} // closed when it is decompressed
}

// aheadChunk is a chunk of a stretch.
type aheadChunk struct {
	chunk
	at       int  // where its bytes start in data
	wanted   bool // it may hold a live document
	from, to int  // its bytes in raw
	long     bool // the reader decompresses it when it reaches it
	err      error
}

// readAhead reads chunks ahead as long as helpers are available to decompress them. It returns the stretch of the next chunk, or nil if
// that chunk was not read ahead.
func (r *Reader) readAhead(ctx context.Context) (*stretch, error) {
	a := &r.chunks
	if r.helpers == nil {
		return nil, nil
	}
	if s := a.head(); s != nil && a.pos == len(s.places) {
		if s.err != nil {
			return nil, s.err
		}
		a.pop()
	}
	if len(a.queue) == 0 {
		a.next = r.next
		if len(r.helpers.tokens) >= r.helpers.most() {
			return nil, nil // all helpers are busy with other shards
		}
	}
	for r.helpers.most() > 0 && len(a.queue) < min(2*cap(r.helpers.tokens)+2, maxStretches) && a.size < maxAhead && (len(a.queue) == 0 || a.queue[len(a.queue)-1].err == nil) {
		s := r.fetch(ctx)
		if s == nil {
			break
		}
		a.push(s)
		r.help(ctx)
	}
	s := a.head()
	if s != nil && len(s.places) == 0 {
		return nil, s.err
	}
	return s, nil
}

// fetch reads the next stretch; nil at the end of the range, and before a chunk that is too long.
func (r *Reader) fetch(ctx context.Context) *stretch {
	a, x := &r.chunks, &r.stored.index
	var s *stretch
	for ; a.next < x.chunks() && (s == nil || int64(len(s.data)) < r.helpers.stretch); a.next++ {
		at, err := x.place(ctx, a.next)
		if err == nil && (r.cur.Base+int64(at.first) >= r.to || at.stop-at.start > maxAheadChunk || at.end-at.first > maxChunkDocs) {
			break
		}
		if s == nil {
			s = a.take(r.stored, a.next)
		}
		var p []byte
		if err == nil {
			p, err = r.win.at(ctx, at.start, at.stop-at.start)
		}
		if err != nil {
			s.err, s.missing = err, true
			break
		}
		s.add(at, p, r.cur.unheld != nil || r.anyLive(at))
		if s.err = r.pass(ctx, a.next, at); s.err != nil {
			a.next++
			break
		}
	}
	return s
}

// help starts a goroutine that decompresses the queue, if the limit allows.
func (r *Reader) help(ctx context.Context) {
	h, stored := r.helpers, r.stored
	if len(h.tokens) >= h.most() {
		return
	}
	select {
	case h.tokens <- struct{}{}:
	default:
		return
	}
	r.chunks.wg.Go(func() {
		defer func() { <-h.tokens }()
		unpack := h.borrow(stored)
		defer h.giveBack(stored, unpack)
		for s := r.chunks.claim(stored); s != nil; s = r.chunks.claim(stored) {
			s.unpack(ctx, unpack, &r.chunks.raw)
			close(s.done)
		}
	})
}

// take makes the next chunk of s, the first stretch, the current one. While another goroutine decompresses s, it decompresses later
// stretches.
func (r *Reader) take(ctx context.Context, s *stretch) error {
	for !s.ready() {
		next := r.chunks.claim(r.stored)
		if next == nil {
			<-s.done
			break
		}
		next.unpack(ctx, r.unpack, &r.chunks.raw)
		close(next.done)
	}
	c, k := &s.chunks[r.chunks.pos], s.first+r.chunks.pos
	switch {
	case c.long:
		w := s.window(c, r.at)
		return r.load(ctx, &w, k, r.at)
	case c.err != nil:
		return c.err
	}
	r.chunk, r.raw, r.off = &c.chunk, s.raw[c.from:c.to], 0
	return nil
}

// window returns a window of the bytes of a chunk.
func (s *stretch) window(c *aheadChunk, at place) window {
	return window{src: s.stored.fdt, buf: s.data[c.at : c.at+int(at.stop-at.start)], start: at.start, pos: at.start, own: math.MaxInt64, end: at.stop}
}

// add appends a chunk; p are its bytes.
func (s *stretch) add(at place, p []byte, wanted bool) {
	n := len(s.places)
	if n == len(s.chunks) {
		s.chunks = append(s.chunks, aheadChunk{})
	}
	c := &s.chunks[n]
	c.at, c.wanted, c.long, c.err = len(s.data), wanted, false, nil
	s.places, s.data = append(s.places, at), append(s.data, p...)
}

// unpack decompresses the wanted chunks. A chunk that exceeds the read-ahead limit is left to the reader.
func (s *stretch) unpack(ctx context.Context, unpack compression, held *atomic.Int64) {
	for i, at := range s.places {
		c := &s.chunks[i]
		if !c.wanted {
			continue
		}
		w := s.window(c, at)
		n, err := s.stored.head(ctx, &w, at, &c.chunk)
		if err != nil {
			c.err = err
			continue
		}
		if c.long = c.total > giantChunk || held.Add(c.total) > maxAheadRaw; c.long {
			if c.total <= giantChunk {
				held.Add(-c.total)
			}
			continue
		}
		s.held += c.total
		c.from = len(s.raw)
		s.raw, err = s.stored.unpackChunk(ctx, &w, unpack, s.first+i, &c.chunk, s.raw, at.start+n, at.stop)
		if c.to = len(s.raw); err != nil {
			c.err = s.stored.damaged(s.first+i, at, err)
		}
	}
}

// ready reports whether the stretch is decompressed.
func (s *stretch) ready() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// passed moves to the next chunk of the first stretch, and after the last one returns the error that was met there.
func (a *readAhead) passed() error {
	s := a.queue[0]
	a.pos++
	if a.pos == len(s.places) && !s.missing {
		return s.err
	}
	return nil
}

// head returns the first stretch, or nil.
func (a *readAhead) head() *stretch {
	if len(a.queue) == 0 {
		return nil
	}
	return a.queue[0]
}

// take returns an empty stretch, reusing an idle one.
func (a *readAhead) take(stored *storedFields, first int) *stretch {
	s := &stretch{}
	if n := len(a.idle); n > 0 {
		s, a.idle = a.idle[n-1], a.idle[:n-1]
	}
	*s = stretch{stored: stored, first: first, places: s.places[:0], chunks: s.chunks, data: s.data[:0], raw: s.raw[:0], done: make(chan struct{})}
	return s
}

func (a *readAhead) push(s *stretch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue, a.size = append(a.queue, s), a.size+len(s.data)
}

// claim returns the first stretch of a segment that no goroutine has started to decompress, or nil.
func (a *readAhead) claim(stored *storedFields) *stretch {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.queue {
		if !s.claimed && s.stored == stored {
			s.claimed = true
			return s
		}
	}
	return nil
}

// pop removes the first stretch after the reader has passed all of its chunks.
func (a *readAhead) pop() {
	a.mu.Lock()
	s := a.queue[0]
	a.queue, a.pos = slices.Delete(a.queue, 0, 1), 0
	claimed := s.claimed
	a.mu.Unlock()
	if claimed { // a goroutine may still be at work if no document was wanted
		<-s.done
		a.raw.Add(-s.held)
	}
	a.size -= len(s.data)
	if cap(s.raw) > maxIdleStretch {
		s.raw = nil
	}
	if len(a.idle) < maxStretches {
		a.idle = append(a.idle, s)
	}
}

// close drops the queue and waits until the goroutines have finished the stretches they claimed.
func (a *readAhead) close() {
	a.mu.Lock()
	a.queue = nil
	a.mu.Unlock()
	a.wg.Wait()
}
