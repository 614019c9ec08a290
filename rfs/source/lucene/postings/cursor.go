package postings

import (
	"context"
	"encoding/binary"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// Data is a file of an inverted index.
type Data interface {
	// ReadAt returns n bytes at off, which the caller must not change.
	ReadAt(ctx context.Context, off, n int64) ([]byte, error)
	Size() int64
	// Wrap names the file in an error about its content.
	Wrap(err error) error
}

// pageSize is the number of bytes to request after a jump, maxPage the maximum when pages are read in sequence.
const (
	pageSize = 64 << 10
	maxPage  = 1 << 20
)

// cursor reads a file in pages, with a sticky error.
type cursor struct {
	ctx   context.Context
	data  Data
	pos   int64
	start int64 // of page
	page  []byte
	err   error
}

func newCursor(ctx context.Context, data Data) *cursor { return &cursor{ctx: ctx, data: data} }

// seek moves to an offset.
func (c *cursor) seek(pos int64) { c.pos = pos }

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = c.data.Wrap(codec.Errorf(c.pos, format, args...))
	}
}

// take returns the next n bytes, valid until the next call; nil after an error.
func (c *cursor) take(n int64) []byte {
	if c.err != nil {
		return nil
	}
	size := c.data.Size()
	if n < 0 || c.pos < 0 || c.pos > size || n > size-c.pos {
		c.fail("%d bytes wanted of a file of %d", n, size)
		return nil
	}
	if end := c.start + int64(len(c.page)); c.pos < c.start || c.pos+n > end {
		page := int64(pageSize)
		if c.pos > c.start && c.pos <= end {
			page = min(2*int64(len(c.page)), maxPage)
		}
		p, err := c.data.ReadAt(c.ctx, c.pos, min(max(n, page), size-c.pos))
		if err != nil {
			c.err = err
			return nil
		}
		c.start, c.page = c.pos, p
	}
	p := c.page[c.pos-c.start : c.pos-c.start+n]
	c.pos += n
	return p
}

func (c *cursor) u8() uint8 {
	if p := c.take(1); p != nil {
		return p[0]
	}
	return 0
}

// vint reads a number of at most 31 bits.
func (c *cursor) vint() int32 {
	v := c.vlong()
	if v < 0 || v > 1<<31-1 {
		c.fail("%d where a number of 31 bits is expected", v)
		return 0
	}
	return int32(v)
}

// wide reads a number of at most 32 bits.
func (c *cursor) wide() uint32 {
	v := c.vlong()
	if v < 0 || v > 1<<32-1 {
		c.fail("%d where a number of 32 bits is expected", v)
		return 0
	}
	return uint32(v)
}

func (c *cursor) vlong() int64 {
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		b := c.u8()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return int64(v)
		}
	}
	c.fail("variable-length long of more than 10 bytes")
	return 0
}

// i16 reads two bytes, little-endian.
func (c *cursor) i16() int64 {
	if p := c.take(2); p != nil {
		return int64(int16(binary.LittleEndian.Uint16(p)))
	}
	return 0
}

// skip moves forward by n bytes.
func (c *cursor) skip(n int64) {
	if c.err == nil && (n < 0 || n > c.data.Size()-c.pos) {
		c.fail("%d bytes to pass over of a file of %d", n, c.data.Size())
		return
	}
	c.pos += n
}
