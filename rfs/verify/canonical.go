package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strconv"
)

// Canonical computes digests of JSON values that do not depend on how a value is written: white space, comments,
// escapes, the order of keys and the form of numbers (1, 1.0 and 10e-1 are the same decimal). Decimals are exact at any
// size; the sign of a zero counts, as it does for a floating-point field. Equal keys of one object stay apart, in their
// order. A Canonical keeps buffers and is used by one goroutine.
//
// Memory is at most the size of the text: what is nested is replaced by its digest as soon as it ends.
type Canonical struct {
	t       tokens
	out     []byte   // encoded parts of the containers that are open
	members []member // of the objects that are open
	sorted  []byte
	digits  []byte
	h       hash.Hash
}

// member is one encoded member of an object: out[start:value] is its key, out[value:end] its value.
type member struct{ start, value, end int }

// Kinds of encoded values. A string is followed by its length and bytes, a number by its text and a zero byte, a
// container by its digest.
const (
	kindString = 's'
	kindNumber = 'n'
	kindObject = 'o'
	kindArray  = 'a'
	kindTrue   = 't'
	kindFalse  = 'f'
	kindNull   = '0'
	// kindOpaque begins what is hashed of a text without a canonical form.
	kindOpaque = '?'
)

// NewCanonical returns a Canonical without anything in its buffers.
func NewCanonical() *Canonical { return &Canonical{h: sha256.New()} }

// Digest returns the digest of a JSON text. exact reports that the text has a canonical form; the digest of any other
// text is that of its bytes.
func (c *Canonical) Digest(text []byte) (digest [sha256.Size]byte, exact bool) {
	c.t = tokens{b: text}
	c.out, c.members = c.out[:0], c.members[:0]
	if c.value(0) == nil && c.t.next() == 0 && c.t.i == len(text) {
		c.hash(&digest, c.out)
		return digest, true
	}
	c.hash(&digest, []byte{kindOpaque}, text)
	return digest, false
}

func (c *Canonical) hash(into *[sha256.Size]byte, parts ...[]byte) {
	c.h.Reset()
	for _, p := range parts {
		c.h.Write(p) //nolint:errcheck // a hash takes everything
	}
	c.h.Sum(into[:0])
}

// value encodes the value at hand.
func (c *Canonical) value(depth int) error {
	if depth > maxDepth {
		return errForm
	}
	switch c.t.next() {
	case '{':
		return c.object(depth)
	case '[':
		return c.array(depth)
	case '"':
		return c.str()
	}
	switch s := c.t.scalar(); string(s) {
	case "true":
		c.out = append(c.out, kindTrue)
	case "false":
		c.out = append(c.out, kindFalse)
	case "null":
		c.out = append(c.out, kindNull)
	default:
		return c.number(s)
	}
	return nil
}

func (c *Canonical) str() error {
	s, plain, err := c.t.str()
	if err != nil {
		return err
	}
	c.out = append(c.out, kindString)
	if plain {
		c.out = binary.AppendUvarint(c.out, uint64(len(s)))
		c.out = append(c.out, s...)
		return nil
	}
	if c.digits, err = appendUnescaped(c.digits[:0], s); err != nil {
		return err
	}
	c.out = binary.AppendUvarint(c.out, uint64(len(c.digits)))
	c.out = append(c.out, c.digits...)
	return nil
}

func (c *Canonical) array(depth int) error {
	start := len(c.out)
	err := c.t.list('[', ']', func() error { return c.value(depth + 1) })
	if err == nil {
		c.collapse(start, kindArray, c.out[start:])
	}
	return err
}

func (c *Canonical) object(depth int) error {
	start, first := len(c.out), len(c.members)
	inOrder := true
	err := c.t.list('{', '}', func() error {
		m := member{start: len(c.out)}
		c.t.next()
		if err := c.str(); err != nil {
			return err
		}
		m.value = len(c.out)
		if err := c.t.expect(':'); err != nil {
			return err
		}
		if err := c.value(depth + 1); err != nil {
			return err
		}
		m.end = len(c.out)
		if n := len(c.members); n > first && c.compare(c.members[n-1], m) > 0 {
			inOrder = false
		}
		c.members = append(c.members, m)
		return nil
	})
	if err != nil {
		return err
	}
	encoded := c.out[start:]
	if !inOrder {
		all := c.members[first:]
		slices.SortStableFunc(all, c.compare)
		c.sorted = c.sorted[:0]
		for _, m := range all {
			c.sorted = append(c.sorted, c.out[m.start:m.end]...)
		}
		encoded = c.sorted
	}
	c.members = c.members[:first]
	c.collapse(start, kindObject, encoded)
	return nil
}

func (c *Canonical) compare(a, b member) int {
	return bytes.Compare(c.out[a.start:a.value], c.out[b.start:b.value])
}

// collapse replaces what was encoded from start on by the digest of a container with these parts.
func (c *Canonical) collapse(start int, kind byte, parts []byte) {
	var digest [sha256.Size]byte
	c.hash(&digest, []byte{kind}, parts)
	c.out = append(append(c.out[:start], kind), digest[:]...)
}

// number encodes a JSON number as sign, digits without zeros at either end, e, and the exponent of ten.
func (c *Canonical) number(s []byte) error {
	i := 0
	negative := i < len(s) && s[i] == '-'
	if negative {
		i++
	}
	whole := digitsFrom(s, i)
	if whole == i || whole-i > 1 && s[i] == '0' {
		return errForm
	}
	c.digits = append(c.digits[:0], s[i:whole]...)
	var exponent int64
	if i = whole; i < len(s) && s[i] == '.' {
		end := digitsFrom(s, i+1)
		if end == i+1 {
			return errForm
		}
		c.digits = append(c.digits, s[i+1:end]...)
		exponent, i = -int64(end-i-1), end
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		text := s[i+1:]
		if len(text) > 0 && text[0] == '+' {
			if text = text[1:]; len(text) > 0 && text[0] == '-' {
				return errForm
			}
		}
		if len(text) > maxExponent+1 {
			return errForm
		}
		e, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return errForm
		}
		exponent, i = exponent+e, len(s)
	}
	if i != len(s) {
		return errForm
	}
	digits := bytes.TrimLeft(c.digits, "0")
	significant := bytes.TrimRight(digits, "0")
	c.out = append(c.out, kindNumber)
	if negative {
		c.out = append(c.out, '-')
	}
	if len(significant) > 0 {
		c.out = append(append(c.out, significant...), 'e')
		c.out = strconv.AppendInt(c.out, exponent+int64(len(digits)-len(significant)), 10)
	}
	c.out = append(c.out, 0)
	return nil
}

// digitsFrom returns the position behind the digits that begin at i.
func digitsFrom(s []byte, i int) int {
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return i
}
