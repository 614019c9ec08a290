package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// resume returns the rounds with the one to run while the last one has not arrived: that one, or with StartOver a whole round of a snapshot in
// its place if the repository lacks a snapshot that it needs. arrived is true if the last one has arrived meanwhile.
func (c *Chain) resume(ctx context.Context, all session.Followed, snapshot string) (now session.Followed, arrived bool, err error) {
	last, err := c.round(all, len(all.Rounds)-1, nil)
	if err != nil {
		return all, false, err
	}
	if last.Snapshot == "" {
		if last.Snapshot, err = c.made(ctx, last); err != nil {
			return all, false, err
		}
	}
	lost := c.lost(ctx, last)
	switch {
	case !errors.Is(lost, errLost):
		return all, false, lost
	case !c.StartOver:
		return all, false, fmt.Errorf("%w: %s", lost, plan.StartOver)
	}
	if err := c.check(ctx, snapshot, plan.Follow{Whole: true}); err != nil {
		return all, false, err
	}
	c.Log.WarnContext(ctx, "the round cannot continue: when no process works on it, and no request of it can arrive any more, another round replaces the target indices of the session, and sends its whole snapshot",
		"round", last.Number, "reason", fault.Text(lost), "in", progress.RequestTimeout)
	if err := c.replace(ctx, last); err != nil {
		return all, false, fmt.Errorf("end of round %d: %w", last.Number, err)
	}
	now, err = session.RoundsOf(c.Root).Replace(ctx, last.Round, snapshot)
	is, _ := now.Last()
	return now, is.Arrived != 0, err // the processes that worked on it may have had what they needed
}

// errLost means that a round in progress needs a snapshot that is gone.
var errLost = errors.New("the round in progress cannot continue")

// lost returns an error that wraps errLost if the repository lacks the snapshot of a round in progress, or a former one.
func (c *Chain) lost(ctx context.Context, r Round) error {
	catalog, err := snapshot.OpenCatalog(ctx, c.Repo)
	if err != nil {
		return err
	}
	if err = r.Follow.Check(catalog); err == nil && r.Snapshot != "" {
		_, err = catalog.Find(r.Snapshot)
	}
	var missing *snapshot.NotFound
	if errors.Is(err, plan.ErrFormerGone) || errors.As(err, &missing) {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// made returns the name of the snapshot that a round in progress has made; "" before.
func (c *Chain) made(ctx context.Context, r Round) (name string, err error) {
	err = c.with(ctx, r, func(kept *cms.Coordinator) error {
		p, err := session.PhasesOf(kept).Read(ctx, session.SnapshotPhase)
		if err != nil || p.State != session.PhaseCompleted {
			return err
		}
		var is struct{ Name string }
		if err := json.Unmarshal(p.Body, &is); err != nil {
			return fmt.Errorf("record of the snapshot: %w: %w", err, fault.ErrCorrupt)
		}
		name = is.Name
		return nil
	})
	return name, err
}

// replace ends the session of a round. It blocks until no process works on the round, and no request of it can arrive any more.
func (c *Chain) replace(ctx context.Context, r Round) error {
	return c.with(ctx, r, func(kept *cms.Coordinator) error {
		if err := session.IdentityOf(kept).Replace(ctx); err != nil && !errors.Is(err, cms.ErrNotFound) {
			return err
		}
		shown := ""
		for left := progress.RequestTimeout; left > 0; left -= lookEvery {
			err := session.HeldOf(kept).Busy(ctx)
			var busy *cms.NoneAvailable
			switch {
			case errors.As(err, &busy):
				if left = progress.RequestTimeout; busy.Holder != shown {
					c.Log.InfoContext(ctx, "a process still works on the round", "holder", busy.Holder, "until", busy.NextExpiry)
					shown = busy.Holder
				}
			case err != nil:
				return err
			}
			if err := c.Clock.Sleep(ctx, lookEvery); err != nil {
				return err
			}
		}
		return nil
	})
}

// with passes the records of a round to f, unless no process has started it.
func (c *Chain) with(ctx context.Context, r Round, f func(kept *cms.Coordinator) error) error {
	kept, shut, err := c.Open(ctx, r)
	if errors.Is(err, cms.ErrStoreGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f(kept), shut())
}
