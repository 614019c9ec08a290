package progress

import "fmt"

// RefusedAlias is an alias that the target refused for an index whose documents have all arrived.
type RefusedAlias struct {
	Index  string `json:"index"` // of the target
	Alias  string `json:"alias"`
	Reason string `json:"reason"` // message of the target
}

// Problem returns the refusal and the remedy as a sentence.
func (r RefusedAlias) Problem() string {
	return fmt.Sprintf("the target refuses the alias %s of %s, all else is there: %s; change the alias on the target (of another write index: POST /_aliases {\"actions\":[{\"add\":{\"index\":\"INDEX\",\"alias\":%q,\"is_write_index\":false}}]}), then run the same command of rfsd migrate again, which sets it",
		r.Alias, r.Index, r.Reason, r.Alias)
}

// RefusedPolicy is a policy that was not attached to an index when its documents were complete.
type RefusedPolicy struct {
	Index  string `json:"index"` // of the target
	Policy string `json:"policy"`
	Reason string `json:"reason"`
}

// Problem returns the refusal and the remedy as a sentence.
func (r RefusedPolicy) Problem() string {
	return fmt.Sprintf("the policy %s does not manage %s, all else is there: %s; run the same command of rfsd migrate again when that is changed, or attach it yourself: POST /_plugins/_ism/add/%s",
		r.Policy, r.Index, r.Reason, r.Index)
}
