package doc

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/source/lzf"
	"github.com/rfsd/rfsd/rfs/source/smile"
)

// plain reports whether a source is JSON in one line, the usual case, which is sent unchanged.
func plain(b []byte) bool {
	return len(b) > 1 && b[0] == '{' && b[1] != 0 && !hasLineBreak(b)
}

// converter converts sources of any content type to JSON in one line.
// The content type is not stored with a source; the first bytes determine it.
type converter struct {
	most   int    // maximum bytes of a result, 0: shortText
	copied bool   // the last result is in a buffer
	plain  []byte // decompressed LZF
	text   []byte // JSON before it is made one line
	line   []byte // JSON in one line, if the source is not
}

// shortText is the longest result of a conversion that needs no memory from the budget, in bytes.
const shortText = 8 << 20

// ErrTooLong means that a converted source exceeds the limit.
var ErrTooLong = errors.New("the source exceeds the length that is read")

// Compressed reports whether a source is stored compressed.
func Compressed(b []byte) bool { return lzf.Is(b) }

// Converted returns the maximum length of a source as JSON in one line, in bytes; 0 if it has that form already. exact is false
// for formats without a known limit.
func Converted(b []byte) (n int64, exact bool) {
	switch {
	case plain(b):
		return 0, true
	case lzf.Is(b):
		n, err := lzf.Length(b)
		return int64(n), err == nil // an error: decoding it fails
	case wideUnit(b) > 1:
		return 2 * int64(len(b)), true
	}
	return int64(len(b)), isJSON(b)
}

// keepBuffer is the size of the largest buffer that is reused, in bytes.
const keepBuffer = 16 << 20

// oneLine returns the source b as one line of JSON: b itself, or a buffer that is valid until the next call.
func (c *converter) oneLine(b []byte) ([]byte, error) {
	c.forget()
	own := false
	if lzf.Is(b) { // Elasticsearch 1.x with _source.compress
		n, err := lzf.Length(b)
		if err != nil {
			return nil, err
		}
		if n > c.limit() {
			return nil, ErrTooLong
		}
		c.plain = slices.Grow(c.plain[:0], n)
		if c.plain, err = lzf.Append(c.plain[:0], b); err != nil {
			return nil, err
		}
		b, own = c.plain, true
	}
	text, err := c.json(b)
	if err != nil {
		return nil, err
	}
	own = own || len(text) > 0 && len(c.text) > 0 && &text[0] == &c.text[0]
	c.copied = own
	if !hasLineBreak(text) {
		return text, nil
	}
	if own {
		return AppendLine(text[:0], text) // a line is never longer than its text
	}
	c.copied = true
	c.line, err = AppendLine(slices.Grow(c.line[:0], len(text)), text)
	return c.line, err
}

func (c *converter) limit() int { return cmp.Or(c.most, shortText) }

// forget releases large buffers.
func (c *converter) forget() {
	for _, buf := range []*[]byte{&c.plain, &c.text, &c.line} {
		if cap(*buf) > keepBuffer {
			*buf = nil
		}
	}
}

// room returns the empty text buffer. If most exceeds shortText, its capacity is most, so that it never grows.
func (c *converter) room() []byte {
	if c.most > shortText {
		return slices.Grow(c.text[:0], c.most)
	}
	return c.text[:0]
}

// json returns a source as JSON text in UTF-8; b itself if it has that form already.
func (c *converter) json(b []byte) (text []byte, err error) {
	switch {
	case smile.Is(b):
		if c.text, err = smile.AppendJSONWithin(c.room(), b, c.limit()); errors.Is(err, smile.ErrLimit) {
			err = ErrTooLong
		}
	case len(b) > 0 && isCBOR(b):
		c.text, err = appendCBOR(c.room(), b, c.limit())
	case wideUnit(b) > 1:
		if c.text, err = appendUTF8(slices.Grow(c.text[:0], len(b)+len(b)/2), b); err == nil && !isJSON(c.text) {
			err = errors.New("no JSON object in UTF-16 or UTF-32")
		}
	default:
		switch {
		case isJSON(b):
			return b, nil
		case utf8.Valid(b):
			c.text, err = appendYAML(c.room(), WithoutMark(b), c.limit())
		default:
			err = errors.New("neither JSON, SMILE, CBOR nor YAML")
		}
	}
	if err == nil && len(c.text) > c.limit() {
		err = ErrTooLong
	}
	if err != nil {
		return nil, err
	}
	return c.text, nil
}

