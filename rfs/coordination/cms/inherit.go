package cms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// ForeignWorker means that a worker of another engine is active on the queue, which is
// why it cannot be taken over. It is a fault.ErrConfig.
type ForeignWorker struct {
	Holder string
	Item   string    // id of the item it holds
	Until  time.Time // when others may take that, by the store's clock
}

// Error names the worker and the end of its lease.
func (e *ForeignWorker) Error() string {
	return fmt.Sprintf("worker %s of another tool works on this queue (%s) until %s: stop it, or wait until then, or use a new session",
		e.Holder, ItemName(e.Item), e.Until.UTC().Format(time.RFC3339))
}

// Is makes every ForeignWorker a fault.ErrConfig.
func (e *ForeignWorker) Is(target error) bool { return target == fault.ErrConfig }

// inherit makes a queue this program's that is seeded already: one that another engine
// seeded gets what it lacks, and is taken over.
func (c *Coordinator) inherit(ctx context.Context, seed func(context.Context) error) error {
	it, err := c.get(ctx, c.setup())
	if err != nil {
		return fmt.Errorf("read %s: %w", c.setup(), err)
	}
	if it.Engine == engine {
		return nil
	}
	if _, err := c.foreignChains(ctx); err != nil { // nothing is touched while others work
		return err
	}
	if err := seed(ctx); err != nil {
		return err
	}
	return c.TakeOver(ctx, true)
}

// TakeOver makes this program's what another engine left half done: its chains that are
// complete stay, in all others the items with cursors of its own are ended and their
// ranges done again, from the root of the shard or from where this program began. It
// may be repeated, stopped anywhere, and done by several at a time. A *ForeignWorker when
// a worker of the other engine is active. begun says that the other engine began the
// queue: then there is an event even when nothing is to do, but never a second one.
func (c *Coordinator) TakeOver(ctx context.Context, begun bool) error {
	chains, err := c.foreignChains(ctx)
	if err != nil {
		return err
	}
	if begun {
		if err := c.known(ctx, chains); err != nil {
			return err
		}
	}
	plans := takeovers(chains)
	if len(plans) == 0 && !begun {
		return nil
	}
	// Said first: a worker that dies in the middle leaves less to say for the next one.
	if err := c.takeoverEvent(ctx, plans, len(chains)); err != nil {
		return err
	}
	for _, p := range plans {
		if err := c.carryOut(ctx, p); err != nil {
			return fmt.Errorf("take over the queue: %w", err)
		}
	}
	return nil
}

// foreignChains reads all items by shard, and refuses when another engine works on one.
func (c *Coordinator) foreignChains(ctx context.Context) (map[shard]map[string]Item, error) {
	now, _, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	chains := map[shard]map[string]Item{}
	for it, err := range c.scan(ctx) {
		if err != nil {
			return nil, fmt.Errorf("take over the queue: %w", err)
		}
		if err := c.inactive(it, now); err != nil {
			return nil, err
		}
		if id, err := it.Range(); err == nil {
			k := shard{id.Index, id.Shard}
			if chains[k] == nil {
				chains[k] = map[string]Item{}
			}
			chains[k][it.ID] = it
		}
	}
	return chains, nil
}

// inactive refuses an item that a worker of another engine holds now.
func (c *Coordinator) inactive(it Item, now time.Time) error {
	end := time.Unix(it.Expiration, 0).Add(c.grace)
	if it.Open() && it.foreignHolder() && !end.Before(now) {
		return &ForeignWorker{Holder: it.Holder, Item: it.ID, Until: end}
	}
	return nil
}

// known refuses a queue with work on indices that this migration does not know.
func (c *Coordinator) known(ctx context.Context, chains map[shard]map[string]Item) error {
	entries := map[string]bool{}
	for e, err := range c.IndexEntries(ctx) {
		if err != nil {
			return fmt.Errorf("take over the queue: %w", err)
		}
		entries[e.Name] = true
	}
	for k, items := range chains {
		for _, it := range items {
			if it.Open() && !entries[k.index] {
				return fmt.Errorf("the queue of the other tool holds work on index %q, which this migration leaves out: give it the same allow-list, or use a new session: %w",
					k.index, fault.ErrConfig)
			}
		}
	}
	return nil
}

func takeovers(chains map[shard]map[string]Item) (plans []takeover) {
	for k, items := range chains {
		if p := planTakeover(ItemID{Index: k.index, Shard: k.number}.String(), items); !p.empty() {
			plans = append(plans, p)
		}
	}
	return plans
}

func (c *Coordinator) takeoverEvent(ctx context.Context, plans []takeover, shards int) error {
	ended := 0
	for _, p := range plans {
		ended += len(p.Replace)
	}
	_, err := c.Event(ctx, SetupID, "taken_over", fmt.Sprintf(
		"queue of another tool: of %d shards %d are done again where it stood in their middle, %d of its items ended as %s", shards, len(plans), ended, StatusReplaced))
	return err
}

// carryOut does one shard.
func (c *Coordinator) carryOut(ctx context.Context, p takeover) error {
	steps := []struct {
		ids []string
		t   Transition
	}{
		{p.Restart, Restart{GraceMs: c.grace.Milliseconds()}},
		{p.ClaimForeign, ClaimForeign{Creator: c.cfg.Creator}},
		{p.Replace, Replace{GraceMs: c.grace.Milliseconds()}},
	}
	for _, s := range steps {
		slices.Sort(s.ids)
		for _, id := range s.ids {
			_, v, err := c.apply(ctx, readBudget, id, s.t)
			switch {
			case errors.Is(err, ErrNotFound): // the store forgot it; the audit sees to that
			case err != nil:
				return fmt.Errorf("%s %s: %w", s.t.Name(), ItemName(id), err)
			case v == Foreign:
				return fmt.Errorf("%s: %w", ItemName(id), ErrSchemaMismatch)
			case v == Held: // taken since the items were read
				it, err := c.get(ctx, id)
				if err != nil {
					return fmt.Errorf("read %s: %w", ItemName(id), err)
				}
				return &ForeignWorker{Holder: it.Holder, Item: id, Until: time.Unix(it.Expiration, 0).Add(c.grace)}
			}
		}
	}
	return nil
}

// claimForeign makes successors this program's that exist already.
func (c *Coordinator) claimForeign(ctx context.Context, b budget, items []Item) error {
	for _, it := range items {
		_, v, err := c.apply(ctx, b, it.ID, ClaimForeign{Creator: it.CreatorID, Exponent: int(it.Exponent), End: it.End})
		switch {
		case errors.Is(err, ErrNotFound): // the store forgot it; the audit sees to that
		case err != nil:
			return fmt.Errorf("%s: %w", ItemName(it.ID), err)
		case v == Foreign:
			return fmt.Errorf("%s: %w", ItemName(it.ID), ErrSchemaMismatch)
		}
	}
	return nil
}
