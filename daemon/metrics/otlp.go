package metrics

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Produce returns all metrics in OpenTelemetry's format, with the names and labels of Handler. The error is nil.
func (r *Registry) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	s := r.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []metricdata.Metrics
	for _, f := range slices.Concat(families(), processFamilies()) {
		var points []metricdata.DataPoint[float64]
		is := gauge
		f.read(func(k kind, value float64, labels ...string) {
			is = k
			set := make([]attribute.KeyValue, len(labels))
			for i, label := range labels {
				set[i] = attribute.String(f.labels[i], label)
			}
			points = append(points, metricdata.DataPoint[float64]{Attributes: attribute.NewSet(set...), StartTime: r.started, Time: s.now, Value: value})
		}, s)
		if len(points) == 0 {
			continue
		}
		m := metricdata.Metrics{Name: f.name, Description: f.help, Data: metricdata.Gauge[float64]{DataPoints: points}}
		if is == counter {
			m.Data = metricdata.Sum[float64]{DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
		}
		all = append(all, m)
	}
	for _, h := range histograms() {
		all = append(all, metricdata.Metrics{Name: h.name, Description: h.help, Data: metricdata.Histogram[float64]{
			Temporality: metricdata.CumulativeTemporality, DataPoints: []metricdata.HistogramDataPoint[float64]{h.latency(r.sum).point(r.started, s.now)}}})
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: "github.com/rfsd/rfsd"}, Metrics: all}}, nil
}

// point returns the distribution in OpenTelemetry's format.
func (l Latency) point(from, to time.Time) metricdata.HistogramDataPoint[float64] {
	p := metricdata.HistogramDataPoint[float64]{StartTime: from, Time: to, Bounds: Bounds[:], Sum: l.Seconds}
	for _, n := range l.Buckets {
		p.BucketCounts = append(p.BucketCounts, uint64(max(n, 0)))
		p.Count += uint64(max(n, 0))
	}
	return p
}
