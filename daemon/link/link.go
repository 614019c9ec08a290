// Package link is a worker's end of the pipes to its daemon: records go to the daemon, commands come from it.
package link

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

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// maxCommand limits a line on the parent's pipe, in bytes: all options of a run.
const maxCommand = 4 << 20

// Pipe carries the records of a worker to the process that started it, and commands to the worker. A worker started by hand has a Pipe
// without a parent, which carries nothing. Its methods are safe for concurrent use.
type Pipe struct {
	// First is the first command: options, hints and limits.
	First daemon.WorkerCommand

	metricsFile string
	every       time.Duration // between samples; 0: none
	parent      *os.File      // nil: no parent
	commands    *bufio.Scanner

	stop    chan struct{} // ends the sampling
	sampler sync.WaitGroup

	mu  sync.Mutex // guards out
	out *os.File   // nil: no parent, or the final record has been sent
}

// Open opens the pipes of a worker and reads the first command. status and parent are file descriptors, below 3 for none. metricsFile is
// written with each sample; "": none.
func Open(status, parent int, metricsFile string) (*Pipe, error) {
	l := &Pipe{metricsFile: metricsFile, stop: make(chan struct{})}
	if status >= 3 {
		l.out = os.NewFile(uintptr(status), "status")
	}
	if parent < 3 {
		if l.metricsFile != "" {
			l.every = 10 * time.Second
		}
		return l, nil
	}
	l.parent = os.NewFile(uintptr(parent), "parent")
	l.commands = bufio.NewScanner(l.parent)
	l.commands.Buffer(nil, maxCommand)
	if !l.commands.Scan() {
		return nil, fmt.Errorf("the parent closed the pipe before it sent options: %w", errors.Join(io.ErrUnexpectedEOF, l.commands.Err()))
	}
	if err := json.Unmarshal(l.commands.Bytes(), &l.First); err != nil {
		return nil, err
	}
	l.every = l.First.Every
	return l, nil
}

// Attached reports whether the Pipe has a parent.
func (l *Pipe) Attached() bool { return l.parent != nil }

// Follow calls apply with every command, including the first, and returns a context that ends when the parent closes the pipe.
func (l *Pipe) Follow(ctx context.Context, apply func(daemon.WorkerCommand)) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if l.parent == nil {
		return ctx, cancel
	}
	apply(l.First)
	go func() { // it ends with the process, or with the parent
		defer cancel()
		for l.commands.Scan() {
			var command daemon.WorkerCommand
			if json.Unmarshal(l.commands.Bytes(), &command) == nil {
				apply(command)
			}
		}
	}()
	return ctx, cancel
}

// Begin sends the name of the worker, and samples from then on.
func (l *Pipe) Begin(holder string, read func() metrics.Sample, log *slog.Logger) {
	l.Send(daemon.Record{Holder: holder})
	if l.every <= 0 {
		return
	}
	l.sampler.Go(func() {
		every(l.every, l.stop, func() {
			sample := read()
			l.Send(daemon.Record{Sample: &sample})
			if err := l.writeMetrics(sample, ""); err != nil {
				log.Warn("the file of metrics was not written", "error", err)
			}
		})
	})
}

// every calls f at an interval until stop is closed.
func every(interval time.Duration, stop <-chan struct{}, f func()) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			f()
		}
	}
}

// Sample reports a sample every second until end is called.
func Sample(report func(daemon.Record), read func() metrics.Sample) (end func()) {
	stop := make(chan struct{})
	var sampler sync.WaitGroup
	sampler.Go(func() {
		every(time.Second, stop, func() {
			sample := read()
			report(daemon.Record{Sample: &sample})
		})
	})
	return func() { close(stop); sampler.Wait() }
}

// Moved returns a function that reports the phase in which a worker is.
func Moved(report func(daemon.Record)) func(phase, state string) {
	return func(phase, state string) {
		report(daemon.Record{Phase: &daemon.WorkerPhase{Name: phase, State: state}})
	}
}

// Leased returns the record of a migration item's lease.
func Leased(l *cms.Lease) daemon.Record {
	return daemon.Record{Lease: &daemon.Lease{Item: l.Item.ID, Holder: l.Holder, Index: l.ID.Index, Shard: l.ID.Shard, LeftMs: l.UntilEnd().Milliseconds()}}
}

// Send writes one record to the parent, if the Pipe has one: a status pipe alone gets only the final record.
func (l *Pipe) Send(r daemon.Record) {
	if l.parent != nil {
		l.write(r)
	}
}

// write writes one record, unless the status pipe is closed or missing. Whether the parent still exists is known from its own pipe.
func (l *Pipe) write(r daemon.Record) {
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

// SendFinal sends the final record, even without a parent; nothing is sent after it.
func (l *Pipe) SendFinal(r daemon.Record) {
	l.write(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil {
		l.out.Close()
		l.out = nil
	}
}

// Finish ends the sampling and sends the final record.
func (l *Pipe) Finish(r daemon.Record) (err error) {
	close(l.stop)
	l.sampler.Wait()
	if r.Sample != nil {
		err = l.writeMetrics(*r.Sample, r.Outcome)
	}
	l.SendFinal(r)
	return err
}

// writeMetrics writes the metrics file, if any. outcome is the outcome of an ended lease, or "".
func (l *Pipe) writeMetrics(sample metrics.Sample, outcome string) error {
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
