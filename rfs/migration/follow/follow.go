// Package follow follows a running cluster through its snapshots. Each snapshot is a round. Round 0 is the migration of the first snapshot;
// each later one is a session of its own that sends what changed since the snapshot before it. The rounds are recorded with the session
// of round 0, and a round starts when the former one has arrived completely.
//
// All documents of a round carry one external version, which is derived from the time at which its snapshot started, and deletions the
// version below it. So the target rejects a late request of a former round wherever a later round has changed the document, and a repeated
// one changes nothing. This holds for snapshots of every version of Elasticsearch and OpenSearch, for indices that were recreated, restored
// or shrunk, and after a failover that used sequence numbers again.
package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Chain holds the rounds of a followed cluster.
type Chain struct {
	Root    *cms.Coordinator // of the session of round 0
	Session string           // its name
	Clock   timing.Clock
	Repo    snapshot.Repository
	// AllowPartial permits snapshots that lack shards.
	AllowPartial bool
	// StartOver permits a round that replaces the session's target indices, if a snapshot that the due round needs is gone from the
	// repository.
	StartOver bool
	// Open opens the records of a later round, for Next; its error wraps cms.ErrStoreGone if the round has none.
	Open func(ctx context.Context, x Round) (kept *cms.Coordinator, shut func() error, err error)
	Log  *slog.Logger // for Next
}

// Round is a round that is to be run.
type Round struct {
	session.Round
	Session string       // its name
	Follow  *plan.Follow // nil: round 0 was started as a migration, and remains one
}

// Report is the output for a round.
type Report struct {
	Number   int    `json:"number"`
	Snapshot string `json:"snapshot"`
	Since    string `json:"since,omitempty"` // the former snapshot; "": everything was sent
	Arrived  bool   `json:"arrived"`         // everything of it, so that the next round can start
}

// Report returns the report of the round.
func (r Round) Report() Report {
	shown := Report{Number: r.Number, Snapshot: r.Snapshot, Arrived: r.Arrived != 0}
	if r.Follow != nil && !r.Whole {
		shown.Since = r.Follow.Since
	}
	return shown
}

// Next returns the round that is due, for an existing snapshot or, with "", for a snapshot created by the round. due is false if the
// snapshot has already arrived. group holds patterns of the round's indices, none for all; a round that has not arrived keeps its own. It
// returns a fault.ErrConfig if settings differ from the settings of round 0, except for its snapshot, and if a snapshot that the round needs
// is gone and StartOver is not set; for a former snapshot it wraps plan.ErrFormerGone. Before a round that starts over, Next blocks until no
// request of the last round can still arrive.
func (c *Chain) Next(ctx context.Context, snapshot string, group []string, settings map[string]string) (next Round, due bool, err error) {
	if err := session.IdentityOf(c.Root).CheckUndone(ctx); err != nil {
		return next, false, err
	}
	all, err := session.RoundsOf(c.Root).Read(ctx)
	if err != nil {
		return next, false, err
	}
	if _, err := pattern.ParseList(group); err != nil {
		return next, false, fmt.Errorf("indices of the round: %w", err)
	}
	last, started := all.Last()
	due = true
	first := session.Round{Snapshot: snapshot}
	recorded, err := c.settings(ctx)
	switch {
	case err != nil:
		return next, false, err
	case all.Finished != 0:
		return next, false, session.ErrFinished
	case recorded != nil: // a migration that is followed from now on has its snapshot
		if err := CheckSettings(recorded, settings); err != nil {
			return next, false, err
		}
		first.Snapshot = recorded["snapshot"]
	}
	switch {
	case !started:
		if err = c.check(ctx, first.Snapshot, plan.Follow{}); err == nil {
			all, err = session.RoundsOf(c.Root).Start(ctx, first)
		}
	case last.Arrived != 0 && last.Snapshot == snapshot:
		due = false
	case last.Arrived != 0:
		round := session.Round{Number: last.Number + 1, Snapshot: snapshot, Group: group}
		if round.Whole, err = c.checkNext(ctx, all, snapshot); err == nil {
			all, err = session.RoundsOf(c.Root).Start(ctx, round)
		}
	case last.Number > 0:
		var arrived bool
		if all, arrived, err = c.resume(ctx, all, snapshot); err == nil && arrived {
			return c.Next(ctx, snapshot, group, settings)
		}
	}
	if err != nil {
		return next, false, err
	}
	next, err = c.round(all, len(all.Rounds)-1, recorded)
	return next, due && err == nil, err
}

