package rebuild

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

const (
	suffixKeyed        = "._keyed"
	suffixKeyedIgnored = "._keyed._ignored"
)

// flattened is an object whose leaves are in one column: the path, a zero byte and the value, sorted and distinct. Values that ignore_above
// excluded have the same form, in stored fields or in bytes; <field>.offsets keeps the orders of arrays, each after its path and a zero
// byte.
type flattened struct {
	keyed   *lucene.Column // terms; nil if blobs holds them, or the segment has none
	blobs   *blobs
	ignored *blobs // nil if they are stored
	stored  string // name of the stored field of ignored values
	orders  *blobs
	mapped  mappedKeys
	pairs   []pair
	size    int // memory of the pairs and of the objects built from them, in bytes
}

// pairSize is the overhead of a pair and its leaf in addition to their bytes, partSize the overhead of each part of a path.
const pairSize, partSize = 128, 16

// pair is one leaf: its path and one value.
type pair struct {
	path, value string
}

// flattenedLayers returns the layers of an object whose leaves have no mapping, except for some keys.
func (s *segment) flattenedLayers(ctx context.Context, f *node) ([]layer, string, error) {
	if !f.params.columns() {
		return nil, "", nil // in _ignored_source
	}
	l := &flattened{stored: f.path + suffixKeyedIgnored, mapped: mappedKeys{nodes: f.children}}
	var err error
	for name, to := range map[string]**blobs{suffixKeyed: &l.blobs, suffixKeyedIgnored: &l.ignored, suffixOffsets: &l.orders} {
		if *to, err = s.blobsOf(ctx, f.path+name); err != nil {
			return nil, "", err
		}
	}
	if l.blobs != nil {
		return []layer{l}, "", nil
	}
	l.keyed, err = s.column(ctx, f.path+suffixKeyed)
	return []layer{l}, expect(l.keyed, columns.Sorted, columns.SortedSet), err
}

func (l *flattened) load(ctx context.Context, s *segment, out *values) error {
	l.pairs, l.size = l.pairs[:0], 0
	if err := l.read(ctx, s, out.most); err != nil {
		return err
	}
	// Values are sorted as bytes, including ignored ones: a path sorts before its extensions.
	slices.SortFunc(l.pairs, func(a, b pair) int { return strings.Compare(a.path+"\x00"+a.value, b.path+"\x00"+b.value) })
	orders, err := l.readOrders(ctx, s, out.most)
	if err != nil {
		return err
	}
	leaves, err := l.leaves(orders)
	if err != nil {
		return err
	}
	return l.mapped.write(ctx, s, out, leaves)
}

// mappedKeys are the keys of a flattened object that have a mapping: each is a field of its own, under the rest of its path.
type mappedKeys struct {
	nodes []*node // by path
	v     values
	b     []byte
}

// write adds an object of sorted leaves, followed by the keys that have a mapping; nothing if the document has neither.
func (m *mappedKeys) write(ctx context.Context, s *segment, out *values, leaves []flatLeaf) error {
	taken := map[string]bool{}
	m.b = m.b[:0]
	for _, n := range m.nodes {
		l := s.leaves[n.path]
		if l == nil {
			continue
		}
		mark := len(m.b)
		m.b = append(appendText(append(m.b, ','), []byte(n.leaf)), ':')
		b, some, err := s.appendLeaf(ctx, m.b, l, &m.v)
		if err == nil {
			err = fits(len(b), out.most)
		}
		if err != nil {
			return err
		}
		if m.b = b; !some {
			m.b = b[:mark]
			continue
		}
		taken[n.leaf] = true
	}
	if len(leaves) == 0 {
		if len(m.b) == 0 {
			return nil
		}
		if err := out.next(); err != nil {
			return err
		}
		out.b = append(append(append(out.b, '{'), m.b[1:]...), '}')
		return nil
	}
	if err := writeLeaves(out, leaves, taken); err != nil {
		return err
	}
	out.b = append(append(out.b[:len(out.b)-1], m.b...), '}')
	return nil
}

// writeLeaves adds an object of sorted leaves; taken are the keys that follow.
func writeLeaves(out *values, leaves []flatLeaf, taken map[string]bool) error {
	if err := out.next(); err != nil {
		return err
	}
	w := flatWriter{out: append(out.b, '{'), taken: taken}
	for i, leaf := range leaves {
		var next []string
		if i+1 < len(leaves) {
			next = leaves[i+1].parts[:len(leaves[i+1].parts)-1]
		}
		if err := w.write(leaf, next); err != nil {
			return err
		}
	}
	out.b = append(w.out, '}')
	return nil
}

// read reads the values of a document. It returns ErrTooLong if they take more than twice most bytes; 0 means no limit.
func (l *flattened) read(ctx context.Context, s *segment, most int) error {
	take := func(b []byte) error {
		path, value, ok := bytes.Cut(b, []byte{0})
		if !ok {
			return codec.Errorf(0, "a flattened value without a path")
		}
		l.size += pairSize + len(b) + partSize*bytes.Count(path, []byte{'.'})
		if err := fits(l.size, 2*most); err != nil {
			return err
		}
		l.pairs = append(l.pairs, pair{string(path), string(value)})
		return nil
	}
	for _, v := range s.stored[l.stored] {
		if v.Kind != lucene.StoredBytes {
			return codec.Errorf(0, "a flattened value of type %d", v.Kind)
		}
		if err := take(v.Bytes); err != nil {
			return err
		}
	}
	for _, b := range []*blobs{l.blobs, l.ignored} {
		if b == nil {
			continue
		}
		if err := b.each(ctx, s.doc, take); err != nil {
			return err
		}
	}
	if l.keyed == nil {
		return nil
	}
	n, err := l.keyed.Advance(ctx, s.doc)
	if err != nil {
		return err
	}
	for i := range n {
		b, err := l.keyed.Bytes(ctx, i)
		if err != nil {
			return err
		}
		if err := take(b); err != nil {
			return err
		}
	}
	return nil
}

