package worker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// rule ranks the indices that it matches; a higher rank comes first.
type rule struct {
	indices pattern.List
	rank    int
}

// maxPriority is the maximum absolute value of a priority, so that the indices of first always rank higher.
const maxPriority = 1_000_000

// IndexPriority returns hints that put items of preferred indices first: the indices in first in its order, then the others by priority.
// Entries of first are patterns. Entries of priorities are patterns followed by =N, where a higher N comes first; an index that none
// matches has 0. Items of equal rank keep their random order, so that workers do not compete for the same item. It returns nil without
// entries.
func IndexPriority(first, priorities []string) (cms.Hints, error) {
	var rules []rule
	for i, entry := range first {
		indices, err := pattern.ParseList([]string{entry})
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule{indices, maxPriority + len(first) - i})
	}
	for _, entry := range priorities {
		cut := strings.LastIndex(entry, "=")
		if cut <= 0 {
			return nil, fmt.Errorf("priority %q: want a name or pattern, then =N: %w", entry, fault.ErrConfig)
		}
		n, err := strconv.Atoi(entry[cut+1:])
		if err != nil || n < -maxPriority || n > maxPriority {
			return nil, fmt.Errorf("priority %q: %q is not a number between -%d and %d: %w", entry, entry[cut+1:], maxPriority, maxPriority, fault.ErrConfig)
		}
		indices, err := pattern.ParseList([]string{entry[:cut]})
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule{indices, n})
	}
	if len(rules) == 0 {
		return nil, nil
	}
	return func(items []cms.Item) {
		ranks := map[string]int{}
		slices.SortStableFunc(items, func(a, b cms.Item) int { return rankOf(b, rules, ranks) - rankOf(a, rules, ranks) })
	}, nil
}

// rankOf returns the rank of the first rule that matches the item's index, or 0.
func rankOf(it cms.Item, rules []rule, known map[string]int) int {
	id, err := it.Range()
	if err != nil {
		return 0
	}
	rank, ok := known[id.Index]
	if !ok {
		for _, r := range rules {
			if r.indices.Match(id.Index) {
				rank = r.rank
				break
			}
		}
		known[id.Index] = rank
	}
	return rank
}
