package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// streamRepos are snapshots of real clusters that hold the data stream events of two backing indices.
func streamRepos() []string {
	var all []string
	for _, name := range []string{"8.19.21-data-stream", "os2.19.4-data-stream"} {
		all = append(all, filepath.Join(Root(), "testing", "fixtures", name))
	}
	return all
}

const streamOfFixture = "events"

// withoutStreams wipes a node, data streams first, now and after the test.
func withoutStreams(t *testing.T, n *cluster.Node) {
	t.Helper()
	clean := func(ctx context.Context) {
		if _, err := n.Send(ctx, "DELETE", "/_data_stream/*", "", nil); err != nil && !strings.Contains(err.Error(), "status 404") {
			t.Errorf("delete data streams: %v", err)
		}
	}
	clean(t.Context())
	wipe(t, n)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		clean(ctx)
		for _, path := range []string{"/_index_template/*", "/" + streamOfFixture + "*,.ds-" + streamOfFixture + "*,ds-" + streamOfFixture + "*?expand_wildcards=all"} {
			if _, err := n.Send(ctx, "DELETE", path, "", nil); err != nil && !strings.Contains(err.Error(), "status 404") {
				t.Errorf("delete %s: %v", path, err)
			}
		}
	})
}

func streamTruth(t *testing.T, repo string) truth.Docs {
	t.Helper()
	want, err := truth.Load(false, repo+".ndjson.gz")
	must(t, err)
	if len(want) == 0 {
		t.Fatal("no documents in the truth")
	}
	return want
}

// renamed gives the documents of all indices to others.
func renamed(docs truth.Docs, name func(index string) string) truth.Docs {
	out := truth.Docs{}
	for k, v := range docs {
		k.Index = name(k.Index)
		out[k] = v
	}
	return out
}

// perIndex are the names of the indices that have documents, with the number of these.
func perIndex(docs truth.Docs) map[string]int {
	all := map[string]int{}
	for k := range docs {
		all[k.Index]++
	}
	return all
}

func newest(indices map[string]int) string {
	last := ""
	for name := range indices {
		last = max(last, name)
	}
	return last
}

// shown makes searches see what is in hidden indices, too.
func shown(t *testing.T, n *cluster.Node) {
	t.Helper()
	call(t, n, "POST", "/_all/_refresh?expand_wildcards=open,hidden", nil)
}

func countOf(t *testing.T, n *cluster.Node, name string) int {
	t.Helper()
	shown(t, n)
	count, err := strconv.Atoi(fmt.Sprint(call(t, n, "GET", "/"+name+"/_count", nil)["count"]))
	must(t, err)
	return count
}

func streamEvents(p phasesReport, code string) (n int) {
	for _, e := range p.Events {
		if e.Subject == "data stream "+streamOfFixture && e.Code == code {
			n++
		}
	}
	return n
}

func TestBackingIndicesArriveBehindAnAliasOfTheStreamsName(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, repo := range streamRepos() {
		t.Run(filepath.Base(repo), func(t *testing.T) {
			withoutStreams(t, n)
			want := streamTruth(t, repo)
			for _, session := range []string{"first", "again"} { // the alias that is there is its own
				res := Run(t, "rfsd", targetArgs(n.URL, repo, "--session-name", session, "--phases", "indices,documents", "--existing-documents", "overwrite")...)
				p := phasesOf(t, res)
				if res.Code != 0 || streamEvents(p, "no-alias") != 0 {
					t.Fatalf("%s: exit %d, events %+v: %s", session, res.Code, p.Events, res.Stderr)
				}
			}
			shown(t, n)
			if f := truth.Compare(want, landed(t, n)).Faults(); f != "" {
				t.Error(f)
			}
			if got := countOf(t, n, streamOfFixture); got != len(want) {
				t.Errorf("%d of %d documents behind the alias", got, len(want))
			}
			aliases := call(t, n, "GET", "/_alias/"+streamOfFixture, nil)
			for index := range perIndex(want) {
				text := fmt.Sprint(aliases[index])
				if is := strings.Contains(text, "is_write_index:true"); is != (index == newest(perIndex(want))) {
					t.Errorf("%s: %s", index, text)
				}
			}
			made := call(t, n, "POST", "/"+streamOfFixture+"/_doc", map[string]any{"@timestamp": "2024-02-01T00:00:00Z"})
			if made["_index"] != newest(perIndex(want)) {
				t.Errorf("a new document is in %v", made["_index"])
			}
		})
	}
}

