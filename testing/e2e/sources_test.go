package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// origin is a version that documents come from, and how it speaks.
type origin struct {
	product, version string
	typed            bool   // mapping types in paths and bodies
	strings          bool   // the type string, before text and keyword
	pattern          string // how a legacy template names its indices
	composable       bool   // index templates and component templates
}

// origins are the source versions that a migration is proved from.
var origins = []origin{
	{"elasticsearch", "7.10.2", false, false, "index_patterns", true},
	{"elasticsearch", "2.4.6", true, true, "template", false},
	{"elasticsearch", "5.6.16", true, false, "template", false},
	{"elasticsearch", "6.8.23", true, false, "index_patterns", false},
	{"elasticsearch", "9.5.3", false, false, "index_patterns", true},
	{"elasticsearch", "8.19.21", false, false, "index_patterns", true},
	{"elasticsearch", "7.17.29", false, false, "index_patterns", true},
	{"opensearch", "1.3.14", false, false, "index_patterns", true},
	{"opensearch", "2.19.4", false, false, "index_patterns", true},
}

func (o origin) mappings(properties map[string]any) map[string]any {
	m := map[string]any{"properties": properties}
	if o.typed {
		return map[string]any{"doc": m}
	}
	return m
}

func (o origin) word() map[string]any {
	if o.strings {
		return map[string]any{"type": "string", "index": "not_analyzed"}
	}
	return map[string]any{"type": "keyword"}
}

func (o origin) text() map[string]any {
	if o.strings {
		return map[string]any{"type": "string"}
	}
	return map[string]any{"type": "text"}
}

// seedDocs is how many documents the source holds.
const seedDocs = 400

// seed fills the source: templates, an index with each kind of field that the searches below ask for,
// aliases, documents with routing, deleted and overwritten ones.
func (o origin) seed(t *testing.T, n *cluster.Node) {
	t.Helper()
	call(t, n, "PUT", "/_template/old-style", map[string]any{
		o.pattern: o.patterns("later-*"), "order": 3,
		"settings": map[string]any{"index": map[string]any{"number_of_replicas": 0, "refresh_interval": "9s"}},
		"mappings": o.mappings(map[string]any{"stamp": o.word()}),
	})
	if o.composable {
		call(t, n, "PUT", "/_component_template/part", map[string]any{"template": map[string]any{"mappings": o.mappings(map[string]any{"stamp": o.word()})}})
		call(t, n, "PUT", "/_index_template/new-style", map[string]any{"index_patterns": []string{"newer-*"}, "composed_of": []string{"part"}, "priority": 200})
	}
	call(t, n, "PUT", "/books", map[string]any{
		"settings": map[string]any{"index": map[string]any{"number_of_shards": 3, "number_of_replicas": 0}},
		"mappings": o.mappings(map[string]any{
			"title": o.text(), "tag": o.word(), "pages": map[string]any{"type": "integer"}, "at": map[string]any{"type": "date"},
			"parts": map[string]any{"type": "nested", "properties": map[string]any{"name": o.word(), "qty": map[string]any{"type": "long"}}},
		}),
		"aliases": map[string]any{"library": map[string]any{}, "red-books": map[string]any{"filter": map[string]any{"term": map[string]any{"tag": "red"}}}},
	})
	call(t, n, "PUT", "/empty", map[string]any{"settings": map[string]any{"index": map[string]any{"number_of_shards": 1, "number_of_replicas": 0}}})
	var bulk strings.Builder
	for i := range seedDocs {
		action := map[string]any{"_index": "books", "_id": fmt.Sprintf("b%d", i)}
		if o.typed {
			action["_type"] = "doc"
		}
		if i%7 == 0 {
			key := "routing"
			if o.typed {
				key = "_routing"
			}
			action[key] = fmt.Sprintf("r%d", i%5)
		}
		fmt.Fprintf(&bulk, "%s\n%s\n", encode(t, map[string]any{"index": action}), book(i))
	}
	o.bulk(t, n, bulk.String())
	bulk.Reset()
	for i := 3; i < seedDocs; i += 50 {
		if i%7 == 0 {
			continue // these have a routing
		}
		action := map[string]any{"_index": "books", "_id": fmt.Sprintf("b%d", i)}
		if o.typed {
			action["_type"] = "doc"
		}
		verb, line := "delete", ""
		if i%100 == 3 {
			verb, line = "index", book(i+1)+"\n"
		}
		fmt.Fprintf(&bulk, "%s\n%s", encode(t, map[string]any{verb: action}), line)
	}
	o.bulk(t, n, bulk.String())
	call(t, n, "POST", "/_refresh", nil)
}

