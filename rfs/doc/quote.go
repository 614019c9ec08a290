package doc

import (
	"encoding/binary"
	"unicode/utf8"
)

// Words of 8 bytes, of which all are looked at together.
const (
	every = 0x0101010101010101 // times a byte: that byte in each place
	high  = 0x8080808080808080 // the highest bit of each byte
)

// unescaped reports whether AppendString appends s as it is between the quotes: it is ASCII without control characters,
// quotes and backslashes.
func unescaped(s []byte) bool {
	if len(s) >= 8 {
		found := escapes(binary.LittleEndian.Uint64(s[len(s)-8:]))
		for ; len(s) >= 8; s = s[8:] {
			found |= escapes(binary.LittleEndian.Uint64(s))
		}
		return found == 0
	}
	for _, c := range s {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// escapes is not 0 if one of 8 bytes is not ASCII, a control character, a quote or a backslash.
func escapes(w uint64) uint64 {
	// Without high bits, a subtraction sets the one of the first byte that is less, or equal after the XOR.
	return (w | (w - every*' ') | ((w ^ every*'"') - every) | ((w ^ every*'\\') - every)) & high
}

// AppendString appends s as a JSON string in one line. Bytes that are not UTF-8 become
// U+FFFD: nothing in s can end the string or the line.
func AppendString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	if unescaped(s) {
		return append(append(dst, s...), '"')
	}
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		if c == '"' || c == '\\' {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// quotedLen returns how many bytes AppendString appends for s in UTF-8.
func quotedLen(s []byte) int {
	n := 2 + len(s)
	if unescaped(s) {
		return n
	}
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += 5
		}
	}
	return n
}
