package daemon

import (
	"context"
	"time"
)

// Starter starts workers. Both functions are called by other goroutines: report for every record, and ended once, after the last record,
// when the worker is known to be dead.
type Starter interface {
	Start(slot int, first WorkerCommand, report func(Record), ended func(End)) (Worker, error)
}

// Worker is a running worker.
type Worker interface {
	PID() int           // 0 for a slot inside the daemon
	Stop()              // makes it hand off and end
	Kill()              // kills it
	Send(WorkerCommand) // sends a change
}

// InProcess runs workers as goroutines, for a store that only one process can open.
type InProcess struct {
	// Run runs one lease. When ctx is done it has to hand off.
	Run func(ctx context.Context, slot int, report func(Record)) Record
	// Exit ends the process. It is called if a killed slot has not returned within KillTimeout.
	Exit        func(reason string)
	KillTimeout time.Duration // default 10 s
}

type inProcessWorker struct {
	stop context.CancelFunc
	done chan struct{}
	in   *InProcess
}

// Start runs a lease in a goroutine.
func (s *InProcess) Start(slot int, _ WorkerCommand, report func(Record), ended func(End)) (Worker, error) {
	ctx, cancel := context.WithCancel(context.Background()) // ended by Stop
	w := &inProcessWorker{stop: cancel, done: make(chan struct{}), in: s}
	go func() {
		defer cancel()
		last := s.Run(ctx, slot, report)
		close(w.done)
		code := ExitFailed
		if last.Exit != nil {
			code = *last.Exit
		}
		ended(End{Code: code, Last: &last})
	}()
	return w, nil
}

func (w *inProcessWorker) PID() int           { return 0 }
func (w *inProcessWorker) Stop()              { w.stop() }
func (w *inProcessWorker) Send(WorkerCommand) {}

// Kill cancels the slot, and ends the process if the slot does not return within KillTimeout.
func (w *inProcessWorker) Kill() {
	w.stop()
	patience := w.in.KillTimeout
	if patience <= 0 {
		patience = 10 * time.Second
	}
	go func() {
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-w.done:
		case <-t.C:
			w.in.Exit("a slot did not return after its lease was over")
		}
	}()
}
