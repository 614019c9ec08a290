package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Edit is one change that a rule made.
type Edit struct {
	Path   string // JSON pointer
	Detail string
}

// metadataRule changes settings, mappings and aliases.
type metadataRule struct {
	match matcher
	ops   []metadataOp
}

// metadataOp is one operation at a path: drop, move to another path, or set a value.
type metadataOp struct {
	path  []string
	to    []string // of a move
	value any      // of a set
	kind  opKind
}

type opKind int

const (
	opDrop opKind = iota
	opMove
	opSet
)

func newMetadataRule(e metadataEntry) (metadataRule, error) {
	m, err := newMatcher(e.Match)
	if err != nil {
		return metadataRule{}, err
	}
	r := metadataRule{match: m}
	add := func(what string, op metadataOp, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		r.ops = append(r.ops, op)
		return nil
	}
	for _, x := range e.Rename {
		from, err := pointer(x.From)
		to, err2 := pointer(x.To)
		if err = errors.Join(err, err2); err == nil && (slices.Contains(from, "*") || slices.Contains(to, "*")) {
			err = errors.New("a path with * cannot be renamed")
		}
		if err := add("rename", metadataOp{kind: opMove, path: from, to: to}, err); err != nil {
			return r, err
		}
	}
	for _, x := range e.Drop {
		p, err := pointer(x)
		if err := add("drop", metadataOp{kind: opDrop, path: p}, err); err != nil {
			return r, err
		}
	}
	for _, x := range e.Set {
		p, err := pointer(x.Path)
		if err == nil {
			err = checkValue(x.Value)
		}
		if err := add("set", metadataOp{kind: opSet, path: p, value: x.Value}, err); err != nil {
			return r, err
		}
	}
	if len(r.ops) == 0 {
		return r, errors.New("it does nothing: rename, drop and set are missing")
	}
	return r, nil
}

// checkValue returns an error for values that JSON cannot represent.
func checkValue(v any) error {
	switch v := v.(type) {
	case nil:
		return errors.New("value is missing")
	case time.Time:
		return errors.New("write dates as text")
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("JSON has no %v", v)
		}
	case []any:
		for _, x := range v {
			if err := checkValue(x); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, x := range v {
			if err := checkValue(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// sections are the possible first components of a path.
var sections = []string{"settings", "mappings", "aliases"}

// pointer parses a JSON pointer (RFC 6901): components after slashes, with ~1 for a slash and ~0 for ~.
// The name of a setting becomes one component, whether written with dots or slashes, with or without "index.".
func pointer(s string) ([]string, error) {
	parts := strings.Split(s, "/")
	if len(parts) < 3 || parts[0] != "" || !slices.Contains(sections, parts[1]) || slices.Contains(parts[1:], "") {
		return nil, fmt.Errorf("path %q does not look like /settings/…, /mappings/… or /aliases/…", s)
	}
	parts = parts[1:]
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	if parts[0] == "settings" {
		name := strings.Join(parts[1:], ".")
		if !strings.HasPrefix(name, "index.") && name != "*" {
			name = "index." + name
		}
		parts = []string{"settings", name}
	}
	return parts, nil
}

// EditIndex changes the body that creates an index (settings with flat names, mappings,
// aliases) in place and returns the changes. name is the index's name in the snapshot. s may be nil.
func (s *Set) EditIndex(name string, body map[string]any) []Edit {
	if s == nil {
		return nil
	}
	return edit(s.indices, name, body)
}

// EditTemplate is EditIndex for the settings, mappings and aliases of a template. s may be nil.
func (s *Set) EditTemplate(name string, body map[string]any) []Edit {
	if s == nil {
		return nil
	}
	return edit(s.templates, name, body)
}

func edit(all []metadataRule, name string, body map[string]any) []Edit {
	var done []Edit
	for _, r := range all {
		if !r.match.matches(name) {
			continue
		}
		for _, op := range r.ops {
			done = append(done, op.apply(body)...)
		}
	}
	for _, section := range sections {
		if m, ok := body[section].(map[string]any); ok && len(m) == 0 {
			delete(body, section)
		}
	}
	return done
}

func (op metadataOp) apply(body map[string]any) []Edit {
	var done []Edit
	switch op.kind {
	case opDrop:
		visit(body, op.path, "", false, func(at string, _ any, p place) {
			p.remove()
			done = append(done, Edit{at, "dropped"})
		})
	case opSet:
		visit(body, op.path, "", true, func(at string, _ any, p place) {
			p.set(Clone(op.value))
			done = append(done, Edit{at, "set to " + brief(op.value)})
		})
	case opMove:
		visit(body, op.path, "", false, func(at string, v any, p place) {
			p.remove()
			visit(body, op.to, "", true, func(to string, _ any, p place) {
				p.set(v)
				done = append(done, Edit{at, "is " + to})
			})
		})
	}
	return done
}

// place is the position of a value.
type place struct {
	in  map[string]any
	key string
}

func (p place) set(v any) { p.in[p.key] = v }
func (p place) remove()   { delete(p.in, p.key) }

// visit calls f for every value at a path. The component * matches every member of an object, and a
// number an element of a list. With create it also calls f for a missing member.
func visit(in map[string]any, path []string, at string, create bool, f func(at string, v any, p place)) {
	names := []string{path[0]}
	if path[0] == "*" {
		names = slices.Sorted(maps.Keys(in))
	}
	for _, name := range names {
		v, ok := in[name]
		here := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if len(path) == 1 {
			if ok || create {
				f(here, v, place{in, name})
			}
			continue
		}
		if !ok && create && path[0] != "*" {
			v = map[string]any{}
			in[name] = v
		}
		rest := path[1:]
		if list, isList := v.([]any); isList && len(rest) > 1 {
			if i, err := strconv.Atoi(rest[0]); err == nil && i >= 0 && i < len(list) {
				v, rest, here = list[i], rest[1:], here+"/"+rest[0]
			}
		}
		if below, ok := v.(map[string]any); ok {
			visit(below, rest, here, create, f)
		}
	}
}

// Clone returns a deep copy of a decoded JSON value.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = Clone(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = Clone(x)
		}
		return out
	}
	return v
}

func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
