package deploy_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// policy is a policy of IAM, as far as ours use it.
type policy struct {
	Statement []struct {
		Effect           string
		Action, Resource any
	}
}

// allows decides as IAM does: a statement that denies wins over those that allow, and without either a request is denied. In patterns *
// stands for any characters, / and commas among them, and ? for one.
func (p policy) allows(action, resource string) bool {
	allowed := false
	for _, s := range p.Statement {
		if !anyMatches(list(s.Action), action) || !anyMatches(list(s.Resource), resource) {
			continue
		}
		if s.Effect == "Deny" {
			return false
		}
		allowed = allowed || s.Effect == "Allow"
	}
	return allowed
}

func anyMatches(patterns []string, s string) bool {
	for _, p := range patterns {
		if matches(p, s) {
			return true
		}
	}
	return false
}

// matches reports whether a text is what a pattern of IAM stands for.
func matches(pattern, s string) bool {
	if pattern == "" {
		return s == ""
	}
	switch pattern[0] {
	case '*':
		for i := 0; i <= len(s); i++ {
			if matches(pattern[1:], s[i:]) {
				return true
			}
		}
		return false
	case '?':
		return s != "" && matches(pattern[1:], s[1:])
	}
	return s != "" && s[0] == pattern[0] && matches(pattern[1:], s[1:])
}

func TestMatches_PatternsOfIAM(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a*c", "abc", true}, {"a*c", "a/b,c", true}, {"a?c", "a,c", true}, {"a?c", "ac", false}, {"*", "", true}, {"a*", "ba", false}, {"a*b*c", "axbxbc", true}, {"a", "ab", false},
	} {
		if got := matches(c.pattern, c.text); got != c.want {
			t.Errorf("%q, %q: %v", c.pattern, c.text, got)
		}
	}
}

// TestPolicies_RequestsToTheDomain sends requests past the policies of nodes and operators: what a migration needs passes, and what reaches
// beyond it does not, as far as a policy sees the request. What a policy cannot see, which is the body, is named: docs/SECURITY.md says
// what does hold it.
func TestPolicies_RequestsToTheDomain(t *testing.T) {
	load := func(name string) (p policy) {
		if err := json.Unmarshal(read(t, name), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	node, operator := load("aws/node-policy.json"), load("aws/operator-policy.json")
	for _, c := range []struct {
		request        string
		node, operator bool
	}{
		// What a migration sends.
		{"GET _cat/indices", true, true},
		{"HEAD .rfs_control_move", true, true},
		{"PUT orders", true, true},
		{"PUT orders/_settings", true, true},
		{"PUT _index_template/logs", true, true},
		{"PUT _ingest/pipeline/p", true, true},
		{"POST _bulk", true, true},
		{"POST orders/_bulk", true, true},
		{"POST _aliases", true, true},
		{"POST orders/_refresh", true, true},
		{"POST orders/_search", true, true},
		{"PUT .rfs_control_move/_doc/intent:fleet", true, true},
		{"POST .migrations_working_state_move/_bulk", true, true},
		{"DELETE .rfs_control_move/_doc/permits:rate", true, true},
		{"DELETE .rfs_control_move", true, true},
		{"DELETE .migrations_working_state_move", true, true},
		{"DELETE _search/scroll", true, true},
		{"DELETE _search/point_in_time", true, true},
		{"DELETE orders-rfsd-doctor-abcdefghij", true, true},
		// What undo sends.
		{"DELETE orders", false, true},
		{"DELETE _index_template/logs", false, true},
		{"DELETE _data_stream/logs", false, true},
		{"DELETE orders/_alias/shop", false, true},
		// Names beside those that a node may remove, and their encoded forms.
		{"DELETE .rfs_x,orders", false, false},
		{"DELETE orders,.rfs_x", false, false},
		{"DELETE .rfs_x%2Corders", false, false},
		{"DELETE .rfs_x%2corders", false, false},
		{"DELETE x-rfsd-doctor-y,orders", false, false},
		{"DELETE orders,x-rfsd-doctor-y", false, false},
		{"DELETE orders/_doc/x-rfsd-doctor-y", false, true},
		{"DELETE orders%2F_doc%2Fx-rfsd-doctor-y", false, true},
		{"DELETE _index_template/x-rfsd-doctor-y", false, true},
		{"DELETE .migrations_working_state,orders", false, false},
		{"DELETE _search/scroll,orders", false, false},
		{"DELETE _all", false, false},
		{"DELETE *", false, true}, // a policy has no way to write the character *
		{"DELETE %2A", false, false},
		{"DELETE %2a,-x", false, false},
		{"DELETE orders*", false, true},
		{"DELETE <orders>", false, true},
		// What no migration sends.
		{"POST orders/_delete_by_query", false, true},
		{"POST orders,x/_update_by_query", false, true},
		{"POST _reindex", false, true},
		{"POST orders/_close", false, true},
		{"PUT _cluster/settings", false, true},
		{"POST _snapshot/r/s/_restore", false, true},
		{"PUT _plugins/_security/api/roles/all", false, true},
		{"PUT _opendistro/_security/api/roles/all", false, true},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		action := "es:ESHttp" + method[:1] + strings.ToLower(method[1:])
		resource := "arn:aws:es:REGION:ACCOUNT:domain/DOMAIN/" + path
		if got := node.allows(action, resource); got != c.node {
			t.Errorf("%s: the policy of nodes allows it: %v, want %v", c.request, got, c.node)
		}
		if got := operator.allows(action, resource); got != c.operator {
			t.Errorf("%s: the policy of operators allows it: %v, want %v", c.request, got, c.operator)
		}
	}
	security := string(read(t, "../docs/SECURITY.md"))
	for _, words := range []string{"remove_index", "fine-grained access control", "indices:admin/delete"} {
		if !strings.Contains(security, words) {
			t.Errorf("docs/SECURITY.md does not mention %s: a body of POST /_aliases or _bulk can delete, and no policy sees it", words)
		}
	}
}
