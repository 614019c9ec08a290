package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// deadlyAt ends its worker without any farewell when it comes to the document of an ordinal; 0: any.
type deadlyAt struct {
	ordinal  *int64
	leaveOut bool // all other documents
}

func (e deadlyAt) Forget() {}

func (e deadlyAt) Edit(d *doc.Document, _ int64) (bool, error) {
	if d.Ordinal == *e.ordinal || *e.ordinal == 0 {
		runtime.Goexit()
	}
	return !e.leaveOut, nil
}

// uncommitted is a destination like an export: nothing is durable before the end.
type uncommitted struct{ *migrationtest.SlowSink }

func (uncommitted) Durable() bool { return false }

func TestDeathsBlameOnlyTheDocumentThatCausesThem(t *testing.T) {
	for _, c := range []struct {
		name     string
		durable  bool
		leaveOut bool                 // all other documents
		at       func(life int) int64 // ordinal of the document at which this life ends; -1: none
		failed   bool
	}{
		{"always at the same document", true, false, func(int) int64 { return 700 }, true},
		{"always at the same document of an export", false, false, func(int) int64 { return 700 }, true},
		{"always at the first document", true, false, func(int) int64 { return 0 }, true},
		{"always at the same document, the others are left out", true, true, func(int) int64 { return 700 }, true},
		{"anywhere", true, false, func(life int) int64 { return rand.Int64N(1300)/int64(1+life%3) + 1 }, false},
		{"anywhere in an export", false, false, func(life int) int64 {
			if life == 60 {
				return -1
			}
			return rand.Int64N(1000) + 1
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}, Each: 100 * time.Millisecond}
				var d engine.Destination = to
				if !c.durable {
					d = uncommitted{to}
				}
				s := migrationtest.NewShard(t, migrationtest.NewMemory(), d, 10*time.Minute, 32)
				var ordinal int64
				s.Reader.Edit = func(string) shards.DocumentEditor { return deadlyAt{&ordinal, c.leaveOut} }
				deaths := 0
				for life := range 200 {
					ordinal = c.at(life)
					outcome, died := s.Lives(t)
					if died {
						deaths++
						continue
					}
					it := s.Item(t)
					if failed := outcome == engine.Failed && it.FailedItem(); failed != c.failed || !failed && outcome != engine.Completed {
						t.Fatalf("after %d deaths: %v, left as %+v", deaths, outcome, it)
					}
					if want := fmt.Sprintf("at ordinal %d:", ordinal); c.failed && !strings.Contains(it.Failure, want) {
						t.Errorf("failure %q, want %q", it.Failure, want)
					}
					break
				}
				if it := s.Item(t); it.Open() {
					t.Errorf("still open after %d deaths: %+v", deaths, it)
				}
				if c.failed && (deaths <= timing.DefaultMaxAttempts || deaths > 20) {
					t.Errorf("failed after %d deaths", deaths)
				}
			})
		})
	}
}

// deadlyOpen is a destination whose opening ends the worker as often as it says.
type deadlyOpen struct {
	*migrationtest.SlowSink
	deaths *int
}

func (d deadlyOpen) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	if *d.deaths--; *d.deaths >= 0 {
		runtime.Goexit()
	}
	return d.SlowSink.Open(ctx, id, mayStart)
}

// TestDeathsBeforeTheFirstDocumentBlameNothing: a process that is killed as soon as it starts has worked on nothing.
func TestDeathsBeforeTheFirstDocumentBlameNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 30
		s := migrationtest.NewShard(t, migrationtest.NewMemory(), deadlyOpen{&migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}}, &left}, 10*time.Minute, 32)
		for life := range 30 {
			if outcome, died := s.Lives(t); !died {
				t.Fatalf("life %d ended: %v", life, outcome)
			}
		}
		if outcome, died := s.Lives(t); died || outcome != engine.Completed {
			t.Errorf("died %v, %v, left as %+v", died, outcome, s.Item(t))
		}
	})
}

// TestLeasesMoveOnWhenTheStoreIsSlow: each request to the store takes a tenth of the initial lease.
func TestLeasesMoveOnWhenTheStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &migrationtest.SlowStore{Memory: migrationtest.NewMemory(), Decide: migrationtest.Always(time.Second), Answer: migrationtest.Always(time.Second)}
		defer store.Under.Wait()
		to := &migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}, Each: 3 * time.Second}
		s := migrationtest.NewShard(t, store, to, 20*time.Second, 64) // 60 s of requests to the target
		begin := time.Now()
		for range 20 {
			l, err := s.Coordinator.AcquireOneOf(t.Context(), "worker", []string{s.ID.String()})
			if err != nil {
				t.Fatal(err)
			}
			if l == nil { // waits for its own lease
				t.Fatalf("not free: %+v", s.Item(t))
			}
			outcome, err := s.Run(t.Context(), l)
			if outcome == engine.Lost || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: %v", outcome, err)
			}
			if it := s.Item(t); it.Attempts != 0 {
				t.Errorf("%d attempts", it.Attempts)
			} else if it.Successors != "" {
				s.ID.Cursor = it.Watermark
			} else if !it.Open() {
				break
			}
		}
		if it := s.Item(t); it.Open() || it.FailedItem() {
			t.Errorf("left as %+v", it)
		}
		if took := time.Since(begin); took > 3*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}
