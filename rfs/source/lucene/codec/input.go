// Package codec reads the primitives of Lucene files: headers and footers, integers in both byte orders,
// packed integers and monotonic sequences. Everything works on bytes in memory; every length found in them is
// compared with the remaining bytes before it is used.
package codec

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Error is a violation of a format at an offset. It is a fault.ErrCorrupt.
type Error struct {
	Off int64 // in bytes, in the file or section that was parsed
	Err error // the first error
}

// Error states the offset and the cause.
func (e *Error) Error() string { return fmt.Sprintf("offset %d: %v", e.Off, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is fault.ErrCorrupt.
func (e *Error) Is(target error) bool { return target == fault.ErrCorrupt }

// Errorf returns an Error at an offset.
func Errorf(off int64, format string, args ...any) error {
	return &Error{Off: off, Err: fmt.Errorf(format, args...)}
}

// Input is a cursor over bytes with a sticky error: after the first failure every read
// returns zero values, so that a parser reads like the format it parses and calls Err once.
// Fixed-width integers are big-endian unless SetLittleEndian was called; variable-length
// integers have no byte order.
type Input struct {
	b   []byte
	pos int
	le  bool
	err error
}

// NewInput returns an Input at the start of b, big-endian.
func NewInput(b []byte) *Input { return &Input{b: b} }

// SetLittleEndian sets the byte order of fixed-width integers: little-endian for codecs of Lucene 9 and later.
func (in *Input) SetLittleEndian(le bool) { in.le = le }

// Err returns the first failure, or nil.
func (in *Input) Err() error { return in.err }

// Pos returns the offset of the next byte.
func (in *Input) Pos() int { return in.pos }

// Left returns the number of bytes after the cursor.
func (in *Input) Left() int { return len(in.b) - in.pos }

// Rest returns the bytes after the cursor, borrowed.
func (in *Input) Rest() []byte { return in.b[in.pos:] }

// Fail records a failure at the cursor unless an earlier one is recorded.
func (in *Input) Fail(format string, args ...any) {
	if in.err == nil {
		in.err = Errorf(int64(in.pos), format, args...)
	}
}

// Take returns the next n bytes, borrowed, or nil if fewer are left.
func (in *Input) Take(n int) []byte {
	if in.err != nil {
		return nil
	}
	if n < 0 || n > in.Left() {
		in.Fail("%d bytes wanted, %d left", n, in.Left())
		return nil
	}
	p := in.b[in.pos : in.pos+n : in.pos+n]
	in.pos += n
	return p
}

// U8 reads one byte.
func (in *Input) U8() uint8 {
	if p := in.Take(1); p != nil {
		return p[0]
	}
	return 0
}

// I16 reads two bytes.
func (in *Input) I16() int16 {
	p := in.Take(2)
	if p == nil {
		return 0
	}
	if in.le {
		return int16(binary.LittleEndian.Uint16(p))
	}
	return int16(binary.BigEndian.Uint16(p))
}

// I32 reads four bytes.
func (in *Input) I32() int32 {
	p := in.Take(4)
	if p == nil {
		return 0
	}
	if in.le {
		return int32(binary.LittleEndian.Uint32(p))
	}
	return int32(binary.BigEndian.Uint32(p))
}

// I64 reads eight bytes.
func (in *Input) I64() int64 {
	p := in.Take(8)
	if p == nil {
		return 0
	}
	if in.le {
		return int64(binary.LittleEndian.Uint64(p))
	}
	return int64(binary.BigEndian.Uint64(p))
}

// F32 reads four bytes as an IEEE 754 float.
func (in *Input) F32() float32 { return math.Float32frombits(uint32(in.I32())) }

// VInt reads 1–5 bytes of 7 bits, least significant first. Values beyond 31 bits are negative.
func (in *Input) VInt() int32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		c := in.U8()
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(v)
		}
	}
	in.Fail("variable-length integer of more than 5 bytes")
	return 0
}

// VLong reads 1–10 bytes of 7 bits, least significant first.
func (in *Input) VLong() int64 {
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		c := in.U8()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(v)
		}
	}
	in.Fail("variable-length long of more than 10 bytes")
	return 0
}

// Count reads a VInt with the number of following elements of at least size bytes each.
func (in *Input) Count(size int) int { return in.bounded(int64(in.VInt()), size) }

// Count32 is Count for a fixed-width count.
func (in *Input) Count32(size int) int { return in.bounded(int64(in.I32()), size) }

func (in *Input) bounded(n int64, size int) int {
	if in.err != nil {
		return 0
	}
	if n < 0 || n*int64(size) > int64(in.Left()) {
		in.Fail("count %d does not fit the %d bytes left", n, in.Left())
		return 0
	}
	return int(n)
}

// String reads a VInt length and that many bytes of UTF-8.
func (in *Input) String() string { return string(in.Take(int(in.VInt()))) }

// Strings reads a set of strings. Its count is a VInt, or an i32 in files of Lucene
// before 5.1 (old).
func (in *Input) Strings(old bool) []string {
	n := in.few(in.entries(old, 1))
	set := make([]string, 0, n)
	for range n {
		set = append(set, in.String())
	}
	return set
}

// Map reads a map of strings, with its count as in Strings.
func (in *Input) Map(old bool) map[string]string {
	n := in.few(in.Entries(old))
	m := make(map[string]string, n)
	for range n {
		k := in.String()
		m[k] = in.String()
	}
	return m
}

// maxEntries bounds sets and maps. In a segment they have dozens of entries, and an entry takes many times its encoded size in memory.
const maxEntries = 1 << 14

func (in *Input) few(n int) int {
	if n > maxEntries {
		in.Fail("%d entries, at most %d are possible", n, maxEntries)
		return 0
	}
	return n
}

// Entries reads the number of pairs of strings that follow, encoded as in Strings.
func (in *Input) Entries(old bool) int { return in.entries(old, 2) }

func (in *Input) entries(old bool, size int) int {
	if !old {
		return in.Count(size)
	}
	le := in.le
	in.le = false
	n := in.Count32(size)
	in.le = le
	return n
}

// ZigZag64 decodes a zig-zag coded number.
func ZigZag64(v int64) int64 { return int64(uint64(v)>>1) ^ -(v & 1) }
