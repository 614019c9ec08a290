package rebuild

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// place describes where the values of a field that its source lacks are stored.
type place struct {
	from   *node // the field or one of its multi-fields; nil if its values are not written
	stored bool  // as stored values, else as doc values
	terms  bool  // as terms of the inverted index
	state  State
	note   string
	// see FieldState
	unconfirmed bool
}

// nestedRoots is the first version whose nested documents can be distinguished from roots without their stored ids.
const nestedRoots = 6_01_00_00

// placesOf returns the places of all fields of a mapping by path. Fields that the filter does not exclude are in the sources. text is as
// for NewFields.
func placesOf(root *node, created int64, filter SourceFilter, text bool) map[string]place {
	all, copies, brought := map[string]place{}, map[string][]string{}, map[string][]string{}
	sent := func(f *node) bool { return !filter.Empty() && !filter.leavesOut(f.path) || all[f.path].from != nil }
	root.walkFields(false, func(f *node, nested bool) {
		p := placeOf(f, created, text)
		switch {
		case nested && !filter.Empty():
			p = place{state: Lost, note: "part of nested objects of a filtered source"}
		case nested && created > 0 && created < nestedRoots:
			p = place{state: Lost, note: "nested objects of this version are not read"}
		}
		all[f.path] = p
	})
	root.walkFields(false, func(f *node, _ bool) {
		for _, to := range f.params.CopyTo {
			if sent(f) {
				copies[to] = append(copies[to], f.path)
			} else {
				brought[to] = append(brought[to], f.path)
			}
		}
	})
	for to, from := range brought {
		if p := all[to]; p.from != nil {
			if p.state == Exact {
				p.state = Normal
			}
			p.note = join(p.note, "with values that copy_to copied from "+strings.Join(from, ", "))
			all[to] = p
		}
	}
	for to, from := range copies {
		if _, mapped := all[to]; mapped {
			all[to] = place{state: Normal, note: "not sent: copy_to fills it from " + strings.Join(from, ", ")}
		}
	}
	return all
}

// placeOf returns the place of one field.
func placeOf(f *node, created int64, text bool) place {
	if f.kind == kindConstant {
		return place{state: Exact, note: "its value is in the mapping"}
	}
	if slices.Contains(vectorKinds, f.kind) {
		return vectorPlace(f, created)
	}
	candidates := []*node{f}
	for _, m := range f.multi {
		if m.kind == "keyword" || m.kind == "string" || m.kind == "text" || m.kind == "wildcard" {
			candidates = append(candidates, m)
		}
	}
	slices.SortStableFunc(candidates[1:], func(a, b *node) int { // the least lossy first
		return strings.Compare(a.params.Normalizer, b.params.Normalizer)
	})
	for _, n := range candidates {
		r := rendersOf(n, created)
		stored := bool(n.params.Store) && r.stored != nil
		if stored || n.columns(created) && r.columns() {
			return place{from: n, stored: stored, state: stateOf(n, stored), note: noteOf(f, n), unconfirmed: r.own != nil || n.kind == "version"}
		}
	}
	if text && f.analyzed() {
		return place{from: f, terms: true, state: Approximate, note: "from its terms"}
	}
	return place{state: Lost}
}

// vectorPlace returns the place of a vector.
func vectorPlace(f *node, created int64) place {
	if created&openSearch != 0 || !understood(f) || f.kind == "sparse_vector" && !f.params.termVectors(created) {
		return place{state: Lost}
	}
	return place{from: f, state: Normal, note: "its numbers are as precise as the index holds them"}
}

// columns reports whether a field has doc values in an index created by a version.
func (n *node) columns(created int64) bool {
	const version2 = 2_00_00_00
	index := string(bytes.Trim(n.params.Index, `"`))
	switch {
	case n.params.DocValues != nil:
		return bool(*n.params.DocValues)
	case n.kind == "wildcard":
		return created&openSearch == 0 // OpenSearch 3.4 and later record it themselves
	case n.kind == "text" || n.kind == "binary":
		return false
	case created > 0 && created < version2:
		return false
	case n.kind == "string":
		return index == "not_analyzed"
	case created > 0 && created < version5:
		return index != "no"
	}
	return true
}

