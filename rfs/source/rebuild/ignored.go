package rebuild

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
_ignored_source holds what cannot be rebuilt: ignored values, unmapped objects, arrays that keep their order. One entry is

	plain      (8.13 and later)  i32 name length + 65536 * parent length, name, value; lengths in UTF-16, little-endian
	coalesced  (9.2 and later)   VInt n, VInt length, name, n of (VInt parent length, VInt length, value)

as stored bytes, or in indices of 9.5 and later coalesced as a term of a sorted set. parent length is the length of the path
of the object that contains the field, with its dot; 0 in the root. A value starts with its type:

	S text | I i32 | L i64 | D double | F float, all little-endian | i two's complement, big-endian
	d i32 scale, two's complement | t | f | n null | b bytes | v nothing: the field is not written
	j c s y an object or an array in JSON, CBOR, SMILE or YAML
*/
type ignored struct {
	parent string // "" is the root
	name   string // the whole path
	leaf   string // the path below parent
	value  []byte
}

// maxIgnored bounds the parts of one coalesced entry.
const maxIgnored = 1 << 20

// parsePlain parses one plain entry.
func parsePlain(b []byte) (ignored, error) {
	if len(b) < 4 {
		return ignored{}, codec.Errorf(0, "ignored source of %d bytes", len(b))
	}
	sizes := int32(binary.LittleEndian.Uint32(b))
	if sizes < 0 {
		return ignored{}, codec.Errorf(0, "ignored source with the lengths %d", sizes)
	}
	end, ok := utf16Prefix(b[4:], int(sizes&0xFFFF))
	if !ok {
		return ignored{}, codec.Errorf(4, "ignored source: a name of %d characters in %d bytes", sizes&0xFFFF, len(b)-4)
	}
	return newIgnored(b[4:4+end], int(sizes>>16), b[4+end:])
}

// parseCoalesced calls yield for each value of a coalesced entry.
func parseCoalesced(b []byte, yield func(ignored)) error {
	in := codec.NewInput(b)
	n := in.VInt()
	chars := in.VInt()
	if in.Err() == nil && (n < 1 || n > maxIgnored) {
		in.Fail("ignored source of %d values", n)
	}
	name := javaString(in, chars)
	for range n {
		parent := in.VInt()
		value := in.Take(int(in.VInt()))
		if in.Err() != nil {
			return in.Err()
		}
		x, err := newIgnored(name, int(parent), value)
		if err != nil {
			return err
		}
		yield(x)
	}
	if in.Err() == nil && in.Left() != 0 {
		in.Fail("%d bytes left in an ignored source", in.Left())
	}
	return in.Err()
}

func newIgnored(name []byte, parent int, value []byte) (ignored, error) {
	x := ignored{name: string(name), leaf: string(name), value: value}
	end, ok := utf16Prefix(name, parent)
	if parent < 0 || !ok || parent > 0 && (end >= len(name) || name[end-1] != '.') {
		return x, codec.Errorf(0, "ignored source of field %q, whose parent has %d characters", name, parent)
	}
	if len(value) == 0 {
		return x, codec.Errorf(0, "ignored source of field %q without a value", name)
	}
	if parent > 0 {
		x.parent, x.leaf = string(name[:end-1]), string(name[end:])
	}
	return x, nil
}

// utf16Prefix returns the number of bytes of the first n UTF-16 units; false if b is shorter or n ends within a character.
func utf16Prefix(b []byte, n int) (int, bool) {
	at := 0
	for n > 0 {
		r, size := utf8.DecodeRune(b[at:])
		if size == 0 || r == utf8.RuneError && size == 1 {
			return at, false
		}
		at += size
		if n--; r > 0xFFFF {
			n--
		}
	}
	return at, n == 0
}

// javaString reads n UTF-16 units, each encoded in one to three bytes.
func javaString(in *codec.Input, n int32) []byte {
	if n < 0 || int(n) > in.Left() {
		in.Fail("name of %d characters, %d bytes left", n, in.Left())
		return nil
	}
	units := make([]uint16, 0, n)
	for range n {
		switch c := uint16(in.U8()); {
		case c < 0x80:
			units = append(units, c)
		case c>>5 == 6:
			units = append(units, c&31<<6|uint16(in.U8())&63)
		case c>>4 == 14:
			units = append(units, c&15<<12|uint16(in.U8())&63<<6|uint16(in.U8())&63)
		default:
			in.Fail("byte %x in a name", c)
			return nil
		}
	}
	return []byte(string(utf16.Decode(units)))
}

// void reports whether the field is not written.
func (x *ignored) void() bool { return x.value[0] == 'v' }

// converter converts a source in another format to JSON.
type converter func(dst []byte, format byte, source []byte) ([]byte, error)

// appendIgnored appends a value as JSON.
func appendIgnored(dst, v []byte, convert converter) ([]byte, error) {
	b := v[1:]
	need := map[byte]int{'I': 4, 'L': 8, 'D': 8, 'F': 4, 't': 0, 'f': 0, 'n': 0}
	if n, ok := need[v[0]]; ok && len(b) != n {
		return nil, codec.Errorf(0, "ignored value of type %q with %d bytes", v[0], len(b))
	}
	switch v[0] {
	case 'S':
		return appendText(dst, b), nil
	case 'I':
		return fmt.Appendf(dst, "%d", int32(binary.LittleEndian.Uint32(b))), nil
	case 'L':
		return fmt.Appendf(dst, "%d", int64(binary.LittleEndian.Uint64(b))), nil
	case 'D':
		return appendFloat(dst, math.Float64frombits(binary.LittleEndian.Uint64(b)), 64), nil
	case 'F':
		return appendFloat(dst, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), 32), nil
	case 't':
		return append(dst, "true"...), nil
	case 'f':
		return append(dst, "false"...), nil
	case 'n':
		return append(dst, "null"...), nil
	case 'b':
		return appendBase64(dst, b), nil
	case 'i':
		return appendBig(dst, b, 0)
	case 'd':
		if len(b) < 5 {
			return nil, codec.Errorf(0, "ignored decimal of %d bytes", len(b))
		}
		return appendBig(dst, b[4:], int32(binary.LittleEndian.Uint32(b)))
	case 'j':
		return append(dst, b...), nil
	case 'c', 's', 'y':
		return convert(dst, v[0], b)
	}
	return nil, fmt.Errorf("ignored value of type %q is unknown: %w", v[0], fault.ErrUnsupported)
}

// appendBig appends a two's complement number, divided by 10^scale.
func appendBig(dst, b []byte, scale int32) ([]byte, error) {
	if len(b) == 0 || len(b) > 1<<16 {
		return nil, codec.Errorf(0, "ignored number of %d bytes", len(b))
	}
	v := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	dst = v.Append(dst, 10)
	if scale != 0 {
		dst = fmt.Appendf(dst, "E%d", -int64(scale))
	}
	return dst, nil
}
