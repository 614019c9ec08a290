package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Count compares only the numbers of Lucene documents, including nested ones, which both sides report without reading documents.
// The targets of a group are counted together. Documents that the account names as failed may exist or not.
func (v *Verifier) Count(ctx context.Context, groups []Group) ([]*Index, error) {
	var mu sync.Mutex
	var all []*Index
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(v.Readers)
	for _, group := range groups {
		g.Go(func() error {
			x, err := v.count(ctx, group)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, x)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *Index) int { return strings.Compare(a.Target, b.Target) })
	return all, nil
}

func (v *Verifier) count(ctx context.Context, group Group) (*Index, error) {
	x := &Index{Target: strings.Join(group.Targets, ","), Sources: group.Sources}
	for _, u := range group.Units {
		n, err := u.Count(ctx)
		switch {
		case errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrUnsupported):
			x.Problems = append(x.Problems, fault.Text(err))
		case err != nil:
			return x, fmt.Errorf("%s: %w", u.Name, err)
		}
		x.SourceSide.Documents += n
	}
	for _, name := range group.Targets {
		n, there, err := v.Target.Count(ctx, name)
		if err != nil {
			return x, fmt.Errorf("target index %s: %w", name, err)
		}
		if !there {
			x.Note = "the target has no index " + name
		}
		x.TargetSide.Documents += n
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(group.Targets, group.Sources)))) {
		x.Failed += v.Failed.of(name)
	}
	x.SourceDocuments, x.TargetDocuments = x.SourceSide.Documents, x.TargetSide.Documents
	missing := x.SourceDocuments - x.TargetDocuments
	switch {
	case len(x.Problems) > 0:
		x.State = Unreadable
	case missing == 0 && x.Note == "":
		x.State = Equal
	case 0 < missing && missing <= x.Failed && x.Note == "":
		x.State = FailedDocuments
	case group.Uncounted != "":
		x.State, x.NotComparable = NotComparable, group.Uncounted
	default:
		x.State = Different
		x.Counts = map[Kind]int64{Missing: max(missing, 0), Extra: max(-missing, 0)}
	}
	return x, nil
}