// stateOf returns how closely the values of a place match the values that were sent.
func stateOf(n *node, stored bool) State {
	p := n.params
	if !stored || p.Normalizer != "" || p.IgnoreAbove > 0 || len(p.NullValue) > 0 && string(p.NullValue) != "null" {
		return Normal
	}
	switch n.kind {
	case "keyword", "string", "text", "wildcard", "binary", "boolean", "long", "integer", "short", "byte", "double", "float", "unsigned_long":
		return Exact
	}
	return Normal
}

// noteOf returns the note that explains the state of a field.
func noteOf(f, n *node) string {
	note := ""
	if f != n {
		note = "from " + n.path
	}
	if n.params.IgnoreAbove > 0 {
		note = join(note, fmt.Sprintf("values of more than %d characters are lost", n.params.IgnoreAbove))
	}
	return note
}

// join joins two notes.
func join(note, more string) string {
	if note == "" {
		return more
	}
	return note + "; " + more
}

// walkFields calls yield for the fields below a node; nested states that the field is in nested objects.
func (n *node) walkFields(nested bool, yield func(f *node, nested bool)) {
	for _, c := range n.children {
		if !c.object {
			yield(c, nested)
			continue
		}
		c.walkFields(nested || c.kind == "nested", yield)
	}
}

// walkAll calls yield for the fields and objects below a node.
func (n *node) walkAll(yield func(*node)) {
	for _, c := range n.children {
		yield(c)
		c.walkAll(yield)
	}
}

// SourceFilter lists the fields that a mapping excludes from stored sources.
type SourceFilter struct {
	Includes names `json:"includes"`
	Excludes names `json:"excludes"`
	// OpenSearch 3 can also filter the original, which is kept next to the source for recoveries.
	RecoveryIncludes names `json:"recovery_source_includes"`
	RecoveryExcludes names `json:"recovery_source_excludes"`
}

// SourceFilterOf returns the filter in the body of a mapping; the zero filter if it has none or cannot be parsed.
func SourceFilterOf(mapping json.RawMessage) SourceFilter {
	var m struct {
		Source SourceFilter `json:"_source"`
	}
	if json.Unmarshal(mapping, &m) != nil {
		return SourceFilter{}
	}
	return m.Source
}

// Empty reports whether sources are stored whole.
func (f SourceFilter) Empty() bool { return len(f.Includes)+len(f.Excludes) == 0 }

// Whole reports whether the originals kept for recoveries are complete.
func (f SourceFilter) Whole() bool { return len(f.RecoveryIncludes)+len(f.RecoveryExcludes) == 0 }

// Same reports whether both filters exclude the same fields.
func (f SourceFilter) Same(other SourceFilter) bool {
	equal := func(a, b names) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	return equal(f.Includes, other.Includes) && equal(f.Excludes, other.Excludes)
}

// leavesOut reports whether the filter excludes a field. A pattern includes everything below its matches.
func (f SourceFilter) leavesOut(path string) bool {
	covers := func(patterns names) bool {
		for prefix := path; ; {
			if slices.ContainsFunc(patterns, func(p string) bool { return matches(p, prefix) }) {
				return true
			}
			dot := strings.LastIndexByte(prefix, '.')
			if dot < 0 {
				return false
			}
			prefix = prefix[:dot]
		}
	}
	return covers(f.Excludes) || len(f.Includes) > 0 && !covers(f.Includes)
}

// matches reports whether a name matches a pattern, in which * matches any characters.
func matches(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], more
	}
}

// withoutVectors is the first version whose sources may be stored without their vectors, regardless of the filter.
const withoutVectors = 9_035_000

// prune keeps the fields that a filter excludes, or may exclude.
func (n *node) prune(filter SourceFilter, created int64) {
	n.children = slices.DeleteFunc(n.children, func(c *node) bool {
		if !c.object {
			return !filter.leavesOut(c.path) && (created < withoutVectors || created&openSearch != 0 || !c.leftOut(created))
		}
		c.prune(filter, created)
		return len(c.children) == 0 && (c.params.enabled() || !filter.leavesOut(c.path))
	})
}