// Last returns the last round that has arrived and sent changes. It returns a fault.ErrConfig if none has.
func (c *Chain) Last(ctx context.Context) (Round, error) {
	all, err := session.RoundsOf(c.Root).Read(ctx)
	if err != nil {
		return Round{}, err
	}
	for at := len(all.Rounds) - 1; at >= 0; at-- {
		if is := all.Rounds[at]; is.Arrived != 0 && is.Number > 0 {
			return c.round(all, at, nil)
		}
	}
	root, number, err := LaterRound(ctx, c.Root, c.Session)
	switch {
	case err != nil:
		return Round{}, err
	case number > 0:
		return Round{}, fmt.Errorf("session %s is round %d of the session %s, give --session-name %s: %w", c.Session, number, root, root, fault.ErrConfig)
	}
	return Round{}, fmt.Errorf("no round of session %s has arrived after its first snapshot, so that nothing is known to have changed: %w", c.Session, fault.ErrConfig)
}

// Until returns the rounds that have arrived up to the round of a snapshot, with that round; none if the snapshot is of no such round.
func (c *Chain) Until(ctx context.Context, snapshot string) (rounds []Round, err error) {
	all, err := session.RoundsOf(c.Root).Read(ctx)
	if err != nil {
		return nil, err
	}
	last := slices.IndexFunc(all.Rounds, func(r session.Round) bool { return r.Arrived != 0 && r.Snapshot == snapshot })
	for at, is := range all.Rounds[:last+1] {
		if is.Arrived == 0 { // it was replaced
			continue
		}
		r, err := c.round(all, at, nil)
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, r)
	}
	return rounds, nil
}

// round returns the recorded round at a position. settings are the recorded settings of round 0; nil before it has recorded any.
func (c *Chain) round(all session.Followed, at int, settings map[string]string) (Round, error) {
	is := all.Rounds[at]
	r := Round{Round: is, Session: c.Name(is.Number), Follow: &plan.Follow{}}
	if is.Number == 0 {
		if settings != nil && settings[plan.FollowKey] == "" {
			r.Follow = nil
		}
		return r, nil
	}
	f, err := placeOf(all, at)
	if err == nil {
		f.Group, err = pattern.ParseList(is.Group)
	}
	f.Whole = is.Whole
	f.Ended, f.Moved, r.Follow = all.EndedBefore(is.Number), all.MovedBefore(is.Number), &f
	return r, err
}

// placeOf returns the former snapshots of the round at a position after round 0.
func placeOf(all session.Followed, at int) (f plan.Follow, err error) {
	base, parts, ok := all.Bases(at)
	if !ok {
		return f, fmt.Errorf("round %d is recorded without the one before it: %w", all.Rounds[min(at, len(all.Rounds)-1)].Number, fault.ErrCorrupt)
	}
	f.Since, f.Identity = base.Snapshot, base.Identity
	for _, p := range parts {
		group, err := pattern.ParseList(p.Group)
		if err != nil {
			return f, fmt.Errorf("indices of round %d: %w", p.Number, err)
		}
		f.Parts = append(f.Parts, plan.Part{Since: p.Snapshot, Identity: p.Identity, Group: group})
	}
	return f, nil
}

// checkNext rejects a snapshot that cannot be the round after all others, before it is recorded. It reports whether the round has to start
// over.
func (c *Chain) checkNext(ctx context.Context, all session.Followed, snapshot string) (whole bool, err error) {
	f, err := placeOf(all, len(all.Rounds))
	if err != nil {
		return false, err
	}
	err = c.check(ctx, snapshot, f)
	if !errors.Is(err, plan.ErrFormerGone) {
		return false, err
	}
	if !c.StartOver {
		return false, fmt.Errorf("%w: %s", err, plan.StartOver)
	}
	f.Whole = true
	if err := c.check(ctx, snapshot, f); err != nil {
		return false, err
	}
	wait, err := c.Quiet(ctx)
	if err == nil {
		c.Log.WarnContext(ctx, "the snapshot of the last round is gone from the repository: when no request of that round can arrive any more, the target indices of the session are replaced, and the whole snapshot is sent",
			"former", f.Since, "in", max(wait, 0).Round(time.Second))
		err = c.Clock.Sleep(ctx, wait)
	}
	return true, err
}

