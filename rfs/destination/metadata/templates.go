package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// template converts a template of any kind to the body of its request.
func (p *planner) template(kind Kind, name string, raw json.RawMessage, l *Unsupported) (json.RawMessage, []Change, error) {
	in, err := DecodeObject(raw)
	if err != nil {
		return nil, nil, err
	}
	e := newEdit(p.v, label(kind, name), "", p.sel.Without, l)
	e.created = p.g.created
	var out map[string]any
	if kind == LegacyTemplate {
		out, err = p.legacy(e, in)
	} else {
		out, err = p.composed(e, kind, in)
	}
	if err != nil {
		return nil, nil, err
	}
	p.userRules(e, kind, name, out)
	body, err := json.Marshal(out)
	if err != nil {
		return nil, nil, fmt.Errorf("encode: %w", err)
	}
	return body, e.changes, nil
}

// userRules applies the user's own changes last, so that nothing overrides them.
func (p *planner) userRules(e *edit, kind Kind, name string, out map[string]any) {
	body := out
	if inner, ok := out["template"].(map[string]any); ok && kind != LegacyTemplate {
		body = inner
	} else if kind != LegacyTemplate {
		body = map[string]any{}
	}
	for _, done := range p.sel.Rules.EditTemplate(name, body) {
		e.note("user-rule", done.Path, "%s", done.Detail)
	}
	if kind != LegacyTemplate && len(body) > 0 {
		out["template"] = body
	}
}

// legacy converts a template of the form before Elasticsearch 7.8. Up to 5 it has a single pattern,
// "template"; up to 7 its mappings are by type.
func (p *planner) legacy(e *edit, in map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for _, k := range keys(in) {
		switch k {
		case "order", "version", "index_patterns":
			out[k] = in[k]
		case "template":
			if _, ok := in["index_patterns"]; !ok {
				out["index_patterns"] = []any{in[k]}
			}
		case "settings", "mappings", "aliases":
		default:
			e.note("template-option", k, "dropped: %s", Brief(in[k]))
		}
	}
	return out, p.content(e, in, out)
}

// silentTemplateKeys are keys that are dropped without a report.
var silentTemplateKeys = []string{"created_date", "created_date_millis", "modified_date", "modified_date_millis", "deprecated"}

// composed converts component and index templates.
func (p *planner) composed(e *edit, kind Kind, in map[string]any) (map[string]any, error) {
	keep := []string{"version", "_meta"}
	if kind == IndexTemplate {
		keep = append(keep, "index_patterns", "priority", "composed_of", "data_stream", "context")
	}
	out := map[string]any{}
	for _, k := range keys(in) {
		switch {
		case in[k] == nil, k == "template", k == "ignore_missing_component_templates", slices.Contains(silentTemplateKeys, k):
		case slices.Contains(keep, k):
			out[k] = in[k]
		default:
			e.note("template-option", k, "dropped: %s", Brief(in[k]))
		}
	}
	if kind == IndexTemplate {
		p.components(e, in, out)
		dataStream(e, out)
	}
	body, ok := in["template"].(map[string]any)
	if !ok {
		if kind == ComponentTemplate {
			out["template"] = map[string]any{}
		}
		return out, nil
	}
	content := map[string]any{}
	for _, k := range keys(body) {
		if k != "settings" && k != "mappings" && k != "aliases" && body[k] != nil {
			e.note("template-option", "template."+k, "dropped: %s", Brief(body[k]))
		}
	}
	if err := p.content(e, body, content); err != nil {
		return nil, err
	}
	out["template"] = content
	return out, nil
}

// components drops missing components that ignore_missing_component_templates lists: no OpenSearch knows this option.
func (p *planner) components(e *edit, in, out map[string]any) {
	may, ok := in["ignore_missing_component_templates"].([]any)
	composed, ok2 := out["composed_of"].([]any)
	if !ok || !ok2 {
		return
	}
	out["composed_of"] = slices.DeleteFunc(composed, func(c any) bool {
		drop := slices.Contains(may, c) && !p.taken[ComponentTemplate][Text(c)]
		if drop {
			e.note("missing-component", "composed_of", "%v dropped: the snapshot does not have it, and the template allows that", c)
		}
		return drop
	})
}

