package worker

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
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/shards"
)

// deadlyAt ends its worker without any farewell when it comes to the document of an ordinal; 0: any.
type deadlyAt struct{ ordinal *int64 }

func (e deadlyAt) Forget() {}

func (e deadlyAt) Edit(d *doc.Document, _ int64) (bool, error) {
	if d.Ordinal == *e.ordinal || *e.ordinal == 0 {
		runtime.Goexit()
	}
	return true, nil
}

// uncommitted is a destination like an export: nothing is durable before the end.
type uncommitted struct{ *slowSink }

func (uncommitted) Durable() bool { return false }

// lives runs the item's lease once, in a worker that may die.
func (s *oneShard) lives(t *testing.T) (outcome engine.Outcome, died bool) {
	t.Helper()
	l := s.lease(t)
	died = true
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		outcome, _ = s.run(t.Context(), l)
		died = false
	}()
	<-ended
	synctest.Wait()
	if died {
		if _, _, err := s.store.Apply(t.Context(), s.id.String(), cms.Reclaim{}); err != nil {
			t.Fatal(err)
		}
	}
	return outcome, died
}

func TestDeathsBlameOnlyTheDocumentThatCausesThem(t *testing.T) {
	for _, c := range []struct {
		name    string
		durable bool
		at      func(life int) int64 // ordinal of the document at which this life ends; -1: none
		failed  bool
	}{
		{"always at the same document", true, func(int) int64 { return 700 }, true},
		{"always at the same document of an export", false, func(int) int64 { return 700 }, true},
		{"always at the first document", true, func(int) int64 { return 0 }, true},
		{"anywhere", true, func(life int) int64 { return rand.Int64N(1300)/int64(1+life%3) + 1 }, false},
		{"anywhere in an export", false, func(life int) int64 {
			if life == 60 {
				return -1
			}
			return rand.Int64N(1000) + 1
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &slowSink{sink: sink{docs: map[string][32]byte{}}, each: 100 * time.Millisecond}
				var d engine.Destination = to
				if !c.durable {
					d = uncommitted{to}
				}
				s := newShard(t, newMemory(), d, 10*time.Minute, 32)
				var ordinal int64
				s.reader.Edit = func(string) shards.DocumentEditor { return deadlyAt{&ordinal} }
				deaths := 0
				for life := range 200 {
					ordinal = c.at(life)
					outcome, died := s.lives(t)
					if died {
						deaths++
						continue
					}
					it := s.item(t)
					if failed := outcome == engine.Failed && it.FailedItem(); failed != c.failed || !failed && outcome != engine.Completed {
						t.Fatalf("after %d deaths: %v, left as %+v", deaths, outcome, it)
					}
					if want := fmt.Sprintf("at ordinal %d:", ordinal); c.failed && !strings.Contains(it.Failure, want) {
						t.Errorf("failure %q, want %q", it.Failure, want)
					}
					break
				}
				if it := s.item(t); it.Open() {
					t.Errorf("still open after %d deaths: %+v", deaths, it)
				}
				if c.failed && (deaths <= cms.DefaultMaxAttempts || deaths > 20) {
					t.Errorf("failed after %d deaths", deaths)
				}
			})
		})
	}
}

// deadlyOpen is a destination whose opening ends the worker as often as it says.
type deadlyOpen struct {
	*slowSink
	deaths *int
}

func (d deadlyOpen) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	if *d.deaths--; *d.deaths >= 0 {
		runtime.Goexit()
	}
	return d.slowSink.Open(ctx, id, mayStart)
}

// TestDeathsBeforeTheFirstDocumentBlameNothing: a process that is killed as soon as it starts has worked on nothing.
func TestDeathsBeforeTheFirstDocumentBlameNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 30
		s := newShard(t, newMemory(), deadlyOpen{&slowSink{sink: sink{docs: map[string][32]byte{}}}, &left}, 10*time.Minute, 32)
		for life := range 30 {
			if outcome, died := s.lives(t); !died {
				t.Fatalf("life %d ended: %v", life, outcome)
			}
		}
		if outcome, died := s.lives(t); died || outcome != engine.Completed {
			t.Errorf("died %v, %v, left as %+v", died, outcome, s.item(t))
		}
	})
}

// TestLeasesMoveOnWhenTheStoreIsSlow: each request to the store takes a tenth of the initial lease.
func TestLeasesMoveOnWhenTheStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{memory: newMemory(), decide: always(time.Second), answer: always(time.Second)}
		defer store.under.Wait()
		to := &slowSink{sink: sink{docs: map[string][32]byte{}}, each: 3 * time.Second}
		s := newShard(t, store, to, 20*time.Second, 64) // 60 s of requests to the target
		begin := time.Now()
		for range 20 {
			l, err := s.coordinator.AcquireOneOf(t.Context(), "worker", []string{s.id.String()})
			if err != nil {
				t.Fatal(err)
			}
			if l == nil { // waits for its own lease
				t.Fatalf("not free: %+v", s.item(t))
			}
			outcome, err := s.run(t.Context(), l)
			if outcome == engine.Lost || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: %v", outcome, err)
			}
			if it := s.item(t); it.Attempts != 0 {
				t.Errorf("%d attempts", it.Attempts)
			} else if it.Successors != "" {
				s.id.Cursor = it.Watermark
			} else if !it.Open() {
				break
			}
		}
		if it := s.item(t); it.Open() || it.FailedItem() {
			t.Errorf("left as %+v", it)
		}
		if took := time.Since(begin); took > 3*time.Minute {
			t.Errorf("took %v", took)
		}
	})
}