// check rejects a snapshot that cannot be the next round.
func (c *Chain) check(ctx context.Context, name string, f plan.Follow) error {
	if name == "" && f.Since == "" { // the first round creates it
		return nil
	}
	catalog, err := snapshot.OpenCatalog(ctx, c.Repo)
	if err != nil {
		return err
	}
	if err := f.Check(catalog); err != nil || name == "" {
		return err
	}
	snap, err := catalog.Snapshot(ctx, name)
	if err != nil {
		return err
	}
	if snap.State != snapshot.Success && !c.AllowPartial {
		return fmt.Errorf("snapshot %s is %s; --allow-partial follows what it holds: %w", snap.Name, snap.State, fault.ErrConfig)
	}
	_, err = f.Read(ctx, catalog, snap)
	return err
}

// Name returns the name of the session of a round.
func (c *Chain) Name(round int) string { return NameOf(c.Session, round) }

// NameOf returns the name of the session of a round, and likewise of its coordinator file, by the name of round 0.
func NameOf(root string, round int) string {
	if round == 0 {
		return root
	}
	return root + roundInfix + strconv.Itoa(round)
}

// LaterRound returns the session of round 0 and the number of the round that a session is, by its records kept and its name. The number is
// 0 for the session of round 0, and for every session that is not a round. The rounds are recorded with round 0, so that a later one has none.
func LaterRound(ctx context.Context, kept *cms.Coordinator, name string) (root string, number int, err error) {
	root, number = splitName(name)
	if number == 0 {
		return "", 0, nil
	}
	settings, err := session.IdentityOf(kept).Settings(ctx)
	switch {
	case errors.Is(err, cms.ErrNotFound):
		return "", 0, nil
	case err != nil || settings[plan.FollowKey] == "":
		return "", 0, err
	}
	all, err := session.RoundsOf(kept).Read(ctx)
	if err != nil || len(all.Rounds) > 0 {
		return "", 0, err
	}
	return root, number, nil
}

// splitName returns the name of the session of round 0 and the number of the round in the name of a later one; 0: another name.
func splitName(name string) (root string, number int) {
	at := strings.LastIndex(name, roundInfix)
	if at <= 0 {
		return "", 0
	}
	n, err := strconv.Atoi(name[at+len(roundInfix):])
	if err != nil || n <= 0 {
		return "", 0
	}
	return name[:at], n
}

// roundInfix separates the name of the session of round 0 from the number of a round.
const roundInfix = "-round-"

// ErrNotStarted means that no round has started.
var ErrNotStarted = errors.New("no round of this session has started: nothing is followed")

// Finish records the end of the following, after which no round can start. It returns an ErrNotStarted if no round has started.
func (c *Chain) Finish(ctx context.Context) error {
	all, err := session.RoundsOf(c.Root).Read(ctx)
	if err != nil {
		return err
	}
	if _, started := all.Last(); !started {
		return ErrNotStarted
	}
	return session.RoundsOf(c.Root).Finish(ctx)
}

// Quiet returns how long a request of the last arrived round may still be in flight; 0 or less: no longer.
func (c *Chain) Quiet(ctx context.Context) (time.Duration, error) {
	all, err := session.RoundsOf(c.Root).Read(ctx)
	if err != nil {
		return 0, err
	}
	now, _, err := c.Root.Leases().Now(ctx)
	last, _ := all.Last()
	return time.UnixMilli(max(last.Arrived, last.Started)).Add(progress.RequestTimeout).Sub(now), err
}

// settings returns the settings with which round 0 was started; nil: it has not started.
func (c *Chain) settings(ctx context.Context) (map[string]string, error) {
	settings, err := session.IdentityOf(c.Root).Settings(ctx)
	if errors.Is(err, cms.ErrNotFound) {
		return nil, nil
	}
	return settings, err
}

// Check returns a *session.ConfigMismatch if round 0 was started with other settings, except for its snapshot.
func (c *Chain) Check(ctx context.Context, settings map[string]string) error {
	recorded, err := c.settings(ctx)
	if err != nil || recorded == nil {
		return err
	}
	return CheckSettings(recorded, settings)
}

// CheckSettings returns a *session.ConfigMismatch if settings differ from the recorded ones of round 0, except for its snapshot.
func CheckSettings(recorded, settings map[string]string) error {
	was, is := maps.Clone(recorded), maps.Clone(settings)
	for _, key := range []string{"snapshot", plan.FollowKey} {
		delete(was, key)
		delete(is, key)
	}
	return session.CheckSettings(was, is)
}

