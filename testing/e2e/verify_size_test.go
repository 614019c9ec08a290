package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/testing/bench/corpus"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/verifytest"
)

// cost is the resource usage of a process, and of the target meanwhile.
type cost struct {
	wall, own, target time.Duration
	peak              int64 // bytes of memory, as of the last look
}

func (c cost) processor() time.Duration { return c.own + c.target }

// processorOf returns the processor time of a node.
func processorOf(t *testing.T, n *cluster.Node) (all time.Duration) {
	t.Helper()
	var answer struct {
		Nodes map[string]struct {
			Process struct {
				CPU struct {
					Total int64 `json:"total_in_millis"`
				} `json:"cpu"`
			} `json:"process"`
		} `json:"nodes"`
	}
	must(t, n.JSON(t.Context(), "GET", "/_nodes/stats/process", nil, &answer))
	for _, node := range answer.Nodes {
		all += time.Duration(node.Process.CPU.Total) * time.Millisecond
	}
	return all
}

// peakOf returns the most memory that a running process has had; 0 when it is gone. What the kernel reports of a child that
// ended includes the memory of the process that started it.
func peakOf(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	var kB int64
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			_, _ = fmt.Sscan(rest, &kB)
		}
	}
	return kB << 10
}

// costed runs a program in a directory and measures it.
func costed(t *testing.T, n *cluster.Node, dir string, args ...string) (Result, cost) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Binary(t, "rfsd"), args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var c cost
	before, begin := processorOf(t, n), time.Now()
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	looks := time.NewTicker(50 * time.Millisecond)
	defer looks.Stop()
	for running := true; running; {
		select {
		case <-looks.C:
			c.peak = max(c.peak, peakOf(cmd.Process.Pid))
		case <-ended:
			running = false
		}
	}
	c.wall, c.own = time.Since(begin), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	c.target = processorOf(t, n) - before
	return Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}, c
}

// mixedFiles writes documents of mixed kinds to eight files, every seventh with a routing, and returns their sources.
func mixedFiles(t *testing.T, dir string, documents int) [][]byte {
	t.Helper()
	made, err := corpus.New(corpus.Mixed)
	must(t, err)
	all := make([][]byte, documents)
	files := make([]bytes.Buffer, 8)
	for i := range all {
		all[i] = made.Append(nil, i, 0)
		routing := ""
		if i%7 == 0 {
			routing = fmt.Sprintf(`,"routing":"r%d"`, i%5)
		}
		fmt.Fprintf(&files[i%8], "{\"index\":{\"_index\":\"mixed\",\"_id\":\"doc-%d\"%s}}\n%s\n", i, routing, all[i])
	}
	for i := range files {
		name, b := fmt.Sprintf("part-%d.ndjson", i), files[i].Bytes()
		if i%2 == 1 {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, err := z.Write(b)
			must(t, err)
			must(t, z.Close())
			name, b = name+".gz", packed.Bytes()
		}
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return all
}

var (
	wholeNumber = regexp.MustCompile(`:([0-9]+)([,}])`)
	beginOfText = regexp.MustCompile(`":"([a-zA-Z0-9])`)
)

// spoil changes five documents of the index mixed, and returns what they are then.
func spoil(t *testing.T, n *cluster.Node, all [][]byte) map[verify.Kind]string {
	t.Helper()
	id := func(part int) (string, []byte) { // far from each other, and without a routing
		i := len(all) * part / 6
		for i%7 == 0 {
			i++
		}
		return fmt.Sprint("doc-", i), all[i]
	}
	send := func(method, id, routing string, source []byte) {
		t.Helper()
		path := "/mixed/_doc/" + id
		if routing != "" {
			path += "?routing=" + url.QueryEscape(routing)
		}
		if _, err := n.Send(t.Context(), method, path, "application/json", source); err != nil {
			t.Fatal(err)
		}
	}
	changed, source := id(1)
	at := beginOfText.FindSubmatchIndex(source)[2]
	source = bytes.Clone(source)
	if source[at]++; source[at] == 'z'+1 || source[at] == 'Z'+1 || source[at] == '9'+1 {
		source[at] -= 2
	}
	send("PUT", changed, "", source)
	form, source := id(2)
	place := wholeNumber.FindSubmatchIndex(source)
	send("PUT", form, "", slices.Concat(source[:place[3]], []byte(".0"), source[place[3]:]))
	missing, _ := id(3)
	send("DELETE", missing, "", nil)
	send("PUT", "extra", "", []byte(`{}`))
	routed, source := id(4)
	send("DELETE", routed, "", nil)
	send("PUT", routed, "elsewhere", source)
	return map[verify.Kind]string{verify.Changed: changed, verify.SameValue: form, verify.Missing: missing, verify.Extra: "extra", verify.OtherRouting: routed}
}

// atSize is 2,000 documents, or 200,000 with RFSD_VERIFY=1, when bounds of time, processor and memory are asserted, too.
func atSize() (documents int, whole bool) {
	if os.Getenv("RFSD_VERIFY") != "" {
		return 200_000, true
	}
	return 2_000, false
}

// affordable fails when a comparison takes more than a minute, 200 MB, or the processor time of what it proves, with the
// target's.
func affordable(t *testing.T, what string, brought, compared cost) {
	t.Helper()
	t.Logf("%s: brought in %.1f s, processor %.1f s and the target's %.1f s; compared in %.1f s, processor %.1f s and the target's %.1f s, %d MB", what,
		brought.wall.Seconds(), brought.own.Seconds(), brought.target.Seconds(), compared.wall.Seconds(), compared.own.Seconds(), compared.target.Seconds(), compared.peak/1_000_000)
	if compared.wall > time.Minute || compared.peak > 200_000_000 || compared.processor() > brought.processor() {
		t.Errorf("%s: want at most 60 s, 200 MB, and %v of processor", what, brought.processor())
	}
}

// TestVerifyOfFilesFindsEachDifference imports files, compares them with the target in several ways, changes five documents,
// and kills the comparison three times.
func TestVerifyOfFilesFindsEachDifference(t *testing.T) {
	documents, whole := atSize()
	versions := targets
	if !whole {
		versions = versions[:1]
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { findsEachDifference(t, cluster.OpenSearch(t, version), documents, whole) })
	}
}

