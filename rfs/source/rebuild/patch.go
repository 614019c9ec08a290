package rebuild

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// patched is the source of an index of Elasticsearch 9.2 or later that stores sources without their vectors: the cluster restores them in a
// source that is requested with vectors, and so does Patch.
type patched struct{ synthetic }

// NewPatched returns the Rebuilder for an index that stores sources without vectors; created is the version that created it, and convert
// converts CBOR, SMILE and YAML to JSON.
func NewPatched(mapping json.RawMessage, created int64, convert func(dst []byte, source []byte) ([]byte, error)) (*Rebuilder, error) {
	root, err := parseMapping(mapping)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrUnsupported)
	}
	root.keepLeftOut(created)
	return &Rebuilder{root: root, created: created, plain: convert, dialect: patched{}, lenient: true}, nil
}

// LeavesOut reports whether a mapping has vectors that an index excludes from stored sources (index.mapping.exclude_source_vectors).
func LeavesOut(mapping json.RawMessage, created int64) bool {
	root, err := parseMapping(mapping)
	if err != nil {
		return true // its fields are unknown
	}
	found := false
	root.walk(func(f *node) { found = found || f.leftOut(created) })
	return found
}

// StatesPatched returns how well the vectors that stored sources lack are restored.
func StatesPatched(mapping json.RawMessage, created int64) ([]FieldState, error) {
	root, err := parseMapping(mapping)
	if err != nil {
		return nil, err
	}
	root.keepLeftOut(created)
	return root.states(understood), nil
}

// leftOut reports whether stored sources lack the values of a field.
func (n *node) leftOut(created int64) bool {
	switch n.kind {
	case "dense_vector":
		return n.params.indexed(created)
	case "sparse_vector":
		return n.params.termVectors(created)
	case "rank_vectors":
		return true
	}
	return false
}

// keepLeftOut keeps the vectors that stored sources lack, and all nested objects.
func (n *node) keepLeftOut(created int64) {
	n.children = slices.DeleteFunc(n.children, func(c *node) bool {
		if !c.object {
			return !c.leftOut(created)
		}
		c.keepLeftOut(created)
		return len(c.children) == 0 && c.kind != "nested"
	})
}

// patch is a value that a source lacks, or the patches of the objects of a nested field, by index.
type patch struct {
	path   string // full path
	value  []byte
	nested [][]patch
}

// Patches reports whether sources are stored without vectors, which Patch restores.
func (r *Rebuilder) Patches() bool {
	_, ok := r.dialect.(patched)
	return ok
}

// Patch appends a stored source with its excluded vectors, as the cluster returns it: each after the last member of the innermost object of
// its path that the source has. done is false if nothing was restored; then nothing was appended. original states that source was not
// filtered; otherwise fields that the mapping's filter excludes are not added. Its error is an *Unknown if vectors of this document cannot
// be restored; the others are (done).
func (r *Rebuilder) Patch(ctx context.Context, dst, source []byte, original bool, v *lucene.Values) (out []byte, done bool, err error) {
	r.boundValues(v)
	if err := r.use(ctx, v); err != nil {
		return nil, false, err
	}
	s := r.bound
	s.values, s.original = v, original
	patches, err := s.patchesOf(ctx, v)
	if err != nil || len(patches) == 0 {
		return nil, false, unknownValue(err)
	}
	if !bytes.HasPrefix(bytes.TrimLeft(source, " \t\r\n"), []byte("{")) {
		if source, err = r.plain(nil, source); err != nil {
			return nil, false, &Unknown{Field: "_source", Reason: err.Error()}
		}
	}
	return appendPatched(dst, source, patches, r.most)
}