// readOrders returns the orders of the arrays of a document by their paths.
func (l *flattened) readOrders(ctx context.Context, s *segment, most int) (map[string][]int, error) {
	if l.orders == nil {
		return nil, nil
	}
	var all map[string][]int
	size := 0
	err := l.orders.each(ctx, s.doc, func(b []byte) error {
		path, places, ok := bytes.Cut(b, []byte{0})
		if !ok {
			return codec.Errorf(0, "an order without a path")
		}
		if all == nil {
			all = map[string][]int{}
		}
		found, err := appendPlaces(nil, places, most)
		if err != nil {
			return err
		}
		all[string(path)] = found
		size += pairSize + len(path) + 2*len(found)
		return fits(size, 2*most)
	})
	return all, err
}

// flatLeaf is one path with its values; nil is null.
type flatLeaf struct {
	parts  []string
	values []*string
}

// leaves joins the values of each path, in the order of its array, and adds arrays that consist of nulls.
func (l *flattened) leaves(orders map[string][]int) ([]flatLeaf, error) {
	var all []flatLeaf
	for i := 0; i < len(l.pairs); {
		path := l.pairs[i].path
		var found []*string
		for ; i < len(l.pairs) && l.pairs[i].path == path; i++ {
			found = append(found, &l.pairs[i].value)
		}
		if places, ok := orders[path]; ok {
			delete(orders, path)
			sorted := found
			found = make([]*string, len(places))
			for n, place := range places {
				switch {
				case place == -1:
				case place < 0 || place >= len(sorted):
					return nil, codec.Errorf(0, "value %d of %d in an order", place, len(sorted))
				default:
					found[n] = sorted[place]
				}
			}
		}
		all = append(all, flatLeaf{strings.Split(path, "."), found})
	}
	for path, places := range orders {
		if slices.ContainsFunc(places, func(place int) bool { return place != -1 }) {
			return nil, codec.Errorf(0, "an order of missing values")
		}
		all = append(all, flatLeaf{strings.Split(path, "."), make([]*string, len(places))})
	}
	slices.SortFunc(all, func(a, b flatLeaf) int {
		return strings.Compare(strings.Join(a.parts, ".")+"\x00", strings.Join(b.parts, ".")+"\x00")
	})
	return all, nil
}

// flatWriter writes objects from sorted paths as the cluster does: of foo and foo.bar, the second becomes a key with a dot.
type flatWriter struct {
	out  []byte
	open []string          // the names of the open objects
	last string            // the leaf that was written last into an object
	some bool              // a leaf has been written
	keys []map[string]bool // the keys of each open object, outermost first

	taken map[string]bool // keys of the outermost object that mappedKeys writes
}

func (w *flatWriter) write(leaf flatLeaf, next []string) error {
	prefix := leaf.parts[len(w.open) : len(leaf.parts)-1]
	name := leaf.parts[len(leaf.parts)-1]
	if len(prefix) > 0 && (w.some && prefix[0] == w.last || w.has(prefix[0])) {
		name = strings.Join(leaf.parts[len(w.open):], ".")
	} else {
		for _, p := range prefix {
			if err := w.key(p); err != nil {
				return err
			}
			w.out = append(w.out, '{')
			w.open = append(w.open, p)
			w.keys = append(w.keys, nil)
		}
		w.last, w.some = name, true
	}
	if err := w.key(name); err != nil {
		return err
	}
	w.out = appendStrings(w.out, leaf.values)
	same := 0
	for same < len(w.open) && same < len(next) && w.open[same] == next[same] {
		same++
	}
	for len(w.open) > same {
		w.out = append(w.out, '}')
		w.open = w.open[:len(w.open)-1]
		w.keys = w.keys[:len(w.keys)-1]
	}
	return nil
}

// has reports whether the innermost open object has a key. Of foo, foo!, foo.bar the cluster writes foo twice, which no JSON parser
// preserves: here the last one keeps its dot. So does foo.bar if foo has a mapping.
func (w *flatWriter) has(name string) bool {
	return len(w.keys) > len(w.open) && w.keys[len(w.open)][name] || len(w.open) == 0 && w.taken[name]
}

// key starts a member.
func (w *flatWriter) key(name string) error {
	for len(w.keys) <= len(w.open) {
		w.keys = append(w.keys, nil)
	}
	keys := w.keys[len(w.open)]
	if keys == nil {
		keys = map[string]bool{}
		w.keys[len(w.open)] = keys
	}
	if keys[name] || len(w.open) == 0 && w.taken[name] {
		return &Unknown{Reason: "its source has a key twice"}
	}
	keys[name] = true
	if len(keys) > 1 {
		w.out = append(w.out, ',')
	}
	w.out = append(appendText(w.out, []byte(name)), ':')
	return nil
}

// appendStrings appends a single value as it is, several as an array.
func appendStrings(dst []byte, all []*string) []byte {
	one := func(v *string) {
		if v == nil {
			dst = append(dst, "null"...)
			return
		}
		dst = appendText(dst, []byte(*v))
	}
	if len(all) == 1 {
		one(all[0])
		return dst
	}
	dst = append(dst, '[')
	for i, v := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		one(v)
	}
	return append(dst, ']')
}
