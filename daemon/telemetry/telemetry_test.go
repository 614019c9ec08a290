package telemetry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"errors"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/telemetry"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/tracing"
)

// received is the data that a collector has accepted.
type received struct {
	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics []*metricspb.Metric
	service map[string]string
}

// ServeHTTP accepts OTLP requests over HTTP.
func (c *received) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		in = unpacked
	}
	b, err := io.ReadAll(in)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/traces":
		var all collectortrace.ExportTraceServiceRequest
		err = proto.Unmarshal(b, &all)
		for _, x := range all.ResourceSpans {
			c.service = map[string]string{}
			for _, a := range x.Resource.Attributes {
				c.service[a.Key] = a.Value.GetStringValue()
			}
			for _, s := range x.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
			}
		}
	case "/v1/metrics":
		var all collectormetrics.ExportMetricsServiceRequest
		err = proto.Unmarshal(b, &all)
		for _, x := range all.ResourceMetrics {
			for _, s := range x.ScopeMetrics {
				c.metrics = append(c.metrics, s.Metrics...)
			}
		}
	default:
		err = errors.New(r.URL.Path)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

func env(all ...string) func(string) string {
	return func(name string) string {
		for _, x := range all {
			if n, v, _ := strings.Cut(x, "="); n == name {
				return v
			}
		}
		return ""
	}
}

// set sets the variables for the exporters, which read the environment themselves, too.
func set(t *testing.T, all ...string) func(string) string {
	t.Helper()
	for _, x := range all {
		n, v, _ := strings.Cut(x, "=")
		t.Setenv(n, v)
	}
	return env(all...)
}