// appendPatched appends a source with patches; it returns ErrTooLong if the result exceeds most bytes, 0 means no limit. done is false if
// no patch applies; then nothing was appended. An *Unknown is the first patch that does not apply.
func appendPatched(dst, source []byte, patches []patch, most int) (out []byte, done bool, err error) {
	var p placing
	p.insertions(source, 0, "", patches)
	if len(p.found) == 0 {
		return nil, false, p.unknown
	}
	slices.SortStableFunc(p.found, func(a, b insertion) int { return a.at - b.at })
	out, from := dst, 0
	for i, x := range p.found {
		out = append(out, source[from:x.at]...)
		if from = x.at; !x.empty || i > 0 && p.found[i-1].at == x.at {
			out = append(out, ',')
		}
		out = append(append(appendText(out, []byte(x.key)), ':'), x.value...)
		if err := fits(len(out)-len(dst), most); err != nil {
			return nil, false, err
		}
	}
	return append(out, source[from:]...), true, p.unknown
}

// patchesOf returns the vectors of a document and of its nested documents.
func (s *segment) patchesOf(ctx context.Context, v *lucene.Values) ([]patch, error) {
	children, whole := v.Children()
	if len(s.nested) > 0 && !whole {
		return nil, &Unknown{Field: fieldNestedPath, Reason: "it is unknown which nested documents belong to it"}
	}
	pending := map[string][][]patch{} // of nested documents whose outer document follows, by path
	of := func(d document, n *node) ([]patch, error) {
		if err := s.load(ctx, d); err != nil {
			return nil, err
		}
		all, err := s.valuesBelow(ctx, nil, n)
		if err != nil {
			return nil, err
		}
		for _, x := range s.nested {
			if docs := pending[x.path]; len(docs) > 0 && (n.path == "" || strings.HasPrefix(x.path, n.path+".")) {
				if slices.ContainsFunc(docs, func(p []patch) bool { return len(p) > 0 }) {
					all = append(all, patch{path: x.path, nested: docs})
				}
				delete(pending, x.path)
			}
		}
		return all, nil
	}
	if len(s.nested) > 0 {
		for i := range children {
			s.doc = children[i].DocID()
			n, err := s.patchedNode(ctx)
			if err != nil {
				return nil, err
			}
			all, err := of(&children[i], n)
			if err != nil {
				return nil, err
			}
			pending[n.path] = append(pending[n.path], all)
		}
	}
	return of(v, s.root)
}

// patchedNode returns the object of the mapping that the current nested document belongs to.
func (s *segment) patchedNode(ctx context.Context) (*node, error) {
	if len(s.nested) == 1 {
		return s.nested[0], nil
	}
	return s.indexedPath(ctx)
}

// valuesBelow appends the values of the fields below a node, except for nested objects.
func (s *segment) valuesBelow(ctx context.Context, all []patch, n *node) ([]patch, error) {
	for _, c := range n.children {
		switch {
		case c.object && c.kind != "nested":
			var err error
			if all, err = s.valuesBelow(ctx, all, c); err != nil {
				return nil, err
			}
		case !c.object && s.leaves[c.path] != nil && (s.original || !s.root.params.Source.leavesOut(c.path)):
			value, some, err := s.leaf(ctx, nil, c)
			if err != nil {
				return nil, err
			}
			if some {
				all = append(all, patch{path: c.path, value: value})
			}
		}
	}
	return all, nil
}

// insertion is a member to add at an offset of a source, after the last member of an object.
type insertion struct {
	at    int
	empty bool // the object has no members
	key   string
	value []byte
}

// placing finds the insertions for patches.
type placing struct {
	found   []insertion
	unknown error // the *Unknown of the first patch that does not apply; nil if all do
}

// insertions adds the insertions for patches of an object, which starts at an offset of the source; prefix is the path of the object with
// its dot.
func (l *placing) insertions(object []byte, at int, prefix string, patches []patch) {
	for _, p := range patches {
		path := strings.TrimPrefix(p.path, prefix)
		var err error
		if p.nested == nil {
			err = l.insertion(object, at, path, p)
		} else {
			err = l.nested(object, at, path, p)
		}
		if l.unknown == nil {
			l.unknown = err
		}
	}
}

