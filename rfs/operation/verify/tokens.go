package verify

import (
	"bytes"
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// errForm means that a text has no canonical form: it is not JSON, is nested deeper than maxDepth, or contains a number whose exponent
// has more than maxExponent digits. Such a source is compared by its bytes.
var errForm = errors.New("no canonical form")

const (
	// maxDepth is the maximum nesting, the limit of the parser of OpenSearch.
	maxDepth = 1000
	// maxExponent limits the digits of a number's exponent, so that it can be adjusted as an int64.
	maxExponent = 15
	// shortText is the number of bytes of a string that are examined individually, which is faster than a search for short strings.
	shortText = 24
)

// tokens parses JSON text without allocating. Comments are white space, as for the parsers of
// Elasticsearch and OpenSearch. Strings are not validated: bytes that are not UTF-8 stay unchanged.
type tokens struct {
	b []byte
	i int
}

// next skips white space and comments and returns the next byte, 0 at the end.
func (t *tokens) next() byte {
	for t.i < len(t.b) {
		switch c := t.b[t.i]; c {
		case ' ', '\n', '\r', '\t':
			t.i++
		case '/':
			if !t.comment() {
				return c
			}
		default:
			return c
		}
	}
	return 0
}

// comment skips a comment and reports whether it found one.
func (t *tokens) comment() bool {
	rest := t.b[t.i:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		if n := bytes.IndexAny(rest, "\r\n"); n >= 0 {
			t.i += n
			return true
		}
	case bytes.HasPrefix(rest, []byte("/*")):
		if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
			t.i += n + 4
			return true
		}
	default:
		return false
	}
	t.i = len(t.b)
	return true
}

// expect moves past c.
func (t *tokens) expect(c byte) error {
	if t.next() != c {
		return errForm
	}
	t.i++
	return nil
}

// list parses the elements between the brackets open and end; element moves past one.
func (t *tokens) list(open, end byte, element func() error) error {
	if t.next() != open {
		return errForm
	}
	for more := t.enter(end); more; {
		err := element()
		if err == nil {
			more, err = t.more(end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enter moves past the opening bracket at t.i. If the closing one follows, it moves past that too and returns false.
func (t *tokens) enter(end byte) bool {
	t.i++
	if t.next() != end {
		return true
	}
	t.i++
	return false
}

// more moves past the comma or bracket after an element, and reports whether another element follows.
func (t *tokens) more(end byte) (bool, error) {
	switch t.next() {
	case ',':
		t.i++
		return true, nil
	case end:
		t.i++
		return false, nil
	}
	return false, errForm
}

// str parses a string and returns the text between its quotes; plain reports whether it has no escapes.
func (t *tokens) str() (inner []byte, plain bool, err error) {
	if t.next() != '"' {
		return nil, false, errForm
	}
	start := t.i + 1
	for j := start; j < min(start+shortText, len(t.b)); j++ {
		switch t.b[j] {
		case '"':
			t.i = j + 1
			return t.b[start:j], true, nil
		case '\\':
			return t.escaped(start, j)
		}
	}
	end := bytes.IndexByte(t.b[start:], '"')
	if end < 0 {
		return nil, false, errForm
	}
	escape := bytes.IndexByte(t.b[start:start+end], '\\')
	if escape < 0 {
		t.i = start + end + 1
		return t.b[start : start+end], true, nil
	}
	return t.escaped(start, start+escape)
}

// escaped parses the rest of a string whose text starts at start and has its first escape at j.
func (t *tokens) escaped(start, j int) (inner []byte, plain bool, err error) {
	for ; j < len(t.b); j++ {
		switch t.b[j] {
		case '\\':
			j++
		case '"':
			t.i = j + 1
			return t.b[start:j], false, nil
		}
	}
	return nil, false, errForm
}

// scalar returns a number or a literal: all bytes up to a delimiter.
func (t *tokens) scalar() []byte {
	start := t.i
	for ; t.i < len(t.b); t.i++ {
		switch t.b[t.i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t', '{', '[', '"', ':', '/':
			return t.b[start:t.i]
		}
	}
	return t.b[start:t.i]
}

// skip moves past the next value and returns its bytes.
func (t *tokens) skip(depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errForm
	}
	c := t.next()
	start := t.i
	var err error
	switch c {
	case '{':
		err = t.list('{', '}', func() error {
			if _, _, err := t.str(); err != nil {
				return err
			}
			if err := t.expect(':'); err != nil {
				return err
			}
			_, err := t.skip(depth + 1)
			return err
		})
	case '[':
		err = t.list('[', ']', func() error {
			_, err := t.skip(depth + 1)
			return err
		})
	case '"':
		_, _, err = t.str()
	default:
		if len(t.scalar()) == 0 {
			err = errForm
		}
	}
	return t.b[start:t.i], err
}

// appendUnescaped appends the text of a string with decoded escapes. A lone surrogate is appended as three
// bytes that are not valid UTF-8.
func appendUnescaped(dst, s []byte) ([]byte, error) {
	for i := 0; i < len(s); {
		c := s[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		if i+1 >= len(s) {
			return dst, errForm
		}
		i += 2
		switch e := s[i-1]; e {
		case '"', '\\', '/':
			dst = append(dst, e)
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hex4(s[i:])
			if !ok {
				return dst, errForm
			}
			i += 4
			if utf16.IsSurrogate(r) {
				if bytes.HasPrefix(s[i:], []byte(`\u`)) {
					if low, ok := hex4(s[i+2:]); ok {
						if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
							dst, i = utf8.AppendRune(dst, pair), i+6
							continue
						}
					}
				}
				dst = append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F|0x80, 0x80|byte(r)&0x3F)
				continue
			}
			dst = utf8.AppendRune(dst, r)
		default:
			return dst, errForm
		}
	}
	return dst, nil
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
