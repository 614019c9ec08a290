package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
)

// Targets knows the indices of a target cluster.
type Targets interface {
	// IndexUUID gives the UUID of an index; an error that is fs.ErrNotExist when there is none.
	IndexUUID(ctx context.Context, name string) (string, error)
}

// ErrTargetReplaced means that a target index is not the one this migration began with. What was
// sent to the former one is gone, so nothing may be called complete.
var ErrTargetReplaced = fmt.Errorf("target_index_replaced: %w", fault.ErrRejected)

// Session is what all processes of one migration share: the coordination, and how the
// work is prepared, once, by whoever comes first.
type Session struct {
	Coordinator *cms.Coordinator
	Runner      *Runner
	Holder      string            // of this process; unique over all processes and runs
	Settings    map[string]string // two processes of a session must agree on them
	// Plan reads the snapshot; only the process that seeds the work needs it.
	Plan    func(context.Context) (*Plan, error)
	Prepare func(context.Context, *Plan) error // creates what is missing on the target; may be nil
	Targets Targets                            // nil when there is no cluster
	Log     *slog.Logger
}

// Join begins the session or joins it; afterwards the work is seeded.
func (s *Session) Join(ctx context.Context) error {
	if err := s.Coordinator.Init(ctx, cms.Meta{Settings: s.Settings}); err != nil {
		return err
	}
	waiting := func(busy *cms.NoneAvailable) {
		s.Log.Info("somebody else prepares the work", "holder", busy.Holder, "until", busy.NextExpiry)
	}
	return s.Coordinator.SeedOnce(ctx, s.Holder, s.seed, waiting)
}

// seed creates the target indices and stores the index entries and one item per shard.
func (s *Session) seed(ctx context.Context) error {
	plan, err := s.Plan(ctx)
	if err != nil {
		return err
	}
	if s.Prepare != nil {
		if err := s.Prepare(ctx, plan); err != nil {
			return err
		}
	}
	for _, x := range plan.Indices {
		body, err := x.Entry.encode()
		if err != nil {
			return err
		}
		if err := s.Coordinator.PutIndexEntry(ctx, x.Name, x.Entry.Shards, body); err != nil {
			return err
		}
		if err := s.checkTargets(ctx, x.Entry); err != nil {
			return err
		}
	}
	_, err = s.Coordinator.SeedItems(ctx, plan.items())
	return err
}

// entry reads how an index is found and named, as it was seeded.
func (s *Session) entry(ctx context.Context, index string) (Entry, error) {
	_, body, err := s.Coordinator.IndexEntry(ctx, index)
	if err != nil {
		return Entry{}, err
	}
	return decodeEntry(index, body)
}

// checkTargets compares the target indices of an entry with those that were recorded
// first, and records them when none are.
func (s *Session) checkTargets(ctx context.Context, e Entry) error {
	if s.Targets == nil {
		return nil
	}
	for _, name := range e.Naming.Targets() {
		is, err := s.Targets.IndexUUID(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("target index %s does not exist: %w", name, ErrTargetReplaced)
		}
		if err != nil {
			return fmt.Errorf("target index %s: %w", name, err)
		}
		was, err := s.Coordinator.ClaimTarget(ctx, name, is)
		if err != nil {
			return err
		}
		if was != is {
			return fmt.Errorf("target index %s has the UUID %s, this session began with %s: it was deleted and created again; begin a new session (--session-name) to send everything to it: %w",
				name, is, was, ErrTargetReplaced)
		}
	}
	return nil
}

// run works on one lease.
func (s *Session) run(ctx context.Context, lease *cms.Lease) (Outcome, error) {
	entry, err := s.entry(ctx, lease.ID.Index)
	if err != nil {
		return Released, errors.Join(err, lease.Release(ctx, cms.CauseOutage))
	}
	outcome, err := s.Runner.Run(ctx, lease, entry, func(ctx context.Context) error { return s.checkTargets(ctx, entry) })
	if errors.Is(err, ErrTargetReplaced) && ctx.Err() == nil {
		if _, ferr := s.Coordinator.FailIndex(ctx, lease.ID.Index, fault.Text(err)); ferr != nil {
			err = errors.Join(err, ferr)
		}
	}
	return outcome, err
}

// lastWord bounds the reading of the item after its lease has ended.
const lastWord = 3 * time.Second

// RunOne joins the session, leases one item and works on it to the lease's end.
// started, when not nil, is given the lease before the work begins. Errors beside those
// of the work: cms.ErrAllDone after an audit that found every chain whole, and a
// *cms.NoneAvailable when others hold what is left.
func (s *Session) RunOne(ctx context.Context, started func(*cms.Lease)) (Outcome, cms.Item, error) {
	if err := s.Join(ctx); err != nil {
		return Released, cms.Item{}, err
	}
	lease, err := s.Coordinator.AcquireNext(ctx, s.Holder, nil)
	if errors.Is(err, cms.ErrAllDone) {
		report, clean, ferr := s.Coordinator.Finish(ctx)
		switch {
		case ferr != nil:
			return Released, cms.Item{}, fmt.Errorf("final audit: %w", ferr)
		case !clean:
			return Released, cms.Item{}, &cms.NoneAvailable{Holder: "nobody", Open: int64(report.Open + len(report.Repaired))}
		}
		return Released, cms.Item{}, err
	}
	if err != nil {
		return Released, cms.Item{}, err
	}
	if started != nil {
		started(lease)
	}
	outcome, err := s.run(ctx, lease)
	item := lease.Item
	// Only for the record of this process, which must end even when the store hangs.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	if now, gerr := s.Coordinator.Item(rctx, lease.ID); gerr == nil {
		item = now
	}
	return outcome, item, err
}
