package doc

import (
	"encoding/binary"
	"unicode/utf8"
)

// Masks for words of 8 bytes, which are examined together.
const (
	every = 0x0101010101010101 // times a byte: that byte in all 8 positions
	high  = 0x8080808080808080 // the highest bit of each byte
)

// escapes returns a value other than 0 if one of 8 bytes is not ASCII, or is a control character, a quote or a backslash.
func escapes(w uint64) uint64 {
	// If all high bits are clear, a subtraction sets the high bit of the first byte that is less (or, after the XOR, equal).
	return (w | (w - every*' ') | ((w ^ every*'"') - every) | ((w ^ every*'\\') - every)) & high
}

// appendQuoted appends s between quotes, and reports whether that is valid JSON: s is ASCII without control characters, quotes and
// backslashes. It examines the bytes while it copies them. It also returns false for less than four bytes, and if the capacity of dst
// is too small.
func appendQuoted(dst, s []byte) ([]byte, bool) {
	n, at := len(s), len(dst)
	if n < 4 || cap(dst)-at < n+2 {
		return dst, false
	}
	out := dst[:at+n+2]
	to := out[at+1 : at+1+n]
	var found uint64
	if n < 8 {
		first, last := binary.LittleEndian.Uint32(s), binary.LittleEndian.Uint32(s[n-4:])
		binary.LittleEndian.PutUint32(to, first)
		binary.LittleEndian.PutUint32(to[n-4:], last)
		found = escapes(uint64(first) | uint64(last)<<32)
	} else {
		last := binary.LittleEndian.Uint64(s[n-8:])
		binary.LittleEndian.PutUint64(to[n-8:], last)
		found = escapes(last)
		for ; len(s) > 8 && len(to) > 8; s, to = s[8:], to[8:] {
			w := binary.LittleEndian.Uint64(s)
			binary.LittleEndian.PutUint64(to, w)
			found |= escapes(w)
		}
	}
	out[at], out[at+n+1] = '"', '"'
	return out, found == 0
}

// AppendString appends s as a JSON string in one line. Bytes that are not UTF-8 become
// U+FFFD, so that no byte of s can end the string or the line.
func AppendString(dst, s []byte) []byte {
	if out, all := appendQuoted(dst, s); all {
		return out
	}
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
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

// longestEscape is the largest number of bytes that AppendString appends for a byte of s.
const longestEscape = len(`\u0000`)

// quotedLen returns the number of bytes that AppendString appends for s in UTF-8.
func quotedLen(s []byte) int {
	n := 2 + len(s)
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
