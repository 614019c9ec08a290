package rebuild

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// Complete appends a filtered source with the fields that the filter excluded, except for fields in arrays of objects, because it is
// unknown to which object they belong. done is false if nothing was added. Its error is an *Unknown if only this document cannot be
// completed.
func (r *Rebuilder) Complete(ctx context.Context, dst, source []byte, v *lucene.Values) (out []byte, done bool, err error) {
	r.boundValues(v)
	if err := r.use(ctx, v); err != nil {
		return nil, false, err
	}
	s := r.bound
	s.values = v
	if err := s.load(ctx, v); err != nil {
		return nil, false, unknownValue(err)
	}
	out, done, err = s.complete(ctx, dst, source, s.root)
	return out, done, unknownValue(err)
}

// Completes reports whether sources are filtered, so that Complete may add to them.
func (r *Rebuilder) Completes() bool { return !r.root.params.Source.Empty() && r.lenient }

// complete appends the object of a source, and its missing fields after its last member. Existing bytes do not change.
func (s *segment) complete(ctx context.Context, dst, source []byte, n *node) (out []byte, done bool, err error) {
	spans, end, ok := membersOf(source)
	if !ok {
		return append(dst, source...), false, nil
	}
	from := 0
	for _, m := range spans {
		c := n.child(m.name)
		if c == nil || !c.object || c.kind == "nested" {
			continue
		}
		dst = append(dst, source[from:m.from]...)
		var inner bool
		if dst, inner, err = s.complete(ctx, dst, source[m.from:m.to], c); err != nil {
			return nil, false, err
		}
		from, done = m.to, done || inner
	}
	dst = append(dst, source[from:end]...)
	some := len(spans) > 0
	for _, c := range n.children {
		if c.kind == "nested" || slices.ContainsFunc(spans, func(m span) bool { return m.name == c.leaf }) {
			continue
		}
		mark := len(dst)
		if some {
			dst = append(dst, ',')
		}
		dst = append(appendText(dst, []byte(c.leaf)), ':')
		wrote := false
		if c.object {
			dst, wrote, err = s.object(ctx, dst, c)
		} else if s.leaves[c.path] != nil {
			dst, wrote, err = s.leaf(ctx, dst, c)
		}
		if err == nil {
			err = fits(len(dst), s.most)
		}
		if err != nil {
			return nil, false, err
		}
		if !wrote {
			dst = dst[:mark]
			continue
		}
		some, done = true, true
	}
	return append(dst, source[end:]...), done, nil
}

// child returns the member of an object with that name, or nil.
func (n *node) child(name string) *node {
	i := slices.IndexFunc(n.children, func(c *node) bool { return c.leaf == name })
	if i < 0 {
		return nil
	}
	return n.children[i]
}

// span is the position of a member's value in an object.
type span struct {
	name     string
	from, to int
}

// membersOf returns the members of a JSON object and the offset of its closing brace; ok is false for anything else.
func membersOf(source []byte) (all []span, end int, ok bool) {
	d := json.NewDecoder(bytes.NewReader(source))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, 0, false
		}
		key, isText := name.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil || !isText {
			return nil, 0, false
		}
		to := int(d.InputOffset())
		all = append(all, span{key, to - len(value), to})
	}
	if _, err := d.Token(); err != nil {
		return nil, 0, false
	}
	end = int(d.InputOffset()) - 1
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return all, end, len(bytes.TrimSpace(source[end+1:])) == 0
}
