package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// full returns a registry in which every metric has a value.
func full() *Registry {
	left, began, lag := 12.5, time.Now().Add(-time.Minute), 42.0
	r := NewRegistry(func() status.Report {
		return status.Report{
			Machines: &status.Machines{Wanted: 3, Running: 2, Hours: 1.5, Error: "no"},
			Node:     status.Node{Version: "1", State: "running", Wanted: 3, Running: 2},
			Workers:  []status.Worker{{Slot: 0, Phase: "documents", PhaseState: "IN_PROGRESS", Resident: 1 << 20}, {Slot: 1, Resident: 2 << 20}},
			Progress: progress.View{Left: &left}, Stale: 3,
			Migration: &progress.Migration{
				Totals: progress.Counts{Items: 10, ItemsOpen: 4, Leased: 3, ItemsBad: 1, Shards: 5, ShardsDone: 2, Indexed: 70, Bytes: 100, BytesDone: 40},
				Phases: []progress.Phase{{Name: "documents", Started: &began}}, ReadAt: began.Add(30 * time.Second),
				Stream: &progress.Stream{Lag: 5, Nodes: 3, Idle: []string{"a"}},
				Rounds: &progress.Following{Failed: 2, Failures: 6, Rounds: []progress.Round{
					{Number: 3, Started: began.Add(-2500 * time.Millisecond), Arrived: &began, Account: session.Account{Inserted: 5, Updated: 4, Deleted: 3, Unchanged: 2, Failed: 1}},
					{Number: 4, Started: began},
				}},
				Lag: &lag,
			},
		}
	})
	r.Add(Sample{Documents: 7, Failed: 2, BulkBytes: 1000, Bulk: Latency{Count: 3, Seconds: 1, Buckets: [len(Bounds) + 1]int64{1, 1, 1}}})
	r.Lease("completed")
	r.Crash("panic")
	r.Restart()
	r.Reaped()
	r.Refused("port")
	r.Event("webhook", "sent")
	r.Limit(5, 7)
	return r
}

func text(t *testing.T, r *Registry) string {
	t.Helper()
	rec := httptest.NewRecorder()
	r.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestEveryMetricHasHelpUnitAndValue(t *testing.T) {
	out := text(t, full())
	for _, want := range []string{
		`rfsd_documents_total{result="indexed"} 5`, `rfsd_documents_total{result="failed"} 2`, `rfsd_leases_total{outcome="completed"} 1`,
		`rfsd_migration_items{state="free"} 1`, `rfsd_migration_items{state="done"} 5`, `rfsd_worker_resident_bytes{slot="1"} 2.097152e+06`,
		`rfsd_bulk_request_duration_seconds_bucket{le="0.02"} 2`, `rfsd_bulk_request_duration_seconds_count 3`, `rfsd_migration_eta_seconds 12.5`,
		`rfsd_phase_duration_seconds{phase="documents"} 30`, `rfsd_rate_limit_bytes_per_second 5`, `rfsd_read_rate_limit_bytes_per_second 7`, `rfsd_workers_reaped_total 1`, `rfsd_store_reachable 1`,
		`rfsd_follow_round 3`, `rfsd_follow_round_duration_seconds 2.5`, `rfsd_follow_round_documents{result="deleted"} 3`, `rfsd_follow_round_documents{result="failed"} 1`,
		`rfsd_follow_documents_failed 2`, `rfsd_follow_failures 6`, `rfsd_follow_lag_seconds 45`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is missing", want)
		}
	}
	seen := map[string]bool{}
	for _, f := range families() {
		if f.help == "" || !strings.HasSuffix(f.help, ".") || !strings.HasPrefix(f.name, "rfsd_") || seen[f.name] {
			t.Errorf("%+v", f.name)
		}
		seen[f.name] = true
		if !strings.Contains(out, "# HELP "+f.name+" ") {
			t.Errorf("%s has no value in a full registry", f.name)
		}
		isCounter := strings.Contains(out, "# TYPE "+f.name+" counter")
		if isCounter != strings.HasSuffix(f.name, "_total") {
			t.Errorf("%s: a counter, and only a counter, ends in _total", f.name)
		}
	}
}

// TestTheTextIsWhatPrometheusReads: each line has the right format, no series occurs twice, and labels are escaped.
func TestTheTextIsWhatPrometheusReads(t *testing.T) {
	r := full()
	r.Event("a\"b\\c\nd\xff", "sent")
	r.Event("a", "failed")
	out := text(t, r)
	head := regexp.MustCompile(`^# (HELP|TYPE) ([a-z_]+) \S.*$`)
	value := regexp.MustCompile(`^(([a-z_]+)(?:\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})?) (?:[0-9.]+(?:e[+-][0-9]+)?|\+Inf)$`)
	seen, described := map[string]bool{}, ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if h := head.FindStringSubmatch(line); h != nil {
			described = h[2]
		} else if v := value.FindStringSubmatch(line); v == nil || seen[v[1]] || !strings.HasPrefix(v[2], described) {
			t.Errorf("line %q, below %s, there before: %t", line, described, v != nil && seen[v[1]])
		} else {
			seen[v[1]] = true
		}
	}
	for _, want := range []string{
		`rfsd_events_sent_total{sink="a\"b\\c\nd` + "\uFFFD" + `",result="sent"} 1`, `rfsd_bulk_request_duration_seconds_bucket{le="+Inf"} 3`, "go_goroutines",
		"go_memstats_heap_alloc_bytes", "process_start_time_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds",
	} {
		if !strings.Contains(out, "\n"+want) {
			t.Errorf("%s is missing in\n%s", want, out)
		}
	}
}