// WithoutMark returns a text in UTF-8 without its byte order mark. Clusters accept a source that starts with one, and return it,
// so that it is part of the source like white space before the first brace.
func WithoutMark(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\xEF\xBB\xBF")) }

// isJSON reports whether b starts with an object or a comment, after an optional byte order mark and white space.
func isJSON(b []byte) bool {
	b = bytes.TrimLeft(WithoutMark(b), " \t\r\n")
	return bytes.HasPrefix(b, []byte("{")) || bytes.HasPrefix(b, []byte("//")) || bytes.HasPrefix(b, []byte("/*"))
}

// wideUnit returns the bytes per code unit of UTF-16 and UTF-32 text, by the rule of JSON
// (RFC 4627 §3: the first two characters are ASCII) or a byte order mark; 1 otherwise.
func wideUnit(b []byte) int {
	if len(b) >= 4 {
		switch w := binary.BigEndian.Uint32(b); {
		case w == 0xFEFF, w == 0xFFFE0000, w>>8 == 0 && w != 0, w&0x00FFFFFF == 0 && w != 0:
			return 4
		}
	}
	if len(b) >= 2 {
		switch w := binary.BigEndian.Uint16(b); {
		case w == 0xFEFF, w == 0xFFFE, w>>8 == 0 && w != 0, w&0xFF == 0 && w != 0:
			return 2
		}
	}
	return 1
}

// appendUTF8 appends UTF-16 or UTF-32 text as UTF-8, without its byte order mark.
func appendUTF8(dst, b []byte) ([]byte, error) {
	unit := wideUnit(b)
	if len(b)%unit != 0 {
		return dst, fmt.Errorf("%d bytes of UTF-%d", len(b), unit*8)
	}
	big := b[0] == 0 || b[0] == 0xFE
	at := func(i int) rune {
		var order binary.ByteOrder = binary.LittleEndian
		if big {
			order = binary.BigEndian
		}
		if unit == 4 {
			return rune(order.Uint32(b[i:]))
		}
		return rune(order.Uint16(b[i:]))
	}
	for i := 0; i < len(b); i += unit {
		r := at(i)
		if i == 0 && r == 0xFEFF {
			continue
		}
		if unit == 2 && utf16.IsSurrogate(r) && i+2 < len(b) {
			if pair := utf16.DecodeRune(r, at(i+2)); pair != utf8.RuneError {
				r = pair
				i += 2
			}
		}
		if !utf8.ValidRune(r) {
			return dst, fmt.Errorf("code point %x at byte %d", r, i)
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, nil
}

// maxPart limits the results of AppendJSON and AppendFormat, in bytes.
const maxPart = 64 << 20

// AppendJSON appends a source of any content type as JSON in one line, without a byte order mark.
func AppendJSON(dst, source []byte) ([]byte, error) {
	c := converter{most: maxPart}
	line, err := c.oneLine(source)
	return append(dst, WithoutMark(line)...), err
}

// AppendFormat appends a value in CBOR ('c'), SMILE ('s') or YAML ('y'), an object or an array, as JSON.
func AppendFormat(dst []byte, format byte, b []byte) ([]byte, error) {
	switch format {
	case 'c':
		return appendCBOR(dst, b, maxPart)
	case 's':
		return smile.AppendJSONWithin(dst, b, maxPart)
	case 'y':
		return appendYAML(dst, b, maxPart)
	}
	return dst, fmt.Errorf("format %q is unknown", format)
}
