package rebuild

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// member is one key of an object to write: kept values, a field or an object.
type member struct {
	path    string
	leaf    string
	entries [][]byte // kept values; nil unless kept
	kept    bool
	node    *node
}

// object appends an object with its braces; some is false if it has nothing to write.
func (s *segment) object(ctx context.Context, dst []byte, n *node) (out []byte, some bool, err error) {
	members := s.members(n)
	out = append(dst, '{')
	for _, m := range members {
		mark := len(out)
		if len(out) > len(dst)+1 {
			out = append(out, ',')
		}
		out = append(appendText(out, []byte(m.leaf)), ':')
		var wrote bool
		begin := len(out)
		switch {
		case m.kept:
			if wrote = len(m.entries) > 0; wrote {
				out, err = s.merge(out, m.entries)
			}
		case m.node.kind == "nested":
			out, wrote = s.appendNested(out, m.node)
		case m.node.object:
			out, wrote, err = s.object(ctx, out, m.node)
		default:
			out, wrote, err = s.leaf(ctx, out, m.node)
		}
		if err == nil {
			err = fits(len(out), s.most)
		}
		if err != nil {
			return nil, false, err
		}
		if !wrote || len(out) == begin {
			out = out[:mark]
			continue
		}
		some = true
	}
	if !some {
		return dst, false, nil
	}
	return append(out, '}'), true, nil
}

// members returns the keys of an object in the order in which they are written: by full path. Kept values replace rebuilt ones.
func (s *segment) members(n *node) []member {
	entries := s.entries[n.path]
	members := make([]member, 0, len(n.children)+len(entries))
	for _, c := range n.children {
		if c.object || s.leaves[c.path] != nil {
			members = append(members, member{path: c.path, leaf: c.leaf, node: c})
		}
	}
	if len(entries) == 0 {
		return members
	}
	fields := len(members)
	for _, e := range entries {
		i := slices.IndexFunc(members, func(m member) bool { return m.path == e.name })
		if i < 0 {
			members = append(members, member{path: e.name, leaf: e.leaf, kept: true})
			i = len(members) - 1
		}
		m := &members[i]
		if i < fields && !m.kept {
			m.leaf = e.leaf
		}
		m.kept = true
		if !e.void() {
			m.entries = append(m.entries, e.value)
		}
	}
	slices.SortStableFunc(members, func(a, b member) int { return compareJava(a.path, b.path) })
	return members
}

// merge appends kept values: a single one as it is, several as one array that also takes the elements of their arrays.
func (s *segment) merge(dst []byte, entries [][]byte) ([]byte, error) {
	if len(entries) == 1 {
		return appendIgnored(dst, entries[0], s.convert)
	}
	dst = append(dst, '[')
	for _, e := range entries {
		mark := len(dst)
		if dst[mark-1] != '[' {
			dst = append(dst, ',')
		}
		begin := len(dst)
		var err error
		if dst, err = appendIgnored(dst, e, s.convert); err == nil {
			err = fits(len(dst), s.most)
		}
		if err != nil {
			return nil, err
		}
		if !bytes.ContainsRune([]byte("jcsy"), rune(e[0])) || len(dst) == begin || dst[begin] != '[' {
			continue
		}
		inner, err := unwrap(dst[begin:])
		if err != nil {
			return nil, err
		}
		if len(inner) == 0 {
			dst = dst[:mark]
			continue
		}
		dst = append(dst[:begin], inner...)
	}
	return append(dst, ']'), nil
}

// unwrap returns the text between the brackets of an array.
func unwrap(b []byte) ([]byte, error) {
	b = bytes.TrimSpace(b)
	if !json.Valid(b) || b[len(b)-1] != ']' {
		return nil, codec.Errorf(0, "an ignored array that is not JSON")
	}
	return bytes.TrimSpace(b[1 : len(b)-1]), nil
}

// leaf appends the values of a field.
func (s *segment) leaf(ctx context.Context, dst []byte, n *node) ([]byte, bool, error) {
	return s.appendLeaf(ctx, dst, s.leaves[n.path], &s.scratch)
}

// appendLeaf appends the values of a field, which it collects in v.
func (s *segment) appendLeaf(ctx context.Context, dst []byte, l *leaf, v *values) ([]byte, bool, error) {
	if l.unknown != "" {
		return dst, false, s.refuse(ctx, l)
	}
	v.reset(s.most)
	for _, layer := range l.layers {
		err := layer.load(ctx, s, v)
		if err == nil {
			err = fits(len(v.b), s.most)
		}
		if err != nil {
			if u, ok := errors.AsType[*Unknown](err); ok && u.Field == "" {
				u.Field, u.Type = l.path, l.kind
			}
			return nil, false, err
		}
	}
	switch {
	case v.n == 0 && !v.array:
		return dst, false, nil
	case v.n == 1 && !v.array:
		return append(dst, v.b...), true, nil
	}
	dst = append(append(dst, '['), v.b...)
	return append(dst, ']'), true, nil
}

// refuse returns an *Unknown if a document has, or may have, a value of a field that is not understood.
func (s *segment) refuse(ctx context.Context, l *leaf) error {
	if l.present != nil {
		n, err := l.present.Advance(ctx, s.doc)
		if err != nil {
			return err
		}
		order := 0
		if c, err := s.column(ctx, l.path+suffixOffsets); c != nil && err == nil && l.unknown != expected {
			if order, err = c.Advance(ctx, s.doc); err != nil {
				return err
			}
		}
		if n == 0 && order == 0 && len(s.stored[l.path]) == 0 {
			return nil
		}
	}
	return &Unknown{Field: l.path, Type: l.kind, Reason: l.unknown}
}