func TestALoneWorkersFileIsWholeOrAbsent(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rfsd.prom")
	r := NewRegistry(nil)
	r.Add(Sample{Documents: 7})
	if err := r.WriteFile(name); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(b), `rfsd_documents_total{result="indexed"} 7`) || strings.Contains(string(b), "rfsd_migration") {
		t.Errorf("%v: %s", err, b)
	}
	if err := r.WriteFile(filepath.Join(t.TempDir(), "none", "x")); err == nil {
		t.Error("a file that cannot be written is not an error")
	}
}

// fill sets every number of a struct to n.
func fill(v reflect.Value, n int64) {
	switch v.Kind() {
	case reflect.Int64:
		v.SetInt(n)
	case reflect.Float64:
		v.SetFloat(float64(n))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	}
}

func TestNoFieldOfASampleIsForgottenInSumsAndOnThePipe(t *testing.T) {
	var five, two, seven, three Sample
	for s, n := range map[*Sample]int64{&five: 5, &two: 2, &seven: 7, &three: 3} {
		fill(reflect.ValueOf(s).Elem(), n)
	}
	if got := five.Plus(two); got != seven {
		t.Errorf("%+v", got)
	}
	if got := five.Minus(two); got != three {
		t.Errorf("%+v", got)
	}
	b, err := json.Marshal(five)
	if err != nil {
		t.Fatal(err)
	}
	var back Sample
	if err := json.Unmarshal(b, &back); err != nil || back != five {
		t.Errorf("%+v, %v", back, err)
	}
}

type answers func(body []byte) (bulk.Result, error)

func (a answers) Send(_ context.Context, body []byte, _ int) (bulk.Result, error) { return a(body) }

func TestBulkRequestsAreCountedByHowTheyWereAnswered(t *testing.T) {
	var c Counters
	busy := bulk.Result{Refused: []bulk.Refusal{{Status: 429}, {Status: 400}, {Status: 429}}}
	replies := []struct {
		r   bulk.Result
		err error
	}{{}, {r: busy}, {err: fmt.Errorf("gone: %w", fault.ErrUnavailable)}}
	n := -1
	s := c.Sender(answers(func([]byte) (bulk.Result, error) { n++; return replies[n].r, replies[n].err }))
	for range replies {
		if _, err := s.Send(t.Context(), make([]byte, 10), 3); err != nil && !errors.Is(err, fault.ErrUnavailable) {
			t.Error(err)
		}
	}
	got := c.Sample()
	if got.Bulk.Count != 3 || got.BulkBytes != 30 || got.BulkBusy != 1 || got.BulkRefused != 1 || got.BulkErrors != 1 {
		t.Errorf("%+v", got)
	}
}

func TestRequestsToTheStoreAreMeasuredAndDecisionsAreNoErrors(t *testing.T) {
	bolt, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var c Counters
	store := c.Store(bolt)
	id := cms.ItemID{Index: "x"}.String()
	_, missing := store.Get(t.Context(), id)
	_, cerr := store.Create(t.Context(), []cms.Item{cms.NewItem(id, "", 0)})
	_, rerr := store.Record(t.Context(), "meta")
	if !errors.Is(missing, cms.ErrNotFound) || cerr != nil || !errors.Is(rerr, cms.ErrNotFound) {
		t.Errorf("%v, %v, %v", missing, cerr, rerr)
	}
	found := 0
	for _, err := range store.Scan(t.Context()) {
		if err == nil {
			found++
		}
	}
	if got := c.Sample(); got.Store.Count != 3 || got.StoreErrors != 0 || found != 1 {
		t.Errorf("%+v, %d items", got, found)
	}
	if err := bolt.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), id); err == nil {
		t.Error("a closed store answers")
	}
	if got := c.Sample(); got.StoreErrors != 1 {
		t.Errorf("%+v", got)
	}
}

// metricNames are the names of metrics of this program in an expression.
var metricNames = regexp.MustCompile(`\b(rfsd|process|go)_[a-z0-9_]+`)

// existing returns the names of all metrics.
func existing(t *testing.T) map[string]bool {
	t.Helper()
	exist := map[string]bool{}
	for line := range strings.Lines(text(t, full())) {
		if name, _, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
			name, _, _ = strings.Cut(name, "{")
			exist[name] = true
		}
	}
	return exist
}

func TestTheAlertsAskForMetricsThatExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "rfsd.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	exist, alerts := existing(t), 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts++
			found := metricNames.FindAllString(r.Expr, -1)
			if len(found) == 0 || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %q has no metric, severity, summary or description", r.Alert)
			}
			for _, name := range found {
				if !exist[name] {
					t.Errorf("alert %q asks for %s, which does not exist", r.Alert, name)
				}
			}
		}
	}
	if alerts < 7 {
		t.Errorf("%d alerts", alerts)
	}
}

func TestTheDashboardAsksForMetricsThatExist(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", "grafana", "rfsd.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string
		Panels []struct {
			Title       string
			Description string
			FieldConfig struct{ Defaults struct{ Unit string } }
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	exist := existing(t)
	asked := map[string]bool{}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 || p.Title == "" || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %q has no query or no unit", p.Title)
		}
		for _, q := range p.Targets {
			found := metricNames.FindAllString(q.Expr, -1)
			if len(found) == 0 {
				t.Errorf("panel %q asks for nothing: %s", p.Title, q.Expr)
			}
			for _, n := range found {
				if asked[n] = true; !exist[n] {
					t.Errorf("panel %q asks for %s, which does not exist", p.Title, n)
				}
			}
		}
	}
	if len(asked) < 15 {
		t.Errorf("the dashboard shows only %v", slices.Sorted(maps.Keys(asked)))
	}
}
