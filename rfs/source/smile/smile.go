// Package smile converts SMILE, Jackson's binary JSON, which Elasticsearch and OpenSearch use in snapshot metadata and some documents, to
// JSON text.
//
// Layout (Smile format specification 1.0, as Jackson 2.5–2.17 writes it):
//
//	3A 29 0A flags | one value | optional FF
//	flags: bit 0 shared names, bit 1 shared string values, bit 2 raw binary, bits 4–7 version 0
//
// Numbers stay exact, the order of keys and repeated keys are kept, and binary values become padded base64 text, as Jackson itself converts
// them.
package smile

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

const (
	maxDepth    = 1000 // nested arrays and objects
	sharedLimit = 1024
	// A result of up to minLimit bytes may be 64 times as long as its input, a longer one four times: no real document comes near; crafted
	// back-references do.
	minLimit  = 16 << 20
	sureLimit = 128 << 20
)

// Is reports whether b starts like a SMILE document.
func Is(b []byte) bool { return len(b) >= 4 && b[0] == ':' && b[1] == ')' && b[2] == '\n' }

// ErrLimit reports a document whose JSON exceeds the limit. It is a fault.ErrCorrupt.
var ErrLimit = fmt.Errorf("SMILE: the document becomes too large: %w", fault.ErrCorrupt)

// AppendJSON appends the document b as compact JSON on a single line. Input that is not exactly one valid document is fault.ErrCorrupt with
// the offset.
func AppendJSON(dst, b []byte) ([]byte, error) {
	return AppendJSONWithin(dst, b, max(min(max(64*len(b), minLimit), sureLimit), 4*len(b)))
}

// AppendJSONWithin is AppendJSON for a result of at most limit bytes, dst included; a longer one is ErrLimit.
func AppendJSONWithin(dst, b []byte, limit int) ([]byte, error) {
	if !Is(b) {
		return dst, fault.Corrupt("", "", 0, "no SMILE header")
	}
	if b[3]&0xF0 != 0 {
		return dst, fault.Corrupt("", "", 3, "SMILE version %d is unknown", b[3]>>4)
	}
	d := decoder{b: b, pos: 4, out: dst, limit: limit}
	d.names.on, d.values.on = b[3]&1 != 0, b[3]&2 != 0
	if err := d.value(0); err != nil {
		return dst, err
	}
	if d.pos < len(b) && b[d.pos] == 0xFF {
		d.pos++
	}
	if d.pos != len(b) {
		return dst, d.corrupt("%d bytes after the end of the document", len(b)-d.pos)
	}
	return d.out, nil
}

// shared is a table of strings that later values may refer to by number.
type shared struct {
	on    bool
	table []span
}

// span is JSON text in the output, quotes included.
type span struct{ from, to int }

func (s *shared) add(text span) {
	if !s.on {
		return
	}
	if len(s.table) >= sharedLimit {
		s.table = s.table[:0]
	}
	s.table = append(s.table, text)
}

type decoder struct {
	b      []byte
	pos    int
	out    []byte
	limit  int // of the output, which back-references could inflate
	names  shared
	values shared
}

func (d *decoder) corrupt(format string, args ...any) error {
	return fault.Corrupt("", "", int64(d.pos), "SMILE: "+format, args...)
}

func (d *decoder) byte() (byte, error) {
	if d.pos >= len(d.b) {
		return 0, d.corrupt("ends early")
	}
	c := d.b[d.pos]
	d.pos++
	return c, nil
}

func (d *decoder) take(n int) ([]byte, error) {
	if n < 0 || n > len(d.b)-d.pos {
		return nil, d.corrupt("%d bytes wanted, %d left", n, len(d.b)-d.pos)
	}
	s := d.b[d.pos : d.pos+n]
	d.pos += n
	return s, nil
}

// vint reads big-endian groups of 7 bits; the last byte has bit 7 set and carries 6 bits.
func (d *decoder) vint() (uint64, error) {
	var r uint64
	for range 11 {
		c, err := d.byte()
		if err != nil {
			return 0, err
		}
		if c&0x80 != 0 {
			return r<<6 | uint64(c&0x3F), nil
		}
		r = r<<7 | uint64(c)
	}
	return 0, d.corrupt("integer of more than 10 bytes")
}

