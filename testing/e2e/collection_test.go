package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/fakecluster"
	"github.com/rfsd/rfsd/testing/serverless"
	"github.com/rfsd/rfsd/testing/signer"
	"github.com/rfsd/rfsd/testing/truth"
)

// collectionArgs starts a collection in front of a cluster and returns the environment and the options with which rfsd migrates to it.
func collectionArgs(t *testing.T, c *serverless.Collection, cluster string) (env, args []string) {
	t.Helper()
	const region, id, secret = "eu-west-1", "AKIDCOLLECTION", "canary-of-the-collection"
	server, door, err := c.Start(region, cluster)
	must(t, err)
	t.Cleanup(server.Close)
	door.Add(id, signer.Key{Secret: secret})
	none := filepath.Join(t.TempDir(), "none")
	env = []string{"AWS_ACCESS_KEY_ID=" + id, "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_REGION=",
		"AWS_CONFIG_FILE=" + none, "AWS_SHARED_CREDENTIALS_FILE=" + none, "AWS_EC2_METADATA_DISABLED=true"}
	return env, []string{"--target-host", server.URL, "--target-aws-sigv4", "--target-aws-service", "aoss", "--target-aws-region", region}
}

// onlyTheProbe fails the test if a collection refused more than the index that cannot be created, which shows its type, and whether indices
// may be created at all.
func onlyTheProbe(t *testing.T, c *serverless.Collection) {
	t.Helper()
	for _, call := range c.Refused() {
		if !strings.HasPrefix(call, "PUT ") || !strings.Contains(call, "KNN features not supported") && !strings.Contains(call, "Dimension value must be greater than 0") {
			t.Errorf("the collection refused %s", call)
		}
	}
}

// TestCollection_SearchHasWhatAClusterHas: what a collection of type search holds after a migration equals, byte for byte and by its ids,
// what the same migration brings to a cluster. Nothing is asked that collections refuse.
func TestCollection_SearchHasWhatAClusterHas(t *testing.T) {
	repo, dir := demoRepo(), t.TempDir()
	plain, behind := fakecluster.New(), fakecluster.New()
	cluster, node := httptest.NewServer(plain), httptest.NewServer(behind)
	defer cluster.Close()
	defer node.Close()
	c := &serverless.Collection{Type: serverless.Search, Refresh: time.Second, Unknown: 200 * time.Millisecond, Full: 1}
	env, args := collectionArgs(t, c, node.URL)
	source := []string{"--repo-uri", repo, "--snapshot-name", "snap1", "--coordinator-file"}
	for _, run := range [][]string{
		slices.Concat([]string{"plan"}, source, []string{filepath.Join(dir, "c.db")}, args),
		slices.Concat([]string{"migrate"}, source, []string{filepath.Join(dir, "c.db")}, args),
		slices.Concat([]string{"migrate"}, source, []string{filepath.Join(dir, "c.db")}, args), // it is complete
		slices.Concat([]string{"migrate"}, source, []string{filepath.Join(dir, "p.db"), "--target-host", cluster.URL}),
	} {
		if r := RunIn(t, dir, env, "rfsd", run...); r.Code != 0 {
			t.Fatalf("rfsd %v: exit %d: %s%s", run, r.Code, r.Stdout, r.Stderr)
		} else if strings.Contains(r.Stderr, "WARN") {
			t.Logf("rfsd %s: %s", run[0], r.Stderr)
		}
	}
	if want, got := plain.Documents(), behind.Documents(); len(want) == 0 || !maps.Equal(want, got) {
		t.Errorf("the collection has %d documents, the cluster %d", len(got), len(want))
	}
	onlyTheProbe(t, c)
	if unknown := behind.Unknown(); len(unknown) > 0 {
		t.Errorf("unknown to the cluster: %q", unknown)
	}
}

// TestCollection_InFrontOfARealServer migrates into a collection of type search, which refuses all that Serverless refuses; a process is
// killed once. The documents have their ids and arrive byte for byte, as on a cluster.
func TestCollection_InFrontOfARealServer(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := fixture(t, "7.10.2-demo")
	p := newProxy(t, n.URL, 100*time.Millisecond)
	c := &serverless.Collection{Type: serverless.Search, Refresh: 3 * time.Second, Unknown: time.Second, Full: 2}
	env, args := collectionArgs(t, c, p.URL)
	r := killedOnce(t, p, env, slices.Concat([]string{"migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--documents-per-bulk-request", "4",
		"--coordinator-file", filepath.Join(t.TempDir(), "c.db"), "--output", "json"}, args))
	parseSummary(t, r)
	compareLanded(t, n, repo)
	onlyTheProbe(t, c)
}

