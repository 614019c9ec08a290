package metrics

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rfsd/rfsd/daemon/status"
)

// Registry adds up the samples of workers and shows them, and the state of node and migration,
// to Prometheus. It has a registry of its own: nothing global is touched.
type Registry struct {
	prometheus *prometheus.Registry
	report     func() status.Report

	mu       sync.Mutex
	sum      Sample
	leases   map[string]int64    // outcome → leases
	ends     map[string]int64    // why a worker ended that should not have
	reaped   int64               // workers whose lease was over
	refused  map[string]int64    // socket or port → connections
	events   map[[2]string]int64 // sink and result → events
	limit    int64               // --max-rate in bytes per second
	restarts int64
}

// NewRegistry returns a registry. report returns the state of the node on each scrape; nil
// when there is no node, as in a lone worker.
func NewRegistry(report func() status.Report) *Registry {
	r := &Registry{
		prometheus: prometheus.NewPedanticRegistry(), report: report,
		leases: map[string]int64{}, ends: map[string]int64{}, refused: map[string]int64{}, events: map[[2]string]int64{},
	}
	r.prometheus.MustRegister(r, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Handler serves the metrics as text.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.prometheus, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// WriteFile writes the metrics to a file in the text format, at once or not at all.
func (r *Registry) WriteFile(name string) error {
	if err := prometheus.WriteToTextfile(name, r.prometheus); err != nil {
		return fmt.Errorf("metrics file: %w", err)
	}
	return nil
}

// Add adds what a worker did since its last sample.
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

// Crash counts a worker that did not end cleanly; class is one of a few values (killed, panic, memory, …).
func (r *Registry) Crash(class string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends[class]++
}

// Restart counts the start of a worker in place of one that ended.
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

// Refused counts a connection that a socket or port refused, or closed before it was authenticated.
func (r *Registry) Refused(listener string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[listener]++
}

// Event counts an event that was sent to a sink (webhook, command); result is sent, failed or dropped.
func (r *Registry) Event(sink, result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[[2]string{sink, result}]++
}

// Limit notes the rate that the node keeps to, in bytes per second; 0: none.
func (r *Registry) Limit(bytesPerSecond int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = bytesPerSecond
}

// family is one metric: its description and how it is read.
type family struct {
	name, help string
	labels     []string
	read       func(emit emitter, s state)
}

type emitter func(kind prometheus.ValueType, value float64, labels ...string)

// state is what one collection shows.
type state struct {
	*Registry
	report *status.Report
	now    time.Time
}

// Describe lists the families.
func (r *Registry) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families() {
		ch <- f.desc()
	}
	for _, h := range histograms() {
		ch <- h.desc()
	}
}

func (f family) desc() *prometheus.Desc { return prometheus.NewDesc(f.name, f.help, f.labels, nil) }

// Collect reads everything at this moment.
func (r *Registry) Collect(ch chan<- prometheus.Metric) {
	s := state{Registry: r, now: time.Now()}
	if r.report != nil {
		rep := r.report()
		s.report = &rep
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range families() {
		desc := f.desc()
		f.read(func(kind prometheus.ValueType, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
		}, s)
	}
	for _, h := range histograms() {
		l := h.latency(r.sum)
		buckets, sum := map[float64]uint64{}, uint64(0)
		for i, bound := range Bounds {
			sum += uint64(max(l.Buckets[i], 0))
			buckets[bound] = sum
		}
		ch <- prometheus.MustNewConstHistogram(h.desc(), uint64(max(l.Count, 0)), l.Seconds, buckets)
	}
}

func counts(emit emitter, m map[string]int64) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		emit(prometheus.CounterValue, float64(m[k]), k)
	}
}