// dataStream keeps only timestamp_field of a template's data_stream, since OpenSearch supports nothing else.
func dataStream(e *edit, out map[string]any) {
	d, ok := out["data_stream"].(map[string]any)
	if !ok {
		return
	}
	for _, k := range keys(d) {
		if k == "timestamp_field" {
			if s, ok := d[k].(string); ok {
				d[k] = map[string]any{"name": s}
			}
			continue
		}
		if d[k] != false && d[k] != nil {
			e.note("data-stream-option", "data_stream."+k, "dropped: %s", Brief(d[k]))
		}
		delete(d, k)
	}
}

// content converts settings, mappings and aliases with the rules for indices.
func (p *planner) content(e *edit, in, out map[string]any) error {
	var settings, aliases map[string]any
	if s, ok := in["settings"].(map[string]any); ok {
		settings = p.settings(e, s)
	}
	mapping, err := e.templateMapping(in["mappings"])
	if err != nil {
		return err
	}
	if in["aliases"] != nil {
		raw, err := json.Marshal(in["aliases"])
		if err != nil {
			return fmt.Errorf("aliases: %w", err)
		}
		if aliases, err = e.aliases(raw); err != nil {
			return err
		}
	}
	for part, v := range e.body(settings, mapping, aliases) {
		out[part] = v
	}
	return nil
}

// settings converts the settings of a template. Unlike an index's settings, all of them were set by the user,
// so every omission is reported.
func (p *planner) settings(e *edit, in map[string]any) map[string]any {
	flat, kept := IndexSettings(in), map[string]any{}
	for _, k := range keys(flat) {
		v := flat[k]
		switch {
		case k == "index.final_pipeline" && v != "_none":
			// No request can switch it off: it would change the documents of this migration a second time.
			e.note("pipeline-setting", k, "dropped: set it to %s when the documents are complete", v)
		case k == "index.default_pipeline" && v != "_none" && (!p.taken[Pipeline][v] || e.unsupported.pipelines[v]):
			e.note("pipeline-setting", k, "dropped: the pipeline %s is not migrated", v)
		case k == "index.default_pipeline" || k == "index.final_pipeline":
			kept[k] = v
		case k == "index.lifecycle.rollover_alias" && p.sel.Policies && p.v.Distribution == "opensearch":
			const ism = "index.plugins.index_state_management.rollover_alias"
			if !e.unsupported.settings[ism] {
				e.note("lifecycle", k, "is %s", ism)
				kept[ism] = v
			} else {
				e.note("lifecycle", k, "dropped, the target has no ISM: %q", v)
			}
		case k == "index.lifecycle.name" && p.sel.Policies && p.taken[Policy][v]:
			e.note("lifecycle", k, "dropped: ISM has no such setting; add the policy %s to the indices when the documents are complete", v)
		case strings.HasPrefix(k, "index.lifecycle."):
			e.note("lifecycle", k, "dropped, ILM has no equal without --include policies: %q", v)
		case Listed(silentSettings, k):
			e.note("setting", k, "dropped: %q", v)
		default:
			continue
		}
		delete(flat, k)
	}
	out := e.settings(flat)
	for k, v := range kept {
		out[k] = v
	}
	e.ofTarget(out)
	return out
}

// FlatSettings returns nested settings by dotted keys; see flatten.
func FlatSettings(in map[string]any) map[string]string {
	flat := map[string]string{}
	flatten("", in, flat)
	return flat
}

