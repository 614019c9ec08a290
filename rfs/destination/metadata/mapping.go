package metadata

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// defaultType contained the defaults for new types up to Elasticsearch 6. Every existing type repeats them.
const defaultType = "_default_"

// mapping merges the wanted types and converts the result.
func (e *edit) mapping(w Wanted) (map[string]any, error) {
	var (
		out   map[string]any
		names []string
	)
	for _, m := range w.Index.Mappings {
		if m.Type == defaultType && e.on("default-mapping") {
			e.note("default-mapping", defaultType, "dropped: types that existed have it already")
			continue
		}
		names = append(names, m.Type)
		if w.Type != "" && m.Type != w.Type {
			continue
		}
		body, err := DecodeObject(m.Body)
		if err != nil {
			return nil, fmt.Errorf("mapping of type %s: %w", m.Type, err)
		}
		if body == nil {
			continue
		}
		e.root(body)
		if out == nil {
			out = body
			continue
		}
		e.note("mapping-types", m.Type, "fields of the type are part of the one mapping")
		e.looseRouting(out, body, m.Type)
		e.union("", out, body, m.Type)
	}
	if w.Type != "" && !slices.Contains(names, w.Type) {
		return nil, fmt.Errorf("the snapshot has no type %q in index %s; it has: %s: %w", w.Type, w.Index.Name, strings.Join(names, ", "), fault.ErrConfig)
	}
	if props, ok := out["properties"].(map[string]any); ok {
		e.fieldAliases(props, "", opaqueFields(props))
	}
	return out, nil
}

// opaqueFields returns the fields that are not indexed, by path.
func opaqueFields(props map[string]any) map[string]bool {
	found := map[string]bool{}
	var add func(props map[string]any, path string)
	add = func(props map[string]any, path string) {
		for name := range props {
			f, ok := props[name].(map[string]any)
			if !ok {
				continue
			}
			if f["enabled"] == false {
				found[path+name] = true
			}
			if below, ok := f["properties"].(map[string]any); ok {
				add(below, path+name+".")
			}
		}
	}
	add(props, "")
	return found
}

// fieldAliases drops fields of type alias that name a field without an index, which targets reject.
func (e *edit) fieldAliases(props map[string]any, path string, opaque map[string]bool) {
	if len(opaque) == 0 {
		return
	}
	for _, name := range keys(props) {
		f, ok := props[name].(map[string]any)
		if !ok {
			continue
		}
		if to := Text(f["path"]); f["type"] == "alias" && opaque[to] {
			e.note("alias-field", path+name, "dropped: %s is not indexed", to)
			delete(props, name)
			continue
		}
		if below, ok := f["properties"].(map[string]any); ok {
			e.fieldAliases(below, path+name+".", opaque)
		}
	}
}

// looseRouting makes routing optional if one of the types does not require it. (Children of
// Elasticsearch 2–5 required it, their parents did not.)
func (e *edit) looseRouting(a, b map[string]any, typ string) {
	demands := func(m map[string]any) bool {
		r, ok := m["_routing"].(map[string]any)
		return ok && r["required"] == true
	}
	if demands(a) != demands(b) {
		e.note("mapping-types", "_routing.required", "dropped: type %s and the types before it differ", typ)
		delete(a, "_routing")
		delete(b, "_routing")
	}
}

// union adds the members of b to a. If both have a member and differ, a wins, and the difference is reported.
func (e *edit) union(path string, a, b map[string]any, typ string) {
	for _, k := range keys(b) {
		at := strings.TrimPrefix(path+"."+k, ".")
		old, ok := a[k]
		if !ok {
			a[k] = b[k]
			continue
		}
		oldMap, isMap := old.(map[string]any)
		newMap, isMap2 := b[k].(map[string]any)
		switch {
		case isMap && isMap2:
			e.union(at, oldMap, newMap, typ)
		case k == "dynamic_templates":
			a[k] = joinLists(old, b[k])
		case !reflect.DeepEqual(old, b[k]):
			e.note("type-union", at, "%s of type %s differs from an earlier type, which counts", Brief(b[k]), typ)
		}
	}
}