// TestStart_NothingUnlessACollectorIsNamed: without a collector there is no exporter, no goroutine and no connection, and the context is
// the caller's.
func TestStart_NothingUnlessACollectorIsNamed(t *testing.T) {
	for _, variables := range [][]string{
		nil,
		{"OTEL_SERVICE_NAME=x"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_SDK_DISABLED=true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none"},
	} {
		ctx, sent, err := telemetry.Start(t.Context(), telemetry.Config{Env: env(variables...), Log: slog.New(slog.DiscardHandler)})
		if err != nil || sent != nil || ctx != t.Context() {
			t.Errorf("%v: %v, %v", variables, sent, err)
		}
		if err := sent.Measure(ctx, nil); err != nil {
			t.Error(err)
		}
		sent.Stop()
	}
}

// TestTelemetry_SpansAndMetricsArrive: a collector gets each lease as the root of a trace with its requests below, without credentials, and
// the metrics that /metrics shows.
func TestTelemetry_SpansAndMetricsArrive(t *testing.T) {
	c := &received{}
	collector := httptest.NewServer(c)
	defer collector.Close()
	asked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, "answer")
	}))
	defer asked.Close()
	variables := set(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_SERVICE_NAME=mover", "OTEL_RESOURCE_ATTRIBUTES=zone=b")
	ctx, sent, err := telemetry.Start(t.Context(), telemetry.Config{Command: "migrate", Version: "1", Session: "night", Env: variables, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	registry := metrics.NewRegistry(nil)
	registry.Add(metrics.Sample{Documents: 7, Failed: 2, Bulk: metrics.Latency{Count: 3, Seconds: 0.5, Buckets: [7]int64{1, 0, 2}}})
	registry.Lease("completed")
	if err := sent.Measure(ctx, registry); err != nil {
		t.Fatal(err)
	}
	ctx = tracing.With(ctx, attribute.String("rfsd.session", "night"))
	client := &http.Client{Transport: tracing.Transport(http.DefaultTransport, "target")}
	ask := func(ctx context.Context, path string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.Replace(asked.URL, "http://", "http://ann:secret-1@", 1)+path+"?X-Amz-Signature=secret-2", strings.NewReader("secret-3"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "secret-4")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	ask(ctx, "/before") // belongs to no lease
	for range 2 {
		of, span := tracing.Start(ctx, "lease", attribute.String("rfsd.index", "orders"))
		ask(of, "/_bulk")
		ask(of, "/refused")
		span.End()
	}
	text := httptest.NewRecorder()
	registry.Handler().ServeHTTP(text, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	sent.Stop()

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.service["service.name"] != "mover" || c.service["rfsd.session"] != "night" || c.service["zone"] != "b" || c.service["service.version"] != "1" {
		t.Errorf("the service is %v", c.service)
	}
	leases, requests := map[string]*tracepb.Span{}, map[string]int{}
	for _, s := range c.spans {
		if strings.Contains(s.String(), "secret") || strings.Contains(s.String(), "ann") || strings.Contains(s.String(), "/before") {
			t.Errorf("a span has %v", s)
		}
		if s.Name == "lease" {
			if len(s.ParentSpanId) > 0 || !strings.Contains(s.String(), "night") || !strings.Contains(s.String(), "orders") {
				t.Errorf("a lease is %v", s)
			}
			leases[string(s.SpanId)] = s
		}
	}
	for _, s := range c.spans {
		if s.Name == "lease" {
			continue
		}
		lease := leases[string(s.ParentSpanId)]
		if s.Name != "target POST" || lease == nil || !bytes.Equal(lease.TraceId, s.TraceId) || (s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != strings.Contains(s.String(), "/refused") {
			t.Errorf("a request is %v", s)
			continue
		}
		requests[string(lease.SpanId)]++
	}
	if len(leases) != 2 || len(requests) != 2 || len(c.spans) != 6 {
		t.Errorf("%d leases, %d of them with requests, %d spans", len(leases), len(requests), len(c.spans))
	}
	for _, want := range []string{`rfsd_documents_total{result="indexed"} 5`, `rfsd_documents_total{result="failed"} 2`, `rfsd_leases_total{outcome="completed"} 1`, "rfsd_bulk_request_duration_seconds_count 3", `rfsd_bulk_request_duration_seconds_bucket{le="0.1"} 3`} {
		if !strings.Contains(text.Body.String(), "\n"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
		if !shows(c.metrics, want) {
			t.Errorf("the collector lacks %s in %v", want, c.metrics)
		}
	}
	if n, m := strings.Count(text.Body.String(), "# TYPE "), len(c.metrics); n != m {
		t.Errorf("/metrics has %d metrics, the collector %d", n, m)
	}
}

// shows reports whether metrics of OTLP have a line of Prometheus' format.
func shows(all []*metricspb.Metric, line string) bool {
	for _, m := range all {
		for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
			var labels []string
			for _, a := range p.Attributes {
				labels = append(labels, fmt.Sprintf("%s=%q", a.Key, a.Value.GetStringValue()))
			}
			if line == fmt.Sprintf("%s{%s} %v", m.Name, strings.Join(labels, ","), p.GetAsDouble()) {
				return true
			}
		}
		for _, p := range m.GetHistogram().GetDataPoints() {
			sum := uint64(0)
			for i, bound := range p.ExplicitBounds {
				sum += p.BucketCounts[i]
				if line == fmt.Sprintf("%s_bucket{le=\"%v\"} %d", m.Name, bound, sum) {
					return true
				}
			}
			if line == fmt.Sprintf("%s_count %d", m.Name, p.Count) {
				return true
			}
		}
	}
	return false
}

// TestTelemetry_ACollectorThatTakesNothing costs one warning, at most the time of the last export, and nothing else.
func TestTelemetry_ACollectorThatTakesNothing(t *testing.T) {
	stolen := make(chan string, 100)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { stolen <- r.Header.Get("X-Key") }))
	defer other.Close()
	silent := make(chan struct{})
	for name, handler := range map[string]http.HandlerFunc{
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"sends it to another place": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
		"does not answer": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-silent },
		"is not there":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			address := "http://127.0.0.1:1"
			if handler != nil {
				collector := httptest.NewServer(handler)
				defer collector.Close()
				address = collector.URL
			}
			if name == "does not answer" {
				defer close(silent)
			}
			var log bytes.Buffer
			variables := set(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+address, "OTEL_EXPORTER_OTLP_HEADERS=x-key=secret-5", "OTEL_BSP_SCHEDULE_DELAY=10")
			ctx, sent, err := telemetry.Start(t.Context(), telemetry.Config{Env: variables, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if err := sent.Measure(ctx, metrics.NewRegistry(nil)); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			for range 10_000 {
				_, span := tracing.Start(ctx, "lease")
				span.End()
			}
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("the work took %v", took)
			}
			begin = time.Now()
			sent.Stop()
			if took := time.Since(begin); took > 7*time.Second {
				t.Errorf("the end took %v", took)
			}
			if n := strings.Count(log.String(), "level=WARN"); n != 1 || strings.Count(log.String(), "\n") != 1 || strings.Contains(log.String(), "secret") {
				t.Errorf("%d warnings:\n%s", n, log.String())
			}
			select {
			case key := <-stolen:
				t.Errorf("another place got a request with %q", key)
			default:
			}
		})
	}
}

// TestStart_RefusesWhatCannotBe names the variable that is wrong.
func TestStart_RefusesWhatCannotBe(t *testing.T) {
	variables := set(t, "OTEL_EXPORTER_OTLP_ENDPOINT=https://127.0.0.1:1", "OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere")
	if _, _, err := telemetry.Start(t.Context(), telemetry.Config{Env: variables, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_CERTIFICATE") {
		t.Errorf("%v", err)
	}
}
