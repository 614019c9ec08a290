package events

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/retry"
)

const (
	sinkQueueSize   = 256
	deliveryTimeout = 15 * time.Second
)

// deliveries limits the attempts to deliver an event. Every error is retried.
var deliveries = retry.Policy{Tries: 5, First: time.Second, Max: time.Minute, Passes: func(error) bool { return true }}

// sinkWorker delivers the events of one sink in sequence. The mutex of bus guards its maps.
type sinkWorker struct {
	sink   Sink
	bus    *Bus
	queue  chan status.Event
	queued map[string]bool // ids of the store's events that are queued or being delivered
	taken  map[string]bool // ids of the store's events that were delivered
}

func newSinkWorker(s Sink, b *Bus) *sinkWorker {
	return &sinkWorker{sink: s, bus: b, queue: make(chan status.Event, sinkQueueSize), queued: map[string]bool{}, taken: map[string]bool{}}
}

// offer queues an event unless it was delivered, and returns false if the queue is full. The mutex of bus is held.
func (s *sinkWorker) offer(e status.Event) bool {
	if e.ID != "" && (s.queued[e.ID] || s.taken[e.ID]) {
		return true
	}
	select {
	case s.queue <- e:
		if e.ID != "" {
			s.queued[e.ID] = true
		}
		return true
	default:
		return false
	}
}

// run delivers events until the bus is closed and the queue is empty. After ctx is done, each delivery fails immediately.
func (s *sinkWorker) run(ctx context.Context) {
	for {
		select {
		case e := <-s.queue:
			s.deliver(ctx, e)
			continue
		default:
		}
		select {
		case e := <-s.queue:
			s.deliver(ctx, e)
		case <-s.bus.closing:
			if len(s.queue) == 0 {
				return
			}
		}
	}
}

// deliver delivers an event, with retries.
func (s *sinkWorker) deliver(ctx context.Context, e status.Event) {
	err := deliveries.Do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
		defer cancel()
		return s.sink.Deliver(ctx, e)
	})
	name := s.sink.Name()
	if err == nil {
		s.bus.conf.Metrics.Event(name, "sent")
	} else {
		s.bus.conf.Metrics.Event(name, "failed")
		s.bus.conf.Log.Warn("event not delivered", "sink", name, "code", e.Code, "subject", e.Subject, "again", e.ID != "", "error", err)
	}
	s.bus.settle(ctx, s, e, err == nil)
}
