package columns

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// Data is the file of the values, .dvd.
type Data interface {
	// ReadAt returns n bytes at off, which the caller must not change.
	ReadAt(ctx context.Context, off, n int64) ([]byte, error)
	Size() int64
}

// Holder is an optional interface of Data: it bounds the memory that the readers of a file hold together.
type Holder interface {
	// Hold counts n more bytes of long values, or -n fewer. Its error is ErrLong, or wraps it.
	Hold(n int64) error
	// Page returns the number of bytes to request per read of a part of the file.
	Page() int64
}

// ErrLong reports values that exceed the memory limit.
var ErrLong = errors.New("values of columns exceed the length that is read")

const (
	// pageSize is the number of bytes to request per read of a part of the file, unless Data is a Holder. Larger reads are counted.
	pageSize = 256 << 10
	// maxLong bounds the memory that a reader uses for each part of a file whose Data is not a Holder, in bytes.
	maxLong = 16 << 20
)

// hold counts n bytes of a part; was is the number counted for it before. It returns the number counted now.
func hold(data Data, was, n int64) (int64, error) {
	if n <= pageSize {
		n = 0
	}
	if h, ok := data.(Holder); ok {
		if n == was {
			return was, nil
		}
		if err := h.Hold(n - was); err != nil {
			return was, err
		}
		return n, nil
	}
	if n > maxLong {
		return was, fmt.Errorf("%d bytes, at most %d: %w: %w", n, maxLong, ErrLong, fault.ErrUnsupported)
	}
	return n, nil
}

// view reads a part of the file in pages, on demand.
type view struct {
	data     Data
	from, to int64 // the part
	start    int64 // of page
	page     []byte
	held     int64
}

// shrink releases a long page.
func (v *view) shrink() {
	if v != nil && v.held > 0 {
		v.page = nil
		v.held, _ = hold(v.data, v.held, 0)
	}
}

func newView(data Data, off, size int64) *view {
	v := &view{data: data, from: off, to: off}
	if off >= 0 && size >= 0 && off <= data.Size() && size <= data.Size()-off {
		v.to = off + size
	}
	return v
}

// at returns n bytes at offset off of the file, valid until the next call.
func (v *view) at(ctx context.Context, off, n int64) ([]byte, error) {
	if off < v.from || n < 0 || off > v.to || n > v.to-off {
		return nil, codec.Errorf(off, "%d bytes wanted of a part from %d to %d of the file", n, v.from, v.to)
	}
	if off < v.start || off+n > v.start+int64(len(v.page)) {
		v.page = nil
		size := int64(pageSize)
		if h, ok := v.data.(Holder); ok {
			size = h.Page()
		}
		size = min(max(n, size), v.to-off)
		var err error
		if v.held, err = hold(v.data, v.held, size); err != nil {
			return nil, err
		}
		p, err := v.data.ReadAt(ctx, off, size)
		if err != nil {
			return nil, err
		}
		v.start, v.page = off, p
	}
	return v.page[off-v.start : off-v.start+n], nil
}

// direct returns value k of a DirectReader array that starts at off.
func (v *view) direct(ctx context.Context, off int64, bits int, k int64, le bool) (uint64, error) {
	if bits == 0 {
		return 0, nil
	}
	if bits > 64 {
		return 0, codec.Errorf(off, "packed values of %d bits", bits)
	}
	skip, n := codec.DirectSpan(bits, k)
	if skip < 0 {
		return 0, codec.Errorf(off, "packed value %d", k)
	}
	p, err := v.at(ctx, off+skip, n)
	if err != nil {
		return 0, err
	}
	return codec.DirectIn(p, bits, k, le), nil
}

// sequence is a monotonic sequence: its metadata, and the location of its data.
type sequence struct {
	meta      codec.Monotonic
	off, size int64
	le        bool
	packed    *packedSequence // instead of meta, before Lucene 5.4
}

type sequenceReader struct {
	*sequence
	data   *view
	blocks []packedBlock // read so far

	next, value int64 // index and value of the end of the last pair
}

func newSequenceReader(s *sequence, data Data) *sequenceReader {
	size := s.size
	if s.packed != nil { // its end is often not stated
		size = min(size, data.Size()-s.off)
	}
	return &sequenceReader{sequence: s, data: newView(data, s.off, size)}
}

// at returns value i.
func (s *sequenceReader) at(ctx context.Context, i int64) (int64, error) {
	if s.packed != nil {
		return s.packedAt(ctx, i)
	}
	off, n := s.meta.Span(i)
	if off < 0 {
		return 0, codec.Errorf(s.off, "value %d of a sequence of %d", i, s.meta.Len())
	}
	if n == 0 {
		return s.meta.At(i, nil, s.le), nil
	}
	p, err := s.data.at(ctx, s.off+off, n)
	if err != nil {
		return 0, err
	}
	return s.meta.At(i, p, s.le), nil
}

// pair returns values i and i+1, the bounds of part i of n elements.
func (s *sequenceReader) pair(ctx context.Context, i, n int64) (from, to int64, err error) {
	if i > 0 && i == s.next {
		from = s.value
	} else if from, err = s.at(ctx, i); err != nil {
		return 0, 0, err
	}
	if to, err = s.at(ctx, i+1); err != nil {
		return 0, 0, err
	}
	if from < 0 || to < from || to > n {
		return 0, 0, codec.Errorf(s.off, "part %d from %d to %d of %d", i, from, to, n)
	}
	s.next, s.value = i+1, to
	return from, to, nil
}

// at adds base, the offset of a part of the file, to the offset of an error in that part.
func at(base int64, err error) error {
	if e, ok := errors.AsType[*codec.Error](err); ok {
		return &codec.Error{Off: base + e.Off, Err: e.Err}
	}
	return err
}
