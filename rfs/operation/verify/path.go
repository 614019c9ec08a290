package verify

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

const (
	// maxPath is the maximum length of a path in bytes.
	maxPath = 300
	// maxPathDepth is the maximum depth of a path.
	maxPathDepth = 32
)

// FirstDifference returns the path, such as a.tags[2], of the first difference of two JSON texts, in the order of the
// first text: of the first differing value, or if all values are equal, of the first differing spelling. It returns
// "" if only the documents as a whole differ: a text is not JSON, or the order of keys differs.
func FirstDifference(a, b []byte) string {
	f := finder{digests: NewCanonical()}
	va, aerr := (&tokens{b: bytes.TrimPrefix(a, byteOrderMark)}).skip(0)
	vb, berr := (&tokens{b: bytes.TrimPrefix(b, byteOrderMark)}).skip(0)
	if aerr != nil || berr != nil {
		return ""
	}
	f.differ = func(x, y []byte) bool { return !f.sameValue(x, y) }
	if !f.differ(va, vb) {
		f.differ = func(x, y []byte) bool { return !bytes.Equal(x, y) }
	}
	f.descend(va, vb, 0)
	return string(f.path)
}

type finder struct {
	digests *Canonical
	differ  func(x, y []byte) bool
	path    []byte
}

func (f *finder) sameValue(x, y []byte) bool {
	if bytes.Equal(x, y) {
		return true
	}
	dx, _ := f.digests.Digest(x)
	dy, _ := f.digests.Digest(y)
	return dx == dy
}

// part is a member of an object, with its decoded key, or an element of an array, without a key.
type part struct{ key, value []byte }

// descend extends the path to the first difference within x and y, which differ.
func (f *finder) descend(x, y []byte, depth int) {
	if depth == maxPathDepth || len(x) == 0 || len(y) == 0 || x[0] != y[0] || x[0] != '{' && x[0] != '[' {
		return
	}
	px, py := parts(x), parts(y)
	if x[0] == '[' {
		for i := range max(len(px), len(py)) {
			if i >= len(px) || i >= len(py) {
				f.extend("[" + strconv.Itoa(i) + "]")
				return
			}
			if f.differ(px[i].value, py[i].value) {
				f.extend("[" + strconv.Itoa(i) + "]")
				f.descend(px[i].value, py[i].value, depth+1)
				return
			}
		}
		return
	}
	others := make(map[string][][]byte, len(py))
	for _, p := range py {
		others[string(p.key)] = append(others[string(p.key)], p.value)
	}
	for _, p := range px {
		same := others[string(p.key)]
		if len(same) == 0 {
			f.member(p.key)
			return
		}
		others[string(p.key)] = same[1:]
		if f.differ(p.value, same[0]) {
			f.member(p.key)
			f.descend(p.value, same[0], depth+1)
			return
		}
	}
	for _, p := range py {
		if len(others[string(p.key)]) > 0 {
			f.member(p.key)
			return
		}
	}
}

// parts returns the members of a container, none if it is not JSON.
func parts(v []byte) (all []part) {
	t := tokens{b: v}
	var err error
	if v[0] == '[' {
		err = t.list('[', ']', func() error {
			value, err := t.skip(0)
			all = append(all, part{value: value})
			return err
		})
	} else {
		err = t.list('{', '}', func() error {
			key, plain, err := t.str()
			if err == nil && !plain {
				key, err = appendUnescaped(nil, key)
			}
			if err != nil {
				return err
			}
			if err := t.expect(':'); err != nil {
				return err
			}
			value, err := t.skip(0)
			all = append(all, part{key, value})
			return err
		})
	}
	if err != nil {
		return nil
	}
	return all
}

// member extends the path by a key, which is quoted unless it is a plain word.
func (f *finder) member(key []byte) {
	name := string(key)
	if name == "" || !utf8.Valid(key) || bytes.ContainsAny(key, ".[]\"\\ ") || strconv.Quote(name) != `"`+name+`"` {
		name = strconv.QuoteToASCII(name)
	}
	if len(f.path) > 0 {
		name = "." + name
	}
	f.extend(name)
}

func (f *finder) extend(s string) {
	f.path = append(f.path, s...)
	if len(f.path) > maxPath {
		cut := f.path[:maxPath]
		for len(cut) > 0 && !utf8.RuneStart(f.path[len(cut)]) {
			cut = cut[:len(cut)-1]
		}
		f.path = append(cut, "…"...)
		f.differ = func(_, _ []byte) bool { return false }
	}
}
