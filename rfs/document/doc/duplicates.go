package doc

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting limits the nesting of a document whose keys are compared.
const maxNesting = 2000

// Limits of the memory of a KeepLast: members of open objects, cuts, and decoded keys in bytes. A document that exceeds them
// stays unchanged.
const (
	maxNoted     = 1 << 20
	maxNotedKeys = 16 << 20
)

// KeepLast removes superseded members from a source: of several members of an object with the same key, all except the last. Parsers
// before Elasticsearch 6 ignored them, too. It reuses buffers and is used by one goroutine.
type KeepLast struct {
	b     []byte
	i     int
	pairs []keyPair // members of the open objects, innermost last
	cuts  []span
	keys  []byte // decoded keys
	out   []byte
}

// span is a range of bytes of a text.
type span struct{ from, to int }

// keyPair is a member of an object.
type keyPair struct {
	cut span   // from after the preceding { or , to after the following ,
	key []byte // decoded
}

var errNotWalked = errors.New("not read as JSON")

// Apply returns source without superseded members, and whether it had any. All other bytes stay: a
// source without duplicate keys is returned unchanged, as is a text that is not JSON. Keys are compared decoded. The result
// is borrowed until the next call.
func (k *KeepLast) Apply(source []byte) (kept []byte, found bool) {
	k.b, k.i, k.pairs, k.cuts, k.keys = source, len(source)-len(WithoutMark(source)), k.pairs[:0], k.cuts[:0], k.keys[:0]
	if k.space() != '{' || k.object(0) != nil || len(k.cuts) == 0 {
		return source, false
	}
	if k.space(); k.i != len(source) {
		return source, false
	}
	// An outer member starts before the members within it.
	slices.SortFunc(k.cuts, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
	k.Forget()
	k.out = slices.Grow(k.out[:0], len(source))
	from := 0
	for _, c := range k.cuts {
		if c.from < from {
			continue
		}
		k.out = append(k.out, source[from:c.from]...)
		from = c.to
	}
	k.out = append(k.out, source[from:]...)
	return k.out, true
}

// Forget releases a large buffer.
func (k *KeepLast) Forget() {
	if cap(k.out) > keepBuffer {
		k.out = nil
	}
}

// space moves to the next byte that is neither white space nor part of a comment, and returns it; 0 at the end.
func (k *KeepLast) space() byte {
	if k.i = skipSpace(k.b, k.i); k.i < len(k.b) {
		return k.b[k.i]
	}
	return 0
}

// skipSpace returns the position of the next byte that is neither white space nor part of a comment.
func skipSpace(b []byte, i int) int {
	for i < len(b) {
		switch c := b[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case bytes.HasPrefix(b[i:], []byte("/*")):
			i = skipComment(b, i)
		case bytes.HasPrefix(b[i:], []byte("//")):
			i = skipToBreak(b, i)
		default:
			return i
		}
	}
	return i
}

// EmptyObject reports whether the JSON object at the start of b has no members.
func EmptyObject(b []byte) bool {
	i := skipSpace(b, 1)
	return i < len(b) && b[i] == '}'
}

// value moves past a value.
func (k *KeepLast) value(depth int) error {
	if depth > maxNesting {
		return errNotWalked
	}
	switch k.space() {
	case '{':
		return k.object(depth)
	case '[':
		return k.list(depth)
	case '"':
		_, err := k.text()
		return err
	}
	start := k.i
	for k.i < len(k.b) && isWord(k.b[k.i]) && k.b[k.i] != '/' {
		k.i++
	}
	if k.i == start {
		return errNotWalked
	}
	return nil
}

// object moves past an object and adds its superseded members to cuts.
func (k *KeepLast) object(depth int) error {
	k.i++
	base, from := len(k.pairs), k.i
	if k.space() == '}' {
		k.i++
		return nil
	}
	for {
		k.space()
		key, err := k.text()
		if err != nil {
			return err
		}
		if k.space() != ':' {
			return errNotWalked
		}
		k.i++
		if err := k.value(depth + 1); err != nil {
			return err
		}
		c := k.space()
		if c != ',' && c != '}' {
			return errNotWalked
		}
		k.i++
		if len(k.pairs)+len(k.cuts) >= maxNoted || len(k.keys) > maxNotedKeys {
			return errNotWalked
		}
		k.pairs = append(k.pairs, keyPair{cut: span{from, k.i}, key: key})
		if from = k.i; c == '}' {
			break
		}
	}
	k.supersede(k.pairs[base:])
	k.pairs = k.pairs[:base]
	return nil
}

// supersede adds the members of an object that precede another one with the same key to cuts. The last member of the object is never
// among them, so that a comma follows each.
func (k *KeepLast) supersede(pairs []keyPair) {
	if len(pairs) < 2 {
		return
	}
	slices.SortFunc(pairs, func(a, b keyPair) int {
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(a.cut.from, b.cut.from))
	})
	for i, p := range pairs[:len(pairs)-1] {
		if bytes.Equal(p.key, pairs[i+1].key) {
			k.cuts = append(k.cuts, p.cut)
		}
	}
}

func (k *KeepLast) list(depth int) error {
	k.i++
	if k.space() == ']' {
		k.i++
		return nil
	}
	for {
		if err := k.value(depth + 1); err != nil {
			return err
		}
		c := k.space()
		k.i++
		switch c {
		case ',':
		case ']':
			return nil
		default:
			return errNotWalked
		}
	}
}

// text moves past a string and returns its decoded content, which may alias the source or the buffer of keys.
func (k *KeepLast) text() ([]byte, error) {
	if k.i >= len(k.b) || k.b[k.i] != '"' {
		return nil, errNotWalked
	}
	end, err := skipString(k.b, k.i)
	if err != nil || end < k.i+2 || k.b[end-1] != '"' {
		return nil, errNotWalked
	}
	content := k.b[k.i+1 : end-1]
	k.i = end
	if bytes.IndexByte(content, '\\') < 0 {
		return content, nil
	}
	start := len(k.keys)
	k.keys, err = appendUnescaped(k.keys, content)
	return k.keys[start:len(k.keys):len(k.keys)], err
}

// appendUnescaped appends the content of a JSON string with decoded escapes. A lone surrogate is encoded in
// the three bytes of WTF-8, so that different strings stay different.
func appendUnescaped(dst, s []byte) ([]byte, error) {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			i++
			continue
		}
		if i+1 == len(s) {
			return dst, errNotWalked
		}
		if s[i+1] != 'u' {
			at := strings.IndexByte(`"\/bfnrt`, s[i+1])
			if at < 0 {
				return dst, errNotWalked
			}
			dst = append(dst, "\"\\/\b\f\n\r\t"[at])
			i += 2
			continue
		}
		r, ok := unicodeEscape(s[i:])
		if !ok {
			return dst, errNotWalked
		}
		i += 6
		if low, ok := unicodeEscape(s[i:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
			r = utf16.DecodeRune(r, low)
			i += 6
		}
		if utf16.IsSurrogate(r) {
			dst = append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
			continue
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, nil
}

// unicodeEscape returns the code unit of the escape \uXXXX at the start of s.
func unicodeEscape(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s[2:6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