func joinLists(a, b any) any {
	x, ok := a.([]any)
	y, ok2 := b.([]any)
	if !ok || !ok2 {
		return a
	}
	seen := make(map[string]bool, len(x)) // by JSON, which has sorted members
	for _, v := range x {
		seen[encoded(v)] = true
	}
	for _, v := range y {
		if text := encoded(v); !seen[text] {
			x, seen[text] = append(x, v), true
		}
	}
	return x
}

// encoded returns a value as JSON.
func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// rootKeys lists the keys that are kept at the top level of a mapping.
var rootKeys = map[string]bool{
	"properties": true, "dynamic": true, "dynamic_templates": true, "date_detection": true, "dynamic_date_formats": true,
	"numeric_detection": true, "_source": true, "_routing": true, "_meta": true,
}

// root converts the mapping of one type in place.
func (e *edit) root(m map[string]any) {
	for _, k := range keys(m) {
		rule, named := rootRules[k]
		switch {
		case k == "enabled" && e.sourceOnly:
			e.lose("source-only", k, "the original mapping is not in _meta: fields get the types that the target chooses; create the index by hand to have others")
			delete(m, k)
		case named && e.on(rule):
			e.dropRoot(rule, k, m[k])
			delete(m, k)
		case !named && !rootKeys[k], e.unsupported.root[k]:
			e.note("root-field", k, "dropped: %s", Brief(m[k]))
			delete(m, k)
		}
	}
	e.keep(m, "_source", "enabled", "includes", "excludes", "recovery_source_enabled", "recovery_source_includes", "recovery_source_excludes")
	e.keep(m, "_routing", "required")
	if r, ok := m["_routing"].(map[string]any); ok {
		boolean(r, "required")
	}
	if s, ok := m["_source"].(map[string]any); ok {
		boolean(s, "enabled")
	}
	e.dynamic("", m)
	for _, k := range []string{"date_detection", "numeric_detection"} {
		boolean(m, k)
	}
	if formats, ok := m["dynamic_date_formats"].([]any); ok {
		for i, f := range formats {
			if s, ok := f.(string); ok {
				formats[i] = e.dateFormat("dynamic_date_formats", s)
			}
		}
	}
	e.templates(m)
	e.properties("", m)
}

// rootRules are the rules for top-level members of a mapping, by member.
var rootRules = map[string]string{
	"_all": "all-field", "_timestamp": "timestamp-field", "_ttl": "timestamp-field", "_parent": "parent-field",
	"runtime": "runtime-fields", "include_in_all": "include-in-all",
}

// dropRoot reports a top-level member of the mapping that is dropped because the target has no equivalent.
func (e *edit) dropRoot(rule, key string, v any) {
	m, _ := v.(map[string]any)
	switch {
	case key == "_all" && Text(m["enabled"]) == "false", key == "include_in_all":
		e.note(rule, key, "dropped: _all does not exist")
	case key == "_all":
		e.lose(rule, key, "dropped: queries for the field _all find nothing; those without a field search all of them")
	case key == "_parent" && e.joined:
	case key == "_parent":
		e.lose(rule, key, "dropped: documents are children of type %v; has_child and has_parent find nothing, documents keep their routing; --parent-join makes a join field", m["type"])
	case key == "runtime":
		e.lose(rule, key, "dropped %s: the target has no runtime fields", Brief(keys(m)))
	case Text(m["enabled"]) == "true":
		e.lose(rule, key, "dropped %s: documents do not hold the value", Brief(v))
	default:
		e.note(rule, key, "dropped %s", Brief(v))
	}
}

// keep drops the members of m[key] that are not allowed, or that the target does not know.
func (e *edit) keep(m map[string]any, key string, allowed ...string) {
	sub, ok := m[key].(map[string]any)
	if !ok {
		return
	}
	for _, k := range keys(sub) {
		if !slices.Contains(allowed, k) || e.unsupported.options[key+" "+k] || e.unsupported.fields[key+" "+k] {
			e.note("root-field", key+"."+k, "dropped: %s", Brief(sub[k]))
			delete(sub, k)
		}
	}
	if len(sub) == 0 {
		delete(m, key)
	}
}

