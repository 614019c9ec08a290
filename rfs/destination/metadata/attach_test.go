package metadata

import (
	"reflect"
	"testing"
)

// TestAttachmentOf_EverySource finds the policy of an index as each product keeps it.
func TestAttachmentOf_EverySource(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]string
		managed  string
		want     Attachment
	}{
		{"ILM", map[string]string{"index.lifecycle.name": "p", "index.lifecycle.rollover_alias": "w"}, "", Attachment{Policy: "p", Alias: "w"}},
		{"ISM", map[string]string{"index.plugins.index_state_management.rollover_alias": "w"}, "p", Attachment{Policy: "p", Alias: "w"}},
		{"ISM of an old version", map[string]string{"index.opendistro.index_state_management.policy_id": "p", "index.opendistro.index_state_management.rollover_alias": "w"}, "", Attachment{Policy: "p", Alias: "w"}},
		{"none", map[string]string{"index.lifecycle.rollover_alias": "w"}, "", Attachment{Alias: "w"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := AttachmentOf(c.settings, c.managed)
			if got != c.want || ok != (c.want.Policy != "") {
				t.Errorf("%+v, %t", got, ok)
			}
		})
	}
}

// TestConvertGlobals_PoliciesForRolledOverIndices: indices that the source has rolled over get a policy that waits for no rollover.
func TestConvertGlobals_PoliciesForRolledOverIndices(t *testing.T) {
	const source = `{"index_lifecycle":{"policies":{
 "rolls":{"policy":{"phases":{"hot":{"actions":{"rollover":{"max_docs":5},"set_priority":{"priority":1}}},"delete":{"min_age":"30d","actions":{"delete":{}}}}}},
 "stays":{"policy":{"phases":{"delete":{"min_age":"7d","actions":{"delete":{}}}}}}}}}`
	sel := all
	plan := planOf(t, openSearch, sel, source)
	if len(plan.Objects) != 2 {
		t.Errorf("%d objects without attachments", len(plan.Objects))
	}
	sel.Attach = true
	plan = planOf(t, openSearch, sel, source)
	if len(plan.Objects) != 3 {
		t.Fatalf("%d objects", len(plan.Objects))
	}
	body, _ := lookup(plan, "ilm-policy rolls-rolled-over")
	want := `[{"name":"hot","actions":[{"index_priority":{"priority":1}}],"transitions":[{"state_name":"delete","conditions":{"min_index_age":"30d"}}]},{"name":"delete","actions":[{"delete":{}}],"transitions":[]}]`
	if got := body.(map[string]any)["policy"].(map[string]any)["states"]; !reflect.DeepEqual(got, value(t, want)) {
		t.Errorf("%v", got)
	}
	body, _ = lookup(plan, "ilm-policy rolls")
	if got := body.(map[string]any)["policy"].(map[string]any)["states"].([]any)[0].(map[string]any)["actions"].([]any); len(got) != 2 {
		t.Errorf("the policy itself has the actions %v", got)
	}
}