// Arrived reports whether all changes of a round have arrived, except for indices that stop, so that the next round may start. stops
// reports whether the following of an index has ended.
func Arrived(sum *summary.Summary, stops func(index string) bool) bool {
	return sum != nil && sum.Complete && !slices.ContainsFunc(sum.Problems, func(p summary.Problem) bool { return !stops(p.Index) })
}

// Over names former rounds whose data can be removed.
type Over struct {
	// Records are the former rounds whose records can be removed: the last arrived round, and the rounds replaced since. The snapshot of the
	// arrived round is kept, since it shows what this round changed.
	Records []Round
	// Snapshots are the rounds whose snapshots can be deleted, because neither the last nor the next round is compared with them.
	Snapshots []Round
}

// Arrive records that a round has arrived, with its snapshot and its counts. After a round 0 that started as a migration it blocks until no
// request of it can still arrive, because its documents have no versions. It returns the former rounds whose records and snapshots can be
// removed, because all of their documents have arrived; none if another process has recorded the arrival.
func (c *Chain) Arrive(ctx context.Context, r Round, identity string, sum *summary.Summary) (over Over, err error) {
	if r.Follow == nil && sum.SafeFrom != nil {
		now, _, err := c.Root.Leases().Now(ctx)
		if err != nil {
			return over, err
		}
		if err := c.Clock.Sleep(ctx, sum.SafeFrom.Sub(now)); err != nil {
			return over, err
		}
	}
	r.Snapshot, r.Identity, r.Account = sum.Snapshot, identity, accountOf(sum)
	if first, err := session.RoundsOf(c.Root).Arrive(ctx, r.Round); err != nil || !first {
		return over, err
	}
	all, err := session.RoundsOf(c.Root).Read(ctx)
	if err != nil {
		return over, err
	}
	settings, err := c.settings(ctx)
	if err != nil {
		return over, err
	}
	last := slices.IndexFunc(all.Rounds, func(x session.Round) bool { return x.Number == r.Number })
	since := last - 1
	for since > 0 && all.Rounds[since].Arrived == 0 { // it was replaced
		since--
	}
	needed, before := neededAfter(all, last), neededAfter(all, since)
	for at, is := range all.Rounds[:max(last, 0)] {
		if is.Failed > 0 || at == 0 && is.Number > 0 {
			continue
		}
		was, err := c.round(all, at, settings)
		if err != nil {
			return over, err
		}
		if at >= since {
			over.Records = append(over.Records, was)
		}
		if (before[is.Number] || at > since) && !needed[is.Number] {
			over.Snapshots = append(over.Snapshots, was)
		}
	}
	return over, nil
}

// neededAfter returns the numbers of the rounds whose snapshots are still needed after the round at a position has arrived: to compare its
// changes, and for the next round.
func neededAfter(all session.Followed, at int) map[int]bool {
	if at < 0 {
		return nil
	}
	numbers := map[int]bool{all.Rounds[at].Number: true}
	next := session.Followed{Rounds: all.Rounds[:at+1]}
	for _, place := range []int{at, at + 1} {
		base, parts, ok := next.Bases(place)
		for _, p := range parts {
			numbers[p.Number] = true
		}
		if ok {
			numbers[base.Number] = true
		}
	}
	return numbers
}

// Made returns the names of the snapshots on the source that the rounds of a session made and have not deleted, the oldest first.
func Made(all session.Followed) (names []string) {
	last := len(all.Rounds) - 1
	for last >= 0 && all.Rounds[last].Arrived == 0 {
		last--
	}
	needed := neededAfter(all, last)
	for _, r := range all.Rounds[:last+1] {
		if r.Made && (needed[r.Number] || r.Failed > 0) {
			names = append(names, r.Snapshot)
		}
	}
	return names
}

// accountOf returns the counts of a round.
func accountOf(sum *summary.Summary) session.Account {
	a := session.Account{Failed: sum.Totals.Failed, Bytes: sum.Totals.Bytes, Inserted: sum.Totals.Indexed, Vanished: sum.Vanished} // of a migration
	if d := sum.Changes; d != nil {
		a.Inserted, a.Updated, a.Deleted, a.Unchanged = d.Inserted, d.Updated, d.Deleted, d.Unchanged
	}
	return a
}
