package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/link"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// task is the work of a node's workers other than the migration of a snapshot: an import or a stream.
type task struct {
	command string // of the worker processes
	kind    string // of its items
	options wiring.Options
	// open opens the task for one worker.
	open func(ctx context.Context, log *slog.Logger, in *wiring.Resources) (taskPart, error)
}

// taskPart is the work of one worker in a task.
type taskPart interface {
	name() string // of the worker: the prefix of the holder ids of its leases
	Sample() metrics.Sample
	// work works on items until none are left or ctx is done, and returns the worker's last record. It passes leases and phases to report.
	work(ctx context.Context, report func(daemon.Record)) (daemon.Record, error)
	Close() error
}

// importTask returns an import as a task of workers.
func importTask(o wiring.ImportOptions) *task {
	o.Slots = 1
	return &task{options: o.Options, command: "import", kind: importer.Kind, open: func(ctx context.Context, log *slog.Logger, in *wiring.Resources) (taskPart, error) {
		h, err := wiring.OpenImport(ctx, o, log, in)
		return importPart{h}, err
	}}
}

// consumeTask returns a stream as a task of workers.
func consumeTask(o wiring.StreamOptions) *task {
	return &task{options: o.Options, command: "consume", kind: consume.Kind, open: func(ctx context.Context, log *slog.Logger, in *wiring.Resources) (taskPart, error) {
		h, err := wiring.OpenStream(ctx, o, log, in)
		return streamPart{h}, err
	}}
}

// importPart is the work of one worker in an import.
type importPart struct{ *wiring.Import }

func (h importPart) name() string { return h.Token }

// work imports windows until the import is complete or ctx is done, and returns the worker's last record. It passes leases to report.
func (h importPart) work(ctx context.Context, report func(daemon.Record)) (daemon.Record, error) {
	h.Tell = func(x importer.Hold) {
		report(daemon.Record{Lease: &daemon.Lease{Item: x.Window, Holder: x.Holder, Index: x.File, Shard: x.Number, LeftMs: x.Left.Milliseconds()}})
	}
	report(daemon.Record{Phase: &daemon.WorkerPhase{Name: "import", State: session.PhaseInProgress}})
	status, err := h.Run(ctx)
	code, sample := exit.Failed, h.Sample()
	switch {
	case err != nil:
	case status.Complete:
		code = exit.NoneLeft
	case ctx.Err() != nil:
		code = exit.OK // asked to end: its leases are released
	}
	return daemon.Record{Exit: codeOf(code), Outcome: "import", Sample: &sample}, err
}

// streamPart is the work of one worker in a stream.
type streamPart struct{ *wiring.Stream }

func (h streamPart) name() string { return h.Token }

// work consumes partitions until ctx is done, and returns the worker's last record.
func (h streamPart) work(ctx context.Context, report func(daemon.Record)) (daemon.Record, error) {
	report(daemon.Record{Phase: &daemon.WorkerPhase{Name: status.StreamPhase, State: session.PhaseInProgress}})
	_, err := h.Run(ctx)
	code, sample := exit.OK, h.Sample()
	if err != nil {
		code = exit.Failed
	}
	return daemon.Record{Exit: codeOf(code), Outcome: "consume", Sample: &sample}, err
}

// runOrWork runs a command in the foreground, or runs its task as a worker if a daemon has started it.
func runOrWork[O any](ctx context.Context, call *config.Call, decode func(config.Values) (O, error), asTask func(O) *task, run func(context.Context, O, *output.Writer) error) error {
	values := call.Given()
	if values["status-fd"] == nil && values["parent-fd"] == nil {
		o, err := decode(values)
		if err != nil {
			return err
		}
		return run(ctx, o, call.Out)
	}
	l, values, err := openControlPipe(call)
	if err != nil {
		return err
	}
	o, err := decode(values)
	if err != nil {
		return l.finish(failedRecord(err), err)
	}
	t := asTask(o)
	in := wiring.NewResources(t.options)
	ctx, cancel := l.handle(ctx, in)
	defer cancel()
	log := l.logger(t.options)
	ctx, sent, err := t.options.Observe(ctx, t.command, in.Daemon, log)
	if err != nil {
		return l.finish(failedRecord(err), err)
	}
	defer sent.Stop()
	h, err := t.open(ctx, log, in)
	if err != nil {
		return l.finish(failedRecord(err), err)
	}
	l.Begin(h.name(), h.Sample, log)
	r, err := h.work(ctx, l.Send)
	return l.finish(r, errors.Join(err, h.Close()))
}

// runTask runs a slot's part of a task. What the slots have in common is the store.
func (h *slotHost) runTask(ctx context.Context, slot int, report func(daemon.Record)) daemon.Record {
	x, err := h.task.open(ctx, h.log.With("slot", slot), h.shared.Slot())
	if err != nil {
		return failedRecord(err)
	}
	end := link.Sample(report, x.Sample)
	r, err := x.work(ctx, report)
	end()
	noteError(&r, errors.Join(err, x.Close()))
	return r
}
