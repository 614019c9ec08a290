package doc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrLineBreak means that a JSON string contains a raw line break, so that the source is not JSON and
// cannot be written in one line.
var ErrLineBreak = errors.New("raw line break inside a string")

// shortLine is the length in bytes from which two calls of IndexByte take less time than hasControl.
const shortLine = 128

// hasLineBreak reports whether b contains a line feed or carriage return.
func hasLineBreak(b []byte) bool {
	if len(b) >= 8 && len(b) < shortLine && !hasControl(b) {
		return false
	}
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}

// hasControl reports whether b, of at least 8 bytes, contains a byte up to \r, which few lines of JSON do.
func hasControl(b []byte) bool {
	found := controls(binary.LittleEndian.Uint64(b[len(b)-8:]))
	for ; len(b) >= 16; b = b[16:] {
		found |= controls(binary.LittleEndian.Uint64(b)) | controls(binary.LittleEndian.Uint64(b[8:]))
	}
	if len(b) >= 8 {
		found |= controls(binary.LittleEndian.Uint64(b))
	}
	return found != 0
}

// controls returns a value other than 0 if one of 8 bytes is at most \r: the lowest such byte sets its high bit.
func controls(w uint64) uint64 { return (w - every*('\r'+1)) &^ w & high }

// AppendLine appends a JSON source to dst as a single line, without line feeds and carriage returns.
// A source without line breaks
// is copied unchanged. Otherwise line breaks outside strings are removed, a // comment
// is removed with its line break, and a /* */ comment stays with blanks instead of line breaks:
// Elasticsearch and OpenSearch of all versions accept such comments (but neither
// '#' comments nor single-quoted strings). If removing a line break would join two tokens, a
// blank replaces it. AppendLine returns ErrLineBreak for a raw line break inside a string.
func AppendLine(dst, source []byte) ([]byte, error) {
	if !hasLineBreak(source) {
		return append(dst, source...), nil
	}
	start := len(dst)
	from, i := 0, 0 // source[from:i] is scanned and not yet copied
	for {
		for i < len(source) && !outside[source[i]] {
			i++
		}
		if i == len(source) {
			return append(dst, source[from:]...), nil
		}
		next := i + 1
		switch source[i] {
		case '"':
			end, err := skipString(source, i)
			if err != nil {
				return dst[:start], err
			}
			i = end
			continue
		case '\n', '\r':
		case '/':
			if next == len(source) || source[next] != '/' && source[next] != '*' {
				i++
				continue
			}
			if source[next] == '*' {
				dst = append(dst, source[from:i]...)
				end := skipComment(source, i)
				dst = appendBlanked(dst, source[i:end])
				from, i = end, end
				continue
			}
			next = skipToBreak(source, i)
		}
		dst = append(dst, source[from:i]...)
		for next < len(source) && isBreak(source[next]) {
			next++
		}
		if next < len(source) && len(dst) > start && isWord(dst[len(dst)-1]) && isWord(source[next]) {
			dst = append(dst, ' ')
		}
		from, i = next, next
	}
}

// The bytes at which scanning stops, outside of strings and inside.
var (
	outside = [256]bool{'"': true, '/': true, '\n': true, '\r': true}
	inside  = [256]bool{'"': true, '\\': true, '\n': true, '\r': true}
)

// skipString returns the position after the string that starts at i; the length of b if it does not end.
func skipString(b []byte, i int) (int, error) {
	for i++; ; i++ {
		for i < len(b) && !inside[b[i]] {
			i++
		}
		if i >= len(b) {
			return len(b), nil
		}
		switch b[i] {
		case '"':
			return i + 1, nil
		case '\\':
			if i+1 < len(b) && !isBreak(b[i+1]) {
				i++
			}
		case '\n', '\r':
			return i, fmt.Errorf("%w at byte %d", ErrLineBreak, i)
		}
	}
}

// skipComment returns the position after the /* comment that starts at i.
func skipComment(b []byte, i int) int {
	if n := bytes.Index(b[i+2:], []byte("*/")); n >= 0 {
		return i + 2 + n + 2
	}
	return len(b)
}

func skipToBreak(b []byte, i int) int {
	for i < len(b) && !isBreak(b[i]) {
		i++
	}
	return i
}

func appendBlanked(dst, comment []byte) []byte {
	for _, c := range comment {
		if isBreak(c) {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

func isBreak(c byte) bool { return c == '\n' || c == '\r' }

// isWord reports whether c may join with an adjacent byte to one token.
func isWord(c byte) bool {
	switch c {
	case '{', '}', '[', ']', ',', ':', '"', ' ', '\t', '\n', '\r':
		return false
	}
	return true
}