// patterns is a list where the version knows lists.
func (o origin) patterns(p string) any {
	if o.pattern == "template" {
		return p
	}
	return []string{p}
}

func book(i int) string {
	words := []string{"night", "river", "stone", "garden", "übermut", "雨"}
	return fmt.Sprintf(`{"title":"the %s and the %s %d", "tag":%q,"pages":%d,"at":"20%02d-%02d-11T10:00:00Z","parts":[{"name":"p%d","qty":%d},{"name":"p%d","qty":%d}],"rest":{"deep":[1.50,2.50,null],"note":"\u00e9"}}`,
		words[i%6], words[i/6%6], i, []string{"red", "green", "blue"}[i%3], i*13%900, i%20, i%12+1, i%4, i%10, i%9, i%3)
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

func (o origin) bulk(t *testing.T, n *cluster.Node, body string) {
	t.Helper()
	b, err := n.Send(t.Context(), "POST", "/_bulk", "application/x-ndjson", []byte(body))
	must(t, err)
	if !strings.Contains(string(b), `"errors":false`) {
		t.Fatalf("%.500s", b)
	}
}

const allBooks = "/books/_search?scroll=1m&size=150"

// searches are one of each kind, with the same answer on both sides.
var searches = []struct{ name, index, body string }{
	{"match", "books", `{"query":{"match":{"title":"river"}}}`},
	{"match of another script", "books", `{"query":{"match":{"title":"雨"}}}`},
	{"match all words", "books", `{"query":{"match":{"title":{"query":"stone garden","operator":"and"}}}}`},
	{"term", "books", `{"query":{"term":{"tag":"green"}}}`},
	{"nested", "books", `{"query":{"nested":{"path":"parts","query":{"bool":{"must":[{"term":{"parts.name":"p2"}},{"range":{"parts.qty":{"gte":2}}}]}}}}}`},
	{"range of numbers", "books", `{"query":{"range":{"pages":{"gte":100,"lt":300}}}}`},
	{"range of dates", "books", `{"query":{"range":{"at":{"gte":"2005-01-01","lt":"2012-06-30"}}}}`},
	{"field that had no mapping", "books", `{"query":{"term":{"rest.deep":2.5}}}`},
	{"alias", "library", `{"query":{"match_all":{}}}`},
	{"alias with a filter", "red-books", `{"query":{"match_all":{}}}`},
	{"routing", "books", `{"query":{"term":{"_routing":"r2"}}}`},
	{"aggregation", "books", `{"aggs":{"tags":{"terms":{"field":"tag"},"aggs":{"pages":{"sum":{"field":"pages"}}}},"parts":{"nested":{"path":"parts"},"aggs":{"names":{"terms":{"field":"parts.name","size":50}}}}}}`},
}

// found is what a search gives: ids in order of the alphabet, and the aggregations without what versions add to them.
func found(t *testing.T, n *cluster.Node, index, body string) string {
	t.Helper()
	type bucket struct {
		Key   string
		Count int64 `json:"doc_count"`
		Pages struct{ Value float64 }
	}
	var a struct {
		Hits struct {
			Hits []struct {
				ID string `json:"_id"`
			}
		}
		Aggregations struct {
			Tags  struct{ Buckets []bucket }
			Parts struct {
				Names struct{ Buckets []bucket }
			}
		}
	}
	if err := n.JSON(t.Context(), "POST", "/"+index+"/_search?size=1000", json.RawMessage(body), &a); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, h := range a.Hits.Hits {
		ids = append(ids, h.ID)
	}
	slices.Sort(ids)
	return fmt.Sprintf("%d %v %v %v", len(ids), ids, a.Aggregations.Tags.Buckets, a.Aggregations.Parts.Names.Buckets)
}

// TestOneCommandMigratesFromEverySource boots each version as a source and migrates it by one command
// that creates the snapshot, templates, indices, aliases and documents. By default only one pair runs;
// RFSD_SOURCES=all runs all of them, RFSD_SOURCES=2.4.6,9.5.3 those.
func TestOneCommandMigratesFromEverySource(t *testing.T) {
	wanted, given := os.LookupEnv("RFSD_SOURCES")
	for i, version := range targets {
		for j, o := range origins {
			if !given && (i > 0 || j > 0) || given && wanted != "all" && !slices.Contains(strings.Split(wanted, ","), o.version) {
				continue
			}
			t.Run(o.product+" "+o.version+" to "+version, func(t *testing.T) {
				began := time.Now()
				var from *cluster.Node
				if o.product == "opensearch" {
					from = cluster.OpenSearch(t, o.version, cluster.Heap("512m"))
				} else {
					from = cluster.Elasticsearch(t, o.version, cluster.Heap("512m"))
				}
				to := cluster.OpenSearch(t, version)
				t.Logf("booted in %v", time.Since(began).Round(time.Second))
				began = time.Now()
				o.seed(t, from)
				t.Run("one of five creates", func(t *testing.T) { oneCreates(t, from, o.version) })
				t.Run("migrate", func(t *testing.T) { o.migrates(t, from, to) })
				t.Run("a snapshot that fails", func(t *testing.T) { o.snapshotFails(t, from, to) })
				t.Logf("proved in %v", time.Since(began).Round(time.Second))
			})
		}
	}
}

// oneCreates lets five clients begin the same snapshot at once.
func oneCreates(t *testing.T, n *cluster.Node, version string) {
	client, err := target.New(t.Context(), target.Config{URL: n.URL})
	must(t, err)
	defer client.Close()
	c, err := live.Open(t.Context(), client)
	must(t, err)
	if got := c.Version().Number; got != version || c.Version().Distribution != n.Product {
		t.Errorf("version %+v", c.Version())
	}
	repo := live.Repository{Name: "race", Type: "fs", Settings: map[string]string{"location": filepath.Join(n.Repos, "race")}}
	for range 2 {
		_, err := c.RegisterRepository(t.Context(), repo)
		must(t, err)
	}
	repo.Settings = map[string]string{"location": filepath.Join(n.Repos, "elsewhere")}
	if _, err := c.RegisterRepository(t.Context(), repo); err == nil || !strings.Contains(err.Error(), "location") {
		t.Errorf("moved: %v", err)
	}
	var created, failed atomic.Int64
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			switch ok, err := c.CreateSnapshot(t.Context(), live.Request{Repository: "race", Name: "once", Global: true}); {
			case err != nil:
				failed.Add(1)
				t.Log(err)
			case ok:
				created.Add(1)
			}
		})
	}
	wg.Wait()
	if created.Load() != 1 || failed.Load() != 0 {
		t.Errorf("%d created, %d failed", created.Load(), failed.Load())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := c.Snapshot(ctx, "race", "once")
		must(t, err)
		if s.State != "IN_PROGRESS" {
			if s.State != "SUCCESS" || s.ShardsTotal == 0 || s.ShardsDone != s.ShardsTotal || (s.UUID == "") != (version < "5" && n.Product == "elasticsearch") || s.Started == 0 {
				t.Errorf("%+v", s)
			}
			return
		}
		<-tick.C
	}
}

