package progress

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/cms"
)

// ReadRefused returns the rejected documents that the fleet has recorded, grouped by reason, the most frequent first. If a
// bucket or shared directory has the failed documents, none are recorded.
func ReadRefused(ctx context.Context, c *cms.Coordinator) ([]Failure, error) {
	at, all := map[string]int{}, []Failure{}
	for d, err := range c.Refused(ctx) {
		if err != nil {
			return nil, fmt.Errorf("progress: refused documents: %w", err)
		}
		i, ok := at[d.Reason]
		if !ok {
			i = len(all)
			at[d.Reason], all = i, append(all, Failure{Reason: "refused documents: " + d.Reason, Documents: true})
		}
		f := &all[i]
		if f.Count++; len(f.Examples) < maxExamples {
			f.Examples = append(f.Examples, fmt.Sprintf("%s/%s (shard %d, ordinal %d)", d.Index, cmp.Or(d.ID, "?"), d.Shard, d.Ordinal))
		}
	}
	slices.SortFunc(all, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason))
	})
	return all, nil
}