// insertion adds the insertion of one value.
func (l *placing) insertion(object []byte, at int, path string, p patch) error {
	if !strings.Contains(path, ".") && !bytes.Contains(object, appendText(nil, []byte(path))) {
		if end := bytes.LastIndexByte(object, '}'); end > 0 { // the usual case: no search needed
			head := bytes.TrimRight(object[:end], " \t\r\n")
			l.found = append(l.found, insertion{at + end, len(head) > 0 && head[len(head)-1] == '{', path, p.value})
			return nil
		}
	}
	places, err := placesIn(nil, object, at, path)
	if err != nil {
		return err
	}
	if len(places) != 1 {
		return &Unknown{Field: p.path, Reason: fmt.Sprintf("it is unknown to which of %d objects of the source it belongs", len(places))}
	}
	places[0].value = p.value
	l.found = append(l.found, places[0])
	return nil
}

// nested adds the insertions for the values of nested objects.
func (l *placing) nested(object []byte, at int, path string, p patch) error {
	objects, err := objectsAt(nil, object, at, path)
	if err != nil {
		return err
	}
	if len(objects) != len(p.nested) {
		return &Unknown{Field: p.path, Type: "nested", Reason: fmt.Sprintf("%d nested documents, %d objects in the source", len(p.nested), len(objects))}
	}
	for i, inner := range p.nested {
		l.insertions(objects[i].body, objects[i].at, p.path+".", inner)
	}
	return nil
}

// errNoSource returns the error for a source that is not JSON.
func errNoSource() error { return &Unknown{Field: "_source", Reason: "it is not JSON"} }

// placesIn appends the innermost objects on a path, each with the rest of the path. A name may hold several parts of a path.
func placesIn(all []insertion, value []byte, at int, path string) ([]insertion, error) {
	items, isList, err := itemsOf(value)
	if err != nil {
		return nil, err
	}
	if isList {
		for _, x := range items {
			if all, err = placesIn(all, value[x.from:x.to], at+x.from, path); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	members, end, ok := membersOf(value)
	if !ok {
		return nil, &Unknown{Field: path, Reason: "the source has another value in place of its object"}
	}
	found := len(all)
	for _, m := range members {
		if m.name == path {
			return nil, &Unknown{Field: path, Reason: "the source has a value of it"}
		}
		if rest, ok := strings.CutPrefix(path, m.name+"."); ok && !bytes.Equal(value[m.from:m.to], []byte("null")) {
			if all, err = placesIn(all, value[m.from:m.to], at+m.from, rest); err != nil {
				return nil, err
			}
		}
	}
	if len(all) == found {
		all = append(all, insertion{at: at + end, empty: len(members) == 0, key: path})
	}
	return all, nil
}

// part is an object of a source, and its offset.
type part struct {
	body []byte
	at   int
}

// objectsAt appends the objects at a path, in order.
func objectsAt(all []part, value []byte, at int, path string) ([]part, error) {
	items, isList, err := itemsOf(value)
	if err != nil {
		return nil, err
	}
	if isList {
		for _, x := range items {
			if all, err = objectsAt(all, value[x.from:x.to], at+x.from, path); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	members, _, ok := membersOf(value)
	if path == "" && ok {
		return append(all, part{value, at}), nil
	}
	for _, m := range members {
		rest, below := strings.CutPrefix(path, m.name+".")
		if m.name == path {
			rest = ""
		}
		if below || m.name == path {
			if all, err = objectsAt(all, value[m.from:m.to], at+m.from, rest); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// itemsOf returns the elements of a JSON array; isList is false for any other value.
func itemsOf(value []byte) (all []span, isList bool, err error) {
	if len(value) == 0 || value[0] != '[' {
		return nil, false, nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	if _, err := d.Token(); err != nil {
		return nil, false, errNoSource()
	}
	for d.More() {
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return nil, false, errNoSource()
		}
		to := int(d.InputOffset())
		all = append(all, span{"", to - len(item), to})
	}
	return all, true, nil
}