func findsEachDifference(t *testing.T, n *cluster.Node, documents int, whole bool) {
	wipe(t, n)
	dir, files := t.TempDir(), t.TempDir()
	all := mixedFiles(t, files, documents)
	call(t, n, "PUT", "/mixed", map[string]any{"settings": map[string]any{"number_of_shards": 8, "number_of_replicas": 0}, "mappings": map[string]any{"dynamic": false}})
	res, brought := costed(t, n, dir, "import", "--from", files, "--target-host", n.URL, "--output", "json")
	if res.Code != 0 {
		t.Fatalf("import: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	compared := func(host string, code int, more ...string) (*verify.Report, Result, cost) {
		t.Helper()
		res, c := costed(t, n, dir, append([]string{"verify", "--from", files, "--target-host", host, "--output", "json"}, more...)...)
		r, err := verifytest.Unseal([]byte(res.Stdout))
		if err != nil || res.Code != code || len(r.Indices) != 1 || r.Indices[0].SourceSide.Documents != int64(documents) {
			t.Fatalf("exit %d, want %d: %v\n%.3000s%s", res.Code, code, err, res.Stdout, res.Stderr)
		}
		return r, res, c
	}
	first, _, took := compared(n.URL, 0)
	latency := "1ms"
	if whole {
		latency = "100ms" // pauses for 200,000 documents take too long otherwise
		affordable(t, "files", brought, took)
	}
	for _, more := range [][]string{{"--slots", "1"}, {"--slots", "8"}, {"--target-max-latency", latency, "--slots", "3"}} {
		if r, _, _ := compared(n.URL, 0, more...); r.Indices[0].SourceSide != first.Indices[0].SourceSide || r.Indices[0].TargetSide != first.Indices[0].SourceSide {
			t.Errorf("%q: digests %+v and %+v, want %+v", more, r.Indices[0].SourceSide, r.Indices[0].TargetSide, first.Indices[0].SourceSide)
		}
	}

	var sampled []verify.Tally
	for _, slots := range []string{"1", "4"} { // the same documents, however many read
		res := RunIn(t, dir, nil, "rfsd", "verify", "--from", files, "--target-host", n.URL, "--output", "json", "--sample", "20%", "--slots", slots)
		r, err := verifytest.Unseal([]byte(res.Stdout))
		if err != nil || res.Code != 0 || r.Sample != 0.2 || len(r.Indices) != 1 {
			t.Fatalf("a sample: exit %d: %v\n%s%s", res.Code, err, res.Stdout, res.Stderr)
		}
		sampled = append(sampled, r.Indices[0].SourceSide, r.Indices[0].TargetSide)
	}
	if n := float64(sampled[0].Documents) / float64(documents); n < 0.17 || n > 0.23 || len(slices.Compact(sampled)) != 1 {
		t.Errorf("samples of %.2f: %+v", n, sampled)
	}
	const seconds = 5 // of which the first is free
	limited := fmt.Sprintf("%.3fMB", float64(len(bytes.Join(all, nil)))/seconds/1e6)
	if _, _, c := compared(n.URL, 0, "--max-rate", limited, "--target-max-latency", "10s"); c.wall < (seconds-2)*time.Second {
		t.Errorf("at %s a second, the comparison took %v", limited, c.wall)
	}

	want := spoil(t, n, all)
	plain, _, _ := compared(n.URL, 8)
	named := map[verify.Kind]string{}
	for _, d := range plain.Indices[0].Differences {
		named[d.Kind] += d.ID
	}
	if fmt.Sprint(named) != fmt.Sprint(want) {
		t.Errorf("named %v, want %v", named, want)
	}
	k := newKiller(t, n)
	k.state = filepath.Join(dir, "state")
	for range 3 {
		k.run(t, "POST /mixed/_search/point_in_time", 3, true, "rfsd", "verify", "--from", files, "--target-host", k.URL, "--slots", "1", "--failed-documents", filepath.Join(dir, "none"))
	}
	killed, res, _ := compared(k.URL, 8, "--failed-documents", filepath.Join(dir, "none"))
	if was := doneBefore(t, res); was < 3 {
		t.Errorf("%d items were done before\n%s", was, res.Stderr)
	}
	if a, b := indicesOf(t, killed), indicesOf(t, plain); a != b {
		t.Errorf("killed three times:\n%s\nwant\n%s", a, b)
	}
}

var goesOn = regexp.MustCompile(`"msg":"comparison continues","done":([0-9]+)`)

// doneBefore returns the number of items of a comparison that were done before this process joined; 0 if it started the comparison.
func doneBefore(t *testing.T, res Result) (n int) {
	t.Helper()
	if m := goesOn.FindStringSubmatch(res.Stderr); m != nil {
		_, err := fmt.Sscan(m[1], &n)
		must(t, err)
	}
	return n
}

// indicesOf returns what a report states of its indices.
func indicesOf(t *testing.T, r *verify.Report) string {
	t.Helper()
	b, err := json.Marshal(r.Indices)
	must(t, err)
	return string(b)
}

// TestVerifyOfAnExport exports, and imports into indices that the export describes, where nothing differs. Then it imports into indices
// with dynamic mappings, and compares: rejected documents are in the account, and fields have other types than in the export's mappings.
func TestVerifyOfAnExport(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if res := RunIn(t, dir, nil, "rfsd", exportArgs(demo(t), out, "--export-compression", "zstd")...); res.Code != 0 {
		t.Fatalf("export: exit %d: %s", res.Code, res.Stderr)
	}
	args := []string{"--from", out, "--target-host", n.URL, "--output", "json"}
	description := filepath.Join(out, "rfsd-mappings.json")
	b, err := os.ReadFile(description)
	must(t, err)
	b = bytes.Replace(b, []byte(`"indices":{`), []byte(`"indices":{"empty":[{"properties":{"a":{"type":"keyword"}}}],`), 1)
	must(t, os.WriteFile(description, b, 0o600))
	imported := RunIn(t, dir, nil, "rfsd", append([]string{"import", "--create-indices"}, args...)...)
	if imported.Code != 0 {
		t.Fatalf("import into indices that the export describes: exit %d: %s", imported.Code, imported.Stderr)
	}
	if res, r := verified(t, dir, append([]string{""}, args...)); res.Code != 0 || r.State != verify.Equal {
		t.Errorf("indices that the export describes: exit %d\n%s%s", res.Code, notEqual(r), res.Stderr)
	}
	if answer := call(t, n, "GET", "/orders/_alias", nil); !strings.Contains(fmt.Sprint(answer), "sales") {
		t.Errorf("aliases of an index: %v", answer)
	}
	if answer := call(t, n, "GET", "/empty", nil); !strings.Contains(fmt.Sprint(answer), "keyword") {
		t.Errorf("an index without documents: %v", answer)
	}
	wipe(t, n)
	must(t, os.Rename(description, filepath.Join(dir, "moved")))
	imported = RunIn(t, dir, nil, "rfsd", append([]string{"import", "--create-indices"}, args...)...)
	if imported.Code != 0 && imported.Code != 6 {
		t.Fatalf("import: exit %d: %s", imported.Code, imported.Stderr)
	}
	must(t, os.Rename(filepath.Join(dir, "moved"), description))
	res, r := verified(t, dir, append([]string{""}, args...))
	failed, fields := int64(0), 0
	for _, x := range r.Indices {
		failed, fields = failed+x.Failed, fields+len(x.Fields)
	}
	if res.Code != 8 || fields == 0 || len(r.Indices) == 0 || (failed > 0) != (imported.Code == 6) {
		t.Errorf("exit %d, %d failed, the import ended with %d\n%s%s", res.Code, failed, imported.Code, notEqual(r), res.Stderr)
	}
	// What an application writes then is told apart by the state of the import, as far as it is of these files.
	written := r.Indices[0].Target
	if _, err := n.Send(t.Context(), "PUT", "/"+written+"/_doc/of-an-application?refresh=true", "application/json", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if res, since := verified(t, dir, append([]string{""}, args...)); res.Code != 8 || since.Indices[0].Counts[verify.ChangedSince] != 1 {
		t.Errorf("written since: exit %d, %s\n%s%s", res.Code, since.State, notEqual(since), res.Stderr)
	}
	other := filepath.Join(dir, "other")
	must(t, os.CopyFS(other, os.DirFS(out)))
	must(t, os.WriteFile(filepath.Join(other, "more.ndjson"), []byte("{\"index\":{\"_index\":\"more\",\"_id\":\"1\"}}\n{}\n"), 0o600))
	if res, foreign := verified(t, dir, []string{"", "--from", other, "--target-host", n.URL, "--output", "json", "--allow-partial"}); res.Code != 8 || !strings.Contains(res.Stderr, "other files than those that the session imported") {
		t.Errorf("other files: exit %d\n%s%s", res.Code, notEqual(foreign), res.Stderr)
	}
	if _, err := n.Send(t.Context(), "DELETE", "/"+written+"/_doc/of-an-application?refresh=true", "", nil); err != nil {
		t.Fatal(err)
	}
	must(t, os.Remove(filepath.Join(out, "rfsd-export.json")))
	must(t, os.Remove(description))
	must(t, os.RemoveAll(filepath.Join(out, ".rfsd")))
	if res, bare := verified(t, dir, append([]string{""}, args...)); res.Code != imported.Code || len(bare.Indices) != len(r.Indices) {
		t.Errorf("without its manifest and mappings: exit %d\n%s%s", res.Code, notEqual(bare), res.Stderr)
	}
}

// TestVerifyOfASnapshotAtSize compares a snapshot of 200,000 documents with 1 and 8 workers, and kills the comparison three times.
func TestVerifyOfASnapshotAtSize(t *testing.T) {
	if _, whole := atSize(); !whole {
		t.Skip("RFSD_VERIFY=1 compares 200,000 documents, for about a minute")
	}
	source, _ := manySource(t)
	for _, version := range draw.Of(t, 1, targets) {
		t.Run(version, func(t *testing.T) {
			n := cluster.OpenSearch(t, version)
			wipe(t, n)
			dir := t.TempDir()
			args := targetArgs(n.URL, source)
			res, brought := costed(t, n, dir, args...)
			if res.Code != 0 {
				t.Fatalf("migrate: exit %d: %s", res.Code, res.Stderr)
			}
			var digests []string
			for _, slots := range []string{"2", "1", "8"} {
				res, took := costed(t, n, dir, append([]string{"verify", "--slots", slots}, args[1:]...)...)
				r, err := verifytest.Unseal([]byte(res.Stdout))
				if err != nil || res.Code != 0 {
					t.Fatalf("%s slots: exit %d: %v %s", slots, res.Code, err, res.Stderr)
				}
				affordable(t, slots+" slots", brought, took)
				digests = append(digests, indicesOf(t, r))
			}
			if slices.Sort(digests); len(slices.Compact(digests)) != 1 {
				t.Errorf("digests differ: %s", digests)
			}
			k := newKiller(t, n)
			k.state = filepath.Join(dir, "state")
			own := targetArgs(k.URL, source)[1:]
			for range 3 {
				k.run(t, "POST /many-", 4, true, "rfsd", append([]string{"verify", "--slots", "1"}, own...)...)
			}
			res, r := verified(t, dir, append([]string{""}, own...))
			if res.Code != 0 || indicesOf(t, r) != digests[0] || doneBefore(t, res) < 3 {
				t.Errorf("killed three times: exit %d\n%s\nwant\n%s", res.Code, indicesOf(t, r), digests[0])
			}
			// Two machines, one of which dies: the other takes over what it had when its lease has ended.
			machine, survived := t.TempDir(), make(chan Result)
			go func() {
				res, _ := costed(t, n, machine, append([]string{"verify", "--slots", "1", "--failed-documents", filepath.Join(dir, "none")}, args[1:]...)...)
				survived <- res
			}()
			k.state = filepath.Join(dir, "another state")
			k.run(t, "POST /many-", 2, true, "rfsd", append([]string{"verify", "--slots", "1", "--failed-documents", filepath.Join(dir, "none")}, own...)...)
			res = <-survived
			if r, err := verifytest.Unseal([]byte(res.Stdout)); err != nil || res.Code != 0 || indicesOf(t, r) != digests[0] {
				t.Errorf("beside a machine that died: exit %d, %v\n%s", res.Code, err, res.Stderr)
			}
		})
	}
}
