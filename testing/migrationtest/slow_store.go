package migrationtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// SlowStore applies requests after a delay and responds after another. Like a server, it applies a request even if its sender has stopped
// waiting. During the silence it neither applies requests nor responds.
type SlowStore struct {
	*Memory
	Decide, Answer func(cms.Transition) time.Duration

	From, To time.Time // the silence
	Under    sync.WaitGroup
}

func (s *SlowStore) wait(d time.Duration) {
	time.Sleep(d)
	if now := time.Now(); now.After(s.From) && now.Before(s.To) {
		time.Sleep(s.To.Sub(now))
	}
}

// ask runs f as a server does and waits for its response until ctx is done.
func ask[T any](ctx context.Context, s *SlowStore, f func() T) (answer T, err error) {
	done := make(chan T, 1)
	s.Under.Go(func() { done <- f() })
	select {
	case answer = <-done:
		return answer, nil
	case <-ctx.Done():
		return answer, fmt.Errorf("no answer: %w: %w", ctx.Err(), fault.ErrUnavailable)
	}
}

// Apply applies a transition after a delay and responds after another.
func (s *SlowStore) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	type decided struct {
		it  cms.Item
		v   cms.Result
		err error
	}
	d, err := ask(ctx, s, func() (d decided) {
		s.wait(s.Decide(t))
		d.it, d.v, d.err = s.Memory.Apply(context.Background(), id, t)
		s.wait(s.Answer(t))
		return d
	})
	if err != nil {
		return cms.Item{}, 0, err
	}
	return d.it, d.v, d.err
}

// Get returns an item, except during the silence.
func (s *SlowStore) Get(ctx context.Context, id string) (it cms.Item, err error) {
	_, aerr := ask(ctx, s, func() error {
		s.wait(0)
		it, err = s.Memory.Get(context.Background(), id)
		return nil
	})
	if aerr != nil {
		return cms.Item{}, aerr
	}
	return it, err
}

// Always returns the same duration for every transition.
func Always(d time.Duration) func(cms.Transition) time.Duration {
	return func(cms.Transition) time.Duration { return d }
}
