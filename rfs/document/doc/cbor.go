package doc

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"unicode/utf8"
)

// maxDepth limits the nesting of a converted source.
const maxDepth = 10_000

// CBOR major types and the additional information that means "until a break" (RFC 8949).
const (
	cborUint, cborNegative, cborBytes, cborText      = 0, 1, 2, 3
	cborArray, cborMap, cborTag, cborSimple          = 4, 5, 6, 7
	cborIndefinite                                   = 31
	cborBreak                                   byte = 0xFF
)

var errCBORShort = errors.New("ends early")

// isCBOR reports whether b starts with an object (major type 5), or with the self-described CBOR tag, D9 D9 F7.
func isCBOR(b []byte) bool {
	return b[0]>>5 == cborMap || len(b) > 3 && b[0] == 0xD9 && b[1] == 0xD9 && b[2] == 0xF7
}

// appendCBOR appends the CBOR document b as JSON in one line: with exact numbers, the original order
// and repetition of keys, byte strings as padded base64, and NaN and infinities as the strings that Jackson
// writes for them. It returns ErrTooLong for a result of more than limit bytes.
func appendCBOR(dst, b []byte, limit int) ([]byte, error) {
	c := cborReader{b: b, limit: limit}
	out, err := c.value(dst, 0)
	if err == nil && c.at < len(b) {
		err = errors.New("bytes follow the document")
	}
	if err != nil {
		return dst, fmt.Errorf("CBOR at byte %d: %w", c.at, err)
	}
	return out, nil
}

type cborReader struct {
	b     []byte
	at    int
	limit int // of the result
}

// head parses the head of a data item: major type, additional information and argument.
func (c *cborReader) head() (major, info int, arg uint64, err error) {
	if c.at >= len(c.b) {
		return 0, 0, 0, errCBORShort
	}
	major, info = int(c.b[c.at]>>5), int(c.b[c.at]&31)
	c.at++
	if info < 24 || info == cborIndefinite {
		return major, info, uint64(info), nil
	}
	if info > 27 {
		return 0, 0, 0, fmt.Errorf("additional information %d", info)
	}
	p, err := c.take(1 << (info - 24))
	if err != nil {
		return 0, 0, 0, err
	}
	switch len(p) {
	case 1:
		arg = uint64(p[0])
	case 2:
		arg = uint64(binary.BigEndian.Uint16(p))
	case 4:
		arg = uint64(binary.BigEndian.Uint32(p))
	default:
		arg = binary.BigEndian.Uint64(p)
	}
	return major, info, arg, nil
}

func (c *cborReader) take(n uint64) ([]byte, error) {
	if n > uint64(len(c.b)-c.at) {
		return nil, errCBORShort
	}
	p := c.b[c.at : c.at+int(n)]
	c.at += int(n)
	return p, nil
}

// atBreak consumes the break that ends a data item of indefinite length, and reports whether it was there.
func (c *cborReader) atBreak() bool {
	if c.at < len(c.b) && c.b[c.at] == cborBreak {
		c.at++
		return true
	}
	return false
}

// chunks returns a byte or text string of definite or indefinite length. The result is borrowed unless it consists of chunks.
func (c *cborReader) chunks(major, info int, n uint64) ([]byte, error) {
	if info != cborIndefinite {
		return c.take(n)
	}
	var all []byte
	for !c.atBreak() {
		m, i, n, err := c.head()
		if err != nil {
			return nil, err
		}
		if m != major || i == cborIndefinite {
			return nil, errors.New("piece of a string that is none")
		}
		p, err := c.take(n)
		if err != nil {
			return nil, err
		}
		all = append(all, p...)
	}
	return all, nil
}

func (c *cborReader) value(dst []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	if len(dst) > c.limit {
		return dst, ErrTooLong
	}
	major, info, n, err := c.head()
	if err != nil {
		return dst, err
	}
	if info == cborIndefinite && (major < cborBytes || major > cborMap) {
		return dst, errors.New("unexpected break")
	}
	switch major {
	case cborUint:
		return strconv.AppendUint(dst, n, 10), nil
	case cborNegative: // -1 - n
		return appendNegative(dst, n), nil
	case cborBytes:
		p, err := c.chunks(major, info, n)
		if err != nil {
			return dst, err
		}
		if len(dst)+base64.StdEncoding.EncodedLen(len(p)) > c.limit {
			return dst, ErrTooLong
		}
		return appendBase64(dst, p), nil
	case cborText:
		return c.text(dst, info, n)
	case cborArray:
		return c.items(dst, info, n, '[', depth)
	case cborMap:
		return c.items(dst, info, n, '{', depth)
	case cborTag:
		return c.tagged(dst, n, depth)
	}
	return appendSimple(dst, info, n)
}

func appendNegative(dst []byte, n uint64) []byte {
	if n == math.MaxUint64 {
		return append(dst, "-18446744073709551616"...)
	}
	return strconv.AppendUint(append(dst, '-'), n+1, 10)
}

func appendBase64(dst, p []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, p)
	return append(dst, '"')
}

