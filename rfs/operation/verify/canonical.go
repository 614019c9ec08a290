package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strconv"
)

// Canonical computes digests of JSON values that do not depend on white space, comments,
// escapes, the order of keys and the form of numbers (1, 1.0 and 10e-1 are the same decimal). Decimals are exact at any
// size; the sign of a zero counts, as it does for a floating-point field. Equal keys of one object are all included, in their
// order. A Canonical reuses buffers and is used by one goroutine.
//
// Memory is a small multiple of the text: long nested values are replaced by their digest as soon as they end.
type Canonical struct {
	t       tokens
	out     []byte   // encoded parts of the open containers
	members []member // of the open objects
	sorted  []byte
	digits  []byte
	h       hash.Hash
}

// member is one encoded member of an object: out[start:value] is its key, out[value:end] its value.
type member struct{ start, value, end int }

// Kinds of encoded values. A string is followed by its length and bytes, a number by its text and a zero byte, a container by
// its parts and kindEnd, or by their digest if they are longer than maxParts.
const (
	kindString = 's'
	kindNumber = 'n'
	kindObject = 'o'
	kindArray  = 'a'
	kindDigest = 'd'
	kindEnd    = 'e'
	kindTrue   = 't'
	kindFalse  = 'f'
	kindNull   = '0'
	// kindOpaque is the prefix of the hashed bytes of a text without a canonical form.
	kindOpaque = '?'
)

// maxParts is the longest encoding of a nested container, in bytes, that is not replaced by its digest. It limits the
// bytes that are copied once per level.
const maxParts = 512

var opaque = []byte{kindOpaque}

// byteOrderMark may precede a source; it is not part of its value.
var byteOrderMark = []byte("\xEF\xBB\xBF")

// NewCanonical returns a Canonical with empty buffers.
func NewCanonical() *Canonical { return &Canonical{h: sha256.New()} }

// Digest returns the digest of a JSON text. exact reports whether the text has a canonical form; if not,
// digest is the digest of its bytes.
func (c *Canonical) Digest(text []byte) (digest [sha256.Size]byte, exact bool) {
	encoded, exact := c.encode(text)
	if exact {
		c.hash(&digest, encoded)
	} else {
		c.hash(&digest, opaque, text)
	}
	return digest, exact
}

// encode returns the canonical form of a JSON text, which is valid until the next call, or false if it has none.
func (c *Canonical) encode(text []byte) ([]byte, bool) {
	c.t = tokens{b: bytes.TrimPrefix(text, byteOrderMark)}
	c.out, c.members = c.out[:0], c.members[:0]
	if c.value(0) != nil || c.t.next() != 0 || c.t.i != len(c.t.b) {
		return nil, false
	}
	return c.out, true
}

func (c *Canonical) hash(into *[sha256.Size]byte, parts ...[]byte) {
	c.h.Reset()
	for _, p := range parts {
		c.h.Write(p) //nolint:errcheck // a hash never returns an error
	}
	c.h.Sum(into[:0])
}

// value encodes the next value.
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
	c.out = append(c.out, kindArray)
	for more := c.t.enter(']'); more; {
		err := c.value(depth + 1)
		if err == nil {
			more, err = c.t.more(']')
		}
		if err != nil {
			return err
		}
	}
	c.end(start, depth)
	return nil
}

func (c *Canonical) object(depth int) error {
	start, first := len(c.out), len(c.members)
	c.out = append(c.out, kindObject)
	inOrder := true
	for more := c.t.enter('}'); more; {
		m := member{start: len(c.out)}
		err := c.key()
		if err == nil {
			m.value = len(c.out)
			err = c.value(depth + 1)
		}
		if err == nil {
			more, err = c.t.more('}')
		}
		if err != nil {
			return err
		}
		m.end = len(c.out)
		if n := len(c.members); n > first && c.compare(c.members[n-1], m) > 0 {
			inOrder = false
		}
		c.members = append(c.members, m)
	}
	if !inOrder {
		c.sort(c.members[first:])
	}
	c.members = c.members[:first]
	c.end(start, depth)
	return nil
}

// key encodes the next key and moves past its colon.
func (c *Canonical) key() error {
	if err := c.str(); err != nil {
		return err
	}
	return c.t.expect(':')
}

// sort sorts encoded members by their keys, in a stable order.
func (c *Canonical) sort(all []member) {
	start, end := all[0].start, len(c.out)
	slices.SortStableFunc(all, c.compare)
	c.sorted = c.sorted[:0]
	for _, m := range all {
		c.sorted = append(c.sorted, c.out[m.start:m.end]...)
	}
	copy(c.out[start:end], c.sorted)
}

func (c *Canonical) compare(a, b member) int {
	return bytes.Compare(c.out[a.start:a.value], c.out[b.start:b.value])
}

// end ends the container that starts at start. A long nested container is replaced by its digest.
func (c *Canonical) end(start, depth int) {
	if depth == 0 || len(c.out)-start <= maxParts {
		c.out = append(c.out, kindEnd)
		return
	}
	var digest [sha256.Size]byte
	c.hash(&digest, c.out[start:])
	c.out = append(append(c.out[:start], kindDigest), digest[:]...)
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

// digitsFrom returns the position after the digits that start at i.
func digitsFrom(s []byte, i int) int {
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return i
}
