package importer

import (
	"context"
	"math"

	"github.com/rfsd/rfsd/rfs/base/budget"
)

// turn is one window's right to hold a line, and its request, beyond keepBuffer. How long a line is shows at its end, so
// that it takes the whole budget: one window of the process at a time has such a line.
type turn struct {
	ctx    context.Context //nolint:containedctx // of the window, which readers of lines do not know
	memory *budget.Budget  // nil: nothing is bounded
	share  *budget.Share
}

// take blocks until nothing else of the process is held. It returns the error of the window's context.
func (t *turn) take() error {
	if t.share != nil {
		return nil
	}
	var err error
	t.share, err = t.memory.Take(t.ctx, math.MaxInt64)
	return err
}

// held reports whether the window has its turn.
func (t *turn) held() bool { return t.share != nil }

func (t *turn) give() {
	t.share.Release()
	t.share = nil
}