// dynamic converts the value runtime of "dynamic", which only Elasticsearch has.
func (e *edit) dynamic(path string, m map[string]any) {
	if m["dynamic"] == "runtime" && e.on("dynamic-runtime") {
		e.note("dynamic-runtime", path, "dynamic: true instead of runtime")
		m["dynamic"] = "true"
	}
}

// templates converts the mappings of dynamic templates.
func (e *edit) templates(m map[string]any) {
	list, ok := m["dynamic_templates"].([]any)
	if !ok {
		return
	}
	var kept []any
	for _, t := range list {
		named, ok := t.(map[string]any)
		if !ok {
			continue
		}
		for _, name := range keys(named) {
			body, ok := named[name].(map[string]any)
			if !ok {
				continue
			}
			path := "dynamic_templates." + name
			if _, ok := body["runtime"]; ok && e.on("runtime-fields") {
				e.lose("runtime-fields", path, "dropped: the target has no runtime fields")
				continue
			}
			field, ok := body["mapping"].(map[string]any)
			if !ok {
				field = map[string]any{}
				body["mapping"] = field
			}
			if _, typed := field["type"]; !typed && body["match_mapping_type"] == "string" && field["index"] != nil {
				field["type"] = "string"
			}
			e.field(path, field)
			for _, one := range e.matchTypes(path, body) {
				kept = append(kept, map[string]any{one.name(name): one.body})
			}
		}
	}
	if len(kept) == 0 {
		delete(m, "dynamic_templates")
		return
	}
	m["dynamic_templates"] = kept
}

type template struct {
	suffix string
	body   map[string]any
}

func (t template) name(base string) string { return base + t.suffix }

// matchTypes splits a dynamic template for several types, which Elasticsearch 8 allows, into one template per type.
func (e *edit) matchTypes(path string, body map[string]any) []template {
	types, ok := body["match_mapping_type"].([]any)
	if !ok || !e.on("dynamic-templates") {
		return []template{{body: body}}
	}
	var all []template
	for _, t := range types {
		one := maps.Clone(body)
		one["match_mapping_type"] = t
		all = append(all, template{suffix: fmt.Sprintf("_%v", t), body: one})
	}
	e.note("dynamic-templates", path, "split into %d templates", len(all))
	return all
}

// properties converts the fields of an object in place.
func (e *edit) properties(path string, m map[string]any) {
	props, ok := m["properties"].(map[string]any)
	if !ok {
		return
	}
	for _, name := range keys(props) {
		field, ok := props[name].(map[string]any)
		if !ok {
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		e.field(at, field)
	}
}

// field converts one field, its subfields and the fields below it.
func (e *edit) field(path string, f map[string]any) {
	for _, r := range fieldRules {
		if e.on(r.name) {
			r.apply(e, path, f)
		}
	}
	e.unknownOptions(path, f)
	e.dynamic(path, f)
	e.properties(path, f)
	subs, ok := f["fields"].(map[string]any)
	if !ok {
		return
	}
	for _, name := range keys(subs) {
		sub, ok := subs[name].(map[string]any)
		if !ok {
			continue
		}
		e.field(path+"."+name, sub)
		if sub["type"] == "object" {
			e.note("sub-field", path+"."+name, "dropped: a subfield cannot be an object")
			delete(subs, name)
		}
	}
	if f["type"] == "object" || len(subs) == 0 {
		delete(f, "fields")
	}
}

// Brief returns a value as JSON for a report, shortened if it is long.
func Brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const most = 120
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "") + "…"
	}
	return string(b)
}

// Part returns the object m[name]; nil if it is missing or not an object.
func Part(m map[string]any, name string) map[string]any {
	p, _ := m[name].(map[string]any)
	return p
}
