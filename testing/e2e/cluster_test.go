package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/truth"
)

// targets are the OpenSearch versions that documents are sent to; a test for which one is enough takes the first. RFSD_TARGETS
// replaces them.
var targets = strings.Fields(cmp.Or(os.Getenv("RFSD_TARGETS"), "2.19.4 3.8.0"))

func call(t *testing.T, n *cluster.Node, method, path string, body any) map[string]any {
	t.Helper()
	var out map[string]any
	if err := n.JSON(t.Context(), method, path, body, &out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return out
}

// wipe deletes all indices of a test node but those of the system, and templates and pipelines.
func wipe(t *testing.T, n *cluster.Node) {
	t.Helper()
	n.Wipe(t)
}

// landed reads everything back through the search API.
func landed(t *testing.T, n *cluster.Node) truth.Docs {
	t.Helper()
	call(t, n, "POST", "/_refresh", nil)
	return scrolled(t, n, "/*,-.rfs*,-.migrations*/_search?scroll=1m&size=500&expand_wildcards=open,hidden")
}

// scrolled reads every document that a search finds, on any version.
func scrolled(t *testing.T, n *cluster.Node, search string) truth.Docs {
	t.Helper()
	docs := truth.Docs{}
	eachHit(t, n, search, func(k truth.Key, source []byte) { docs[k] = bytes.Clone(source) })
	return docs
}

// eachHit calls a function for every document that a search finds, on any version. The source is valid during the call.
func eachHit(t *testing.T, n *cluster.Node, search string, give func(k truth.Key, source []byte)) {
	t.Helper()
	type page struct {
		Scroll string `json:"_scroll_id"`
		Hits   struct {
			Hits []struct {
				Index   string          `json:"_index"`
				ID      string          `json:"_id"`
				Routing string          `json:"_routing"`
				Source  json.RawMessage `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
	}
	var p page
	err := n.JSON(t.Context(), "POST", search, map[string]any{"sort": []string{"_doc"}}, &p)
	for err == nil && len(p.Hits.Hits) > 0 {
		for _, h := range p.Hits.Hits {
			give(truth.Key{Index: h.Index, ID: h.ID, Routing: h.Routing}, h.Source)
		}
		scroll := p.Scroll
		p = page{}
		err = n.JSON(t.Context(), "POST", "/_search/scroll", map[string]any{"scroll": "1m", "scroll_id": scroll}, &p)
	}
	if err != nil {
		t.Fatalf("read back: %v", err)
	}
}

func targetArgs(url, repo string, more ...string) []string {
	return append([]string{"migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--target-host", url, "--output", "json"}, more...)
}

// visible is the truth of the indices that a default run migrates.
func visible(docs truth.Docs) truth.Docs {
	out := truth.Docs{}
	for k, v := range docs {
		if !strings.HasPrefix(k.Index, ".") {
			out[k] = v
		}
	}
	return out
}

// TestDocumentsLandedEqualTheTruth migrates snapshots twice into each target: the second run changes nothing. Each change runs a draw
// of the snapshots for each target.
func TestDocumentsLandedEqualTheTruth(t *testing.T) {
	for _, version := range targets {
		t.Run(version, func(t *testing.T) {
			n := cluster.OpenSearch(t, version)
			for _, name := range draw.Of(t, 2, []string{"7.10.2-basic", "7.10.2-demo", "7.10.2-many-chunks", "7.10.2-multi-index", "7.10.2-parts", "7.10.2-templates"}) {
				repo := fixture(t, name)
				t.Run(name, func(t *testing.T) {
					wipe(t, n)
					dir := t.TempDir()
					landsEqual(t, n, dir, repo)
					if res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, repo)...); res.Code != 0 {
						t.Errorf("second run: exit %d: %s", res.Code, res.Stderr)
					}
					compareLanded(t, n, repo)
				})
			}
		})
	}
}

// TestMigration_FixtureOfEachMajorVersion migrates a snapshot of each major version of both products.
func TestMigration_FixtureOfEachMajorVersion(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, name := range []string{"1.7.6-basic", "2.4.6-templates", "5.6.16-many-chunks", "6.8.23-plain", "7.17.29-basic", "8.19.21-basic", "9.5.3-basic",
		"os1.3.14-basic", "os2.19.4-basic", "os3.8.0-basic"} {
		t.Run(name, func(t *testing.T) {
			wipe(t, n)
			landsEqual(t, n, t.TempDir(), fixture(t, name))
		})
	}
}

func landsEqual(t *testing.T, n *cluster.Node, dir, repo string) {
	t.Helper()
	res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, repo)...)
	if res.Code != 0 {
		t.Fatalf("exit %d: %s%s", res.Code, res.Stderr, res.Stdout)
	}
	parseSummary(t, res)
	compareLanded(t, n, repo)
}

func compareLanded(t *testing.T, n *cluster.Node, repo string) {
	t.Helper()
	files := []string{repo + ".ndjson.gz"}
	if closed := repo + ".closed-index.ndjson.gz"; exists(closed) {
		files = append(files, closed)
	}
	want, err := truth.Load(false, files...)
	must(t, err)
	// The truth of documents without a stored source is none; what arrives is the recovery source.
	d := truth.Compare(visible(want), landed(t, n))
	if f := d.Faults(); f != "" {
		t.Error(f)
	}
	for index, counts := range d.Count {
		// The target filters the sources of these by their mapping, and writes them anew.
		if n := counts[truth.Values]; n > 0 && index != "partsource" && index != "src-filtered" {
			t.Errorf("%d documents of index %s have the same values only, such as %v", n, index, d.Examples[truth.Values])
		}
	}
}

// startAndWatch starts a command; the channel is closed when it has ended.
func startAndWatch(t *testing.T, cmd *exec.Cmd) <-chan struct{} {
	t.Helper()
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		<-ended
	})
	return ended
}

func isClosed(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

func TestKilledMigrationContinuesAndLosesNothing(t *testing.T) {
	const kills = 5
	for _, version := range targets {
		t.Run(version, func(t *testing.T) {
			n := cluster.OpenSearch(t, version)
			wipe(t, n)
			repo := fixture(t, "7.10.2-many-chunks")
			proxy := newProxy(t, n.URL, 50*time.Millisecond)
			args := targetArgs(proxy.URL, repo, "--documents-per-bulk-request", "10", "--disable-compression", "--max-connections", "2")
			dir := t.TempDir()
			var killed []time.Time
			for range kills {
				cmd := exec.CommandContext(t.Context(), Binary(t, "rfsd"), args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
				ended := startAndWatch(t, cmd)
				sent := proxy.documents.Load()
				more := int64(10 + rand.IntN(100))
				until(t, "documents are sent", func() bool {
					first, _ := proxy.acknowledged() // the first requests may be under way still
					return proxy.documents.Load() >= sent+more && !first.IsZero() || isClosed(ended)
				})
				killed = append(killed, time.Now())
				must(t, cmd.Process.Kill())
				<-ended
			}
			if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 0 {
				t.Fatalf("exit %d: %s%s", res.Code, res.Stderr, res.Stdout)
			}
			compareLanded(t, n, repo)
			first, last := proxy.acknowledged()
			for _, at := range killed {
				if !at.After(first) || !at.Before(last) {
					t.Errorf("a kill at %v, documents were acknowledged from %v to %v", at, first, last)
				}
			}
		})
	}
}

func TestRefusedDocumentsAreNamedAndTheRestArrives(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	index := demoIndex(t)
	// A mapping that refuses whatever is no object makes some documents fail.
	call(t, n, "PUT", "/"+index, map[string]any{"mappings": map[string]any{"dynamic": "strict"}})
	dir := t.TempDir()
	res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, demo(t), "--index-allowlist", index, "--max-failed-documents", "unlimited")...)
	if res.Code != 6 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	sum := parseSummary(t, res)
	files, err := filepath.Glob(filepath.Join(dir, "rfsd-failed", "default", "*"))
	must(t, err)
	lines := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		must(t, err)
		lines += bytes.Count(b, []byte("\n"))
		if !bytes.Contains(b, []byte("strict_dynamic_mapping_exception")) {
			t.Errorf("%s does not hold the target's words", f)
		}
	}
	if failed := sum.Indices[0].Failed; failed == 0 || lines != failed {
		t.Errorf("%d documents failed, %d are in the files %v", failed, lines, files)
	}
}

// demoIndex is the index of the bundled snapshot with the most documents.
func demoIndex(t *testing.T) string {
	t.Helper()
	res := Run(t, "rfsd", "migrate", "--repo-uri", demo(t), "--snapshot-name", "snap1", "--discard", "--output", "json")
	best, live := "", 0
	for _, i := range parseSummary(t, res).Indices {
		if i.Live > live {
			best, live = i.Index, i.Live
		}
	}
	if best == "" {
		t.Fatalf("no documents in the bundled snapshot: %s", res.Stderr)
	}
	return best
}

func TestReadOnlyTargetIndexStopsTheIndexAndIsFinishedAfterwards(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	index := demoIndex(t)
	call(t, n, "PUT", "/"+index, map[string]any{"settings": map[string]any{"index.blocks.write": true}})
	dir := t.TempDir()
	res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, demo(t), "--index-allowlist", index)...)
	if res.Code != 1 || !strings.Contains(res.Stderr, index) || !strings.Contains(res.Stderr, "block") {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	call(t, n, "PUT", "/"+index+"/_settings", map[string]any{"index.blocks.write": false})
	if res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, demo(t), "--index-allowlist", index)...); res.Code != 0 {
		t.Errorf("exit %d after the block was lifted: %s", res.Code, res.Stderr)
	}
}

func TestExistingIndexKeepsItsSettingsAndMappings(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	index := demoIndex(t)
	call(t, n, "PUT", "/"+index, map[string]any{
		"settings": map[string]any{"number_of_shards": 4, "number_of_replicas": 0, "refresh_interval": "7s"},
		"mappings": map[string]any{"_meta": map[string]any{"mine": true}, "dynamic": false},
	})
	before := call(t, n, "GET", "/"+index, nil)
	if res := Run(t, "rfsd", targetArgs(n.URL, demo(t), "--index-allowlist", index)...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	after := call(t, n, "GET", "/"+index, nil)
	if b, a := fmt.Sprint(before), fmt.Sprint(after); a != b {
		t.Errorf("the index changed:\n%s\n%s", b, a)
	}
}

func TestDefaultPipelineDoesNotTouchDocuments(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	index := demoIndex(t)
	call(t, n, "PUT", "/_ingest/pipeline/stamp", map[string]any{"processors": []any{map[string]any{"set": map[string]any{"field": "stamped", "value": true}}}})
	call(t, n, "PUT", "/"+index, map[string]any{"settings": map[string]any{"index.default_pipeline": "stamp"}})
	if res := Run(t, "rfsd", targetArgs(n.URL, demo(t), "--index-allowlist", index)...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	id := ""
	for k, source := range landed(t, n) {
		if bytes.Contains(source, []byte(`"stamped"`)) {
			t.Fatalf("%v was changed: %s", k, source)
		}
		id = k.ID
	}
	call(t, n, "PUT", "/_ingest/pipeline/inner", map[string]any{"processors": []any{map[string]any{"drop": map[string]any{"if": fmt.Sprintf("ctx._id == '%s'", id)}}}})
	call(t, n, "PUT", "/_ingest/pipeline/outer", map[string]any{"processors": []any{map[string]any{"pipeline": map[string]any{"name": "inner"}}}})
	call(t, n, "PUT", "/"+index+"/_settings", map[string]any{"index.final_pipeline": "outer"})
	res := Run(t, "rfsd", targetArgs(n.URL, demo(t), "--index-allowlist", index, "--run-pipelines", "--session-name", "again", "--existing-documents", "overwrite")...)
	if res.Code != 6 || !strings.Contains(res.Stdout, "dropped_by_pipeline") || !strings.Contains(res.Stderr, "pipeline inner: drop drops documents under a condition") {
		t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	stamped := 0
	for _, source := range landed(t, n) {
		if bytes.Contains(source, []byte(`"stamped"`)) {
			stamped++
		}
	}
	if stamped == 0 {
		t.Error("--run-pipelines ran no pipeline")
	}
	if _, err := n.Send(t.Context(), "DELETE", "/"+index, "", nil); err != nil {
		t.Error(err)
	}
}

// TestBadTargetsAreNamedWithTheRightExitCode has what TestReach_FaultsOfEachKindOfTarget has not.
func TestBadTargetsAreNamedWithTheRightExitCode(t *testing.T) {
	answer := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for _, c := range []struct {
		name, url string
		says      string
	}{
		{"forbidden", answer(403, `{"error":"no"}`), "403"},
		{"no URL", "search.example.com", `invalid --target-host "search.example.com": want a URL such as https://`},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := Run(t, "rfsd", targetArgs(c.url, demo(t), "--unavailable-timeout", "2s")...)
			if res.Code != 1 {
				t.Errorf("exit %d: %s", res.Code, res.Stderr)
			}
			if !strings.Contains(res.Stderr, c.says) {
				t.Errorf("%q is not said: %s", c.says, res.Stderr)
			}
		})
	}
}

// TestBusyTargetLosesNothing puts a proxy before a real node that answers 413, 429 and 503.
func TestBusyTargetLosesNothing(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	var bulks, tooLarge atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_bulk") {
			if r.ContentLength > 20_000 {
				tooLarge.Add(1)
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return
			}
			switch bulks.Add(1) % 5 {
			case 1:
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			case 3:
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		}
		forward(w, r, n.URL)
	}))
	defer proxy.Close()
	repo := fixture(t, "7.10.2-basic")
	dir := t.TempDir()
	res := RunIn(t, dir, nil, "rfsd", targetArgs(proxy.URL, repo, "--disable-compression", "--documents-per-bulk-request", "20")...)
	if res.Code != 6 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	sum := parseSummary(t, res)
	failed := 0
	for _, i := range sum.Indices {
		failed += i.Failed
	}
	want, err := truth.Load(false, repo+".ndjson.gz")
	must(t, err)
	d := truth.Compare(want, landed(t, n))
	if d.Of("", truth.Different)+d.Of("", truth.Extra) > 0 || d.Of("", truth.Missing) != failed {
		t.Errorf("%s; %d counted as too large", d.Faults(), failed)
	}
	if tooLarge.Load() == 0 || bulks.Load() < 10 || failed == 0 {
		t.Errorf("%d bulk requests, %d of them too large, %d documents too large: the target was not busy", bulks.Load(), tooLarge.Load(), failed)
	}
	t.Logf("%d bulk requests, %d refused for their size, %d documents too large", bulks.Load(), tooLarge.Load(), failed)
}

func forward(w http.ResponseWriter, r *http.Request, base string) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, base+r.URL.RequestURI(), r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	req.Header, req.Host = r.Header.Clone(), r.Host // which may be signed
	req.ContentLength = r.ContentLength
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(resp.Body); err == nil {
		w.Write(buf.Bytes()) //nolint:errcheck // the client is gone then
	}
}
