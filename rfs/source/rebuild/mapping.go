package rebuild

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// node is one field or object of a mapping.
type node struct {
	path, leaf string
	object     bool
	key        bool    // of a flattened object
	kind       string  // type of a field; of an object "", "nested" or "passthrough"
	params     *params // fields whose parameters are the same share them
	children   []*node // by path
	multi      []*node // fields of a field
}

// params are the parameters of a field that determine how its values are stored.
type params struct {
	Type         string           `json:"type"`
	Format       string           `json:"format"`
	PrintFormat  string           `json:"print_format"` // of OpenSearch
	Store        flexible         `json:"store"`
	DocValues    *columnsParam    `json:"doc_values"`
	Normalizer   string           `json:"normalizer"`
	SkipOriginal flexible         `json:"normalizer_skip_store_original_value"`
	Script       json.RawMessage  `json:"script"`
	Enabled      *flexible        `json:"enabled"`
	Scaling      float64          `json:"scaling_factor"`
	Properties   *json.RawMessage `json:"properties"`
	Fields       *json.RawMessage `json:"fields"`
	CopyTo       names            `json:"copy_to"`
	IgnoreAbove  int              `json:"ignore_above"`
	NullValue    json.RawMessage  `json:"null_value"`
	Value        json.RawMessage  `json:"value"`
	Dims         int              `json:"dims"`
	ElementType  string           `json:"element_type"`
	Index        json.RawMessage  `json:"index"`
	IndexOptions json.RawMessage  `json:"index_options"` // a string for text, an object for vectors
	PositionGap  *int64           `json:"position_increment_gap"`

	Source          SourceFilter `json:"_source"` // of the root
	IncludeInParent flexible     `json:"include_in_parent"`
}

// names is a list of names that a mapping holds as a string or an array.
type names []string

func (n *names) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*n = names{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(n))
}

// flexible is a boolean that a mapping may hold as a string.
type flexible bool

func (f *flexible) UnmarshalJSON(b []byte) error {
	switch string(bytes.Trim(b, `"`)) {
	case "true":
		*f = true
	case "false", "":
		*f = false
	default:
		return fmt.Errorf("%s is neither true nor false", b)
	}
	return nil
}

// columnsParam is a boolean, or in Elasticsearch 9.5 an object that describes the doc values, which then exist.
type columnsParam bool

func (p *columnsParam) UnmarshalJSON(b []byte) error {
	if b[0] == '{' {
		*p = true
		return nil
	}
	return (*flexible)(p).UnmarshalJSON(b)
}

func (p *params) columns() bool { return p.DocValues == nil || bool(*p.DocValues) }

// enabled reports whether an object is indexed.
func (p *params) enabled() bool { return p.Enabled == nil || bool(*p.Enabled) }

// indexedByDefault is the first version in which vectors are indexed unless the mapping disables it.
const indexedByDefault = 8_500_000

// indexed reports whether a vector is indexed in an index created by a version.
func (p *params) indexed(created int64) bool {
	if len(p.Index) == 0 {
		return created >= indexedByDefault
	}
	return string(bytes.Trim(p.Index, `"`)) == "true"
}

// termVectors reports whether a sparse vector is in term vectors; since 9.2 it is unless the mapping disables it.
func (p *params) termVectors(created int64) bool { return bool(p.Store) || created >= keepsOriginals }

// maxDepth bounds the nesting of objects in a mapping; clusters allow 20.
const maxDepth = 1000

// parseMapping parses the body of a mapping.
func parseMapping(body json.RawMessage) (*node, error) {
	root := &node{object: true, params: &params{}}
	if len(bytes.TrimSpace(body)) == 0 {
		return root, nil
	}
	if err := json.Unmarshal(body, root.params); err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	m := mappingParser{known: map[string]*params{}}
	return root, m.children(root, "", 0)
}

// mappingParser parses the fields of a mapping.
type mappingParser struct {
	known map[string]*params // by their text
}

// params parses the parameters of a field. A large mapping repeats the same ones many times.
func (m *mappingParser) params(body []byte) (*params, error) {
	if p := m.known[string(body)]; p != nil {
		return p, nil
	}
	p := &params{}
	if err := json.Unmarshal(body, p); err != nil {
		return nil, err
	}
	const short = 256
	if len(body) <= short && p.Properties == nil && p.Fields == nil {
		m.known[string(body)] = p
	}
	return p, nil
}

// children parses the fields below a node.
func (m *mappingParser) children(n *node, prefix string, depth int) error {
	if depth > maxDepth {
		return errors.New("mapping: objects are nested too deep")
	}
	if n.params.Properties == nil {
		return nil
	}
	var properties map[string]json.RawMessage
	if err := json.Unmarshal(*n.params.Properties, &properties); err != nil {
		return fmt.Errorf("mapping of %s: %w", n.path, err)
	}
	n.params.Properties = nil // they are nodes now
	n.children = make([]*node, 0, len(properties))
	for name, body := range properties {
		child := &node{path: prefix + name, leaf: name}
		var err error
		if child.params, err = m.params(body); err != nil {
			return fmt.Errorf("mapping of %s: %w", child.path, err)
		}
		child.kind = child.params.Type
		switch child.kind {
		case "", "object", "nested", "passthrough":
			child.object = true
			if child.kind == "object" {
				child.kind = ""
			}
			if err := m.children(child, child.path+".", depth+1); err != nil {
				return err
			}
		default:
			if err := m.multi(child); err != nil {
				return err
			}
			if child.kind != "flattened" {
				break
			}
			if err := m.children(child, child.path+".", depth+1); err != nil { // the keys that have a mapping
				return err
			}
		}
		child.key = n.kind == "flattened"
		n.children = append(n.children, child)
	}
	slices.SortFunc(n.children, func(a, b *node) int { return compareJava(a.path, b.path) })
	return nil
}

// multi parses the multi-fields of a field.
func (m *mappingParser) multi(n *node) error {
	if n.params.Fields == nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(*n.params.Fields, &fields); err != nil {
		return fmt.Errorf("mapping of %s: %w", n.path, err)
	}
	n.params.Fields = nil // they are nodes now
	for name, body := range fields {
		p, err := m.params(body)
		if err != nil {
			return fmt.Errorf("mapping of %s.%s: %w", n.path, name, err)
		}
		n.multi = append(n.multi, &node{path: n.path + "." + name, leaf: name, kind: p.Type, params: p})
	}
	slices.SortFunc(n.multi, func(a, b *node) int { return strings.Compare(a.leaf, b.leaf) })
	return nil
}

// walk calls yield for the fields below a node.
func (n *node) walk(yield func(*node)) {
	for _, c := range n.children {
		if !c.object {
			yield(c)
		}
		c.walk(yield)
	}
}

// compareJava compares as Java does: by UTF-16 units.
func compareJava(a, b string) int {
	if ascii(a) && ascii(b) {
		return strings.Compare(a, b)
	}
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
