package metadata

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/destination/target"
)

// elasticProcessors are processors of Elasticsearch that no OpenSearch has, or that have another
// meaning there, with the reason. The target itself rejects others that it lacks.
var elasticProcessors = map[string]string{
	"inference": "models of Elasticsearch do not run on the target", "enrich": "enrich policies have no equal on the target",
	"set_security_user": "", "circle": "", "network_direction": "", "registered_domain": "", "uri_parts": "", "reroute": "", "terminate": "",
	"redact": "", "geo_grid": "", "ip_location": "", "recover_failure_document": "", "normalize_for_stream": "", "cef": "",
	"fingerprint": "OpenSearch's processor of this name gives other fingerprints",
}

// pipelineKeys lists the properties of a pipeline that are kept.
var pipelineKeys = []string{"description", "processors", "on_failure", "version"}

// pipelineRefused returns the reason why a pipeline is not migrated; "" if it is. A pipeline is never migrated in part, since that
// would change documents in untested ways.
func pipelineRefused(v target.Version, raw json.RawMessage) string {
	body, err := DecodeObject(raw)
	if err != nil {
		return "it is not a JSON object"
	}
	if f := body["field_access_pattern"]; f != nil && f != "classic" {
		return fmt.Sprintf("it reads names of fields in a way that the target does not know (field_access_pattern %v)", f)
	}
	if v.Distribution != "opensearch" {
		return ""
	}
	var used []string
	for _, k := range []string{"processors", "on_failure"} {
		used = processors(body[k], used)
	}
	for _, name := range used {
		if why, ok := elasticProcessors[name]; ok {
			if why == "" {
				why = "the target does not have it"
			}
			return fmt.Sprintf("processor %s: %s", name, why)
		}
	}
	return ""
}

// processors appends the types of processors to found, including nested ones in foreach and on_failure.
func processors(v any, found []string) []string {
	list, ok := v.([]any)
	if !ok {
		return found
	}
	for _, p := range list {
		named, ok := p.(map[string]any)
		if !ok {
			continue
		}
		for _, name := range keys(named) {
			found = append(found, name)
			options, ok := named[name].(map[string]any)
			if !ok {
				continue
			}
			found = processors(options["on_failure"], found)
			if inner := options["processor"]; name == "foreach" && inner != nil {
				found = processors([]any{inner}, found)
			}
		}
	}
	return found
}

// pipeline returns the body of a pipeline, with unchanged processors.
func (p *planner) pipeline(name string, raw json.RawMessage) (json.RawMessage, []Change, error) {
	in, err := DecodeObject(raw)
	if err != nil {
		return nil, nil, err
	}
	e := &edit{version: p.v, index: label(Pipeline, name)}
	for _, k := range keys(in) {
		if slices.Contains(pipelineKeys, k) {
			continue
		}
		if !slices.Contains(silentTemplateKeys, k) && k != "field_access_pattern" {
			e.note("pipeline-option", k, "dropped: %s", Brief(in[k]))
		}
		delete(in, k)
	}
	if in["processors"] == nil {
		in["processors"] = []any{}
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, nil, fmt.Errorf("encode: %w", err)
	}
	return body, e.changes, nil
}

// script is a stored script in any of its forms.
type script struct {
	name, lang string
	source     any    // text; search templates may be objects
	key        string // the name in the snapshot
}

// scriptLanguages lists the script languages of OpenSearch, and of Elasticsearch since 6.
var scriptLanguages = []string{"painless", "expression", "mustache"}

// parseScript parses a stored script: {"lang","source"} since 5.6, {"lang","code"} since 5.3, before that
// {"script"}, {"template"} or the bare text. Up to 5.x its name may be <lang>#<name>.
func parseScript(name string, raw json.RawMessage) (script, error) {
	s := script{name: name, key: name}
	if lang, rest, ok := strings.Cut(name, "#"); ok {
		s.lang, s.name = lang, rest
	}
	var bare string
	if json.Unmarshal(raw, &bare) == nil {
		s.source = bare
		return s, nil
	}
	body, err := DecodeObject(raw)
	if err != nil {
		return s, err
	}
	if inner, ok := body["script"].(map[string]any); ok {
		body = inner
	}
	if lang := Text(body["lang"]); lang != "" {
		s.lang = lang
	}
	for _, k := range []string{"source", "code", "inline", "script", "template"} {
		if v := body[k]; v != nil {
			if s.source = v; k == "template" && s.lang == "" {
				s.lang = "mustache"
			}
			break
		}
	}
	return s, nil
}

// same reports whether a script named <lang>#<name> also exists under its plain name: Elasticsearch 5 stored both.
func (s script) same(all map[string]json.RawMessage) bool {
	_, ok := all[s.name]
	return ok && s.key != s.name
}

// refused returns the reason why a script is not migrated; "" if it is.
func (s script) refused() string {
	switch {
	case s.source == nil:
		return "it has no source"
	case s.lang == "":
		return "its language is unknown"
	case !slices.Contains(scriptLanguages, s.lang):
		return fmt.Sprintf("the target has no script language %s", s.lang)
	}
	return ""
}

func (s script) body() (json.RawMessage, []Change, error) {
	b, err := json.Marshal(map[string]any{"script": map[string]any{"lang": s.lang, "source": s.source}})
	if err != nil {
		return nil, nil, fmt.Errorf("encode: %w", err)
	}
	var changes []Change
	if s.name != s.key {
		changes = []Change{{Index: label(Script, s.name), Rule: "script-name", Path: s.key, Detail: "is called " + s.name}}
	}
	return b, changes, nil
}
