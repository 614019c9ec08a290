package progress

import "fmt"

// RefusedAlias is an alias that the target refuses for an index whose documents are all there.
type RefusedAlias struct {
	Index  string `json:"index"` // of the target
	Alias  string `json:"alias"`
	Reason string `json:"reason"` // the target's words
}

// Problem returns the refusal as a sentence with what to do.
func (r RefusedAlias) Problem() string {
	return fmt.Sprintf("the target refuses the alias %s of %s, all else is there: %s; change the alias on the target (another index may be its write index), then run the same command of rfsd migrate again, which sets it",
		r.Alias, r.Index, r.Reason)
}
