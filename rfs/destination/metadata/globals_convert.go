package metadata

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// planner builds the plan for Globals.
type planner struct {
	v    target.Version
	g    Globals
	sel  Selection
	plan GlobalPlan
	// needed are the component templates of selected templates.
	needed map[string]string
	// taken are the selected objects by kind and name.
	taken map[Kind]map[string]bool
}

// ConvertGlobals returns the plan for the selected objects and a target of version v. It sends no
// request; EnsureGlobals decides all that depends on the target's state. It returns fault.ErrCorrupt
// if an object is not a JSON object.
func ConvertGlobals(v target.Version, g Globals, sel Selection) (GlobalPlan, error) {
	p := &planner{v: v, g: g, sel: sel, needed: map[string]string{}, taken: map[Kind]map[string]bool{}}
	p.choose()
	for _, kind := range creationOrder {
		for _, name := range keys(g.Objects[kind]) {
			if !p.taken[kind][name] {
				continue
			}
			if err := p.add(kind, name, g.Objects[kind][name]); err != nil {
				return p.plan, fmt.Errorf("%s: %w", label(kind, name), err)
			}
		}
	}
	for _, name := range keys(g.DataStreams) {
		if slices.Contains(sel.Streams, name) {
			p.leave(DataStream, name, "a data stream cannot be created with its past: the documents of its %d backing indices are created in the target's", len(g.DataStreams[name]))
			continue
		}
		p.leave(DataStream, name, "a data stream cannot be created with its past: its %d backing indices are migrated as indices", len(g.DataStreams[name]))
	}
	p.plan.Left = append(p.plan.Left, g.Others...)
	p.plan.Left = append(p.plan.Left, g.kept()...)
	return p.plan, nil
}

func (p *planner) leave(kind Kind, name, format string, args ...any) {
	p.plan.Left = append(p.plan.Left, LeftOut{kind, name, fmt.Sprintf(format, args...)})
}

// choose selects the objects to create, index templates before the components that they need.
func (p *planner) choose() {
	for _, kind := range []Kind{IndexTemplate, ComponentTemplate, LegacyTemplate, Script, Pipeline, Policy, StatePolicy} {
		p.taken[kind] = map[string]bool{}
		for _, name := range keys(p.g.Objects[kind]) {
			if why := p.unwanted(kind, name, p.g.Objects[kind][name]); why != "" {
				p.leave(kind, name, "%s", why)
				continue
			}
			p.taken[kind][name] = true
			if kind == IndexTemplate {
				for _, component := range composedOf(p.g.Objects[kind][name]) {
					p.needed[component] = name
				}
			}
		}
	}
}

// unwanted returns the reason why an object is not selected; "" if it is.
func (p *planner) unwanted(kind Kind, name string, raw json.RawMessage) string {
	choose := map[Kind]func(string) bool{LegacyTemplate: p.sel.Templates, ComponentTemplate: p.sel.ComponentTemplates, IndexTemplate: p.sel.IndexTemplates}[kind]
	asked := map[Kind]struct {
		yes  bool
		flag string
	}{Pipeline: {p.sel.Pipelines, "pipelines"}, Script: {p.sel.Scripts, "scripts"}, Policy: {p.sel.Policies, "policies"}, StatePolicy: {p.sel.Policies, "policies"}}
	switch {
	case kind == ComponentTemplate && p.needed[name] != "" && (choose == nil || choose(name)):
		return ""
	case choose != nil && !choose(name):
		return "not in the allow-list"
	case !p.sel.Managed && isManaged(kind, name, raw):
		return "the source made it for itself (--include managed takes it)"
	case p.v.Serverless() && kind != ComponentTemplate && kind != IndexTemplate:
		return "a collection of OpenSearch Serverless has no such objects"
	case (kind == ComponentTemplate || kind == IndexTemplate) && !composable(p.v):
		return fmt.Sprintf("%s %s has no such templates", p.v.Distribution, p.v.Number)
	}
	if a, optional := asked[kind]; optional && !a.yes {
		return "not asked for (--include " + a.flag + ")"
	}
	var made StreamTemplate
	if kind == IndexTemplate && p.v.Serverless() && json.Unmarshal(raw, &made) == nil && made.makes() {
		return "it makes data streams, which a collection of OpenSearch Serverless does not have"
	}
	if kind == IndexTemplate {
		if index := p.refused(raw); index != "" {
			return fmt.Sprintf("it makes data streams of every new name that matches, and would refuse the index %s of this migration; create it afterwards", index)
		}
	}
	return ""
}

// composable reports whether the target has composable templates: Elasticsearch since 7.8, and every OpenSearch.
func composable(v target.Version) bool {
	return v.Distribution == "opensearch" || v.Major > 7 || v.Major == 7 && v.Minor >= 8
}

// refused returns an ordinary index of this migration that a template for data streams matches; "" for none. The target would
// refuse to create the index.
func (p *planner) refused(raw json.RawMessage) string {
	var t struct {
		Patterns   []string        `json:"index_patterns"`
		DataStream json.RawMessage `json:"data_stream"`
	}
	if json.Unmarshal(raw, &t) != nil || len(t.DataStream) == 0 || string(t.DataStream) == "null" {
		return ""
	}
	for _, index := range p.sel.Ordinary {
		if slices.ContainsFunc(t.Patterns, func(p string) bool { return pattern.Star(p, index) }) {
			return index
		}
	}
	return ""
}

