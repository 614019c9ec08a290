package e2e

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/truth"
)

// repository is one snapshot with the cluster's own account of it.
type repository struct {
	name, path, snapshot string
	truth                []string
}

// repositories lists every snapshot with truth below dir: NAME/ is the repository,
// NAME.ndjson.gz the documents, NAME.<snapshot>.ndjson.gz those of one snapshot,
// NAME.<index>.ndjson.gz those of a closed index.
func repositories(t *testing.T, dir string) []repository {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []repository
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		for _, snap := range listSnapshots(t, path) {
			r := repository{name: e.Name() + "/" + snap.Name, path: path, snapshot: snap.Name}
			own := path + "." + snap.Name + ".ndjson.gz"
			if _, err := os.Stat(own); err == nil {
				r.truth = []string{own}
			} else {
				r.truth = []string{path + ".ndjson.gz"}
				for _, index := range snap.Indices {
					if extra := path + "." + index + ".ndjson.gz"; exists(extra) {
						r.truth = append(r.truth, extra)
					}
				}
			}
			if exists(r.truth[0]) {
				all = append(all, r)
			}
		}
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

type snapshotListing struct {
	Name    string   `json:"name"`
	Indices []string `json:"indices"`
}

func listSnapshots(t *testing.T, repo string) []snapshotListing {
	t.Helper()
	r := Run(t, "rfsctl", "snapshot", "list", "--repo-uri", repo, "--output", "json")
	if r.Code != 0 {
		t.Fatalf("rfsctl snapshot list %s: exit %d: %s", repo, r.Code, r.Stderr)
	}
	var out struct {
		Snapshots []snapshotListing `json:"snapshots"`
	}
	if err := outputtest.Decode(r.Stdout, &out); err != nil {
		t.Fatalf("rfsctl snapshot list: %v\n%s", err, r.Stdout)
	}
	return out.Snapshots
}

// summary is the part of `rfsd migrate --output json` that the tests read.
type summary struct {
	Complete bool `json:"complete"`
	Indices  []struct {
		Index    string `json:"index"`
		Reduced  string `json:"reduced_source"`
		Shards   int    `json:"shards"`
		Live     int    `json:"live"`
		Indexed  int    `json:"indexed"`
		Kept     int    `json:"kept"`
		Failed   int    `json:"failed"`
		Filtered int    `json:"filtered"`
		Lacking  int    `json:"reduced"`
		Rebuilt  int    `json:"rebuilt"`
	} `json:"indices"`
	Totals struct {
		Indexed int `json:"indexed"`
		Failed  int `json:"failed"`
		Bytes   int `json:"bytes"`
	} `json:"totals"`
	Changes changes `json:"changes"`
	Round   struct {
		Number   int
		Snapshot string
		Since    string
		Arrived  bool
	} `json:"round"`
}

// changes are the documents that differ between the snapshots of two rounds.
type changes struct{ Inserted, Updated, Deleted, Unchanged int }

func parseSummary(t *testing.T, r Result) summary {
	t.Helper()
	var s summary
	if err := outputtest.Decode(r.Stdout, &s); err != nil {
		t.Fatalf("summary: %v\nstdout: %s\nstderr: %s", err, r.Stdout, r.Stderr)
	}
	for _, i := range s.Indices {
		if i.Live != i.Indexed+i.Kept+i.Failed+i.Filtered {
			t.Errorf("index %s: live %d != indexed %d + kept %d + failed %d + filtered %d", i.Index, i.Live, i.Indexed, i.Kept, i.Failed, i.Filtered)
		}
	}
	return s
}

// TestEveryExportEqualsTheClustersOwnAccount exports every snapshot and compares every document: each index has exactly the
// counts that testing/fixtures/expected.json states. RFSD_WRITE_DOCS=1 writes that file anew; look at the difference.
func TestEveryExportEqualsTheClustersOwnAccount(t *testing.T) {
	dir := filepath.Join(Root(), "testing", "fixtures")
	write := os.Getenv("RFSD_WRITE_DOCS") != ""
	expected, err := truth.LoadExpected(dir)
	if err != nil && !write {
		t.Fatal(err)
	}
	found := truth.Expected{}
	for _, r := range repositories(t, dir) {
		t.Run(r.name, func(t *testing.T) {
			found[r.name] = exportEquals(t, r)
			if want := expected[r.name]; !write && !maps.Equal(found[r.name], want) {
				t.Errorf("found %+v, want %+v", found[r.name], want)
			}
		})
	}
	if write {
		kept := truth.Expected{}
		maps.Copy(kept, expected) // -run may have left some out
		maps.Copy(kept, found)
		must(t, kept.Save(dir))
		return
	}
	for name := range expected {
		if _, ok := found[name]; !ok && !strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
			t.Errorf("%s was not compared", name)
		}
	}
}

