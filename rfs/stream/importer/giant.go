package importer

import (
	"context"
	"math"

	"github.com/rfsd/rfsd/rfs/base/budget"
)

// turn is the right of an open part to hold a line, and its request, beyond keepBuffer. Since the length of a line is known only at
// its end, it takes the whole budget: only one part of the process at a time has such a line.
type turn struct {
	ctx    context.Context //nolint:containedctx // of the window, which readers of lines do not know
	memory *budget.Budget  // nil: no limit
	share  *budget.Share
}

// take blocks until the whole budget is free, and takes it. It returns the error of the part's context if that is done first.
func (t *turn) take() error {
	if t.share != nil {
		return nil
	}
	var err error
	t.share, err = t.memory.Take(t.ctx, math.MaxInt64)
	return err
}

// held reports whether the part has its turn.
func (t *turn) held() bool { return t.share != nil }

func (t *turn) give() {
	t.share.Release()
	t.share = nil
}