func TestWhereTheStreamsNameIsTakenTheDocumentsArriveWithoutAnAlias(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, c := range []struct {
		name, path string
		becomes    func(index string) string
	}{
		{"by an index", "/" + streamOfFixture, func(s string) string { return s }},
		// The target refuses what might be the next backing index of its own.
		{"by a data stream", "/_data_stream/" + streamOfFixture, func(s string) string { return strings.TrimPrefix(s, ".") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			withoutStreams(t, n)
			repo := streamRepos()[1]
			if strings.HasPrefix(c.path, "/_data_stream") {
				call(t, n, "PUT", "/_index_template/mine", map[string]any{"index_patterns": []string{streamOfFixture + "*"}, "data_stream": map[string]any{}})
			}
			call(t, n, "PUT", c.path, nil)
			want := renamed(streamTruth(t, repo), c.becomes)
			args := targetArgs(n.URL, repo)
			told := Run(t, "rfsd", append([]string{"plan"}, args[1:len(args)-2]...)...)
			if !strings.Contains(told.Stdout, "no alias replaces") {
				t.Errorf("plan does not tell: %s%s", told.Stdout, told.Stderr)
			}
			res := Run(t, "rfsd", args...)
			if p := phasesOf(t, res); res.Code != 0 || streamEvents(p, "no-alias") != 1 {
				t.Fatalf("exit %d, events %+v: %s", res.Code, p.Events, res.Stderr)
			}
			shown(t, n)
			if f := truth.Compare(want, landed(t, n)).Faults(); f != "" {
				t.Error(f)
			}
			if got := countOf(t, n, streamOfFixture); got != 0 {
				t.Errorf("%d documents under the name that others have", got)
			}
		})
	}
}

// createArgs migrate into a stream, in many small requests.
func createArgs(url, repo string, more ...string) []string {
	return targetArgs(url, repo, append([]string{"--data-streams", "create", "--documents-per-bulk-request", "2", "--max-connections", "1", "--slots", "1"}, more...)...)
}

// inStream returns the documents in the data stream of the node, under its name. It fails if a document exists twice.
func inStream(t *testing.T, n *cluster.Node) truth.Docs {
	t.Helper()
	shown(t, n)
	docs := scrolled(t, n, "/"+streamOfFixture+"/_search?scroll=1m&size=500")
	out := renamed(docs, func(string) string { return streamOfFixture })
	if len(out) != len(docs) || countOf(t, n, streamOfFixture) != len(out) {
		t.Errorf("%d documents, %d ids", len(docs), len(out))
	}
	return out
}

func TestDocumentsAreCreatedOnceInAStreamThroughKillsAndAgain(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	repo := streamRepos()[0]
	withoutStreams(t, n)
	want := renamed(streamTruth(t, repo), func(string) string { return streamOfFixture })
	call(t, n, "PUT", "/_index_template/stream", map[string]any{"index_patterns": []string{streamOfFixture}, "priority": 500, "data_stream": map[string]any{}})
	p := newProxy(t, n.URL, 20*time.Millisecond)
	dir := t.TempDir()
	args := createArgs(p.URL, repo, "--session-name", "killed", "--phases", "indices,documents")
	for range 2 {
		before := p.bulks.Load()
		killAfter(t, dir, args, func() bool { return p.bulks.Load() >= before+5 })
	}
	p.delay.Store(0)
	res := RunIn(t, dir, nil, "rfsd", args...)
	r := phasesOf(t, res)
	if res.Code != 0 || !r.Complete || streamEvents(r, "duplicates-possible") != 1 {
		t.Fatalf("exit %d, events %+v: %s", res.Code, r.Events, res.Stderr)
	}
	if f := truth.Compare(want, inStream(t, n)).Faults(); f != "" {
		t.Error(f)
	}
	// All of them again, by a session that knows nothing of the first: what is there is kept.
	res = Run(t, "rfsd", createArgs(n.URL, repo, "--session-name", "again", "--phases", "indices,documents")...)
	kept := 0
	for _, x := range parseSummary(t, res).Indices {
		kept += x.Kept
	}
	if res.Code != 0 || kept != len(want) {
		t.Fatalf("exit %d, %d kept: %s", res.Code, kept, res.Stderr)
	}
	if f := truth.Compare(want, inStream(t, n)).Faults(); f != "" {
		t.Error(f)
	}
}

