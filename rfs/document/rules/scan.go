package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// hit is a member of an object that a path names. All are positions in the text.
type hit struct {
	seg      int // behind the { or comma before it
	key, col int // its key, quotes included, is text[key:col]
	val, end int // its value is text[val:end]
	segEnd   int // at the comma or } after it
	rest     int // bytes of the path that its key matches
}

// finder finds the members that a path names in the text of a document. A path is written
// with dots, which stand for objects below each other as well as for dots in a name, as they
// do in an index; objects in lists are looked into. Bare words are taken for values of any
// kind (old versions store NaN): the text is passed on, not judged.
type finder struct {
	b    []byte
	i    int
	hits []hit
}

const (
	deepest  = 2000    // nesting of a document
	maxHits  = 1 << 19 // members that a path names
	keepHits = 1 << 14 // their room that is kept
)

var errNoObject = errors.New("no JSON object")

// find fills hits with the members at a path, in order.
func (f *finder) find(b []byte, path string) error {
	f.b, f.i, f.hits = b, len(b)-len(doc.WithoutMark(b)), f.hits[:0]
	if !mayHold(b, path) {
		return nil
	}
	if f.space() != '{' {
		return errNoObject
	}
	if err := f.value(path, 0); err != nil {
		return err
	}
	if f.space(); f.i != len(b) {
		return f.wrong("more than one value")
	}
	return nil
}

// mayHold is a quick look: without escapes a key of the path's last part must be there as it is.
func mayHold(b []byte, path string) bool {
	last := path[strings.LastIndexByte(path, '.')+1:]
	return contains(b, last) || bytes.IndexByte(b, '\\') >= 0
}

// contains is bytes.Contains without a copy of s.
func contains(b []byte, s string) bool {
	for len(b) >= len(s) {
		i := bytes.IndexByte(b, s[0])
		if i < 0 || i+len(s) > len(b) {
			return false
		}
		if string(b[i:i+len(s)]) == s {
			return true
		}
		b = b[i+1:]
	}
	return false
}

func (f *finder) wrong(what string) error { return fmt.Errorf("%s at byte %d", what, f.i) }

func (f *finder) space() byte {
	for ; f.i < len(f.b); f.i++ {
		switch c := f.b[f.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// value moves behind a value and collects the members of rest in it; "" collects nothing.
func (f *finder) value(rest string, depth int) error {
	if depth > deepest {
		return f.wrong("nested too deeply")
	}
	switch f.space() {
	case '{':
		return f.object(rest, depth)
	case '[':
		return f.array(rest, depth)
	case '"':
		return f.text()
	}
	start := f.i
	for ; f.i < len(f.b); f.i++ {
		switch f.b[f.i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r', ':', '"', '{', '[':
			if f.i == start {
				return f.wrong("no value")
			}
			return nil
		}
	}
	if f.i == start {
		return f.wrong("the text ends")
	}
	return nil
}

func (f *finder) object(rest string, depth int) error {
	f.i++
	seg := f.i
	if f.space() == '}' {
		f.i++
		return nil
	}
	for {
		f.space()
		h := hit{seg: seg, key: f.i}
		if err := f.text(); err != nil {
			return err
		}
		h.col = f.i
		if f.space() != ':' {
			return f.wrong("no colon")
		}
		f.i++
		f.space()
		h.val = f.i
		below, isHit := rest, false
		if rest != "" {
			below, isHit = f.step(f.b[h.key:h.col], rest)
		}
		if err := f.value(below, depth+1); err != nil {
			return err
		}
		h.end = f.i
		c := f.space()
		if h.segEnd, h.rest = f.i, len(rest); isHit {
			if len(f.hits) == maxHits {
				return fmt.Errorf("more than %d members at one path", maxHits)
			}
			f.hits = append(f.hits, h)
		}
		f.i++
		switch c {
		case ',':
			seg = f.i
		case '}':
			return nil
		default:
			f.i--
			return f.wrong("no comma or }")
		}
	}
}

// step reports whether a key is what rest asks for, or what of it is to be looked for below.
func (f *finder) step(quoted []byte, rest string) (below string, isHit bool) {
	key := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		var s string
		if json.Unmarshal(quoted, &s) != nil {
			return "", false
		}
		key = []byte(s)
	}
	switch {
	case string(key) == rest:
		return "", true
	case len(key) > 0 && len(key) < len(rest) && rest[len(key)] == '.' && string(key) == rest[:len(key)]:
		return rest[len(key)+1:], false
	}
	return "", false
}

func (f *finder) array(rest string, depth int) error {
	f.i++
	if f.space() == ']' {
		f.i++
		return nil
	}
	for {
		if err := f.value(rest, depth+1); err != nil {
			return err
		}
		switch f.space() {
		case ',':
			f.i++
		case ']':
			f.i++
			return nil
		default:
			return f.wrong("no comma or ]")
		}
	}
}

// text moves behind a string.
func (f *finder) text() error {
	if f.i >= len(f.b) || f.b[f.i] != '"' {
		return f.wrong("no string")
	}
	for j := f.i + 1; ; {
		n := bytes.IndexByte(f.b[j:], '"')
		if n < 0 {
			return f.wrong("a string without end")
		}
		end := j + n
		slashes := 0
		for k := end - 1; k >= j && f.b[k] == '\\'; k-- {
			slashes++
		}
		if slashes%2 == 0 {
			f.i = end + 1
			return nil
		}
		j = end + 1
	}
}