// TestCollection_ChoosesIDs migrates into collections that choose ids; a process is killed once. Every document arrives, some twice, and
// the summary has the number of duplicates.
func TestCollection_ChoosesIDs(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, kind := range []string{serverless.TimeSeries, serverless.VectorSearch} {
		t.Run(kind, func(t *testing.T) {
			if kind == serverless.VectorSearch && os.Getenv("RFSD_DRAW") != "all" {
				t.Skip("waits for a minute as the other type does for half of one: RFSD_DRAW=all")
			}
			wipe(t, n)
			repo := fixture(t, "7.10.2-demo")
			p := newProxy(t, n.URL, 100*time.Millisecond)
			c := &serverless.Collection{Type: kind, Refresh: 3 * time.Second, Unknown: time.Second, Full: 2}
			env, args := collectionArgs(t, c, p.URL)
			task := slices.Concat([]string{"migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--documents-per-bulk-request", "4", "--max-connections", "2",
				"--coordinator-file", filepath.Join(t.TempDir(), "c.db")}, args)
			if r := RunIn(t, t.TempDir(), env, "rfsd", task...); r.Code != 1 || !strings.Contains(r.Stderr, "--allow-duplicates") || p.documents.Load() > 0 {
				t.Fatalf("exit %d, %d documents: %s", r.Code, p.documents.Load(), r.Stderr)
			}
			r := killedOnce(t, p, env, append(task, "--allow-duplicates"))
			if !strings.Contains(r.Stderr, "a document that is sent again, because an answer was lost or a process died, is there twice") {
				t.Errorf("it is not said before: %s", r.Stderr)
			}
			want, err := truth.Load(false, repo+".ndjson.gz")
			must(t, err)
			sent, there := sources(visible(want)), sources(landed(t, n))
			var copies int
			for source, times := range sent {
				if there[source] < times {
					t.Errorf("%d times there instead of %d: %s", there[source], times, source)
				}
				copies += there[source] - times
			}
			if len(there) != len(sent) {
				t.Errorf("%d different documents instead of %d", len(there), len(sent))
			}
			if copies == 0 {
				t.Error("nothing was sent again: the process was not killed at the right time")
			}
			for index, lacks := range byIndex(landed(t, n), visible(want)) {
				if words := fmt.Sprintf("%d documents are there more often than once", lacks); lacks > 0 && !strings.Contains(r.Stdout, words) {
					t.Errorf("%s: not said: %s: %s", index, words, r.Stdout)
				}
			}
			onlyTheProbe(t, c)
		})
	}
}

// killedOnce runs rfsd, kills it in the middle of the documents, runs it again to its end, and returns the result of that.
func killedOnce(t *testing.T, p *proxy, env, args []string) Result {
	t.Helper()
	dir := t.TempDir()
	env = append(env, "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	cmd := exec.CommandContext(t.Context(), Binary(t, "rfsd"), args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	ended := startAndWatch(t, cmd)
	before := p.documents.Load()
	until(t, "some documents were sent", func() bool { return p.documents.Load() > before+40 || isClosed(ended) })
	if isClosed(ended) {
		t.Fatalf("it ended before it was killed: %s", said.String())
	}
	must(t, cmd.Process.Kill())
	<-ended
	r := RunIn(t, dir, env, "rfsd", args...)
	if r.Code != 0 {
		t.Fatalf("exit %d: %s%s", r.Code, r.Stderr, r.Stdout)
	}
	return r
}

// sources counts documents by index and source.
func sources(docs truth.Docs) map[string]int {
	all := map[string]int{}
	for k, source := range docs {
		var compact bytes.Buffer
		if json.Compact(&compact, source) == nil {
			all[k.Index+" "+compact.String()]++
		}
	}
	return all
}

// byIndex returns how many documents each index has beyond the wanted ones.
func byIndex(docs, want truth.Docs) map[string]int {
	all := map[string]int{}
	for k := range docs {
		all[k.Index]++
	}
	for k := range want {
		all[k.Index]--
	}
	return all
}
