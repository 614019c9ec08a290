package metadata

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ilmPhases are the phases in the order in which an index passes through them.
var ilmPhases = []string{"hot", "warm", "cold", "frozen", "delete"}

// ilmOrder is the order of actions within any phase.
var ilmOrder = []string{"set_priority", "rollover", "readonly", "allocate", "shrink", "forcemerge", "delete"}

// lifecycle is a policy of ILM (Elasticsearch 6.6 and later).
type lifecycle struct {
	Policy struct {
		Phases map[string]struct {
			MinAge  string                    `json:"min_age"`
			Actions map[string]map[string]any `json:"actions"`
		} `json:"phases"`
	} `json:"policy"`
}

// policy converts an ILM policy to an ISM policy. why is the reason if it cannot be converted.
//
// A phase becomes a state, its min_age the condition of the transition to it. ILM counts
// ages from a rollover, if the index had one; ISM calls that min_rollover_age. The policy is not
// attached to indices: while documents are sent it could roll over, lock or delete an index.
func (p *planner) policy(name string, raw json.RawMessage) (body json.RawMessage, changes []Change, why string, err error) {
	var in lifecycle
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, nil, "", notAsExpected(err)
	}
	phases := in.Policy.Phases
	if _, ok := phases["delete"].Actions["wait_for_snapshot"]; ok {
		return nil, nil, "it deletes an index only after a snapshot was taken, for which ISM has no equal: without it data could be lost", nil
	}
	e := &edit{version: p.v, index: label(Policy, name)}
	age := "min_index_age"
	if _, ok := phases["hot"].Actions["rollover"]; ok {
		age = "min_rollover_age"
	}
	states := []map[string]any{}
	for _, phase := range ilmPhases {
		in, ok := phases[phase]
		if !ok && phase != "hot" { // every index starts in some phase
			continue
		}
		actions := e.actions(phase, in.Actions)
		if slices.ContainsFunc(actions, rollsAtOnce) {
			return nil, nil, "ISM knows none of the conditions of its rollover; without any it would roll over immediately", nil
		}
		if phase != "hot" && len(actions) == 0 {
			e.note("ism-phase", phase, "dropped: nothing of it is left")
			continue
		}
		if phase == "delete" && !slices.ContainsFunc(actions, func(a map[string]any) bool { return a["delete"] != nil }) {
			e.note("ism-phase", phase, "dropped: it deletes nothing")
			continue
		}
		if len(states) > 0 {
			step := map[string]any{"state_name": phase}
			if !isZeroAge(in.MinAge) {
				step["conditions"] = map[string]any{age: in.MinAge}
			}
			states[len(states)-1]["transitions"] = []any{step}
		} else if !isZeroAge(in.MinAge) {
			e.note("ism-age", phase+".min_age", "dropped: the first state starts immediately")
		}
		states = append(states, map[string]any{"name": phase, "actions": actions, "transitions": []any{}})
	}
	if patterns := p.patternsOf(name); len(patterns) > 0 && p.sel.Attach {
		e.note("ism-attach", "ism_template", "attached to the migrated indices that have it when their documents are complete; to new indices that match %s, attach it yourself", strings.Join(patterns, ", "))
	} else if len(patterns) > 0 {
		e.note("ism-attach", "ism_template", "not attached; when the documents are complete, add the policy to the indices that match %s", strings.Join(patterns, ", "))
	}
	body, err = json.Marshal(map[string]any{"policy": map[string]any{
		"description": "converted from the ILM policy " + name, "default_state": "hot", "states": states,
	}})
	if err != nil {
		return nil, nil, "", fmt.Errorf("encode: %w", err)
	}
	return body, e.changes, "", nil
}

// rollsAtOnce reports whether an action is a rollover without conditions.
func rollsAtOnce(action map[string]any) bool {
	conditions, ok := action["rollover"].(map[string]any)
	return ok && len(conditions) == 0
}

// isZeroAge reports whether an age such as "0ms" is zero, which means that the transition has no condition.
func isZeroAge(age string) bool {
	return strings.Trim(strings.TrimRight(age, "dhmsicrona"), "0") == ""
}

// actions converts the actions of one phase, in the order in which ILM runs them.
func (e *edit) actions(phase string, in map[string]map[string]any) []map[string]any {
	out := []map[string]any{}
	for _, name := range keys(in) {
		if !slices.Contains(ilmOrder, name) {
			e.note("ism-action", phase+"."+name, "dropped: ISM has no equal: %s", Brief(in[name]))
		}
	}
	for _, name := range ilmOrder {
		options, ok := in[name]
		if !ok {
			continue
		}
		at := phase + "." + name
		switch name {
		case "set_priority":
			if options["priority"] != nil {
				out = append(out, map[string]any{"index_priority": e.options(at, options, "priority", "priority")})
			}
		case "rollover":
			out = append(out, map[string]any{"rollover": e.options(at, options,
				"max_size", "min_size", "max_primary_shard_size", "min_primary_shard_size", "max_docs", "min_doc_count", "max_age", "min_index_age")})
		case "readonly":
			out = append(out, map[string]any{"read_only": map[string]any{}})
		case "allocate":
			if to := e.options(at, options, "number_of_replicas", "number_of_replicas"); len(to) > 0 {
				out = append(out, map[string]any{"replica_count": to})
			}
		case "shrink":
			if to := e.options(at, options, "number_of_shards", "num_new_shards", "max_primary_shard_size", "max_shard_size"); len(to) > 0 {
				e.note("ism-action", at, "unlike ILM, ISM leaves the original index where it is, and does not manage the smaller one")
				out = append(out, map[string]any{"shrink": to})
			}
		case "forcemerge":
			out = append(out, map[string]any{"force_merge": e.options(at, options, "max_num_segments", "max_num_segments")})
		case "delete":
			out = append(out, map[string]any{"delete": map[string]any{}})
		}
	}
	return out
}

// options renames options, by names in pairs of old and new, and reports the options that are not listed.
func (e *edit) options(at string, in map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, k := range keys(in) {
		i := slices.Index(names, k)
		switch {
		case i >= 0 && i%2 == 0:
			out[names[i+1]] = in[k]
		case in[k] != nil && in[k] != false && Brief(in[k]) != "{}":
			e.note("ism-option", at+"."+k, "dropped: ISM has no equal: %s", Brief(in[k]))
		}
	}
	return out
}

// patternsOf returns the patterns of the templates that name an ILM policy, directly or in a component.
func (p *planner) patternsOf(policy string) []string {
	var patterns []string
	names := func(raw json.RawMessage) bool {
		var t struct {
			Settings map[string]any
			Template struct{ Settings map[string]any }
		}
		if json.Unmarshal(raw, &t) != nil {
			return false
		}
		return IndexSettings(t.Settings)["index.lifecycle.name"] == policy || IndexSettings(t.Template.Settings)["index.lifecycle.name"] == policy
	}
	for _, kind := range []Kind{LegacyTemplate, IndexTemplate} {
		for _, name := range keys(p.g.Objects[kind]) {
			raw := p.g.Objects[kind][name]
			var t struct {
				Patterns []string `json:"index_patterns"`
			}
			if json.Unmarshal(raw, &t) != nil {
				continue
			}
			used := names(raw)
			for _, c := range composedOf(raw) {
				used = used || names(p.g.Objects[ComponentTemplate][c])
			}
			if used {
				patterns = append(patterns, t.Patterns...)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(patterns)))
}
