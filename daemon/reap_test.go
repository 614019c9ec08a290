package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// deletable is a store that can be deleted.
type deletable struct {
	cms.Store
	deleted atomic.Bool
}

func (s *deletable) err() error {
	if s.deleted.Load() {
		return cms.ErrStoreGone
	}
	return nil
}

func (s *deletable) Now(ctx context.Context) (time.Time, time.Duration, error) {
	if err := s.err(); err != nil {
		return time.Time{}, 0, err
	}
	return s.Store.Now(ctx)
}

func (s *deletable) Record(ctx context.Context, id string) (cms.Record, error) {
	if err := s.err(); err != nil {
		return cms.Record{}, err
	}
	return s.Store.Record(ctx, id)
}

func (s *deletable) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if err := s.err(); err != nil {
		return cms.Item{}, 0, err
	}
	return s.Store.Apply(ctx, id, t)
}

// TestDaemon_EndsWhenItsStateIsDeleted: even while it releases the lease of a dead worker, which takes as long as the lease if the store
// does not answer.
func TestDaemon_EndsWhenItsStateIsDeleted(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		kept, starter := newStore(t, 4), &fakeStarter{stopped: handsOff}
		store := &deletable{Store: kept.Store()}
		d := New(Config{Name: "n1", Version: "test", Log: discard(), Workers: 1, Starter: starter, IntentInterval: time.Second, ReadInterval: time.Second,
			Open: func(context.Context) (*cms.Coordinator, error) {
				return cms.New(cms.Config{Store: store, Creator: "n1"}), nil
			}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		until(t, "a worker runs", func() bool { return len(starter.living()) == 1 })
		l, err := kept.AcquireNext(t.Context(), "w1", nil)
		if err != nil {
			t.Fatal(err)
		}
		w := starter.living()[0]
		w.report(Record{Lease: &Lease{Item: l.Item.ID, Holder: l.Holder, LeftMs: 600_000}})
		store.deleted.Store(true)
		w.end(End{Code: -1, Signal: "SIGKILL"})
		select {
		case err := <-done:
			if !errors.Is(err, cms.ErrStoreGone) {
				t.Errorf("it ends with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("it has not ended a minute later")
			cancel()
			<-done
		}
		cancel()
	})
}
