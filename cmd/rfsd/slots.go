package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/link"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/base/tracing"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// slotHost runs workers inside the daemon, with one store for all.
type slotHost struct {
	o      wiring.Options
	log    *slog.Logger
	shared *wiring.Shared

	mu       sync.Mutex
	sessions map[int]*workerSession // by slot; each has connections, counters and a name of its own

	ctx context.Context // has the provider of spans

	task *task // nil: a migration
}

func newSlotHost(ctx context.Context, o wiring.Options, log *slog.Logger) *slotHost {
	return &slotHost{ctx: ctx, o: o, log: log, shared: wiring.NewShared(o), sessions: map[int]*workerSession{}}
}

func (h *slotHost) starter() daemon.Starter {
	return &daemon.InProcess{Run: h.run, Exit: func(reason string) {
		fmt.Fprintln(terminal.NewWriter(os.Stderr), "rfsd:", reason)
		os.Exit(int(exit.Failed))
	}}
}

// session returns the slot's own, made the first time.
func (h *slotHost) session(ctx context.Context, slot int) (*workerSession, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.sessions[slot]; x != nil {
		return x, nil
	}
	x, err := openWorkerSession(ctx, h.o, h.log.With("slot", slot), h.shared.Slot())
	if err == nil {
		h.sessions[slot] = x
	}
	return x, err
}

// run runs one lease, or another task, in a slot. Samples count from the start of the lease, as in a worker process.
func (h *slotHost) run(ctx context.Context, slot int, report func(daemon.Record)) daemon.Record {
	ctx = tracing.As(ctx, h.ctx)
	if h.task != nil {
		return h.runTask(ctx, slot, report)
	}
	x, err := h.session(ctx, slot)
	if err != nil {
		return x.failed(err)
	}
	before := x.sample()
	x.Moved = link.Moved(report)
	end := link.Sample(report, func() metrics.Sample { return x.sample().Minus(before) })
	r, err := x.work(ctx, 0, func(l *cms.Lease) {
		report(link.Leased(l))
	})
	end()
	if r.Sample != nil {
		sample := r.Sample.Minus(before)
		report(daemon.Record{Sample: &sample})
	}
	noteError(&r, err)
	return r
}

// close closes the slots and then the store.
func (h *slotHost) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, x := range h.sessions {
		errs = append(errs, x.close())
	}
	return errors.Join(append(errs, h.shared.Close())...)
}
