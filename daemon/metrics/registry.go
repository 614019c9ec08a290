package metrics

import (
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
)

// Registry adds up the samples of workers, and exports them with the state of the node and the migration.
type Registry struct {
	report  func() status.Report
	started time.Time

	mu       sync.Mutex
	sum      Sample
	leases   map[string]int64    // outcome → leases
	ends     map[string]int64    // class of crash → workers
	reaped   int64               // workers killed because their lease was over
	refused  map[string]int64    // socket or port → connections
	events   map[[2]string]int64 // sink and result → events
	limit    int64               // --max-rate in bytes per second
	reading  int64               // --max-read-rate in bytes per second
	restarts int64
}

// NewRegistry returns a Registry. report returns the state of the node for each scrape; nil if the process is not a node, such as a lone
// worker.
func NewRegistry(report func() status.Report) *Registry {
	return &Registry{
		report: report, started: time.Now(),
		leases: map[string]int64{}, ends: map[string]int64{}, refused: map[string]int64{}, events: map[[2]string]int64{},
	}
}

// Add adds the work of a worker since its last sample.
func (r *Registry) Add(s Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum = r.sum.Plus(s)
}

// Total returns the sum over all samples.
func (r *Registry) Total() Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum
}

// Lease counts a lease that ended.
func (r *Registry) Lease(outcome string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leases[outcome]++
}

// Crash counts a worker that did not end cleanly. class is one of a few values (killed, panic, memory, …).
func (r *Registry) Crash(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends[class]++
}

// Restart counts the start of a worker that replaces an ended one.
func (r *Registry) Restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restarts++
}

// Reaped counts a worker that was killed because its lease was over.
func (r *Registry) Reaped() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reaped++
}

// Refused counts a connection that a socket or port refused, or closed before authentication.
func (r *Registry) Refused(listener string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[listener]++
}

// Event counts an event for a sink (webhook, command). result is sent, failed or dropped.
func (r *Registry) Event(sink, result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[[2]string{sink, result}]++
}

// Limit records the node's limits of sending and reading, in bytes per second; 0: none.
func (r *Registry) Limit(sending, reading int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit, r.reading = sending, reading
}
