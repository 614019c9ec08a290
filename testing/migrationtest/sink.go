package migrationtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/shards"
)

// Sink stores the last source of every id, as a cluster does, and may end the run.
type Sink struct {
	mu    sync.Mutex
	Docs  map[string][32]byte
	Sends int
	After int // number of bodies after which end is called; 0: never
	End   context.CancelFunc
	Edit  func(index string) shards.DocumentEditor // of the run; nil: none
}

// Open returns the output itself.
func (s *Sink) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) { return s, nil }

// Durable returns true.
func (s *Sink) Durable() bool { return true }

// Commit does nothing.
func (s *Sink) Commit(context.Context) error { return nil }

// Abort does nothing.
func (s *Sink) Abort() error { return nil }

// Send stores the digests of the sources in a body.
func (s *Sink) Send(ctx context.Context, body []byte, _ int) (bulk.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Sends++
	if s.After > 0 && s.Sends >= s.After {
		s.End()
	}
	for len(body) > 0 {
		action, rest, _ := bytes.Cut(body, []byte("\n"))
		source, next, _ := bytes.Cut(rest, []byte("\n"))
		s.Docs[string(action)] = sha256.Sum256(source)
		body = next
	}
	return bulk.Result{}, ctx.Err()
}

// SlowSink accepts each body after a delay, and records the times.
type SlowSink struct {
	Sink
	Each time.Duration

	mu    sync.Mutex
	Times []time.Time
}

// Open returns the output itself.
func (s *SlowSink) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return s, nil
}

// Send accepts a body after a delay.
func (s *SlowSink) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if err := timing.SystemClock().Sleep(ctx, s.Each); err != nil {
		return bulk.Result{}, err
	}
	s.mu.Lock()
	s.Times = append(s.Times, time.Now())
	s.mu.Unlock()
	return s.Sink.Send(ctx, body, n)
}

// NoFailures is a Recorder for data without failed documents.
type NoFailures struct{}

// Record returns an error that names the failed documents.
func (NoFailures) Record(_ context.Context, failures []doc.Failure) error {
	return fmt.Errorf("documents failed that should not: %+v", failures)
}

// Sync does nothing.
func (NoFailures) Sync(context.Context) error { return nil }

// DroppedFailures is a Recorder that drops all failures.
type DroppedFailures struct{}

// Record does nothing.
func (DroppedFailures) Record(context.Context, []doc.Failure) error { return nil }

// Sync does nothing.
func (DroppedFailures) Sync(context.Context) error { return nil }
