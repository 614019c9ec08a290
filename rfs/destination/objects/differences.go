package objects

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// Differences compares the body of a request that created an index (metadata.Converted.Body) with the answer of GET /<index>.
// It returns the settings, fields and aliases that the target added, changed or left out, such as additions of its templates.
// It ignores different spellings of the same value
// (numbers as text, with and without "index.", dotted or nested), internal settings of every index (uuid,
// dates, versions), and defaults. It returns fault.ErrCorrupt if either argument is not a JSON
// object, or the answer does not contain exactly one index.
func Differences(asked, answer []byte) ([]metadata.Change, error) {
	want, err := metadata.DecodeObject(asked)
	if err != nil {
		return nil, fmt.Errorf("the requested definition: %w", err)
	}
	all, err := metadata.DecodeObject(answer)
	if err != nil {
		return nil, fmt.Errorf("what the target has: %w", err)
	}
	if len(all) != 1 {
		return nil, fault.Corrupt("", "", -1, "the answer has %d indices: %s", len(all), strings.Join(keys(all), ", "))
	}
	d := &differences{index: keys(all)[0]}
	have := metadata.Part(all, d.index)
	d.settings(metadata.IndexSettings(metadata.Part(want, "settings")), metadata.IndexSettings(metadata.Part(have, "settings")))
	d.object("mappings", expanded(metadata.Part(want, "mappings")), metadata.Part(have, "mappings"))
	d.aliases(metadata.Part(want, "aliases"), metadata.Part(have, "aliases"))
	return d.found, nil
}

