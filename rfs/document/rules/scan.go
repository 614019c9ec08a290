package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// hit is a member that a path matches. All fields except rest are positions in the text.
type hit struct {
	seg      int // after the preceding { or comma
	key, col int // its key, quotes included, is text[key:col]
	val, end int // its value is text[val:end]
	segEnd   int // at the following comma or }
	rest     int // number of bytes of the path that its key matches
}

// finder finds the members that a path matches in the text of a document. A dot in a path
// separates an object from its member, or is a dot in a name, as
// in an index; finder also searches objects in lists. It accepts bare words as values
// (old versions store NaN), since the target validates the text.
type finder struct {
	b    []byte
	i    int
	hits []hit
}

const (
	deepest  = 2000    // maximum nesting of a document
	maxHits  = 1 << 19 // maximum number of hits
	keepHits = 1 << 14 // capacity of hits that is reused
)

var errNoObject = errors.New("no JSON object")

// find sets hits to the members at a path, in order.
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

// mayHold reports whether the text may contain a path: without escapes it must contain the path's last component literally.
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

// value moves past a value and collects the members in it that rest matches; none for "".
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

// step reports whether a key matches all of rest, and else returns the remaining path to search below it.
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

// text moves past a string.
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
