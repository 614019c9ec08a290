package doc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// plain says whether a source is JSON in one line already: the usual case, sent as it is.
func plain(b []byte) bool {
	return len(b) > 1 && b[0] == '{' && b[1] != 0 && !hasLineBreak(b)
}

// converter brings a source of any content type into the form of one line of JSON.
// The content type is not stored beside a source; it shows in the first bytes.
type converter struct {
	text []byte // JSON before it is made one line
}

// appendLine appends the source b to dst as one line of JSON.
func (c *converter) appendLine(dst, b []byte) ([]byte, error) {
	var err error
	switch formOf(b) {
	case formJSON:
		return AppendLine(dst, b)
	case formUTF8BOM:
		return AppendLine(dst, b[3:])
	case formUTF16, formUTF32:
		if c.text, err = appendUTF8(c.text[:0], b); err != nil {
			return dst, err
		}
		return AppendLine(dst, c.text)
	}
	return dst, errors.New("source is neither JSON, SMILE, CBOR nor YAML")
}

type form uint8

const (
	formUnknown form = iota
	formJSON
	formUTF8BOM
	formUTF16
	formUTF32
)

// formOf tells the form of a source.
func formOf(b []byte) form {
	switch {
	case bytes.HasPrefix(b, []byte("\xEF\xBB\xBF")):
		return formUTF8BOM
	case wideUnit(b) == 4:
		return formUTF32
	case wideUnit(b) == 2:
		return formUTF16
	}
	for i, c := range b {
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		case '{':
			return formJSON
		case '/': // a comment before the object
			if i+1 < len(b) && (b[i+1] == '/' || b[i+1] == '*') {
				return formJSON
			}
		}
		break
	}
	return formUnknown
}

// wideUnit gives the bytes per code unit of UTF-16 and UTF-32 text, as JSON's own rule
// tells them (RFC 4627 §3: the first two characters are ASCII) or a byte order mark; 1 otherwise.
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