// cleared removes what an earlier migration made on the target.
func cleared(t *testing.T, n *cluster.Node) {
	t.Helper()
	wipe(t, n)
	for _, path := range []string{"/_index_template/new-style", "/_component_template/part", "/_template/old-style"} {
		if _, err := n.Send(t.Context(), "DELETE", path, "", nil); err != nil && !strings.Contains(err.Error(), "status 404") {
			t.Fatal(err)
		}
	}
}

func (o origin) migrates(t *testing.T, from, to *cluster.Node) {
	cleared(t, to)
	repo := filepath.Join(from.Repos, "migration")
	dir := t.TempDir()
	res := RunIn(t, dir, nil, "rfsd", sourceArgs("migrate", from.URL, to.URL, repo, "from-real", "--output", "json")...)
	p := phasesOf(t, res)
	if res.Code != 0 || !p.Complete || len(p.Phases) != 4 || len(p.Problems) != 0 {
		t.Fatalf("exit %d: %+v: %s", res.Code, p, res.Stderr)
	}
	call(t, to, "POST", "/_refresh", nil)
	want := scrolled(t, from, allBooks)
	if len(want) < seedDocs-20 || len(want) >= seedDocs {
		t.Fatalf("the source holds %d documents", len(want))
	}
	if f := truth.Compare(want, scrolled(t, to, allBooks)).Faults(); f != "" {
		t.Error(f)
	}
	for _, s := range searches {
		w, g := found(t, from, s.index, s.body), found(t, to, s.index, s.body)
		if strings.HasPrefix(w, "0 [] [] []") {
			t.Errorf("%s finds nothing on the source", s.name)
		}
		if w != g {
			t.Errorf("%s:\nsource %.400s\ntarget %.400s", s.name, w, g)
		}
	}
	if _, ok := call(t, to, "GET", "/empty/_settings", nil)["empty"]; !ok {
		t.Error("the empty index is missing")
	}
	later := []string{"later-1"}
	if o.composable {
		later = append(later, "newer-1")
	}
	for _, name := range later {
		call(t, to, "PUT", "/"+name, nil)
		if m := encode(t, call(t, to, "GET", "/"+name+"/_mapping", nil)); !strings.Contains(m, `"stamp":{"type":"keyword"}`) {
			t.Errorf("the template of %s did not work: %s", name, m)
		}
	}
	// The same command again does nothing.
	res = RunIn(t, dir, nil, "rfsd", sourceArgs("migrate", from.URL, to.URL, repo, "from-real", "--output", "json")...)
	if res.Code != 0 {
		t.Errorf("again: exit %d: %s", res.Code, res.Stderr)
	}
}

