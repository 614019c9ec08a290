package importer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

const (
	// tail is the number of bytes requested after the end of a window, for the rest of its last document. moreTail is the size of
	// further requests if that is longer.
	tail     = 64 << 10
	moreTail = 1 << 20
)

// window is an open part of a file.
type window struct {
	pairs
	closers []func()
}

func (w *window) close() {
	for i := len(w.closers) - 1; i >= 0; i-- {
		w.closers[i]()
	}
}

// openWindow opens the documents of a task that start at or after from. Offsets in a compressed file are
// offsets in its decompressed content. Lines of more than limit bytes fail. The windows of zstd frames have at most back bytes, with 0
// the window of the first one; reading returns errFurther for a frame with a larger window.
func openWindow(ctx context.Context, src Opener, t Task, from int64, limit int, memory room, back int64) (*window, error) {
	w := &window{pairs: pairs{from: max(from, t.From), to: t.To}}
	if t.Compression != plain {
		w.to = noEnd
		r, err := w.unpack(&ranges{ctx: ctx, src: src, name: t.File, size: t.Size, end: t.Size}, t, memory, back)
		if err != nil {
			w.close()
			return nil, err
		}
		w.take(ctx, newLines(r, 0, limit), memory.lines)
		return w, nil
	}
	at, skip, err := syncPoint(ctx, src, t.File, w.from)
	if err != nil {
		return nil, err
	}
	r := &ranges{ctx: ctx, src: src, name: t.File, at: at, end: min(t.To+tail, t.Size), size: t.Size}
	w.closers = append(w.closers, r.close)
	w.take(ctx, newLines(r, at, limit), memory.lines)
	if skip {
		if _, _, err := w.lines.next(); err != nil && !errors.Is(err, errLong) && !errors.Is(err, io.EOF) {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// take sets the lines of the window. Only one window at a time holds a long line.
func (w *window) take(ctx context.Context, l *lines, memory *budget.Budget) {
	l.turn = turn{ctx: ctx, memory: memory}
	w.lines, w.closers = l, append(w.closers, l.turn.give)
}

// unpack returns a decompressing reader. It returns errors of the decompressor as fault.ErrCorrupt, and errors of reading unchanged.
func (w *window) unpack(r *ranges, t Task, memory room, back int64) (io.Reader, error) {
	w.closers = append(w.closers, r.close)
	unpacked := &unpacked{packed: r, name: t.File}
	switch t.Compression {
	case gzipped:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, unpacked.explain(err)
		}
		unpacked.Reader = z
	case zstandard:
		z, narrow, err := w.unzstd(r, memory.frames, back)
		if err != nil {
			return nil, unpacked.explain(err)
		}
		w.closers = append(w.closers, z.Close)
		unpacked.Reader, unpacked.narrow = z, narrow
	default:
		return nil, fmt.Errorf("%s: compression %q is unknown to this version: %w", t.File, t.Compression, fault.ErrConfig)
	}
	return unpacked, nil
}

// unpacked is a decompressed stream.
type unpacked struct {
	io.Reader
	packed *ranges
	name   string
	narrow bool // frames may have larger windows than the decoder allows
}

func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = u.explain(err)
	}
	return n, err
}

func (u *unpacked) explain(err error) error {
	if u.packed.err != nil {
		return u.packed.err
	}
	if u.narrow && (errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded)) {
		return errFurther
	}
	return &fault.Damage{Blob: u.name, Offset: u.packed.at, Err: err}
}

// ranges reads a file from at to its end by ranges: one up to end, then small ones as needed.
type ranges struct {
	ctx  context.Context
	src  Opener
	name string
	at   int64 // of the next byte
	end  int64 // of the current range
	size int64 // of the file when it was listed
	rc   io.ReadCloser
	err  error // permanent error of reading
}

func (r *ranges) Read(p []byte) (int, error) {
	for {
		if r.err != nil {
			return 0, r.err
		}
		if r.rc == nil {
			if r.at >= r.size {
				return 0, io.EOF
			}
			if r.at >= r.end {
				r.end = min(r.at+moreTail, r.size)
			}
			if r.rc, r.err = r.open(); r.err != nil {
				return 0, r.err
			}
		}
		n, err := r.rc.Read(p)
		r.at += int64(n)
		if errors.Is(err, io.EOF) {
			r.close()
			if r.at < r.end {
				r.err = fault.Corrupt(r.name, "", r.at, "the file ends early")
			}
			err = nil
		}
		r.err = errors.Join(r.err, err)
		if n > 0 {
			return n, nil
		}
	}
}

func (r *ranges) open() (io.ReadCloser, error) {
	rc, err := r.src.Open(r.ctx, r.name, r.at, r.end-r.at)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.name, err)
	}
	if total, known := repo.Total(rc); known && total != r.size {
		rc.Close()
		return nil, fault.Corrupt(r.name, "", -1, "it had %d bytes when it was listed and has %d now: files must not change while they are imported", r.size, total)
	}
	return rc, nil
}

func (r *ranges) close() {
	if r.rc != nil {
		r.rc.Close()
		r.rc = nil
	}
}
