package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/s3server"
	"github.com/rfsd/rfsd/testing/truth"
)

// imported is the part of `rfsd import --output json` that the tests read.
type imported struct {
	Documents int  `json:"documents"`
	Indexed   int  `json:"indexed"`
	Failed    int  `json:"failed"`
	Filtered  int  `json:"filtered"`
	GivenUp   int  `json:"given_up"`
	Windows   int  `json:"windows"`
	Size      int  `json:"source_bytes"`
	FileBytes int  `json:"file_bytes"`
	Complete  bool `json:"complete"`
}

// importRepositories are the bundled snapshots that are exported and imported: three, with RFSD_IMPORT=all every one.
func importRepositories(t *testing.T) []repository {
	t.Helper()
	all := repositories(t, filepath.Join(Root(), "testing", "fixtures"))
	if os.Getenv("RFSD_IMPORT") != "all" {
		return []repository{all[0], all[len(all)/2], all[len(all)-1]}
	}
	return all
}

// TestExportsImportedByThreeProcessesThatAreKilledEqualTheTruth exports snapshots, plain and compressed, and
// lets three processes import each into a real cluster, one of which is killed now and then: in turn rfsd import, and nodes whose task it is.
func TestExportsImportedByThreeProcessesThatAreKilledEqualTheTruth(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	proxy := newProxy(t, n.URL, 20*time.Millisecond) // so that there is time to kill in
	var rows []string
	for i, r := range importRepositories(t) {
		t.Run(r.name, func(t *testing.T) {
			wipe(t, n)
			packed := []string{"none", "gzip", "zstd"}[i%3]
			rows = append(rows, importEquals(t, n, proxy, r, packed, i%3 == 1, i%2 == 1))
		})
	}
	t.Logf("snapshot | compression, by | documents | failed | windows | killed\n%s", strings.Join(rows, "\n"))
}

func importEquals(t *testing.T, n *cluster.Node, proxy *proxy, r repository, packed string, overS3, nodes bool) string {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	// The indices as a migration makes them; those that the target cannot have are made by the import.
	source := []string{"migrate", "--repo-uri", r.path, "--snapshot-name", r.snapshot, "--allow-partial", "--output", "json"}
	run := func(args ...string) Result {
		t.Helper()
		res := RunIn(t, dir, nil, "rfsd", append(slices.Clone(source), args...)...)
		if res.Code != 0 && res.Code != 6 && res.Code != 7 {
			t.Fatalf("%v: exit %d: %s", args, res.Code, res.Stderr)
		}
		return res
	}
	run("--target-host", n.URL, "--phases", "metadata,indices")
	exported := parseSummary(t, run("--export-dir", out, "--export-compression", packed))
	if len(exported.Indices) == 0 {
		t.Skip("nothing in it is migrated by default")
	}
	lines, err := truth.LoadExport(out)
	must(t, err)
	if len(lines) == 0 {
		res := RunIn(t, dir, nil, "rfsd", "import", "--from", out, "--target-host", n.URL)
		if res.Code != 1 || !strings.Contains(res.Stderr, "holds no file") {
			t.Errorf("an export without documents: exit %d: %s", res.Code, res.Stderr)
		}
		return fmt.Sprintf("%s | %s | 0 | 0 | 0 | 0", r.name, packed)
	}
	from := out
	if overS3 {
		from = inBucket(t, out)
	}
	args := []string{"import", "--from", from, "--target-host", proxy.URL, "--create-indices", "--output", "json", "--session-name", "import",
		"--window-lease", "3s", "--documents-per-bulk-request", "5", "--disable-compression",
		"--max-failed-documents", "unlimited"}
	bytes := 0
	for _, source := range lines {
		bytes += len(source)
	}
	args = append(args, "--window-size", strconv.Itoa(max(bytes/60, 1<<14)))
	three := append(slices.Clone(args), "--slots", "2")
	if nodes {
		three = append([]string{"run", "--workers", "2", "--exit-when-done", "--socket", "off", "--status-socket", "off"}, args[1:]...)
	}
	killed := importWithKills(t, dir, three)
	res := RunIn(t, dir, nil, "rfsd", args...)
	var sum imported
	if err := outputtest.Decode(res.Stdout, &sum); err != nil {
		t.Fatalf("%v: exit %d: %s", err, res.Code, res.Stderr)
	}
	if !sum.Complete || sum.GivenUp > 0 || sum.Documents != len(lines) || sum.Indexed+sum.Failed != len(lines) || sum.Filtered != 0 || sum.FileBytes != sum.Size {
		t.Errorf("exit %d, %+v, the export has %d documents: %s", res.Code, sum, len(lines), res.Stderr)
	}
	if want := map[bool]int{false: 0, true: 6}[sum.Failed > 0]; res.Code != want {
		t.Errorf("exit %d, want %d", res.Code, want)
	}
	importArrived(t, n, r, exported, lines, sum.Failed)
	cleanedUp(t, "--target-host", n.URL, "--session-name", "import")
	return fmt.Sprintf("%s | %s, %s | %d | %d | %d | %d", r.name, packed, map[bool]string{false: "processes", true: "nodes"}[nodes], sum.Documents, sum.Failed, sum.Windows, killed)
}