func composedOf(raw json.RawMessage) []string {
	var t struct {
		ComposedOf []string `json:"composed_of"`
	}
	if json.Unmarshal(raw, &t) != nil {
		return nil
	}
	return t.ComposedOf
}

// managedNames lists the objects that Elasticsearch, OpenSearch and their plugins install. A star matches any text.
var managedNames = map[Kind][]string{
	LegacyTemplate: {".*", "security-index-template", "security_audit_log", "kibana_index_template:*", "logstash-index-template", "ilm-history", "triggered_watches", "watches", "watch_history*", "tenant_template", "ss4o_*"},
	ComponentTemplate: {
		".*", "logs-settings", "logs-mappings", "metrics-settings", "metrics-mappings", "metrics-tsdb-settings", "synthetics-settings", "synthetics-mappings",
		"data-streams-mappings", "traces-*@*", "*@settings", "*@mappings", "*@lifecycle", "*@tsdb-settings", "*@template", "behavioral_analytics-events-*", "elastic-connectors-*", "search-acl-filter",
	},
	IndexTemplate: {
		".*", "ilm-history*", "*@template", "slm-history*", "behavioral_analytics-events-*", "elastic-connectors-*", "search-acl-filter", "profiling-*", "ss4o_*",
	},
	Pipeline: {
		".*", "xpack_monitoring_*", "logs-default-pipeline", "*@default-pipeline", "*@json-pipeline", "*@json-message", "ent-search-generic-ingestion",
		"search-default-ingestion", "behavioral_analytics-events-final_pipeline", "reindex-data-stream-pipeline",
	},
	Policy: {
		".*", "ilm-history-ilm-policy", "slm-history-ilm-policy", "watch-history-ilm-policy*", "ml-size-based-ilm-policy", "logs", "metrics", "synthetics", "traces", "*@lifecycle",
		"7-days-default", "30-days-default", "90-days-default", "180-days-default", "365-days-default", "kibana-event-log-policy", "behavioral_analytics-events-default_policy", "profiling-*",
	},
}

// isManaged reports whether the source created an object for itself. Names that users choose as
// well (logs, metrics, synthetics) count only with the patterns of the original.
func isManaged(kind Kind, name string, raw json.RawMessage) bool {
	var body struct {
		Meta struct {
			Managed any `json:"managed"`
		} `json:"_meta"`
		Patterns []string `json:"index_patterns"`
		Policy   struct {
			Meta struct {
				Managed any `json:"managed"`
			} `json:"_meta"`
		} `json:"policy"`
	}
	if err := json.Unmarshal(raw, &body); err == nil {
		if body.Meta.Managed == true || body.Policy.Meta.Managed == true {
			return true
		}
		if kind == IndexTemplate && slices.Contains([]string{"logs", "metrics", "synthetics", "traces"}, name) && slices.Equal(body.Patterns, []string{name + "-*-*"}) {
			return true
		}
	}
	return slices.ContainsFunc(managedNames[kind], func(p string) bool { return pattern.Star(p, name) })
}

// add converts one object and adds it to the plan, or to the objects left out with the reason.
func (p *planner) add(kind Kind, name string, raw json.RawMessage) error {
	o := Global{Kind: kind, Name: name}
	switch kind {
	case Script:
		s, err := parseScript(name, raw)
		if err != nil {
			return err
		}
		if s.same(p.g.Objects[Script]) {
			return nil
		}
		if why := s.refused(); why != "" {
			p.leave(kind, name, "%s", why)
			return nil
		}
		o.Name, o.convert = s.name, func(*Unsupported) (json.RawMessage, []Change, error) { return s.body() }
	case Pipeline:
		if why := pipelineRefused(p.v, raw); why != "" {
			p.leave(kind, name, "%s", why)
			delete(p.taken[kind], name)
			return nil
		}
		o.convert = func(*Unsupported) (json.RawMessage, []Change, error) { return p.pipeline(name, raw) }
	case Policy, StatePolicy:
		if p.v.Distribution != "opensearch" {
			p.leave(kind, name, "%s has ILM, not ISM: put the policy there as it is", p.v.Distribution)
			return nil
		}
		convert := p.policy
		if kind == StatePolicy {
			convert = p.statePolicy
		}
		body, changes, why, err := convert(name, raw)
		if err != nil {
			return err
		}
		if why != "" {
			p.leave(kind, name, "%s", why)
			return nil
		}
		o.convert = func(*Unsupported) (json.RawMessage, []Change, error) { return body, changes, nil }
		if p.sel.Attach {
			if o.Later, err = laterPatterns(kind, raw); err != nil {
				return err
			}
			if err := p.addRolledOver(kind, name, body); err != nil {
				return err
			}
		}
	default:
		o.convert = func(l *Unsupported) (json.RawMessage, []Change, error) { return p.template(kind, name, raw, l) }
	}
	var err error
	if o.Body, o.Changes, err = o.convert(NewUnsupported()); err != nil {
		return err
	}
	p.plan.Objects = append(p.plan.Objects, o)
	return nil
}
