package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/foreground"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// keptLines and keptOfNode are the numbers of log lines that rfsctl logs can show of a command in the foreground, and of a daemon with its
// workers.
const keptLines, keptOfNode = 500, 2000

// keepLines returns a log that also keeps its last n lines, as JSON regardless of its own format.
func keepLines(log *slog.Logger, level slog.Leveler, n int) (*slog.Logger, *daemon.LogRing) {
	ring := daemon.NewLogRing(n)
	return slog.New(slog.NewMultiHandler(log.Handler(), slog.NewJSONHandler(ring, report.LogOptions(level)))), ring
}

// shownMigration returns a migration of this process as rfsctl status shows it.
func shownMigration(o wiring.Options, s *phase.Session, blobs *repo.Counting, in *wiring.Resources, lines *daemon.LogRing, log *slog.Logger) *foreground.Command {
	return foreground.New(foreground.Config{
		Name: "migrate", Version: version, Session: o.Session, Slots: o.Slots, Store: s.Coordinator, Orders: cmp.Or(s.Root, s.Coordinator), Pauses: o.Pauses(), Read: readRound(s.Root), Ahead: s.Runner.Meter.Items,
		Own: func() progress.Work {
			p := s.Runner.Meter.Read(time.Now())
			return progress.Work{Documents: p.Documents, Failed: p.Failed, SourceBytes: p.Bytes, Bytes: p.ShardBytes, Running: int64(p.Running)}
		},
		Sample: func() metrics.Sample { return in.Sample(s, blobs) },
		DryRun: o.Discard, Clock: timing.SystemClock(), Logs: lines, Log: log, Env: os.Getenv,
	})
}

// readRound returns a function that reads a session, and with it the rounds and orders that root keeps; nil: the session keeps its own.
func readRound(root *cms.Coordinator) func(context.Context, *cms.Coordinator) (*progress.Reading, error) {
	if root == nil {
		return status.ReadStore
	}
	return func(ctx context.Context, store *cms.Coordinator) (*progress.Reading, error) {
		r, err := status.ReadStore(ctx, store)
		if err == nil {
			err = r.ReadRounds(ctx, root)
		}
		return r, err
	}
}

// readPause returns a function that reads a session in a pause between two rounds, in which nothing but the rounds and the desired state
// changes: the items and records are read once.
func readPause() func(context.Context, *cms.Coordinator) (*progress.Reading, error) {
	var first *progress.Reading
	return func(ctx context.Context, store *cms.Coordinator) (*progress.Reading, error) {
		if first == nil {
			r, err := status.ReadStore(ctx, store)
			first = r
			return r, err
		}
		head, err := progress.ReadHead(ctx, store)
		if err != nil {
			return nil, err
		}
		is := *first
		is.At, is.Redriven, is.Undone = head.At, head.Redriven, head.Undone
		return &is, is.ReadRounds(ctx, store)
	}
}

// showPause shows the session that is followed while no round runs, and why, as a round is shown while it runs, until the returned function
// is called. A coordinator file is not opened for it, because the commands that order a cut-over could not open it then.
func (r rounds) showPause(ctx context.Context, why string) (stop func()) {
	if !r.Shares() {
		return func() {}
	}
	store, shut, err := wiring.OpenStore(ctx, r.Options, true)
	if err != nil {
		r.log.Info("the pause between two rounds is not shown", "error", err)
		return func() {}
	}
	log, lines := keepLines(r.log, r.Options.Log.Level, keptLines)
	root := r.StateIn(store)
	shown := foreground.New(foreground.Config{
		Name: "migrate", Version: version, Session: r.SessionOrDefault(), Slots: r.Slots, Store: root, Orders: root, Pauses: r.Pauses(), Waits: why, Read: readPause(),
		Own:    func() progress.Work { return progress.Work{} },
		Sample: func() metrics.Sample { return metrics.Sample{} },
		Clock:  timing.SystemClock(), Logs: lines, Log: log, Env: os.Getenv,
	})
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { shown.Run(ctx) })
	return func() {
		end()
		running.Wait()
		if err := shut(); err != nil {
			r.log.Warn("the store was not closed after the pause", "error", err)
		}
	}
}

// shownImport returns the part of this process in an import as rfsctl status shows it.
func shownImport(o wiring.ImportOptions, h *wiring.Import, lines *daemon.LogRing, log *slog.Logger) *foreground.Command {
	return foreground.New(foreground.Config{
		Name: "import", Version: version, Session: o.Session, Slots: o.Slots, Store: h.Kept, Read: status.ReadImportStore,
		Own: func() progress.Work {
			own := h.Own()
			return progress.Work{Documents: own.Documents, Failed: own.Failed, SourceBytes: own.Bytes}
		},
		Sample: h.Sample,
		Clock:  timing.SystemClock(), Logs: lines, Log: log, Env: os.Getenv,
	})
}

// show shows a command here, and to rfsctl status, until the returned function is called.
func show(ctx context.Context, shown *foreground.Command, log *slog.Logger, screen *terminal.Screen) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { shown.Run(ctx) })
	stopProgress := report.Progress(func(float64) string { return shown.View().String() }, log, screen)
	return func() {
		stopProgress()
		end()
		running.Wait()
	}
}

// shownConsume returns the part of this process in a stream as rfsctl status shows it.
func shownConsume(o wiring.StreamOptions, h *wiring.Stream, lines *daemon.LogRing, log *slog.Logger) *foreground.Command {
	return foreground.New(foreground.Config{
		Name: "consume", Version: version, Session: o.Session, Slots: 1, Store: h.Kept, Read: status.ReadStreamStore,
		Own: func() progress.Work {
			own := h.Own()
			return progress.Work{Documents: own.Documents, Failed: own.Failed, SourceBytes: own.Bytes, Running: own.Running}
		},
		Sample: h.Sample,
		Clock:  timing.SystemClock(), Logs: lines, Log: log, Env: os.Getenv,
	})
}
