package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/truth"
)

// changesOf is an index of a snapshot whose documents have the versions 1 to 3: that of "3" is 2.
const changesOf = "changes"

// prefilled makes the index changes with documents of others: one of a lower version, of the same, of a higher, and one that
// the snapshot lacks. It returns what each holds.
func prefilled(t *testing.T, n *cluster.Node) map[string]string {
	t.Helper()
	wipe(t, n)
	call(t, n, "PUT", "/"+changesOf, map[string]any{"settings": map[string]any{"number_of_replicas": 0}})
	docs := map[string]string{"0": "version=1", "3": "version=2", "6": "version=9", "foreign": "version=4"}
	for id, version := range docs {
		call(t, n, "PUT", "/"+changesOf+"/_doc/"+id+"?refresh=true&version_type=external&"+version, map[string]any{"foreign": id})
	}
	return docs
}

// stays reports whether a document of prefilled is as it was.
func stays(t *testing.T, n *cluster.Node, id string) bool {
	t.Helper()
	source, ok := call(t, n, "GET", "/"+changesOf+"/_doc/"+id, nil)["_source"].(map[string]any)
	return ok && source["foreign"] == id
}

// TestExistingDocuments migrates into an index that holds documents.
func TestExistingDocuments(t *testing.T) {
	repo := fixture(t, "7.10.2-basic")
	for _, version := range draw.Of(t, 1, targets) {
		n := cluster.OpenSearch(t, version)
		for _, c := range []struct {
			name string
			args []string
			stay string // ids
			kept int
		}{
			{"overwrite", []string{"--existing-documents", "overwrite"}, "foreign", 0},
			{"keep", []string{"--existing-documents", "keep"}, "0 3 6 foreign", 3},
			{"newer", []string{"--existing-documents", "newer"}, "6 foreign", 1},
		} {
			t.Run(version+"/"+c.name, func(t *testing.T) {
				there := prefilled(t, n)
				args := targetArgs(n.URL, repo, "--index-allowlist", changesOf)
				dir := t.TempDir()
				refusedWith(t, RunIn(t, dir, nil, "rfsd", args...), changesOf+" (4)", "--existing-documents overwrite", "keep", "newer")
				for id := range there {
					if !stays(t, n, id) {
						t.Errorf("document %s was changed by a run that was refused", id)
					}
				}
				sum := parseSummary(t, RunIn(t, dir, nil, "rfsd", append(args, c.args...)...))
				if len(sum.Indices) != 1 || !sum.Complete || sum.Indices[0].Kept != c.kept || sum.Indices[0].Failed != 0 {
					t.Errorf("%+v", sum)
				}
				for id := range there {
					if want := strings.Contains(" "+c.stay+" ", " "+id+" "); stays(t, n, id) != want {
						t.Errorf("document %s stayed: %v, want %v", id, !want, want)
					}
				}
				// The session remembers what was chosen, and refuses another choice.
				if again := RunIn(t, dir, nil, "rfsd", args...); again.Code != 0 {
					t.Errorf("resumed without the option: exit %d: %s", again.Code, again.Stderr)
				}
				other := map[string]string{"overwrite": "keep", "keep": "newer", "newer": "overwrite"}[c.name]
				refusedWith(t, RunIn(t, dir, nil, "rfsd", append(args, "--existing-documents", other)...), "existing-documents was", c.name, other)
				want, err := truth.Load(false, repo+".ndjson.gz")
				must(t, err)
				got := landed(t, n)
				for k := range want {
					if there[k.ID] != "" && strings.Contains(" "+c.stay+" ", " "+k.ID+" ") || k.Index != changesOf {
						delete(want, k)
					}
				}
				for k := range got {
					if strings.Contains(" "+c.stay+" ", " "+k.ID+" ") {
						delete(got, k)
					}
				}
				if f := truth.Compare(want, got).Faults(); f != "" {
					t.Error(f)
				}
			})
		}
	}
}

// TestKeptDocumentsAddUpWhenKilled kills a migration that keeps what is there, several times, and counts at its end.
func TestKeptDocumentsAddUpWhenKilled(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	repo := fixture(t, "7.10.2-basic")
	there := prefilled(t, n)
	p := newProxy(t, n.URL, 30*time.Millisecond)
	dir := t.TempDir()
	args := targetArgs(p.URL, repo, "--index-allowlist", changesOf, "--existing-documents", "keep", "--documents-per-bulk-request", "4", "--slots", "1", "--max-connections", "1")
	for range 3 {
		before := p.bulks.Load()
		killAfter(t, dir, args, func() bool { return p.bulks.Load() >= before+3 })
	}
	p.delay.Store(0)
	res := RunIn(t, dir, nil, "rfsd", args...)
	sum := parseSummary(t, res)
	if res.Code != 0 || len(sum.Indices) != 1 || sum.Indices[0].Kept != len(there)-1 || sum.Indices[0].Indexed != sum.Indices[0].Live-sum.Indices[0].Kept {
		t.Errorf("exit %d, %+v: %s", res.Code, sum, res.Stderr)
	}
	if got := countOf(t, n, changesOf); got != sum.Indices[0].Indexed+len(there) {
		t.Errorf("%d documents, %d indexed and %d there before", got, sum.Indices[0].Indexed, len(there))
	}
	for id := range there {
		if !stays(t, n, id) {
			t.Errorf("document %s was overwritten", id)
		}
	}
}
