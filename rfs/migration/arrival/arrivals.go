package arrival

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// Counts reads counts from the indices of a target. *target.Client implements it.
type Counts interface {
	Refresh(ctx context.Context, index string) error
	// Count returns the number of root documents.
	Count(ctx context.Context, index string) (int64, error)
	// CountLucene returns the number of Lucene documents, nested ones included.
	CountLucene(ctx context.Context, index string) (int64, error)
	// Operations returns the number of operations that the primary shards have executed.
	Operations(ctx context.Context, index string) (target.Operations, error)
	GetIndex(ctx context.Context, name string) ([]target.Index, error)
}

// Ledger records what a session creates. *rollback.Ledger implements it.
type Ledger interface {
	// Around runs work, which sends documents after the end of the migration, and records what the indices hold afterwards.
	Around(ctx context.Context, work func() error) error
}

// Check compares the target indices of a session with the documents sent to them.
type Check struct {
	Coordinator *cms.Coordinator
	Counts      Counts
	// Entry decodes the entry of an index and compares it with what this process knows.
	Entry func(context.Context, session.IndexEntry) (plan.Entry, error)
	// Present returns engine.ErrTargetReplaced when a target index of an entry was replaced since documents were sent to it.
	Present func(context.Context, plan.Entry) error
	// Existing is the treatment of documents whose ids already exist on the target.
	Existing bulk.Existing
	// Redirects returns the target indices to which rules send documents of an index of the snapshot; nil: none.
	Redirects func(index string) []string
	Ledger    Ledger         // nil: nothing is recorded
	Runner    *engine.Runner // sends missing documents again; nil: they are reported only
	Shards    *shards.Reader
	Log       *slog.Logger
	// Resent holds the keys of the groups whose snapshot shards this process has read again.
	Resent map[string]bool
	// Lag is the time after which acknowledged writes are visible on a target whose Refresh does not make them visible.
	Lag time.Duration
	// Repeats states that a document sent twice exists twice, because the target assigns its own ids.
	Repeats bool
}

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

