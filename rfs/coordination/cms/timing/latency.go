package timing

import (
	"slices"
	"sync"
	"time"
)

const latencySamples = 64

// Latencies holds the durations of the latest requests to the store, including requests without an answer.
type Latencies struct {
	mu   sync.Mutex
	last [latencySamples]time.Duration
	n    int // requests measured
}

// Add records the duration of a request.
func (l *Latencies) Add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[l.n%latencySamples] = max(d, 0)
	l.n++
}

// P95 returns the 95th percentile of the durations; the maximum of fewer than 20, and 0 without any.
func (l *Latencies) P95() time.Duration {
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
