package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
	if err := json.Unmarshal([]byte(r.Stdout), &out); err != nil {
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
		Failed   int    `json:"failed"`
		Filtered int    `json:"filtered"`
	} `json:"indices"`
}

func parseSummary(t *testing.T, r Result) summary {
	t.Helper()
	var s summary
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatalf("summary: %v\nstdout: %s\nstderr: %s", err, r.Stdout, r.Stderr)
	}
	for _, i := range s.Indices {
		if i.Live != i.Indexed+i.Failed+i.Filtered {
			t.Errorf("index %s: live %d != indexed %d + failed %d + filtered %d", i.Index, i.Live, i.Indexed, i.Failed, i.Filtered)
		}
	}
	return s
}

func TestEveryExportEqualsTheClustersOwnAccount(t *testing.T) {
	dirs := []string{filepath.Join(Root(), "testing", "fixtures")}
	if shared := filepath.Join(Root(), "..", "shared", "fixtures"); exists(shared) {
		dirs = append(dirs, shared)
	} else {
		t.Log("the snapshots beside the checkout are absent: only the project's own are compared")
	}
	var rows []string
	for _, dir := range dirs {
		if !exists(dir) {
			continue
		}
		for _, r := range repositories(t, dir) {
			t.Run(r.name, func(t *testing.T) { rows = append(rows, exportEquals(t, r)) })
		}
	}
	if len(rows) == 0 {
		t.Fatal("no snapshot was compared")
	}
	slices.Sort(rows)
	t.Logf("snapshot | documents | byte for byte | minified | same values | no truth | not stored\n%s", strings.Join(rows, "\n"))
}

// exportEquals exports a snapshot and compares every document; it returns a row of the table.
func exportEquals(t *testing.T, r repository) string {
	want, err := truth.Load(true, r.truth...)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	d := truth.Compare(want, ignoreMeaninglessTypes(got))
	failed := checkPerIndex(t, sum, d)
	if (failed > 0) != (res.Code == 6) && res.Code != 7 {
		t.Errorf("%d failed documents and exit code %d", failed, res.Code)
	}
	return fmt.Sprintf("%s | %d | %d | %d | %d | %d | %d", r.name, len(want), d.Of("", truth.Equal), d.Of("", truth.Minified),
		d.Of("", truth.Values), d.Of("", truth.NoTruth), failed)
}

// checkPerIndex demands equality where the mapping says that the source is stored as
// it was indexed; elsewhere every document has to be exported or counted as failed.
func checkPerIndex(t *testing.T, sum summary, d truth.Diff) (failed int) {
	t.Helper()
	reduced := map[string]string{}
	for _, i := range sum.Indices {
		failed += i.Failed
		reduced[i.Index] = i.Reduced
		if i.Failed > 0 && i.Reduced == "" {
			t.Errorf("index %s: %d failed documents, but its source is stored", i.Index, i.Failed)
		}
		if missing := d.Of(i.Index, truth.Missing); missing > i.Failed {
			t.Errorf("index %s: %d documents missing, %d counted as failed", i.Index, missing, i.Failed)
		}
	}
	for index := range d.Count {
		if reduced[index] != "" {
			continue
		}
		for _, c := range []truth.Class{truth.Different, truth.Missing, truth.Extra} {
			if n := d.Of(index, c); n > 0 {
				t.Errorf("index %s: %d %v, such as %v", index, n, c, d.Examples[c])
			}
		}
	}
	return failed
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
