package cms

import (
	"slices"
	"sync"
	"time"
)

const (
	latencySamples = 64
	// handoffRequests is the number of successive requests of a hand-off: two to make sure that the
	// target is the same, and those that store the successor's id, create it and complete the item.
	handoffRequests = 5
)

// latencies holds the durations of the latest requests to the store, also of those without an answer.
type latencies struct {
	mu   sync.Mutex
	last [latencySamples]time.Duration
	n    int // requests measured
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[l.n%latencySamples] = max(d, 0)
	l.n++
}

// p95 returns the duration that 95 of 100 requests do not exceed; the longest of less than 20.
func (l *latencies) p95() time.Duration {
	l.mu.Lock()
	n := min(l.n, latencySamples)
	sorted := slices.Clone(l.last[:n])
	l.mu.Unlock()
	if n == 0 {
		return 0
	}
	slices.Sort(sorted)
	return sorted[(n*95+99)/100-1]
}
