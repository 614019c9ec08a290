package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// countedClock counts how often it is read.
type countedClock struct {
	timing.Clock
	reads atomic.Int64
}

func (c *countedClock) Read() timing.Reading {
	c.reads.Add(1)
	return c.Clock.Read()
}

// TestTheClockIsNotReadForEachDocument: a reading of all clocks takes longer than reading a small document.
func TestTheClockIsNotReadForEachDocument(t *testing.T) {
	s := migrationtest.NewShard(t, migrationtest.NewMemory(), &migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}}, time.Minute, 1000)
	clock := &countedClock{Clock: s.Runner.Clock}
	s.Runner.Clock = clock
	if outcome, err := s.Run(t.Context(), s.Lease(t)); outcome != engine.Completed || err != nil {
		t.Fatalf("%v: %v", outcome, err)
	}
	if n, all := clock.reads.Load(), s.Live(t, 1<<20); n > all/10 {
		t.Errorf("%d readings for %d documents", n, all)
	}
}