// exportEquals exports a snapshot and compares every document; it returns the counts of each index.
func exportEquals(t *testing.T, r repository) map[string]truth.Counts {
	want, err := truth.Load(true, r.truth...)
	must(t, err)
	stored, err := truth.LoadStored(r.path)
	must(t, err)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	res := RunIn(t, dir, nil, "rfsd", "migrate", "--repo-uri", r.path, "--snapshot-name", r.snapshot,
		"--export-dir", out, "--include-system", "--emit-doc-type", "ON", "--allow-partial", "--output", "json")
	if res.Code != 0 && res.Code != 6 && res.Code != 7 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	sum := parseSummary(t, res)
	if !sum.Complete {
		t.Errorf("not complete: %s", res.Stderr)
	}
	got, err := truth.LoadExport(out)
	must(t, err)
	counts, faults := truth.Count(r.name, want, stored, ignoreMeaninglessTypes(got))
	if faults != "" {
		t.Error(faults)
	}
	failed, reduced := 0, 0
	for _, i := range sum.Indices {
		failed, reduced = failed+i.Failed, reduced+i.Lacking
		if want := reducedDocuments[r.name][i.Index]; i.Lacking != want {
			t.Errorf("index %s: %d documents are counted as reduced, want %d", i.Index, i.Lacking, want)
		}
		if i.Failed > 0 && i.Reduced == "" {
			t.Errorf("index %s: %d failed documents, but its source is stored", i.Index, i.Failed)
		}
		if c := counts[i.Index]; i.Rebuilt > 0 {
			c.Rebuilt = i.Rebuilt
			counts[i.Index] = c
		}
		if absent := counts[i.Index].Absent; absent != i.Failed {
			t.Errorf("index %s: %d documents are absent, %d counted as failed", i.Index, absent, i.Failed)
		}
	}
	if (failed+reduced > 0) != (res.Code == 6) && res.Code != 7 {
		t.Errorf("%d failed and %d reduced documents and exit code %d", failed, reduced, res.Code)
	}
	return counts
}

// reducedDocuments is how many documents of each index lack parts that their mapping leaves out of _source: their originals
// are gone, or not sent because an export has no mapping that would leave out the same.
var reducedDocuments = map[string]map[string]int{
	"2.4.6-basic/snap1": {"partsource": 4}, "5.6.16-basic/snap1": {"partsource": 4}, "6.8.23-basic/snap1": {"partsource": 4},
	"7.10.2-basic/snap1": {"partsource": 4}, "7.17.29-basic/snap1": {"partsource": 4}, "8.19.21-basic/snap1": {"partsource": 4},
	"9.5.3-basic/snap1": {"partsource": 4}, "os1.3.14-basic/snap1": {"partsource": 4}, "os2.19.4-basic/snap1": {"partsource": 4},
	"os3.8.0-basic/snap1": {"partsource": 4}, "7.10.2-multi-index/snap1": {"src-filtered": 15},
	"os3.8.0-source-excludes/snap1": {"articles": 50}, "os3.8.0-switched-off/snap1": {"filtered": 6},
}

func ignoreMeaninglessTypes(docs truth.Docs) truth.Docs {
	out := make(truth.Docs, len(docs))
	for k, v := range docs {
		if k.Type == "_doc" {
			k.Type = ""
		}
		out[k] = v
	}
	return out
}
