package bulk

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// outageSender refuses everything for a while. A request takes 50 ms.
type outageSender struct {
	from, to time.Time // it refuses between them

	mu       sync.Mutex
	accepted []time.Time
	refused  int
}

func (s *outageSender) Send(ctx context.Context, _ []byte, _ int) (Result, error) {
	if err := wait.For(ctx, 50*time.Millisecond); err != nil {
		return Result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.After(s.from) && now.Before(s.to) {
		s.refused++
		return Result{}, fmt.Errorf("429: %w", fault.ErrUnavailable)
	}
	s.accepted = append(s.accepted, now)
	return Result{}, nil
}

// TestTheFullRateIsBackSoonAfterAnOutage: 4 requests at a time make 80 a second. At most 5 s after an outage it is that
// again, however long the outage was and however many loaders there are; few requests are wasted.
func TestTheFullRateIsBackSoonAfterAnOutage(t *testing.T) {
	for _, loaders := range []int{1, 2} {
		for _, connections := range []int{1, 4} {
			for _, outage := range []time.Duration{5 * time.Second, 20 * time.Second, 60 * time.Second} {
				synctest.Test(t, func(t *testing.T) {
					begin := time.Now()
					s := &outageSender{from: begin.Add(10 * time.Second), to: begin.Add(10*time.Second + outage)}
					ctx, stop := context.WithDeadline(t.Context(), s.to.Add(20*time.Second))
					defer stop()
					shared := &Recovery{}
					var all sync.WaitGroup
					for range loaders {
						all.Go(func() {
							l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 1, MaxInFlight: connections, Recovery: shared})
							for n := int64(0); l.Add(ctx, &doc.Document{Index: []byte("i"), ID: []byte("1"), Source: []byte("{}"), Ordinal: n}) == nil; n++ {
							}
							l.Abort()
						})
					}
					all.Wait()
					full := 20 * loaders * connections // a second
					back := 20 * time.Second
					for i := range s.accepted {
						if end := i + full*9/10; s.accepted[i].After(s.to) && end < len(s.accepted) && s.accepted[end].Sub(s.accepted[i]) <= time.Second {
							back = s.accepted[i].Sub(s.to)
							break
						}
					}
					if back > 5*time.Second || s.refused > 30*loaders*connections {
						t.Errorf("%d loaders of %d requests: full rate %v after an outage of %v, %d requests refused", loaders, connections, back, outage, s.refused)
					}
				})
			}
		}
	}
}
