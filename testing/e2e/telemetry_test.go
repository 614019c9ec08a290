package e2e

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/objectserver"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// span is a span as a collector has it.
type span struct {
	trace, id, parent, name string
	attributes              map[string]string
}

// collected is what a collector has: spans, and the last value of each metric by its name and labels.
type collected struct {
	mu      sync.Mutex
	spans   []span
	metrics map[string]float64
}

// ServeHTTP takes requests of OTLP by HTTP.
func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	unpacked := io.Reader(r.Body)
	var err error
	if r.Header.Get("Content-Encoding") == "gzip" {
		if unpacked, err = gzip.NewReader(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	b, err := io.ReadAll(unpacked)
	if err == nil {
		err = c.add(b, r.URL.Path == "/v1/traces")
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

// add decodes a message by the types of OTLP's specification.
func (c *collected) add(message []byte, traces bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if traces {
		return c.addSpans(message)
	}
	return c.addMetrics(message)
}

func (c *collected) addSpans(message []byte) error {
	var spans collectortrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(message, &spans); err != nil {
		return err
	}
	for _, x := range spans.ResourceSpans {
		for _, y := range x.ScopeSpans {
			for _, s := range y.Spans {
				is := span{hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), s.Name, map[string]string{}}
				for _, a := range s.Attributes {
					is.attributes[a.Key] = a.Value.GetStringValue()
					if n := a.Value.GetIntValue(); n != 0 {
						is.attributes[a.Key] = fmt.Sprint(n)
					}
				}
				c.spans = append(c.spans, is)
			}
		}
	}
	return nil
}

func (c *collected) addMetrics(message []byte) error {
	var metrics collectormetrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(message, &metrics); err != nil {
		return err
	}
	for _, x := range metrics.ResourceMetrics {
		for _, y := range x.ScopeMetrics {
			for _, m := range y.Metrics {
				for _, p := range append(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints()...) {
					name := m.Name
					for _, a := range p.Attributes {
						name += " " + a.Value.GetStringValue()
					}
					c.metrics[name] = p.GetAsDouble()
				}
			}
		}
	}
	return nil
}

// addFile adds the messages of a file of a collector.
func (c *collected) addFile(t *testing.T, name string, traces bool) {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	for len(b) >= 4 {
		size := int(binary.BigEndian.Uint32(b))
		must(t, c.add(b[4:4+size], traces))
		b = b[4+size:]
	}
}

// startCollector returns the address of a collector, and a function that ends it and returns what it has. A real one is a program that writes
// files; the other is a server of this process.
func startCollector(t *testing.T, genuine bool) (address string, end func() *collected) {
	t.Helper()
	got := &collected{metrics: map[string]float64{}}
	if !genuine {
		server := httptest.NewServer(got)
		return server.URL, func() *collected { server.Close(); return got }
	}
	c := objectserver.StartCollector(t)
	return c.Endpoint, func() *collected {
		must(t, c.Stop())
		got.addFile(t, c.Traces, true)
		got.addFile(t, c.Metrics, false)
		return got
	}
}

// TestTelemetry_EachLeaseIsATrace: after a migration a collector has one span for each completed lease, the first of its trace, with its
// requests to the repository and its bulk requests below. Small items share requests to the store, which are below one of them. The metrics count the documents that arrived. No span has a secret.
func TestTelemetry_EachLeaseIsATrace(t *testing.T) {
	repository := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(Root(), "testing", "fixtures", "7.10.2-demo"))))
	defer repository.Close()
	intoCluster := func(t *testing.T) (migrate, items []string) {
		n := cluster.OpenSearch(t, targets[0])
		wipe(t, n)
		place := []string{"--target-host", n.URL, "--session-name", "traced"}
		return place, place
	}
	for _, c := range []struct {
		name    string
		genuine bool // a collector of OpenTelemetry, instead of a server of this process
		to      func(t *testing.T) (migrate, items []string)
		roles   []string
	}{
		{"into files", false, func(t *testing.T) (migrate, items []string) {
			dir := t.TempDir()
			return []string{"--export-dir", dir}, []string{"--coordinator-file", filepath.Join(dir, ".rfsd", "coordinator.db")}
		}, []string{"repository"}},
		{"into a cluster", false, intoCluster, []string{"repository", "bulk"}},
		{"into a cluster, with a real collector", true, intoCluster, []string{"repository", "bulk"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			to, state := c.to(t)
			address, end := startCollector(t, c.genuine)
			res := RunIn(t, t.TempDir(), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + address}, "rfsd", append([]string{"migrate", "--repo-uri", repository.URL, "--snapshot-name", "snap1"}, to...)...)
			if res.Code != 0 {
				t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			got := end()
			listed := Run(t, "rfsctl", append([]string{"items", "list", "--output", "json"}, state...)...)
			var items status.ItemList
			must(t, outputtest.Decode(listed.Stdout, &items))
			leases, below := map[string]span{}, map[string]map[string]int{}
			for _, s := range got.spans {
				if s.name == "lease" {
					leases[s.id], below[s.id] = s, map[string]int{}
				}
			}
			documents := 0
			for id, s := range leases {
				var n int
				_, err := fmt.Sscan(s.attributes["rfsd.documents"], &n)
				documents += n
				if s.parent != "" || s.attributes["rfsd.end"] != "completed" || s.attributes["rfsd.index"] == "" || s.attributes["rfsd.session"] == "" || s.attributes["rfsd.bytes"] == "" || err != nil {
					t.Errorf("lease %s is %+v", id, s)
				}
			}
			for _, s := range got.spans {
				if s.name == "lease" {
					continue
				}
				if lease, ok := leases[s.parent]; !ok || lease.trace != s.trace {
					t.Errorf("the parent of %+v is no lease", s)
					continue
				}
				role := s.attributes["rfsd.role"]
				if role == "target" && strings.HasSuffix(s.attributes["url.full"], "/_bulk") {
					role = "bulk"
				}
				below[s.parent][role]++
			}
			shared := 0
			for id, of := range below {
				for _, role := range c.roles {
					if of[role] == 0 {
						t.Errorf("lease %+v has no request to the %s", leases[id], role)
					}
				}
				shared += of["store"]
			}
			if slices.Contains(c.roles, "bulk") && shared == 0 {
				t.Error("no lease has a request to the store")
			}
			if len(items.Items) == 0 || len(leases) != len(items.Items) || documents != 159 || got.metrics["rfsd_documents_total indexed"] != 159 {
				t.Errorf("%d leases of %d items, %d documents in spans, metrics %v", len(leases), len(items.Items), documents, got.metrics)
			}
			t.Logf("%d leases, %d spans, %d metrics", len(leases), len(got.spans), len(got.metrics))
		})
	}
}
