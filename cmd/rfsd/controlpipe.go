package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// pollIntent is how often a worker without a daemon asks what the operator wants.
const pollIntent = 15 * time.Second

// maxCommand bounds a line on the parent's pipe: all options of a run.
const maxCommand = 4 << 20

// controlPipe carries the records of a worker to the process that started it, and its commands to the worker.
type controlPipe struct {
	metricsFile string
	every       time.Duration        // between samples; 0: none
	first       daemon.WorkerCommand // options, hints and bounds of the begin
	level       slog.LevelVar
	parent      *os.File // nil: the process has no parent that listens
	commands    *bufio.Scanner

	stop    chan struct{} // ends the sampling
	sampler sync.WaitGroup

	mu  sync.Mutex // of out
	out *os.File   // nil: no parent listens, or the final record is sent
}

// openControlPipe opens the pipes. It returns the settings with those that come through them.
func openControlPipe(call *config.Call) (*controlPipe, config.Values, error) {
	values := call.Given()
	var c config.Link
	if err := config.Decode(values, &c); err != nil {
		return nil, nil, err
	}
	l := &controlPipe{metricsFile: c.MetricsFile, stop: make(chan struct{})}
	if c.StatusFD >= 3 {
		l.out = os.NewFile(uintptr(c.StatusFD), "status")
	}
	if c.ParentFD < 3 {
		if l.metricsFile != "" {
			l.every = 10 * time.Second
		}
		return l, values, nil
	}
	l.parent = os.NewFile(uintptr(c.ParentFD), "parent")
	l.commands = bufio.NewScanner(l.parent)
	l.commands.Buffer(nil, maxCommand)
	if !l.commands.Scan() {
		return nil, nil, config.Usage("--parent-fd: no options came (%w)", errors.Join(io.ErrUnexpectedEOF, l.commands.Err()))
	}
	if err := json.Unmarshal(l.commands.Bytes(), &l.first); err != nil {
		return nil, nil, config.Usage("--parent-fd: %w", err)
	}
	l.every = l.first.Every
	for name := range l.first.Options {
		if _, known := config.Find(call.Settings, name); !known {
			return nil, nil, config.Usage("--parent-fd: option --%s does not exist", name)
		}
	}
	return l, config.Values(l.first.Options).Over(values), nil
}

// logger logs as the run does; under a daemon always JSON that names the slot, of a level that may change.
func (l *controlPipe) logger(o options) *slog.Logger {
	if l.parent == nil {
		log, _ := report.Log(o.logLevel)
		return log
	}
	l.level.Set(o.logLevel)
	return slog.New(slog.NewJSONHandler(terminal.NewWriter(os.Stderr), report.LogOptions(&l.level))).With("slot", l.first.Slot, "pid", os.Getpid())
}

// handle follows the parent's commands; the context ends when the parent is gone.
func (l *controlPipe) handle(ctx context.Context, in *resources) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if l.parent == nil {
		return ctx, cancel
	}
	in.run = l.first.Holder
	l.follow(in, l.first)
	go func() { // it ends with the process, or with the parent
		defer cancel()
		for l.commands.Scan() {
			var command daemon.WorkerCommand
			if json.Unmarshal(l.commands.Bytes(), &command) != nil {
				continue
			}
			l.follow(in, command)
			if command.LogLevel != "" {
				var level slog.Level
				if level.UnmarshalText([]byte(command.LogLevel)) == nil {
					l.level.Set(level)
				}
			}
		}
	}()
	return ctx, cancel
}

// follow takes over what bounds the work, and reports the rate that it follows.
func (l *controlPipe) follow(in *resources, o daemon.WorkerCommand) {
	in.apply(o)
	if o.Rate != nil {
		l.send(daemon.Record{Rate: in.rateOrder})
	}
}

// apply takes over what bounds the work.
func (in *resources) apply(o daemon.WorkerCommand) {
	if r := o.Rate; r != nil && r.Number > in.rateOrder {
		in.rateOrder = r.Number
		in.bucket.Allow(r.BytesPerSecond, endOf(*r))
	}
	if o.Pace != nil {
		in.pace.Set(o.Pace.Target)
		in.reads.Set(o.Pace.Repository)
	}
}

// endOf returns the time that is left of a command of a rate; nil: it has no end.
func endOf(r daemon.RateCommand) func() time.Duration {
	if r.Until == 0 {
		return nil
	}
	clock := cms.SystemClock()
	end := clock.Read().Boot + time.Duration(r.LeftMs)*time.Millisecond
	return func() time.Duration {
		now := clock.Read()
		return min(end-now.Boot, time.Until(time.UnixMilli(r.Until)))
	}
}

// poll is how often the worker has to ask itself what the operator wants; 0: its parent does.
func (l *controlPipe) poll() time.Duration {
	if l.parent != nil {
		return 0
	}
	return pollIntent
}

// begin says who works, and samples from then on.
func (l *controlPipe) begin(holder string, read func() metrics.Sample, log *slog.Logger) {
	if l.parent != nil {
		l.send(daemon.Record{Holder: holder})
	}
	if l.every <= 0 {
		return
	}
	l.sampler.Go(func() {
		t := time.NewTicker(l.every)
		defer t.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-t.C:
			}
			sample := read()
			if l.parent != nil {
				l.send(daemon.Record{Sample: &sample})
			}
			if err := l.writeMetrics(sample, ""); err != nil {
				log.Warn("metrics", "error", err)
			}
		}
	})
}

// leased tells of the lease.
func (l *controlPipe) leased(lease *cms.Lease) {
	if l.parent != nil {
		r := daemon.Lease{Item: lease.Item.ID, Holder: lease.Holder, Index: lease.ID.Index, Shard: lease.ID.Shard, LeftMs: lease.UntilEnd().Milliseconds()}
		l.send(daemon.Record{Lease: &r})
	}
}

// send writes one record. A parent that is gone is noticed on its other pipe.
func (l *controlPipe) send(r daemon.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		return
	}
	if err := json.NewEncoder(l.out).Encode(r); err != nil {
		fmt.Fprintln(terminal.NewWriter(os.Stderr), "rfsd: status record:", err)
		l.out = nil
	}
}

// sendFinal sends the final record; nothing is sent after it.
func (l *controlPipe) sendFinal(r daemon.Record) {
	l.send(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Close()
		l.out = nil
	}
}

// finish says how the worker ends, and returns it as the end of the command.
func (l *controlPipe) finish(r daemon.Record, err error) error {
	close(l.stop)
	l.sampler.Wait()
	noteError(&r, err)
	if r.Sample != nil {
		err = errors.Join(err, l.writeMetrics(*r.Sample, r.Outcome))
	}
	l.sendFinal(r)
	return exit.With(exit.Code(*r.Exit), err)
}

// writeMetrics writes the file, when one is wanted; outcome is that of a lease that ended.
func (l *controlPipe) writeMetrics(sample metrics.Sample, outcome string) error {
	if l.metricsFile == "" {
		return nil
	}
	registry := metrics.NewRegistry(nil)
	registry.Add(sample)
	if outcome != "" {
		registry.Lease(outcome)
	}
	return registry.WriteFile(l.metricsFile)
}
