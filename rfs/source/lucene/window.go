package lucene

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// windowSize is the number of bytes of .fdt to request per read. A longer window would not be faster, only take more memory.
const windowSize = 256 << 10

// window reads a file once, from an offset to its end, through a buffer. It computes the CRC of the bytes from own on as it advances over
// them.
type window struct {
	src    *source
	begun  *begun // the stream if it was started ahead
	stream io.ReadCloser
	cancel context.CancelFunc
	buf    []byte // bytes [start, start+len(buf)) of the file
	start  int64
	pos    int64 // everything before it has been passed
	own    int64 // the CRC starts here
	limit  int64 // and ends here: the CRC in a footer does not cover itself
	end    int64 // of the stream
	crc    uint32
}

// open resets the window to start at off. It reuses buf.
func (w *window) open(src *source, off, own, limit int64, buf []byte) {
	*w = window{src: src, buf: buf[:0], start: off, pos: off, own: own, limit: limit, end: src.size}
}

// at returns n bytes at off, which must not precede the current position.
func (w *window) at(ctx context.Context, off, n int64) ([]byte, error) {
	if off < w.pos || n < 0 || off+n > w.end {
		return nil, w.src.corrupt(off, "%d bytes wanted of a file of %d", n, w.src.size)
	}
	if missing := off + n - (w.start + int64(len(w.buf))); missing > 0 {
		if err := w.fill(ctx, off+n); err != nil {
			return nil, err
		}
	}
	return w.buf[off-w.start : off+n-w.start], nil
}

// fill reads until the buffer reaches end.
func (w *window) fill(ctx context.Context, end int64) error {
	if w.stream == nil && w.begun != nil {
		s, err := w.begun.stream(ctx)
		if err != nil {
			return err
		}
		w.stream, w.cancel = s, w.begun.cancel
	} else if w.stream == nil {
		// The stream lives longer than the call that opens it; close ends it.
		sctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		s, err := w.src.stream(sctx, w.start, w.end-w.start)
		if err != nil {
			cancel()
			return err
		}
		w.stream, w.cancel = s, cancel
	}
	defer context.AfterFunc(ctx, w.cancel)()
	have := copy(w.buf, w.buf[w.pos-w.start:])
	w.buf, w.start = w.buf[:have], w.pos
	for need := int(end - w.start); len(w.buf) < need; {
		if err := w.read(ctx, min(need, max(2*len(w.buf), firstRead))); err != nil {
			return err
		}
	}
	return nil
}

// read extends the buffer to at least size bytes.
func (w *window) read(ctx context.Context, size int) error {
	have := len(w.buf)
	if cap(w.buf) < size {
		rest := w.end - w.start
		w.buf = append(make([]byte, 0, max(int64(size), min(rest, max(windowSize, int64(size+size/4))))), w.buf...)
	}
	room := w.buf[have:cap(w.buf)]
	room = room[:min(int64(len(room)), w.end-w.start-int64(have))]
	n, err := io.ReadAtLeast(w.stream, room, size-have)
	w.buf = w.buf[:have+n]
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return w.src.corrupt(w.start+int64(len(w.buf)), "the file ends early; %d bytes are stated", w.src.size)
	}
	return fmt.Errorf("read %s: %w", w.src.name, err)
}

// advance moves the position to off; the bytes before it must be in the buffer.
func (w *window) advance(off int64) {
	from, to := max(w.pos, w.own), min(off, w.limit)
	if from < to {
		w.crc = crc32.Update(w.crc, crc32.IEEETable, w.buf[from-w.start:to-w.start])
	}
	w.pos = off
}

// skip advances to an offset without using the bytes.
func (w *window) skip(ctx context.Context, to int64) error {
	for w.pos < to {
		step := min(to, w.pos+windowSize/2)
		if _, err := w.at(ctx, w.pos, step-w.pos); err != nil {
			return err
		}
		w.advance(step)
	}
	return nil
}

func (w *window) close() error {
	if w.stream == nil && w.begun != nil {
		w.stream, w.cancel = w.begun, w.begun.cancel
	}
	if w.stream == nil {
		return nil
	}
	err := w.stream.Close()
	w.cancel()
	w.stream, w.begun = nil, nil
	if err != nil {
		return fmt.Errorf("close %s: %w", w.src.name, err)
	}
	return nil
}

// pageSize is the number of bytes to request per read of a file that is not held.
const pageSize = 256 << 10

// pages reads a file in pages, on demand. It belongs to one goroutine.
type pages struct {
	src   *source
	start int64 // of page
	page  []byte
}

// at returns n bytes at off, valid until the next call.
func (p *pages) at(ctx context.Context, off, n int64) ([]byte, error) {
	if off < p.start || n < 0 || off+n > p.start+int64(len(p.page)) {
		p.page = nil
		b, err := p.src.readAt(ctx, off, max(n, min(pageSize, p.src.size-off)))
		if err != nil {
			return nil, err
		}
		p.start, p.page = off, b
	}
	return p.page[off-p.start : off-p.start+n], nil
}