func (c *cborReader) text(dst []byte, info int, n uint64) ([]byte, error) {
	p, err := c.chunks(cborText, info, n)
	if err != nil {
		return dst, err
	}
	if !utf8.Valid(p) {
		return dst, errors.New("text is not UTF-8")
	}
	if len(dst)+2+longestEscape*len(p) > c.limit && len(dst)+quotedLen(p) > c.limit {
		return dst, ErrTooLong
	}
	return AppendString(dst, p), nil
}

// items appends an array or a map of n entries, or up to the break.
func (c *cborReader) items(dst []byte, info int, n uint64, open byte, depth int) ([]byte, error) {
	dst = append(dst, open)
	for i := uint64(0); ; i++ {
		if info == cborIndefinite && c.atBreak() || info != cborIndefinite && i == n {
			return append(dst, open+2), nil // ']' is '['+2, '}' is '{'+2
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if open == '{' {
			if dst, err = c.key(dst); err != nil {
				return dst, err
			}
			dst = append(dst, ':')
		}
		if dst, err = c.value(dst, depth+1); err != nil {
			return dst, err
		}
	}
}

// key appends the key of a map entry; integers become strings of digits.
func (c *cborReader) key(dst []byte) ([]byte, error) {
	major, info, n, err := c.head()
	switch {
	case err != nil:
		return dst, err
	case major == cborText:
		return c.text(dst, info, n)
	case major == cborUint && info != cborIndefinite:
		return append(strconv.AppendUint(append(dst, '"'), n, 10), '"'), nil
	case major == cborNegative && info != cborIndefinite:
		return append(appendNegative(append(dst, '"'), n), '"'), nil
	}
	return dst, fmt.Errorf("key of major type %d", major)
}

// tagged appends big numbers (tags 2 and 3) and decimal fractions (4) as numbers. It ignores other tags.
func (c *cborReader) tagged(dst []byte, tag uint64, depth int) ([]byte, error) {
	switch tag {
	case 2, 3:
		return c.bigNumber(dst, tag)
	case 4:
		return c.decimal(dst)
	}
	return c.value(dst, depth+1)
}

// maxBigNumber limits the bytes of a big number: the time to print one grows faster than its length.
const maxBigNumber = 4096

func (c *cborReader) bigNumber(dst []byte, tag uint64) ([]byte, error) {
	major, info, n, err := c.head()
	if err != nil {
		return dst, err
	}
	if major != cborBytes {
		return dst, errors.New("big number without bytes")
	}
	p, err := c.chunks(major, info, n)
	if err != nil {
		return dst, err
	}
	if len(p) > maxBigNumber {
		return dst, fmt.Errorf("big number of %d bytes", len(p))
	}
	x := new(big.Int).SetBytes(p)
	if tag == 3 {
		x.Not(x)
	}
	return x.Append(dst, 10), nil
}

// decimal parses [exponent, mantissa] and appends mantissa × 10^exponent without computing it.
func (c *cborReader) decimal(dst []byte) ([]byte, error) {
	if major, _, n, err := c.head(); err != nil || major != cborArray || n != 2 {
		return dst, errors.Join(errors.New("decimal fraction that is not a pair"), err)
	}
	major, info, n, err := c.head()
	if err != nil || major > cborNegative || info == cborIndefinite || n > math.MaxInt32 {
		return dst, errors.Join(errors.New("exponent of a decimal fraction"), err)
	}
	exponent := int64(n)
	if major == cborNegative {
		exponent = -1 - exponent
	}
	major, info, n, err = c.head()
	switch {
	case err != nil:
		return dst, err
	case major == cborUint && info != cborIndefinite:
		dst = strconv.AppendUint(dst, n, 10)
	case major == cborNegative && info != cborIndefinite:
		dst = appendNegative(dst, n)
	case major == cborTag && (n == 2 || n == 3):
		if dst, err = c.bigNumber(dst, n); err != nil {
			return dst, err
		}
	default:
		return dst, errors.New("mantissa of a decimal fraction")
	}
	if exponent == 0 {
		return dst, nil
	}
	return strconv.AppendInt(append(dst, 'e'), exponent, 10), nil
}

func appendSimple(dst []byte, info int, n uint64) ([]byte, error) {
	switch info {
	case 20:
		return append(dst, "false"...), nil
	case 21:
		return append(dst, "true"...), nil
	case 22, 23: // null, undefined
		return append(dst, "null"...), nil
	case 25:
		return appendFloat(dst, float64(half(uint16(n))), 32), nil
	case 26:
		return appendFloat(dst, float64(math.Float32frombits(uint32(n))), 32), nil
	case 27:
		return appendFloat(dst, math.Float64frombits(n), 64), nil
	}
	return dst, fmt.Errorf("simple value %d", n)
}

// half converts an IEEE 754 half-precision number.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&0x3FF)
	switch exp {
	case 31:
		return math.Float32frombits(sign | 0xFF<<23 | frac<<13)
	case 0:
		f := float32(frac) / (1 << 24)
		return math.Float32frombits(math.Float32bits(f) | sign)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// appendFloat appends the shortest decimal that parses to the same float of its
// size, with a fraction or an exponent so that it stays a float.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	for _, c := range dst[start:] {
		if c == '.' || c == 'e' {
			return dst
		}
	}
	return append(dst, '.', '0')
}