// flatten writes nested settings as dotted keys, elements of lists as a.0, a.1, …
func flatten(prefix string, in map[string]any, out map[string]string) {
	for k, v := range in {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			flatten(prefix+k+".", v, out)
		case []any:
			for i, x := range v {
				out[prefix+k+"."+strconv.Itoa(i)] = plain(x)
			}
		default:
			out[prefix+k] = plain(v)
		}
	}
}

// IndexSettings returns flat settings whose keys all have the prefix "index.", which some versions leave out.
func IndexSettings(in map[string]any) map[string]string {
	flat := map[string]string{}
	for k, v := range FlatSettings(in) {
		if !strings.HasPrefix(k, "index.") {
			k = "index." + k
		}
		flat[k] = v
	}
	return flat
}

func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

// templateMapping merges the types of a template. Its defaults for new types
// (_default_) become part of the result.
func (e *edit) templateMapping(v any) (map[string]any, error) {
	types, err := mappingTypes(v)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	for _, t := range types {
		body, ok := t.body.(map[string]any)
		if !ok {
			continue
		}
		e.root(body)
		if t.name == defaultType && len(types) > 1 {
			e.note("default-mapping", defaultType, "became part of the mapping")
		}
		if out == nil {
			out = body
			continue
		}
		if t.name != defaultType {
			e.looseRouting(out, body, t.name)
		}
		e.union("", out, body, t.name)
	}
	if props, ok := out["properties"].(map[string]any); ok {
		e.fieldAliases(props, "", opaqueFields(props))
	}
	return out, nil
}

type typedMapping struct {
	name string
	body any
}

// mappingTypes returns the types of a template's mappings, _default_ last. The mappings are a list of objects
// by type, an object by type, or a mapping without a type. Up to Elasticsearch 6 a type may
// be a string of JSON.
func mappingTypes(v any) ([]typedMapping, error) {
	var types []typedMapping
	switch v := v.(type) {
	case nil:
	case string:
		m, err := DecodeObject(json.RawMessage(v))
		if err != nil {
			return nil, fmt.Errorf("mappings: %w", err)
		}
		return mappingTypes(m)
	case []any:
		for _, one := range v {
			more, err := mappingTypes(one)
			if err != nil {
				return nil, err
			}
			types = append(types, more...)
		}
	case map[string]any:
		if isMapping(v) {
			return []typedMapping{{"", v}}, nil
		}
		for _, name := range keys(v) {
			body, err := ownMapping(name, v[name])
			if err != nil {
				return nil, err
			}
			types = append(types, typedMapping{name, body})
		}
	default:
		return nil, fault.Corrupt("", "", -1, "mappings are %s", Brief(v))
	}
	slices.SortStableFunc(types, func(a, b typedMapping) int {
		if a.name == b.name {
			return strings.Compare(a.name, b.name)
		}
		switch defaultType {
		case a.name:
			return 1
		case b.name:
			return -1
		}
		return strings.Compare(a.name, b.name)
	})
	return types, nil
}

// ownMapping returns the mapping of a type: an object, or a string of JSON that may repeat the name of the type.
func ownMapping(name string, v any) (any, error) {
	s, ok := v.(string)
	if !ok {
		return v, nil
	}
	m, err := DecodeObject(bytes.TrimSpace([]byte(s)))
	if err != nil {
		return nil, fmt.Errorf("mapping of type %s: %w", name, err)
	}
	if inner, ok := m[name].(map[string]any); ok && len(m) == 1 {
		return inner, nil
	}
	return m, nil
}

// isMapping distinguishes a mapping, all of whose keys are keys of mappings, from an object of mappings by type.
func isMapping(m map[string]any) bool {
	if len(m) == 0 {
		return true
	}
	for k, v := range m {
		_, isObject := v.(map[string]any)
		own := rootKeys[k] || k == "runtime" || k == "_all" || k == "_field_names" || k == "_size" || k == "_data_stream_timestamp" || k == "subobjects"
		if !own || k == "properties" && !isObject {
			return false
		}
	}
	return true
}