// All compares every target index whose items are all closed with the documents sent to it, and records the result in the index entries.
// Missing documents are sent again once, unless that could restore documents that other clients deleted. A target found complete is
// counted again only if it has lost writes since, because other clients may write to it from then on. All returns the number of
// operations that the documents of the session account for, where it is known.
func (c *Check) All(ctx context.Context) ([]rollback.Own, error) {
	groups, err := c.arriving(ctx)
	if err != nil {
		return nil, err
	}
	groups = slices.DeleteFunc(groups, func(g *arrivalGroup) bool {
		return slices.ContainsFunc(g.all, func(a *arriving) bool { return a.open })
	})
	arrivals, lacking := make([]progress.Arrival, len(groups)), make([]bool, len(groups))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(AtOnce)
	shown := sync.OnceValue(func() error { return wait.For(gctx, c.Lag) })
	for i, group := range groups {
		g.Go(func() (err error) {
			if arrivals[i], err = c.arrivalShown(gctx, group, shown); err != nil {
				return err
			}
			if lacking[i], err = c.mayResend(gctx, group, &arrivals[i]); err != nil || lacking[i] {
				return err
			}
			return c.recordArrivals(gctx, group, arrivals[i])
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, group := range groups { // in sequence: each reads shards
		if !lacking[i] {
			continue
		}
		if group.again, err = c.resend(ctx, group); err != nil {
			return nil, err
		}
		if arrivals[i], err = c.arrivalShown(ctx, group, func() error { return wait.For(ctx, c.Lag) }); err != nil {
			return nil, err
		}
		if err := c.recordArrivals(ctx, group, arrivals[i]); err != nil {
			return nil, err
		}
	}
	var own []rollback.Own
	for i, is := range arrivals {
		if is.Accounted && !groups[i].follows() {
			own = append(own, rollback.Own{Targets: groups[i].targets, Operations: is.Written})
		}
	}
	return own, nil
}

// recordArrivals stores the result in the index entries of a group.
func (c *Check) recordArrivals(ctx context.Context, group *arrivalGroup, is progress.Arrival) error {
	for _, a := range group.all {
		if err := c.recordArrival(ctx, a, is); err != nil {
			return err
		}
	}
	return nil
}

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

// arrivalShown is like arrival, but on a target with Lag it first calls shown, which blocks until writes are visible, if the counts may
// be too low without that: when documents are missing, or to count duplicates.
func (c *Check) arrivalShown(ctx context.Context, group *arrivalGroup, shown func() error) (is progress.Arrival, err error) {
	if c.Lag == 0 {
		return c.arrival(ctx, group)
	}
	if !c.Repeats {
		if is, err = c.arrival(ctx, group); err != nil || is.Problem == "" {
			return is, err
		}
	}
	if err := shown(); err != nil {
		return is, err
	}
	return c.arrival(ctx, group)
}

// arrival compares the targets of a group with the documents sent to them.
func (c *Check) arrival(ctx context.Context, group *arrivalGroup) (progress.Arrival, error) {
	is := progress.Arrival{Shared: len(group.all) > 1}
	before := true // every entry was found complete before
	for _, a := range group.all {
		if is.Expected += a.sent.Indexed - a.sent.Moved; a.changed() && !a.whole {
			is.Expected += a.more() - a.sent.Indexed + a.sent.Moved
		}
		before = before && a.entry.Arrival != nil && a.entry.Arrival.Problem == ""
		if was := a.entry.Arrival; was != nil {
			is.SentAgain = was.SentAgain
		}
	}
	if group.again != nil {
		is.SentAgain += group.again.sent
	}
	var err error
	checked := map[string]bool{}
	for _, a := range group.all {
		key := strings.Join(a.entry.Naming.Targets(), " ")
		if checked[key] {
			continue
		}
		checked[key] = true
		if err = c.Present(ctx, a.entry); err != nil {
			break
		}
	}
	switch {
	case errors.Is(err, engine.ErrTargetReplaced):
		is.Gone, is.Problem = true, fmt.Sprintf("%s; %d documents were sent to it", fault.Text(err), is.Expected)
		return is, nil
	case errors.Is(err, objects.ErrRollover): // only matters while documents are sent
		is.Uncounted, is.Note = true, "not counted: "+fault.Text(err)
		return is, nil
	case err != nil:
		return is, err
	}
	if before && group.again == nil && group.all[0].entry.Arrival.Expected == is.Expected {
		was := *group.all[0].entry.Arrival
		if kept, err := c.keptOperations(ctx, group, &was); err != nil || kept {
			return was, err
		}
	}
	return c.counted(ctx, group, is)
}

// OfFiles compares what target indices hold with the documents sent to them from files. others are the targets that had documents or
// operations before the import. own is the number of operations that the documents account for, where it is known.
func OfFiles(ctx context.Context, counts Counts, targets, others []string, sent cms.Counts, existing bulk.Existing, log *slog.Logger) (is progress.Arrival, own []rollback.Own, err error) {
	c := &Check{Counts: counts, Existing: existing, Log: log}
	group := &arrivalGroup{targets: targets, all: []*arriving{{sent: sent}}, own: len(others) == 0, known: len(others) == 0, files: true}
	is, err = c.counted(ctx, group, progress.Arrival{Expected: sent.Indexed - sent.Moved})
	if len(others) > 0 && err == nil && !is.Uncounted && !is.Gone {
		is.Note = "not compared: " + (&arrivalGroup{targets: others}).text() + " was there before this session"
	}
	if is.Accounted {
		own = append(own, rollback.Own{Targets: targets, Operations: is.Written})
	}
	return is, own, err
}

// counted counts what the targets of a group hold and compares it with the documents sent. A missing target or permission is a finding, not an
// error.
func (c *Check) counted(ctx context.Context, group *arrivalGroup, is progress.Arrival) (progress.Arrival, error) {
	err := c.countArrival(ctx, group, &is)
	switch {
	case fault.HasStatus(err, http.StatusNotFound): // deleted since the check above
		is.Gone, is.Problem = true, fmt.Sprintf("%s; %d documents were sent to it", fault.Text(err), is.Expected)
		return is, nil
	case errors.Is(err, fault.ErrConfig):
		is.Uncounted, is.Note = true, "not counted: "+fault.Text(err)
		return is, nil
	}
	return is, err
}

// countArrival refreshes and counts the targets of a group, and compares the counts if the targets belong to this session alone.
func (c *Check) countArrival(ctx context.Context, group *arrivalGroup, is *progress.Arrival) error {
	for _, name := range group.targets {
		if err := c.Counts.Refresh(ctx, name); err != nil {
			return fmt.Errorf("refresh %s: %w", name, err)
		}
		n, err := c.Counts.Count(ctx, name)
		if err != nil {
			return fmt.Errorf("count %s: %w", name, err)
		}
		is.Found += n
	}
	var err error
	if is.Lucene, err = countLucene(ctx, c.Counts, group.targets, c.Log); err != nil {
		return err
	}
	if err := c.countOperations(ctx, group, is); err != nil {
		return err
	}
	if !group.own || group.follows() {
		if is.Note = "not compared: " + group.text() + " was there before this session"; group.follows() {
			is.Note = roundNote(group, is)
		}
		if is.Problem = lostWrites(group, is); is.Problem != "" {
			is.Problem += "; " + group.remedy()
		} else if group.again != nil && group.again.sent > 0 {
			is.Note = "documents were missing; " + group.again.text()
		}
		return nil
	}
	inUse := false
	if is.Found < is.Expected {
		if inUse, err = c.inUse(ctx, group); err != nil {
			return err
		}
	}
	compareArrival(group, is, inUse)
	if n := is.Found - is.Expected; c.Repeats && n > 0 && is.Problem == "" {
		is.Note = fmt.Sprintf("%d documents are there more often than once: they were sent again after an answer was lost or a process died, and the collection gives each an id of its own; or other clients wrote to it", n)
	}
	return nil
}

// roundNote describes how targets filled by former rounds differ from the expected result of this round; "" if they do not.
func roundNote(group *arrivalGroup, is *progress.Arrival) string {
	var notes []string
	if whole := func(a *arriving) bool { return a.whole }; is.Expected != is.Found && !slices.ContainsFunc(group.all, whole) {
		notes = append(notes, fmt.Sprintf("%d documents were expected after this round; documents that failed in one of the rounds are missing, or other clients wrote to it: rfsd verify with this round's snapshot names them", is.Expected))
	}
	if n := is.Foreign(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d operations on it during this round are not of the round: other clients wrote to it, and documents that the source changed, too, are as on the source; or requests without an answer took effect", n))
	}
	return strings.Join(notes, "; ")
}

// inUse reports whether applications may delete documents of a group: whether any target has an alias or belongs to a data stream.
func (c *Check) inUse(ctx context.Context, group *arrivalGroup) (bool, error) {
	for _, a := range group.all {
		if a.entry.Stream != nil {
			return true, nil
		}
	}
	for _, name := range group.targets {
		indices, err := c.Counts.GetIndex(ctx, name)
		if err != nil {
			return false, fmt.Errorf("aliases of %s: %w", name, err)
		}
		for _, x := range indices {
			var aliases map[string]json.RawMessage
			if len(x.Aliases) > 0 {
				if err := json.Unmarshal(x.Aliases, &aliases); err != nil {
					return false, fmt.Errorf("aliases of %s: %w: %w", x.Name, err, fault.ErrUnavailable)
				}
			}
			if len(aliases) > 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

// compareArrival derives the finding from the counts of a group. Dropped documents and duplicate ids were counted as failed when the
// target answered. So fewer documents than were indexed means missing documents, unless applications use the targets and these have
// executed deletions and operations that are not from this session.
func compareArrival(group *arrivalGroup, is *progress.Arrival, inUse bool) {
	targets := group.text()
	fewer, deleted, excused := max(is.Expected-is.Found, 0), int64(0), int64(0)
	if is.Accounted {
		deleted = min(is.Foreign(), is.Deletes)
	}
	if inUse {
		excused = deleted
	}
	var kept int64
	for _, a := range group.all {
		kept += a.sent.Kept
	}
	switch {
	case fewer > excused:
		is.Problem = fmt.Sprintf("the target has %d documents in %s, %d were indexed: %d are missing", is.Found, targets, is.Expected, fewer)
		if deleted > 0 {
			is.Problem += fmt.Sprintf(", at most %d of them deleted by other clients", deleted)
		}
	case lostWrites(group, is) != "":
		is.Problem = lostWrites(group, is)
	case is.Accounted && kept > is.Foreign():
		is.Problem = fmt.Sprintf("%d documents were not written to %s because it had their ids, but other clients have written at most %d there: the others share their ids with documents of the snapshot and are missing", kept, targets, is.Foreign())
	case group.again != nil && group.again.sent > 0:
		is.Note = "documents were missing; " + group.again.text()
	case fewer > 0:
		is.Note = fmt.Sprintf("%d documents fewer than were indexed: other clients have deleted documents meanwhile", fewer)
	case is.Foreign() > 0:
		is.Note = fmt.Sprintf("%d operations on it are not of this session: other clients wrote to it, or requests without an answer took effect late", is.Foreign())
	}
	if is.Problem == "" {
		return
	}
	if group.again != nil {
		is.Problem += "; " + group.again.text()
	}
	is.Problem += "; " + group.remedy()
}

// lostWrites returns the problem of targets that have executed fewer operations than they acknowledged to this session. It returns "" if
// they have not, or if a later reading found all documents there. Operations of other clients can hide lost ones.
func lostWrites(group *arrivalGroup, is *progress.Arrival) string {
	if !is.Accounted || is.Operations >= is.Written || group.again != nil && group.again.failed == nil && group.again.present >= is.Expected {
		return ""
	}
	return fmt.Sprintf("the target has lost writes of %s that it had acknowledged: its shards have executed %d operations, %d of this session were acknowledged", group.text(), is.Operations, is.Written)
}

// countOperations adds the number of operations that the targets of a group have executed and the number from this session, if both are
// known. On targets that existed before, earlier operations are subtracted; with bulk.Newer the counts of the session do not match
// operations, so nothing is added.
func (c *Check) countOperations(ctx context.Context, group *arrivalGroup, is *progress.Arrival) error {
	if c.Existing == bulk.Newer || !group.known {
		return nil
	}
	sum, known, err := c.operations(ctx, group)
	if err != nil || !known {
		return err
	}
	var written int64
	for _, a := range group.all {
		if written += a.sent.Written(); group.own {
			continue
		}
		written -= a.sent.Rewrites // a replaced document may have been another client's
		if c.Existing == bulk.Keep {
			written -= a.sent.Resent + a.sent.Replaced // so may an equal document found after a retry
		}
	}
	// A document sent again used a second sequence number only if its first write had kept one.
	written = max(written, min(sum.Executed, written+is.SentAgain))
	is.Operations, is.Deletes, is.Written, is.Accounted = sum.Executed, sum.Deletes, written, true
	return nil
}

// operations returns what the targets of a group have executed since the session started; known is false if a target does not report it.
func (c *Check) operations(ctx context.Context, group *arrivalGroup) (sum target.Operations, known bool, err error) {
	for _, name := range group.targets {
		did, err := c.Counts.Operations(ctx, name)
		if errors.Is(err, target.ErrNotAnswered) {
			return sum, false, nil
		}
		if errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrRejected) {
			c.Log.InfoContext(ctx, "the target does not state how many operations it has executed", "index", name, "reason", fault.Text(err))
			return sum, false, nil
		}
		if err != nil {
			return sum, false, fmt.Errorf("operations on %s: %w", name, err)
		}
		sum.Executed, sum.Deletes = sum.Executed+did.Executed, sum.Deletes+did.Deletes
	}
	sum.Executed -= group.before
	return sum, true, nil
}

// keptOperations reports whether the targets of a group, found complete before, have executed at least as many operations as then, or
// whether that is unknown. Lost writes take their sequence numbers with them, for example when a node with an asynchronous translog dies.
func (c *Check) keptOperations(ctx context.Context, group *arrivalGroup, was *progress.Arrival) (bool, error) {
	if !was.Accounted {
		return true, nil
	}
	sum, known, err := c.operations(ctx, group)
	if err != nil || !known || sum.Executed >= was.Operations {
		return true, err
	}
	c.Log.WarnContext(ctx, "the target has lost writes since its index was complete; its documents are counted again", "targets", group.text(), "operations", was.Operations, "now", sum.Executed)
	return false, nil
}

// countLucene returns the number of Lucene documents of refreshed targets; 0 if the target or its permissions do not allow reading it.
func countLucene(ctx context.Context, counts Counts, targets []string, log *slog.Logger) (sum int64, err error) {
	for _, name := range targets {
		n, err := counts.CountLucene(ctx, name)
		if errors.Is(err, target.ErrNotAnswered) {
			return 0, nil
		}
		if errors.Is(err, fault.ErrConfig) {
			log.InfoContext(ctx, "the target does not state its Lucene documents", "index", name, "reason", fault.Text(err))
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("Lucene documents of %s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}

// CountAgain refreshes target indices and returns the number of documents they hold now.
func CountAgain(ctx context.Context, counts Counts, targets []string, log *slog.Logger) (is *progress.Arrival, err error) {
	is = &progress.Arrival{}
	for _, name := range slices.Sorted(slices.Values(targets)) {
		if err := counts.Refresh(ctx, name); err != nil {
			return nil, fmt.Errorf("refresh %s: %w", name, err)
		}
		n, err := counts.Count(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", name, err)
		}
		is.Found += n
	}
	is.Lucene, err = countLucene(ctx, counts, targets, log)
	return is, err
}

// recordArrival stores the finding in the entry of an index. A problem is logged once per session.
func (c *Check) recordArrival(ctx context.Context, a *arriving, is progress.Arrival) error {
	if was := a.entry.Arrival; was == nil || *was != is {
		err := session.EntriesOf(c.Coordinator).UpdateBody(ctx, a.name, func(body json.RawMessage) json.RawMessage {
			e, err := plan.DecodeEntry(a.name, body)
			if err != nil {
				return nil
			}
			e.Arrival = &is
			if body, err = e.Encode(); err != nil {
				return nil
			}
			return body
		})
		if err != nil {
			return err
		}
		switch {
		case is.Note != "":
			c.Log.InfoContext(ctx, "documents counted on the target", "index", a.name, "expected", is.Expected, "found", is.Found, "note", is.Note)
		case is.Problem == "":
			c.Log.InfoContext(ctx, "index has arrived", "index", a.name, "sent", a.sent.Indexed, "on_target", is.Found)
		}
	}
	if is.Problem == "" {
		return nil
	}
	code := "documents_missing"
	if is.Gone {
		code = "target_missing"
	}
	first, err := c.Coordinator.Event(ctx, "index "+a.name, code, is.Problem)
	if first {
		c.Log.ErrorContext(ctx, "documents are not on the target", "index", a.name, "expected", is.Expected, "found", is.Found, "problem", is.Problem)
	}
	return err
}
