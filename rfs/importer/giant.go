package importer

import "context"

// giants bounds the memory of long lines: one window of the process at a time holds a line, and its request, beyond keepBuffer.
type giants chan struct{}

// newGiants makes the bound of a process.
func newGiants() giants { return make(giants, 1) }

// turn is one window's use of it. The nil giants bound nothing.
type turn struct {
	ctx    context.Context //nolint:containedctx // of the window, which readers of lines do not know
	giants giants
	held   bool
}

// take blocks until no other window holds a long line. It returns the error of the window's context.
func (t *turn) take() error {
	if t.held || t.giants == nil {
		return nil
	}
	select {
	case t.giants <- struct{}{}:
		t.held = true
		return nil
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
}

func (t *turn) give() {
	if t.held {
		<-t.giants
		t.held = false
	}
}
