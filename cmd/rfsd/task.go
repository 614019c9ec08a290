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

// task is what the workers of a node do when they do not migrate a snapshot.
type task struct {
	command string // whose processes do it
	kind    string // of its items
	options wiring.Options
	// open puts one worker's part together.
	open func(ctx context.Context, log *slog.Logger, in *wiring.Resources) (taskPart, error)
}

// taskPart is one worker's part in a task.
type taskPart interface {
	name() string // of the worker, with which the holders of its leases begin
	Sample() metrics.Sample
	// work takes part until nothing is left or ctx ends, and returns the last record of a worker. It calls tell with what it works on.
	work(ctx context.Context, tell func(daemon.Record)) (daemon.Record, error)
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

// importPart is a worker's part in an import.
type importPart struct{ *wiring.Import }

func (h importPart) name() string { return h.Token }

// work takes part until the import is complete or ctx ends, and returns the last record of a worker. It calls tell with each item that it
// holds.
func (h importPart) work(ctx context.Context, tell func(daemon.Record)) (daemon.Record, error) {
	h.Tell = func(x importer.Hold) {
		tell(daemon.Record{Lease: &daemon.Lease{Item: x.Window, Holder: x.Holder, Index: x.File, Shard: x.Number, LeftMs: x.Left.Milliseconds()}})
	}
	tell(daemon.Record{Phase: &daemon.WorkerPhase{Name: "import", State: session.PhaseInProgress}})
	status, err := h.Run(ctx)
	code, sample := exit.Failed, h.Sample()
	switch {
	case err != nil:
	case status.Complete:
		code = exit.NoneLeft
	case ctx.Err() != nil:
		code = exit.OK // asked to end: what it had is given back
	}
	return daemon.Record{Exit: codeOf(code), Outcome: "import", Sample: &sample}, err
}

// streamPart is a worker's part in consuming a stream.
type streamPart struct{ *wiring.Stream }

func (h streamPart) name() string { return h.Token }

// work takes part until ctx ends, and returns the last record of a worker.
func (h streamPart) work(ctx context.Context, tell func(daemon.Record)) (daemon.Record, error) {
	tell(daemon.Record{Phase: &daemon.WorkerPhase{Name: status.StreamPhase, State: session.PhaseInProgress}})
	_, err := h.Run(ctx)
	code, sample := exit.OK, h.Sample()
	if err != nil {
		code = exit.Failed
	}
	return daemon.Record{Exit: codeOf(code), Outcome: "consume", Sample: &sample}, err
}

// runOrWork runs a command in the foreground, or takes part in its task as a worker of the daemon that has started it.
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