// killAfter starts the program and kills it as soon as a condition holds.
func killAfter(t *testing.T, dir string, args []string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t, "rfsd"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !is() {
		select {
		case err := <-ended:
			t.Logf("ended by itself: %v", err)
			return
		case <-ticker.C:
		}
	}
	cancel()
	<-ended
}

func TestTheStreamsOwnTemplateComesWithTheSnapshotBeforeIt(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	repo := streamRepos()[1]
	withoutStreams(t, n)
	res := Run(t, "rfsd", createArgs(n.URL, repo)...)
	if res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	want := renamed(streamTruth(t, repo), func(string) string { return streamOfFixture })
	if f := truth.Compare(want, inStream(t, n)).Faults(); f != "" {
		t.Error(f)
	}
}

// The answers of index state management, which is no part of the distribution that tests run on.
const (
	policiesThatRollOver = `{"policies":[{"_id":"hot","_seq_no":1,"_primary_term":1,"policy":{"policy_id":"hot","schema_version":21,"default_state":"hot","states":[` +
		`{"name":"hot","actions":[{"retry":{"count":3,"backoff":"exponential","delay":"1m"},"rollover":{"min_doc_count":10,"copy_alias":false}}],"transitions":[]}],` +
		`"ism_template":[{"index_patterns":["eve*"],"priority":1,"last_updated_time":1700000000000}]}}],"total_policies":1}`
	nothingManaged = `{"total_managed_indices":0}`
)

func TestNothingIsWrittenToAStreamThatAPolicyRollsOverOrThatNoTemplateMakes(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	withoutStreams(t, n)
	repo := streamRepos()[1]
	var managed, soon atomic.Bool
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if managed.Load() && strings.HasPrefix(r.URL.Path, "/_plugins/_ism/") {
			w.Header().Set("Content-Type", "application/json")
			body := nothingManaged
			if strings.HasSuffix(r.URL.Path, "/policies") {
				body = policiesThatRollOver
			}
			fmt.Fprint(w, body)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/_bulk") && !r.URL.Query().Has("require_alias") && soon.Load() {
			managed.Store(true)
		}
		forward(w, r, n.URL)
	}))
	t.Cleanup(door.Close)
	refused := func(says string, more ...string) {
		t.Helper()
		args := createArgs(door.URL, repo, more...)
		res := Run(t, "rfsd", args...)
		if res.Code != 1 || !strings.Contains(res.Stderr+res.Stdout, says) {
			t.Errorf("exit %d, without %q: %s%s", res.Code, says, res.Stdout, res.Stderr)
		}
		if told := Run(t, "rfsd", append([]string{"plan"}, args[1:]...)...); told.Code != 7 || !strings.Contains(told.Stdout, says) {
			t.Errorf("plan: exit %d, without %q: %s%s", told.Code, says, told.Stdout, told.Stderr)
		}
		for index := range call(t, n, "GET", "/_settings?expand_wildcards=all", nil) {
			if strings.Contains(index, streamOfFixture) {
				t.Errorf("%s is there", index)
			}
		}
		if templates := call(t, n, "GET", "/_index_template", nil); len(templates["index_templates"].([]any)) != 0 {
			t.Errorf("templates %v", templates)
		}
	}
	refused("no index template", "--session-name", "none", "--index-template-allowlist", "none-of-this-name")
	managed.Store(true)
	refused("policy hot", "--session-name", "managed")
	managed.Store(false)
	// One that is attached while documents are on their way ends the run.
	args := createArgs(door.URL, repo, "--session-name", "managed")
	dir := t.TempDir()
	soon.Store(true)
	if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 1 || !strings.Contains(res.Stderr+res.Stdout, "policy hot") {
		t.Errorf("attached later: exit %d: %s", res.Code, res.Stderr)
	}
	soon.Store(false)
	// Without the policy the same command does it all; with it again, nothing more.
	managed.Store(false)
	if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	had := maps.Clone(inStream(t, n))
	managed.Store(true)
	if res := RunIn(t, dir, nil, "rfsd", createArgs(door.URL, repo, "--session-name", "another")...); res.Code != 1 || !strings.Contains(res.Stderr+res.Stdout, "policy hot") {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	if f := truth.Compare(had, inStream(t, n)).Faults(); f != "" {
		t.Error(f)
	}
}
