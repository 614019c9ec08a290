package arrival

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/difference"
)

// arriving is an index of the snapshot with the counts of its items.
type arriving struct {
	name   string
	entry  plan.Entry
	sent   cms.Counts
	open   bool
	failed bool // any item failed
	// changes holds the changes of each shard since the former snapshot; empty: all documents were sent.
	changes map[int]difference.Totals
	whole   bool // all documents of some shard were sent
}

// add adds the counts of an item of the index.
func (a *arriving) add(item cms.Item, shard int) error {
	a.sent, a.open, a.failed = a.sent.Add(item.Counts), a.open || item.Open(), a.failed || item.FailedItem()
	if !a.changed() || item.Checks == "" {
		return nil
	}
	var parts []shards.Checks
	if err := json.Unmarshal([]byte(item.Checks), &parts); err != nil {
		return fmt.Errorf("checks of shard %d of %s: %w: %w", shard, a.name, err, fault.ErrCorrupt)
	}
	for _, p := range parts {
		if a.whole = a.whole || p.Changes == nil; p.Changes != nil {
			a.changes[shard] = *p.Changes
		}
	}
	return nil
}

// changed reports whether former rounds have sent documents to the targets.
func (a *arriving) changed() bool { return a.entry.Since != nil }

// more returns the number of documents expected on the targets after this round: the documents held before it plus the changes.
func (a *arriving) more() (n int64) {
	for _, name := range a.entry.Naming.Targets() {
		n += a.entry.Held[name]
	}
	for _, d := range a.changes {
		n += d.Inserted - d.Deleted
	}
	return n
}

// arrivalGroup is a set of indices of the snapshot connected by shared target indices, with all of these targets.
type arrivalGroup struct {
	targets []string
	all     []*arriving
	own     bool  // this session created the targets or found them empty
	before  int64 // operations that the targets had executed before the session, if known
	known   bool
	files   bool    // the documents come from files
	again   *resent // nil: the snapshot was not read again
}

// follows reports whether only changes since a former snapshot were sent.
func (g *arrivalGroup) follows() bool {
	return slices.ContainsFunc(g.all, (*arriving).changed)
}

// text names the targets.
func (g *arrivalGroup) text() string {
	const most = 20
	if n := len(g.targets) - most; n > 0 {
		return fmt.Sprintf("%s and %d others", strings.Join(g.targets[:most], ", "), n)
	}
	return strings.Join(g.targets, ", ")
}

// key returns a name that is unique to the group.
func (g *arrivalGroup) key() string { return strings.Join(g.targets, " ") }

// remedy describes what to do about documents that are missing.
func (g *arrivalGroup) remedy() string {
	const cause = "names the documents; find the cause, such as a lost target node or ids that several documents have, then start a new session (--session-name) with "
	if g.files {
		return "rfsd verify --from " + cause + "--existing-documents overwrite, which sends everything again"
	}
	return fmt.Sprintf("rfsd verify with --index-allowlist %s %s--index-allowlist %s --existing-documents overwrite, which sends everything again", g.names(), cause, g.names())
}

// names returns the first indices of the snapshot, formatted as values of --index-allowlist.
func (g *arrivalGroup) names() string {
	const most = 5
	var names []string
	for _, a := range g.all[:min(len(g.all), most)] {
		names = append(names, a.name)
	}
	if len(g.all) > most {
		names = append(names, "…")
	}
	return strings.Join(names, " --index-allowlist ")
}

// AtOnce is the number of target indices counted at the same time: each takes several requests in sequence.
const AtOnce = 8

// arriving returns the indices that exist on the target, grouped by shared target indices, including the targets of rules.
func (c *Check) arriving(ctx context.Context) ([]*arrivalGroup, error) {
	byName := map[string]*arriving{}
	for e, err := range session.EntriesOf(c.Coordinator).All(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list indices: %w", err)
		}
		if e.State != session.PhaseCompleted {
			continue
		}
		entry, err := c.Entry(ctx, e)
		if err != nil {
			return nil, err
		}
		byName[e.Name] = &arriving{name: e.Name, entry: entry, changes: map[int]difference.Totals{}}
	}
	for item, err := range c.Coordinator.Items(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list items: %w", err)
		}
		id, rerr := item.Range()
		a := byName[id.Index]
		if rerr != nil || a == nil {
			continue
		}
		if err := a.add(item, id.Shard); err != nil {
			return nil, err
		}
	}
	again, err := progress.ReadRedrives(ctx, c.Coordinator)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		a := byName[name]
		n := again.Take(a.entry.Naming.Targets(), a.sent.Failed)
		a.sent.Failed, a.sent.Indexed = a.sent.Failed-n, a.sent.Indexed+n
	}
	return c.group(byName), nil
}

// group groups the indices of the snapshot that share target indices.
func (c *Check) group(byName map[string]*arriving) (groups []*arrivalGroup) {
	of, ours := map[string]*arrivalGroup{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		a := byName[name]
		targets := a.entry.Naming.Targets()
		if c.Redirects != nil {
			targets = append(targets, c.Redirects(name)...)
		}
		group := &arrivalGroup{all: []*arriving{a}}
		groups = append(groups, group)
		for _, t := range targets {
			other := of[t]
			if other == nil {
				group.targets = append(group.targets, t)
				of[t] = group
				continue
			}
			if other == group {
				continue
			}
			group.all, group.targets = append(other.all, group.all...), append(other.targets, group.targets...)
			groups = slices.DeleteFunc(groups, func(g *arrivalGroup) bool { return g == other })
			for _, t := range other.targets {
				of[t] = group
			}
		}
		for _, t := range append(slices.Clone(a.entry.Ours), a.entry.Empty...) {
			ours[t] = true
		}
	}
	for _, g := range groups {
		g.own = !slices.ContainsFunc(g.targets, func(t string) bool { return !ours[t] })
		if g.own {
			g.known = true
			continue
		}
		redirected := len(g.targets)
		g.targets = nil // targets that only rules name may not exist
		for _, a := range g.all {
			g.targets = append(g.targets, a.entry.Naming.Targets()...)
		}
		slices.Sort(g.targets)
		g.targets = slices.Compact(g.targets)
		g.before, g.known = g.executedBefore(ours)
		g.known = g.known && len(g.targets) == redirected
	}
	return groups
}

// executedBefore returns the number of operations that targets not created by this session had executed before it. known is false unless
// the number is recorded for all of them.
func (g *arrivalGroup) executedBefore(ours map[string]bool) (sum int64, known bool) {
	for _, t := range g.targets {
		if ours[t] {
			continue
		}
		least := int64(-1) // from the entry that was planned first
		for _, a := range g.all {
			if n, recorded := a.entry.Before[t]; recorded && (least < 0 || n < least) {
				least = n
			}
		}
		if least < 0 {
			return 0, false
		}
		sum += least
	}
	return sum, true
}
