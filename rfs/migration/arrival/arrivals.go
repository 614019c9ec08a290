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