// expanded returns a mapping with dotted names expanded to objects, as targets do, except for fields with subobjects: false
// and the columnar modes of Elasticsearch. A name below a field that is not an object stays dotted, since no target accepts it.
func expanded(mapping map[string]any) map[string]any {
	properties := metadata.Part(mapping, "properties")
	if properties == nil {
		return mapping
	}
	objects := map[string]any{}
	for _, name := range keys(properties) { // an object comes before the names below it
		f, ok := properties[name].(map[string]any)
		if !ok {
			objects[name] = properties[name]
			continue
		}
		at, leaf := objects, name
		for {
			first, rest, dotted := strings.Cut(leaf, ".")
			object, exists := at[first].(map[string]any)
			if !dotted || first == "" || rest == "" || exists && object["properties"] == nil && object["type"] != nil {
				break
			}
			if !exists {
				object = map[string]any{}
				at[first] = object
			}
			if metadata.Part(object, "properties") == nil {
				object["properties"] = map[string]any{}
			}
			at, leaf = metadata.Part(object, "properties"), rest
		}
		if whole, ok := at[leaf].(map[string]any); ok && whole["type"] == nil { // some names below it came first
			below := metadata.Part(expanded(f), "properties")
			for _, k := range keys(below) {
				metadata.Part(whole, "properties")[k] = below[k]
			}
			continue
		}
		at[leaf] = expanded(f)
	}
	out := maps.Clone(mapping)
	out["properties"] = objects
	return out
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

type differences struct {
	index string
	found []metadata.Change
}

func (d *differences) note(path, format string, args ...any) {
	d.found = append(d.found, metadata.Change{Index: d.index, Rule: "target", Path: path, Detail: fmt.Sprintf(format, args...)})
}

// ownSettings are settings that the target sets in every index.
var ownSettings = []string{
	"index.uuid", "index.creation_date", "index.version.", "index.provided_name", "index.replication.type", "index.routing.allocation.",
	"index.resize.", "index.history.", "index.remote_store.", "index.append_only.",
}

// defaultSettings are settings that some targets report although the request did not contain them.
var defaultSettings = map[string]string{"index.number_of_shards": "1", "index.number_of_replicas": "1"}

func (d *differences) settings(want, have map[string]string) {
	for _, k := range keys(have) {
		was, asked := want[k]
		switch {
		case !asked && (metadata.Listed(ownSettings, k) || defaultSettings[k] == have[k]):
		case !asked:
			d.note(k, "the target added %q", have[k])
		case was != have[k]:
			d.note(k, "the target has %q instead of %q", have[k], was)
		}
	}
	for _, k := range keys(want) {
		if _, ok := have[k]; !ok {
			d.note(k, "the target left out %q", want[k])
		}
	}
}

// object compares a mapping or one of its parts.
func (d *differences) object(path string, want, have map[string]any) {
	for _, k := range keys(have) {
		at := strings.TrimPrefix(path+"."+k, "mappings.")
		w, asked := want[k]
		wm, wok := w.(map[string]any)
		hm, hok := have[k].(map[string]any)
		switch {
		case !asked && isDefault(k, have):
		case !asked:
			d.note(at, "the target added %s", metadata.Brief(have[k]))
		case wok && hok:
			d.object(path+"."+k, wm, hm)
		case !same(w, have[k]):
			d.note(at, "the target has %s instead of %s", metadata.Brief(have[k]), metadata.Brief(w))
		}
	}
	for _, k := range keys(want) {
		if _, ok := have[k]; !ok && !isDefault(k, want) && !empty(want[k]) {
			d.note(strings.TrimPrefix(path+"."+k, "mappings."), "the target left out %s", metadata.Brief(want[k]))
		}
	}
}

// fieldDefaults lists values that a target may omit from its answer even if they were requested, or add even if they were not.
var fieldDefaults = map[string][]string{
	"index": {"true"}, "store": {"false"}, "doc_values": {"true"}, "enabled": {"true"}, "norms": {"true", "false"}, "dynamic": {"true"},
	"coerce": {"true"}, "ignore_malformed": {"false"}, "eager_global_ordinals": {"false"}, "fielddata": {"false"},
	"date_detection": {"true"}, "numeric_detection": {"false"}, "required": {"false"}, "boost": {"1.0", "1"}, "analyzer": {"default"},
	"ignore_z_value": {"true"}, "include_in_parent": {"false"}, "include_in_root": {"false"}, "index_options": {"positions", "docs"},
	"similarity": {"BM25"}, "position_increment_gap": {"-1", "100"}, "type": {"object"}, "preserve_separators": {"true"},
	"preserve_position_increments": {"true"}, "max_input_length": {"50"}, "term_vector": {"no"}, "format": {"strict_date_optional_time||epoch_millis"},
	"match_pattern": {"simple"}, "split_queries_on_whitespace": {"false"},
}

// isDefault reports whether an option has its default value. norms are false for
// keywords and true for text.
func isDefault(k string, in map[string]any) bool {
	v := metadata.Text(in[k])
	switch {
	case k == "norms" && in["type"] == "text":
		return v == "true"
	case k == "norms":
		return v == "false"
	case k == "search_analyzer" || k == "search_quote_analyzer":
		return v == metadata.Text(in["analyzer"]) || v == metadata.Text(in["search_analyzer"]) && k == "search_quote_analyzer" || v == "default"
	}
	return v != "" && slices.Contains(fieldDefaults[k], v)
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// same reports whether two values are equal; either may be written as text.
func same(a, b any) bool {
	x, y := metadata.Text(a), metadata.Text(b)
	if x != "" || y != "" {
		return x == y || strings.TrimSuffix(x, ".0") == strings.TrimSuffix(y, ".0")
	}
	l, ok := a.([]any)
	r, ok2 := b.([]any)
	if ok && ok2 {
		return slices.EqualFunc(l, r, same)
	}
	m, ok := a.(map[string]any)
	n, ok2 := b.(map[string]any)
	if ok && ok2 {
		d := &differences{}
		d.object("", m, n)
		return len(d.found) == 0
	}
	return metadata.Brief(a) == metadata.Brief(b)
}

// aliases compares the aliases. "routing" is equal to the same index_routing and search_routing.
func (d *differences) aliases(want, have map[string]any) {
	for _, k := range keys(have) {
		w, asked := want[k]
		if !asked {
			d.note("aliases."+k, "the target added the alias %s", metadata.Brief(have[k]))
			continue
		}
		if x, y := routed(w), routed(have[k]); !sameJSON(x, y) {
			d.note("aliases."+k, "the target has %s instead of %s", metadata.Brief(y), metadata.Brief(x))
		}
	}
	for _, k := range keys(want) {
		if _, ok := have[k]; !ok {
			d.note("aliases."+k, "the target left out the alias")
		}
	}
}

func routed(v any) map[string]any {
	out := map[string]any{}
	m, _ := v.(map[string]any)
	for k, v := range m {
		if k == "routing" {
			out["index_routing"], out["search_routing"] = v, v
			continue
		}
		out[k] = v
	}
	return out
}

// sameJSON reports whether two aliases are equal, ignoring the content of filters, to which targets add a boost of 1.
func sameJSON(a, b map[string]any) bool {
	x, err := json.Marshal(withoutFilter(a))
	y, err2 := json.Marshal(withoutFilter(b))
	return err == nil && err2 == nil && string(x) == string(y) && (a["filter"] == nil) == (b["filter"] == nil)
}

func withoutFilter(m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if k != "filter" {
			out[k] = v
		}
	}
	return out
}