// snapshotFails adds an index with a shard that no node may hold.
func (o origin) snapshotFails(t *testing.T, from, to *cluster.Node) {
	cleared(t, to)
	call(t, from, "PUT", "/stuck?wait_for_active_shards=0", map[string]any{
		"settings": map[string]any{"index": map[string]any{"number_of_shards": 1, "number_of_replicas": 0, "routing.allocation.require._name": "nobody"}},
	})
	dir := t.TempDir()
	repo := filepath.Join(from.Repos, "failing")
	args := sourceArgs("migrate", from.URL, to.URL, repo, "fails", "--output", "json")
	res := RunIn(t, dir, nil, "rfsd", args...)
	if p := phasesOf(t, res); res.Code != 5 || p.Complete || len(p.Events) != 1 || len(p.Indices) != 0 || !strings.Contains(res.Stderr, "stuck") {
		t.Errorf("exit %d: %+v: %s", res.Code, p, res.Stderr)
	}
	// What is whole can be had.
	res = RunIn(t, dir, nil, "rfsd", sourceArgs("migrate", from.URL, to.URL, repo, "fails-not", "--index-allowlist", "books", "--output", "json")...)
	if res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	call(t, to, "POST", "/_refresh", nil)
	if f := truth.Compare(scrolled(t, from, allBooks), scrolled(t, to, allBooks)).Faults(); f != "" {
		t.Error(f)
	}
}

// TestASourceThatRefusesIsToldPlainly gives a source that knows no such user, and one that is no search engine.
func TestASourceThatRefusesIsToldPlainly(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"wrong password", `{"error":{"type":"security_exception","reason":"unable to authenticate user [reader]"},"status":401}`, 401, "unable to authenticate user [reader]"},
		{"no permission", `{"error":{"type":"security_exception","reason":"no permissions for [cluster:monitor/main]"},"status":403}`, 403, "no permissions for [cluster:monitor/main]"},
		{"something else", `<html>`, 200, "unexpected answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer s.Close()
			res := Run(t, "rfsd", "migrate", "--repo-uri", "/nowhere", "--source-host", s.URL, "--discard", "--unavailable-timeout", "2s", "--source-username", "reader", "--source-password", "x")
			if res.Code != 1 || !strings.Contains(res.Stderr, c.says) || !strings.Contains(res.Stderr, "source") {
				t.Errorf("exit %d: %s", res.Code, res.Stderr)
			}
		})
	}
}
