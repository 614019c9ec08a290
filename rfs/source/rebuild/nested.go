package rebuild

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// document is a document of Lucene: a root or a nested one.
type document interface {
	DocID() int32
	Stored(yield func(lucene.StoredValue) error) error
}

// findNested lists the nested objects of a mapping.
func (n *node) findNested(all []*node) []*node {
	for _, c := range n.children {
		if c.kind == "nested" {
			all = append(all, c)
		}
		all = c.findNested(all)
	}
	return all
}

// readChildren rebuilds the nested documents of the current one. They precede it in the order of the source; the documents of an inner
// object precede the document that they belong to. If a mapping has several paths, the values of a nested document identify its path, or
// else the inverted index does.
func (s *segment) readChildren(ctx context.Context, v *lucene.Values) error {
	clear(s.pending)
	children, whole := v.Children()
	switch {
	case !whole:
		return &Unknown{Field: fieldNestedPath, Reason: "it is unknown which nested documents belong to it"}
	case len(children) == 0:
		return nil
	case len(s.nested) == 0:
		return &Unknown{Field: fieldNestedPath, Reason: "nested documents of no field of the mapping"}
	}
	size := 0
	for i := range children {
		if err := s.load(ctx, &children[i]); err != nil {
			return err
		}
		n, err := s.nestedNode(ctx)
		if err != nil {
			return err
		}
		body, some, err := s.object(ctx, nil, n)
		if err != nil {
			return err
		}
		if !some {
			body = []byte("{}")
		}
		for path := range s.pending {
			if strings.HasPrefix(path, n.path+".") {
				delete(s.pending, path)
			}
		}
		s.pending[n.path] = append(s.pending[n.path], body)
		size += len(body)
		if err := fits(size, s.most); err != nil {
			return err
		}
	}
	return nil
}

// nestedNode returns the object of the current nested document. If outer documents include the values of inner ones, the values do
// not identify it.
func (s *segment) nestedNode(ctx context.Context) (*node, error) {
	if len(s.nested) == 1 {
		return s.nested[0], nil
	}
	if slices.ContainsFunc(s.nested, func(n *node) bool { return bool(n.params.IncludeInParent) }) {
		return s.indexedPath(ctx)
	}
	s.probing = true
	defer func() { s.probing = false }()
	var found []*node
	for _, n := range s.nested {
		_, some, err := s.object(ctx, nil, n)
		if err != nil {
			return nil, err
		}
		if some || s.hasEntries(n) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return s.indexedPath(ctx)
	}
	return found[0], nil
}

// fieldNestedPath is the field whose term is the path of a nested document.
const fieldNestedPath = "_nested_path"

// indexedPath returns the object that the inverted index states for the current nested document. The files of that index are read
// only for documents whose values do not identify the object.
func (s *segment) indexedPath(ctx context.Context) (*node, error) {
	if s.paths == nil {
		paths, err := s.values.Terms(ctx, fieldNestedPath)
		if err != nil && !errors.Is(err, fault.ErrUnsupported) {
			return nil, err
		}
		if paths == nil {
			return nil, s.unknownPath()
		}
		s.paths = paths
	}
	terms, err := s.paths.Tokens(ctx, s.doc)
	if err != nil {
		return nil, err
	}
	if len(terms) == 1 {
		for _, n := range s.nested {
			if string(terms[0].Term) == n.path {
				return n, nil
			}
		}
	}
	return nil, s.unknownPath()
}

func (s *segment) unknownPath() error {
	return &Unknown{Field: s.nested[0].path, Type: "nested", Reason: "it is unknown to which of several nested fields an object without values belongs"}
}

// hasEntries reports whether _ignored_source has entries of an object, not counting nested objects in it.
func (s *segment) hasEntries(n *node) bool {
	for path := range s.entries {
		if within(path, n.path) && !slices.ContainsFunc(s.nested, func(x *node) bool { return x != n && within(x.path, n.path) && within(path, x.path) }) {
			return true
		}
	}
	return false
}

// within reports whether path equals object or is below it.
func within(path, object string) bool {
	return path == object || strings.HasPrefix(path, object+".")
}

// appendNested appends the nested objects of a field: one as it is, several as an array.
func (s *segment) appendNested(dst []byte, n *node) ([]byte, bool) {
	all := s.pending[n.path]
	if s.probing || len(all) == 0 {
		return dst, false
	}
	if len(all) == 1 {
		return append(dst, all[0]...), true
	}
	for i, body := range all {
		dst = append(append(dst, "[,"[min(i, 1)]), body...)
	}
	return append(dst, ']'), true
}
