package metadata

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// PolicyIndex is the index where OpenSearch stores ISM policies, and the indices that they manage.
const PolicyIndex = ".opendistro-ism-config"

// statePolicyKeys are the properties of a stored ISM policy that a request may have. ism_template is dropped and reported.
var statePolicyKeys = []string{"description", "default_state", "states", "error_notification"}

// AddStored adds a document of PolicyIndex. It ignores documents that contain only the state of jobs. Errors are fault.ErrCorrupt.
func (g *Globals) AddStored(id string, source json.RawMessage) error {
	var stored struct {
		Policy  json.RawMessage `json:"policy"`
		Managed *struct {
			Policy string `json:"policy_id"`
		} `json:"managed_index"`
		Rollup    json.RawMessage `json:"rollup"`
		Transform json.RawMessage `json:"transform"`
		Snapshots json.RawMessage `json:"sm_policy"`
	}
	if err := json.Unmarshal(source, &stored); err != nil {
		return fmt.Errorf("document %.100q: %w", id, notAsExpected(err))
	}
	switch {
	case len(stored.Policy) > 0:
		g.put(StatePolicy, id, slices.Clone(source))
	case stored.Managed != nil && stored.Managed.Policy != "":
		if g.Managed == nil {
			g.Managed = map[string]string{}
		}
		g.Managed[id] = stored.Managed.Policy
	case len(stored.Rollup) > 0:
		g.Others = append(g.Others, LeftOut{Other, "rollup " + id, "rollup jobs are not migrated: create it on the target (Index Rollups)"})
	case len(stored.Transform) > 0:
		g.Others = append(g.Others, LeftOut{Other, "transform " + id, "transforms are not migrated: create it on the target (Index Transforms)"})
	case len(stored.Snapshots) > 0:
		name := strings.TrimSuffix(id, "-sm-policy")
		g.Others = append(g.Others, LeftOut{Other, "snapshot policy " + name, "snapshot policies are not migrated, because repositories differ (rfsctl snapshot extract writes them to files for Snapshot Management)"})
	}
	return nil
}

func (g *Globals) put(kind Kind, name string, raw json.RawMessage) {
	if g.Objects[kind] == nil {
		g.Objects[kind] = map[string]json.RawMessage{}
	}
	g.Objects[kind][name] = raw
}

// statePolicy returns the body that creates an ISM policy of an OpenSearch source on the target. Its states stay unchanged. Its index
// patterns are left out, since the target would attach it to indices whose documents are still arriving.
func (p *planner) statePolicy(name string, raw json.RawMessage) (body json.RawMessage, changes []Change, why string, err error) {
	stored, err := DecodeObject(raw)
	if err != nil {
		return nil, nil, "", err
	}
	in, ok := stored["policy"].(map[string]any)
	if !ok {
		return nil, nil, "it is not a JSON object", nil
	}
	e := &edit{version: p.v, index: label(StatePolicy, name)}
	out := map[string]any{}
	for _, k := range statePolicyKeys {
		if in[k] != nil {
			out[k] = in[k]
		}
	}
	if patterns := strings.Join(statePatterns(in), ", "); patterns != "" && p.sel.Attach {
		e.note("ism-attach", "ism_template", "set when the documents are complete, for %s", patterns)
	} else if patterns != "" {
		e.note("ism-attach", "ism_template", "not set; when the documents are complete, add it to the policy for %s", patterns)
	}
	for _, repository := range snapshotActions(in) {
		e.note("ism-action", "snapshot", "takes snapshots in the repository %s: register it on the target", repository)
	}
	if body, err = json.Marshal(map[string]any{"policy": out}); err != nil {
		return nil, nil, "", fmt.Errorf("encode: %w", err)
	}
	return body, e.changes, "", nil
}

// statePatterns returns the index patterns of an ISM policy, sorted.
func statePatterns(policy map[string]any) []string {
	var patterns []string
	for _, t := range stateTemplates(policy) {
		all, _ := t["index_patterns"].([]any)
		for _, p := range all {
			patterns = append(patterns, Text(p))
		}
	}
	slices.Sort(patterns)
	return slices.Compact(patterns)
}

// stateTemplates returns the members of ism_template: the patterns of indices to which OpenSearch attaches the policy on creation.
func stateTemplates(policy map[string]any) []map[string]any {
	templates, _ := policy["ism_template"].([]any)
	if one, ok := policy["ism_template"].(map[string]any); ok { // a single object in OpenSearch 1.0
		templates = []any{one}
	}
	var all []map[string]any
	for _, t := range templates {
		if t, ok := t.(map[string]any); ok {
			all = append(all, t)
		}
	}
	return all
}

// actionsOf calls each for every action of every state of an ISM policy.
func actionsOf(policy map[string]any, each func(state map[string]any, action map[string]any)) {
	states, _ := policy["states"].([]any)
	for _, s := range states {
		s, ok := s.(map[string]any)
		if !ok {
			continue
		}
		all, _ := s["actions"].([]any)
		for _, a := range all {
			if a, ok := a.(map[string]any); ok {
				each(s, a)
			}
		}
	}
}

// snapshotActions returns the repositories of a policy's snapshot actions, sorted.
func snapshotActions(policy map[string]any) []string {
	var names []string
	actionsOf(policy, func(_, action map[string]any) {
		if s, ok := action["snapshot"].(map[string]any); ok {
			names = append(names, Text(s["repository"]))
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}
