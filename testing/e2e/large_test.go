package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// makeFixture lets a real cluster make a fixture that is too large to keep, or skips.
func makeFixture(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() || os.Getenv("RFSD_E2E") == "" {
		t.Skip("boots a cluster of its own: RFSD_E2E=1 runs it")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./testing/snapgen", "-out", dir, name)
	cmd.Dir = Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), cluster.ErrMissing.Error()) {
			t.Skipf("%s", out)
		}
		t.Fatalf("snapgen %s: %v\n%s", name, err, out)
	}
	return filepath.Join(dir, name)
}

// TestADocumentOf120MB sends one document that is larger than all others together, with memory enough and without.
func TestADocumentOf120MB(t *testing.T) {
	if os.Getenv("RFSD_CLUSTERS") == "" {
		t.Skip("RFSD_CLUSTERS=1 boots a cluster that writes a document of 120 MB, for up to two minutes; testing/abuse reads long documents in bounded memory")
	}
	repo := makeFixture(t, "7.10.2-large")
	t.Run("arrives in bounded memory", func(t *testing.T) { arrivesInBoundedMemory(t, repo) })
	t.Run("exhausts the memory of exports: its item fails with its ordinal", func(t *testing.T) {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		exhaustsMemory(t, dir, exportArgs(repo, out, "--max-document-size", "200MiB"))
		got, err := truth.LoadExport(out)
		must(t, err)
		allOfSmall(t, repo, got)
	})
	t.Run("is beyond what the target takes: refused by name in the same little memory", func(t *testing.T) {
		n := cluster.OpenSearch(t, targets[0])
		wipe(t, n)
		dir := t.TempDir()
		out, code := inLittleMemory(t, dir, targetArgs(n.URL, repo))
		if code != 6 || died.MatchString(out) {
			t.Fatalf("exit %d: %s", code, out)
		}
		allOfSmall(t, repo, landed(t, n))
	})
}

func arrivesInBoundedMemory(t *testing.T, repo string) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	cmd := exec.CommandContext(t.Context(), Binary(t, "rfsd"), "migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--export-dir", out, "--max-document-size", "200MiB")
	cmd.Dir = dir
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	want, err := truth.Load(true, repo+".ndjson.gz")
	if err != nil {
		t.Fatal(err)
	}
	got, err := truth.LoadExport(out)
	if err != nil {
		t.Fatal(err)
	}
	d := truth.Compare(want, got)
	if n := d.Of("", truth.Equal); n != len(want) {
		t.Errorf("%d of %d documents are equal: %s", n, len(want), d.Faults())
	}
	largest := 0
	for _, source := range want {
		largest = max(largest, len(source))
	}
	if largest < 100<<20 {
		t.Fatalf("the largest document has %d bytes: nothing is proven", largest)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok || runtime.GOOS != "linux" {
		t.Skip("the peak of memory is known on Linux only; every document arrived")
	}
	peak, bound := usage.Maxrss<<10, int64(200_000_000+4*largest)
	t.Logf("document of %d bytes, peak %d", largest, peak)
	if peak > bound {
		t.Errorf("peak of %d bytes, want at most 200 MB and four documents: %d", peak, bound)
	}
}