func zigzag(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

func (d *decoder) length() (int, error) {
	n, err := d.vint()
	if err != nil {
		return 0, err
	}
	if n > uint64(len(d.b)) {
		return 0, d.corrupt("length %d beyond the document", n)
	}
	return int(n), nil
}

// value appends one value; depth counts the open arrays and objects.
func (d *decoder) value(depth int) error {
	if depth > maxDepth {
		return d.corrupt("more than %d nested values", maxDepth)
	}
	if len(d.out) > d.limit {
		return ErrLimit
	}
	t, err := d.byte()
	if err != nil {
		return err
	}
	switch {
	case t >= 0x01 && t <= 0x1F:
		return d.refer(&d.values, int(t)-1)
	case t >= 0x20 && t <= 0x2F:
		return d.simple(t)
	case t >= 0x40 && t <= 0x7F:
		return d.text(int(t&0x3F)+1, &d.values)
	case t >= 0x80 && t <= 0xBF:
		return d.text(int(t&0x3F)+2, &d.values)
	case t >= 0xC0 && t <= 0xDF:
		d.out = strconv.AppendInt(d.out, zigzag(uint64(t&0x1F)), 10)
		return nil
	case t == 0xE0 || t == 0xE4:
		return d.longText(nil)
	case t == 0xE8:
		return d.binary7()
	case t >= 0xEC && t <= 0xEF:
		return d.referLong(&d.values, t)
	case t == 0xF8:
		return d.array(depth)
	case t == 0xFA:
		return d.object(depth)
	case t == 0xFD:
		return d.rawBinary()
	}
	d.pos--
	return d.corrupt("token %#02x where a value is expected", t)
}

func (d *decoder) simple(t byte) error {
	switch t {
	case 0x20:
		d.out = append(d.out, `""`...)
	case 0x21:
		d.out = append(d.out, "null"...)
	case 0x22:
		d.out = append(d.out, "false"...)
	case 0x23:
		d.out = append(d.out, "true"...)
	case 0x24, 0x25:
		v, err := d.vint()
		if err != nil {
			return err
		}
		d.out = strconv.AppendInt(d.out, zigzag(v), 10)
	case 0x26:
		v, err := d.bigInteger()
		if err != nil {
			return err
		}
		d.out = v.Append(d.out, 10)
	case 0x28:
		v, err := d.bits(5)
		if err != nil {
			return err
		}
		return d.float(float64(math.Float32frombits(uint32(v))), 32)
	case 0x29:
		v, err := d.bits(10)
		if err != nil {
			return err
		}
		return d.float(math.Float64frombits(v), 64)
	case 0x2A:
		return d.bigDecimal()
	default:
		d.pos--
		return d.corrupt("token %#02x is reserved", t)
	}
	return nil
}

// text appends a string of n bytes, and adds it to the table if there is one.
func (d *decoder) text(n int, table *shared) error {
	s, err := d.take(n)
	if err != nil {
		return err
	}
	return d.quoted(s, table)
}

func (d *decoder) longText(table *shared) error {
	end := bytes.IndexByte(d.b[d.pos:], 0xFC)
	if end < 0 {
		return d.corrupt("long text without end")
	}
	s := d.b[d.pos : d.pos+end]
	d.pos += end + 1
	return d.quoted(s, table)
}

func (d *decoder) quoted(s []byte, table *shared) error {
	if !utf8.Valid(s) {
		return d.corrupt("text is not UTF-8")
	}
	if len(s) > longString && len(d.out)+quotedLen(s) > d.limit {
		return ErrLimit
	}
	begin := len(d.out)
	d.out = appendQuoted(d.out, s)
	if table != nil {
		table.add(span{begin, len(d.out)})
	}
	return nil
}

func (d *decoder) refer(table *shared, i int) error {
	if !table.on || i >= len(table.table) {
		return d.corrupt("reference %d to %d shared strings", i, len(table.table))
	}
	text := table.table[i]
	if len(d.out)+text.to-text.from > d.limit {
		return ErrLimit
	}
	d.out = append(d.out, d.out[text.from:text.to]...)
	return nil
}

func (d *decoder) referLong(table *shared, t byte) error {
	low, err := d.byte()
	if err != nil {
		return err
	}
	return d.refer(table, int(t&3)<<8|int(low))
}

func (d *decoder) array(depth int) error {
	d.out = append(d.out, '[')
	for first := true; ; first = false {
		if d.pos < len(d.b) && d.b[d.pos] == 0xF9 {
			d.pos++
			d.out = append(d.out, ']')
			return nil
		}
		if !first {
			d.out = append(d.out, ',')
		}
		if err := d.value(depth + 1); err != nil {
			return err
		}
	}
}

func (d *decoder) object(depth int) error {
	d.out = append(d.out, '{')
	for first := true; ; first = false {
		if d.pos < len(d.b) && d.b[d.pos] == 0xFB {
			d.pos++
			d.out = append(d.out, '}')
			return nil
		}
		if !first {
			d.out = append(d.out, ',')
		}
		if err := d.key(); err != nil {
			return err
		}
		d.out = append(d.out, ':')
		if err := d.value(depth + 1); err != nil {
			return err
		}
	}
}

// key appends a name. Long names are shared, too: the written specification limits sharing to short ones, but Jackson, the only producer,
// does not.
func (d *decoder) key() error {
	t, err := d.byte()
	if err != nil {
		return err
	}
	switch {
	case t == 0x20:
		d.out = append(d.out, `""`...)
		return nil
	case t >= 0x30 && t <= 0x33:
		return d.referLong(&d.names, t)
	case t == 0x34:
		return d.longText(&d.names)
	case t >= 0x40 && t <= 0x7F:
		return d.refer(&d.names, int(t)-0x40)
	case t >= 0x80 && t <= 0xBF:
		return d.text(int(t&0x3F)+1, &d.names)
	case t >= 0xC0 && t <= 0xF7:
		return d.text(int(t-0xC0)+2, &d.names)
	}
	d.pos--
	return d.corrupt("token %#02x where a name is expected", t)
}

// longString is the length from which on a text is measured before it is appended, in bytes.
const longString = 64 << 10

// quotedLen returns a lower bound of the number of bytes that appendQuoted appends.
func quotedLen(s []byte) int {
	n := 2 + len(s)
	for _, c := range s {
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < 0x20:
			n += 5
		}
	}
	return n
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends valid UTF-8 as a JSON string, escaping only what must be escaped.
func appendQuoted(dst, s []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}