// inBucket puts a directory into a bucket and gives its address; the environment leads to it.
func inBucket(t *testing.T, dir string) string {
	t.Helper()
	state := t.TempDir()
	server := s3server.Start(t, state)
	server.Setenv(t)
	t.Setenv("RFS_S3_ENDPOINT", server.Endpoint)
	t.Setenv("RFS_S3_REGION", server.Region)
	t.Setenv("RFS_S3_PATH_STYLE", "true")
	must(t, os.CopyFS(filepath.Join(state, "bucket", "exports", "one"), os.DirFS(dir)))
	return "s3://bucket/exports/one"
}

// importWithKills runs three processes to their end; meanwhile, once or three times, one of them is
// killed and started again.
func importWithKills(t *testing.T, dir string, args []string) (killed int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 5))
	var all []*process
	for range 3 {
		all = append(all, startWorker(t, dir, args))
	}
	ended := func(p *process) bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	}
	kills := 1
	if os.Getenv("RFSD_IMPORT") == "all" {
		kills = 3
	}
	for killed < kills && !slices.ContainsFunc(all, ended) {
		pause := time.NewTimer(time.Duration(200+rng.IntN(800)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-all[0].ended:
		}
		victim := rng.IntN(len(all))
		if p := all[victim]; !ended(p) {
			must(t, p.Process.Kill())
			<-p.ended
			killed++
			all[victim] = startWorker(t, dir, args)
		}
	}
	deadline := time.NewTimer(4 * time.Minute)
	defer deadline.Stop()
	for _, p := range all {
		select {
		case <-p.ended:
			if code := p.ProcessState.ExitCode(); code != 0 && code != 6 {
				t.Errorf("exit %d: %s", code, p.stderr.String())
			}
		case <-deadline.C:
			t.Fatalf("the import did not end: %s", p.stderr.String())
		}
	}
	return killed
}

// importArrived compares the target with the export, byte for byte where the target keeps the bytes, and with
// the cluster's own account.
func importArrived(t *testing.T, n *cluster.Node, r repository, exported summary, lines truth.Docs, failed int) {
	t.Helper()
	got := landedSources(t, n, lines)
	exact := maps.Clone(lines)
	for k := range exact {
		if isReduced(exported, k.Index) {
			exact[k] = nil // the target does not keep what it got
		}
	}
	d := truth.Compare(exact, got)
	if d.Of("", truth.Different)+d.Of("", truth.Minified)+d.Of("", truth.Values)+d.Of("", truth.Extra) > 0 || d.Of("", truth.Missing) != failed {
		t.Errorf("against the export: %s; %d failed", d.Exact(), failed)
	}
	want, err := truth.Load(true, r.truth...)
	must(t, err)
	names := map[string]bool{}
	for k := range lines {
		names[k.Index] = true
	}
	for _, x := range exported.Indices {
		failed += x.Failed
	}
	expected := truth.Docs{}
	for k, source := range want {
		system := strings.HasPrefix(k.Index, ".") && !strings.HasPrefix(k.Index, ".ds-")
		if system || isReduced(exported, k.Index) {
			continue
		}
		if !names[k.Index] && names[k.Index+"_"+k.Type] { // types that were split into indices of their own
			k.Index += "_" + k.Type
		}
		k.Type = ""
		expected[k] = source
	}
	for k := range got {
		if isReduced(exported, k.Index) {
			delete(got, k)
		}
	}
	d = truth.Compare(expected, got)
	if d.Of("", truth.Different)+d.Of("", truth.Extra) > 0 || d.Of("", truth.Missing) > failed {
		t.Errorf("against the truth: %s; %d failed", d.Faults(), failed)
	}
}

// isReduced says whether an index, or the one that its types were split off, stores sources that are not what
// was indexed.
func isReduced(exported summary, index string) bool {
	for _, x := range exported.Indices {
		if x.Reduced != "" && (index == x.Index || strings.HasPrefix(index, x.Index+"_")) {
			return true
		}
	}
	return false
}

// landedSources reads what arrived. A source with comments is no JSON, and so is the answer of a search that
// holds one: then each source is asked for by itself, and the documents are counted.
func landedSources(t *testing.T, n *cluster.Node, lines truth.Docs) truth.Docs {
	t.Helper()
	call(t, n, "POST", "/_refresh?expand_wildcards=all", nil) // backing indices of streams are hidden
	valid := true
	for _, source := range lines {
		valid = valid && json.Valid(source)
	}
	if valid {
		return landed(t, n)
	}
	got, indices := truth.Docs{}, map[string]bool{}
	for k := range lines {
		path := "/" + url.PathEscape(k.Index) + "/_source/" + url.PathEscape(k.ID)
		if k.Routing != "" {
			path += "?routing=" + url.QueryEscape(k.Routing)
		}
		if source, err := n.Send(t.Context(), "GET", path, "", nil); err == nil {
			got[k] = source
		}
		indices[k.Index] = true
	}
	count := 0
	for index := range indices {
		var answer struct{ Count int }
		must(t, n.JSON(t.Context(), "GET", "/"+url.PathEscape(index)+"/_count", nil, &answer))
		count += answer.Count
	}
	if count != len(got) {
		t.Errorf("%d documents were found by their ids, %d are there", len(got), count)
	}
	return got
}
