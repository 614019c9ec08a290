package summary

import (
	"context"
	"log/slog"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
)

// Recount counts the target indices of a session that was complete before, because they may have changed since. If a target does not
// answer, the former counts remain.
func (s *Summary) Recount(ctx context.Context, counts arrival.Counts, log *slog.Logger) {
	if counts == nil {
		return
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(arrival.AtOnce)
	for i := range s.Indices {
		x := &s.Indices[i]
		if x.State != session.PhaseCompleted || x.Arrival == nil || x.Arrival.Gone {
			continue
		}
		g.Go(func() error {
			is, err := arrival.CountAgain(gctx, counts, x.Targets, log)
			if err != nil {
				log.WarnContext(ctx, "documents of a target index were not counted again: the number dates from the end of the migration", "index", x.Index, "error", fault.Text(err))
				return nil
			}
			is.Shared = x.Arrival.Shared
			x.Now = is
			if n := x.Lost(); n > 0 {
				log.WarnContext(ctx, "the target holds fewer documents than at the end of the migration", "index", x.Index, "target", strings.Join(x.Targets, ","), "then", x.Arrival.Found, "now", is.Found)
			}
			return nil
		})
	}
	_ = g.Wait() // nothing returns an error
}

// Lost returns how many documents fewer the target holds than at the end of the migration; 0 if it was not counted again.
func (x *Index) Lost() int64 {
	if x.Now == nil || x.Arrival == nil || x.Arrival.Uncounted {
		return 0
	}
	return max(x.Arrival.Found-x.Now.Found, 0)
}

// Held returns the last count of the target.
func (x *Index) Held() *progress.Arrival {
	if x.Now != nil {
		return x.Now
	}
	return x.Arrival
}
