package metadata

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Attachment is the policy that managed an index at the source.
type Attachment struct {
	Policy string // its name, also on the target
	Alias  string // rollover alias; "" for none
	// RolledOver means that the index is not the write index of Alias.
	RolledOver bool
}

// rolledOverSuffix is the suffix of the policy for indices that the source has rolled over.
const rolledOverSuffix = "-rolled-over"

// Named returns the name of the target's policy to attach to the index.
func (a Attachment) Named() string {
	if a.RolledOver {
		return a.Policy + rolledOverSuffix
	}
	return a.Policy
}

// Settings that name the policy of an index, and its rollover alias, in order of precedence.
var (
	policySettings = []string{"index.lifecycle.name", "index.plugins.index_state_management.policy_id", "index.opendistro.index_state_management.policy_id"}
	aliasSettings  = []string{"index.lifecycle.rollover_alias", "index.plugins.index_state_management.rollover_alias", "index.opendistro.index_state_management.rollover_alias"}
)

// AttachmentOf returns the policy of an index with the given settings, or false if it has none. managed is its policy in
// Globals.Managed.
func AttachmentOf(settings map[string]string, managed string) (Attachment, bool) {
	first := func(keys []string) string {
		for _, k := range keys {
			if settings[k] != "" {
				return settings[k]
			}
		}
		return ""
	}
	a := Attachment{Policy: cmp.Or(managed, first(policySettings)), Alias: first(aliasSettings)}
	return a, a.Policy != ""
}

// addRolledOver adds, for a policy that rolls indices over, a policy for indices that the source has rolled over: the target does
// not know of these rollovers, and would wait indefinitely for another.
func (p *planner) addRolledOver(kind Kind, name string, body json.RawMessage) error {
	in, err := DecodeObject(body)
	if err != nil {
		return err
	}
	policy, _ := in["policy"].(map[string]any)
	rolls := false
	states, _ := policy["states"].([]any)
	for _, s := range states {
		if s, ok := s.(map[string]any); ok {
			rolls = withoutRollover(s) || rolls
		}
	}
	if !rolls {
		return nil
	}
	policy["description"] = "as " + name + ", for indices that were rolled over before the migration"
	out, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	o := Global{Kind: kind, Name: name + rolledOverSuffix, Body: out}
	p.plan.Objects = append(p.plan.Objects, o)
	return nil
}

// withoutRollover removes rollovers from a state of an ISM policy, and makes ages count from the creation of the index. It reports
// whether the state had a rollover.
func withoutRollover(state map[string]any) bool {
	actions, _ := state["actions"].([]any)
	kept := slices.DeleteFunc(slices.Clone(actions), func(a any) bool {
		action, ok := a.(map[string]any)
		return ok && action["rollover"] != nil
	})
	state["actions"] = kept
	steps, _ := state["transitions"].([]any)
	for _, t := range steps {
		step, ok := t.(map[string]any)
		if !ok {
			continue
		}
		if when, ok := step["conditions"].(map[string]any); ok && when["min_rollover_age"] != nil {
			when["min_index_age"] = when["min_rollover_age"]
			delete(when, "min_rollover_age")
		}
	}
	return len(kept) < len(actions)
}

// laterPatterns returns the index patterns of an ISM policy of the source in the form of ism_template; nil for none.
func laterPatterns(kind Kind, raw json.RawMessage) (json.RawMessage, error) {
	if kind != StatePolicy {
		return nil, nil
	}
	stored, err := DecodeObject(raw)
	if err != nil {
		return nil, err
	}
	policy, _ := stored["policy"].(map[string]any)
	var out []map[string]any
	for _, t := range stateTemplates(policy) {
		kept := map[string]any{"index_patterns": t["index_patterns"]}
		if t["priority"] != nil {
			kept["priority"] = t["priority"]
		}
		out = append(out, kept)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return json.Marshal(out)
}
