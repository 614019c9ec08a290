package cms

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// AuditReport holds the findings of an audit.
type AuditReport struct {
	Items    int
	Chains   int      // shards whose chain of items was walked
	Open     int      // items that are not completed
	Repaired []string // ids of missing items that were created again
	Failed   []string // ids of items that were given up
	Stray    []string // ids of items that no chain reaches
}

// Clean reports whether every chain is whole and ended: documents are complete except for
// the items in Failed.
func (r AuditReport) Clean() bool { return r.Open == 0 && len(r.Repaired) == 0 }

type shard struct {
	index  string
	number int
}

// AuditShards walks every chain of shards from its root. It creates missing roots of entries and missing successors of completed items
// again, because the store may have lost acknowledged writes, and stores missing events of failed items. Items whose reason is in reported,
// which may grow while entries is read, get none: they share one event. Errors are fault.ErrCorrupt when the chains of a split shard do not
// cover it, and ErrForeign when another tool has worked on an item.
func (c *Coordinator) AuditShards(ctx context.Context, entries iter.Seq2[Root, error], reported map[string]bool) (AuditReport, error) {
	rep, chains, why, err := c.readChains(ctx)
	if err != nil {
		return rep, err
	}
	roots := map[shard][]Root{}
	for r, err := range entries { // read after the items: an index gets its entry before its items
		if err != nil {
			return rep, fmt.Errorf("audit: %w", err)
		}
		k := shard{r.ID.Index, r.ID.Shard}
		roots[k] = append(roots[k], r)
	}
	for k := range chains { // also of an index without an entry
		if roots[k] == nil {
			roots[k] = []Root{{ID: ItemID{Index: k.index, Shard: k.number}}}
		}
	}
	for _, items := range chains {
		for _, it := range items {
			if err := it.foreign(); err != nil {
				return rep, err
			}
		}
	}
	return rep, c.checkChains(ctx, &rep, roots, chains, why, reported)
}

// AuditTasks is AuditShards for a kind whose chains start with the given items. A chain that starts at none of them is stray.
func (c *Coordinator) AuditTasks(ctx context.Context, starts iter.Seq[Root]) (AuditReport, error) {
	rep, chains, why, err := c.readChains(ctx)
	if err != nil {
		return rep, err
	}
	roots := map[shard][]Root{}
	for r := range starts {
		r.ID.Kind = c.cfg.Kind
		roots[shard{r.ID.Index, r.ID.Shard}] = []Root{r}
	}
	for k, items := range chains {
		if _, ok := roots[k]; !ok {
			rep.Stray = slices.AppendSeq(rep.Stray, maps.Keys(items))
		}
	}
	return rep, c.checkChains(ctx, &rep, roots, chains, why, nil)
}

// readChains reads every item, grouped by shard and id. why has the reason of each FAILED item by id.
func (c *Coordinator) readChains(ctx context.Context) (rep AuditReport, chains map[shard]map[string]Item, why map[string]string, err error) {
	chains, why = map[shard]map[string]Item{}, map[string]string{}
	for it, err := range c.Items(ctx) {
		if err != nil {
			return rep, nil, nil, fmt.Errorf("audit: %w", err)
		}
		id, err := it.Range()
		if err != nil {
			continue
		}
		k := shard{id.Index, id.Shard}
		if chains[k] == nil {
			chains[k] = map[string]Item{}
		}
		chains[k][it.ID] = it
		rep.Items++
		if it.Open() {
			rep.Open++
		}
		if it.FailedItem() {
			rep.Failed = append(rep.Failed, it.ID)
			why[it.ID] = it.Failure
		}
	}
	return rep, chains, why, nil
}

// checkChains walks the chains from their roots, stores the missing events of failed items, and creates the missing items.
func (c *Coordinator) checkChains(ctx context.Context, rep *AuditReport, roots map[shard][]Root, chains map[shard]map[string]Item, why map[string]string, reported map[string]bool) error {
	rep.Chains = len(roots)
	lost := map[string]Root{} // missing items, with the root of their chain
	for k, starts := range roots {
		reached := map[string]bool{}
		for _, root := range starts {
			missing, err := rep.walk(root, chains[k], reached)
			if err != nil {
				return fmt.Errorf("audit: %w", err)
			}
			for _, id := range missing {
				lost[id] = root
			}
		}
		rep.strays(chains[k], reached)
	}
	slices.Sort(rep.Repaired)
	slices.Sort(rep.Failed)
	slices.Sort(rep.Stray)
	for _, id := range rep.Failed { // the worker that marked it may have died before it reported it
		if reported[why[id]] {
			continue // reported once for the whole index
		}
		if _, err := c.Event(ctx, id, "failed", why[id]); err != nil {
			return err
		}
	}
	return c.repair(ctx, rep.Repaired, lost)
}

// walk follows a chain from its root, records the items that it reaches and those that are missing, and returns the missing ones.
func (r *AuditReport) walk(root Root, items map[string]Item, reached map[string]bool) (missing []string, err error) {
	for next := []string{root.ID.String()}; len(next) > 0; next = next[1:] {
		id := next[0]
		if reached[id] {
			continue
		}
		reached[id] = true
		it, ok := items[id]
		if !ok {
			r.Repaired, missing = append(r.Repaired, id), append(missing, id)
			continue
		}
		if err := it.covers(root.End); err != nil {
			return nil, err
		}
		if !it.Open() { // an open item creates its successors when it is leased
			next = append(next, it.SuccessorIDs()...)
		} else {
			for _, s := range it.SuccessorIDs() {
				if _, ok := items[s]; ok {
					next = append(next, s)
				}
			}
		}
	}
	return missing, nil
}

// covers returns an error unless the item has the end of its chain. In a chain with an end, a successor must start at the watermark of its
// parent, and the last item must be done up to the end.
func (it Item) covers(end int64) error {
	switch {
	case it.End != end:
		return fmt.Errorf("%s ends at ordinal %d, its chain at %d (0: the end of the shard): %w", ItemName(it.ID), it.End, end, fault.ErrCorrupt)
	case end != 0 && it.foreignSuccessors():
		return fmt.Errorf("%s was handed off at ordinal %d to %s: %w", ItemName(it.ID), it.Watermark, it.Successors, fault.ErrCorrupt)
	case end != 0 && !it.Open() && it.Status == "" && it.Successors == "" && it.Watermark != end:
		return fmt.Errorf("%s is done up to ordinal %d, its chain ends at %d: %w", ItemName(it.ID), it.Watermark, end, fault.ErrCorrupt)
	}
	return nil
}

// strays records the items of a shard that no chain reaches.
func (r *AuditReport) strays(items map[string]Item, reached map[string]bool) {
	for id := range items {
		if !reached[id] {
			r.Stray = append(r.Stray, id)
		}
	}
}

func (c *Coordinator) repair(ctx context.Context, missing []string, of map[string]Root) error {
	for _, id := range missing {
		if _, err := c.create(ctx, []Item{newOf(id, of[id], c.cfg.Creator, 0)}); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		if _, err := c.Event(ctx, id, "audit_repair", "the item was missing from its chain"); err != nil {
			return err
		}
	}
	return nil
}
