package e2e

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/truth"
)

// copyTree copies a repository so that a test may damage it.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "repo")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// demo is the snapshot that lies in the checkout itself.
func demo(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(Root(), "testing", "fixtures", "7.10.2-demo")
	if !exists(dir) {
		t.Fatalf("%s is missing", dir)
	}
	return dir
}

func exportArgs(repo, out string, more ...string) []string {
	return append([]string{"migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--export-dir", out, "--output", "json", "--include-system"}, more...)
}

// TestKilledExportContinuesAndLosesNothing kills an export while its files grow.
func TestKilledExportContinuesAndLosesNothing(t *testing.T) {
	repo := fixture(t, "7.10.2-many-chunks")
	want, err := truth.Load(false, repo+".ndjson.gz")
	must(t, err)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	const kills = 3
	for i := range kills {
		cmd := exec.CommandContext(t.Context(), Binary(t, "rfsd"), exportArgs(repo, out, "--max-rate", "40MB")...)
		cmd.Dir = dir
		begun := sizeOf(t, out)
		ended := startAndWatch(t, cmd)
		more := int64(1<<20 + rand.IntN(16<<20))
		until(t, "the export grows", func() bool { return sizeOf(t, out) >= begun+more || isClosed(ended) })
		if isClosed(ended) {
			t.Fatalf("run %d ended before it was killed", i)
		}
		must(t, cmd.Process.Kill())
		<-ended
	}
	res := RunIn(t, dir, nil, "rfsd", exportArgs(repo, out)...)
	if res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	got, err := truth.LoadExport(out)
	must(t, err)
	if f := truth.Compare(want, got).Exact(); f != "" {
		t.Error(f)
	}
	if sum := parseSummary(t, res); sum.total() != len(want) {
		t.Errorf("the summary counts %d documents of %d", sum.total(), len(want))
	}
}

// sizeOf is the size of all files of a directory, whole and temporary; files may come and go meanwhile.
func sizeOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // it is gone, or not there yet
		}
		if info, err := e.Info(); err == nil {
			size += info.Size()
		}
		return nil
	}))
	return size
}

func (s summary) total() int {
	n := 0
	for _, i := range s.Indices {
		n += i.Live
	}
	return n
}

func TestSecondExportIntoTheSameDirectoryChangesNothing(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	var before map[string]string
	for run := range 2 {
		if res := RunIn(t, dir, nil, "rfsd", exportArgs(demo(t), out)...); res.Code != 0 {
			t.Fatalf("run %d: exit %d: %s", run, res.Code, res.Stderr)
		}
		files := filesOf(t, out)
		if run == 0 {
			if len(files) < 4 {
				t.Fatalf("only %v", slices.Collect(maps.Keys(files)))
			}
			before = files
			continue
		}
		for name := range files {
			if before[name] != files[name] {
				t.Errorf("%s was written anew", name)
			}
		}
		if len(files) != len(before) {
			t.Errorf("%d files, before %d", len(files), len(before))
		}
	}
}

// filesOf describes each file of an export but those of its state: when it was written, and what it holds.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if err == nil && e.Name() == ".rfsd" {
				return filepath.SkipDir
			}
			return err
		}
		b, err := os.ReadFile(path)
		must(t, err)
		info, err := e.Info()
		must(t, err)
		files[path] = fmt.Sprintf("%x", sha256.Sum256(b))
		if strings.Contains(path, ".ndjson") {
			files[path] += info.ModTime().String()
		}
		return nil
	}))
	return files
}

func TestTwoWritersOfOneExportDirectoryAreRefused(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if err := os.MkdirAll(filepath.Join(out, ".rfsd"), 0o700); err != nil {
		t.Fatal(err)
	}
	lock := exec.Command("flock", "--exclusive", "--nonblock", filepath.Join(out, ".rfsd", "lock"), "sh", "-c", "echo locked; cat")
	stdin, err := lock.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := lock.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Start(); err != nil {
		t.Skipf("flock is not installed: %v", err)
	}
	defer lock.Wait() //nolint:errcheck // it ends with its input
	defer stdin.Close()
	if _, err := stdout.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	res := RunIn(t, dir, nil, "rfsd", exportArgs(demo(t), out)...)
	if res.Code != 1 || !strings.Contains(res.Stderr, out) {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
}

func TestBadInputIsNamedWithTheRightExitCode(t *testing.T) {
	damaged := func(pattern string, change func(t *testing.T, path string)) func(t *testing.T) string {
		return func(t *testing.T) string {
			repo := copyTree(t, demo(t))
			files, err := filepath.Glob(filepath.Join(repo, pattern))
			if err != nil || len(files) == 0 {
				t.Fatalf("nothing matches %s: %v", pattern, err)
			}
			change(t, largest(t, files))
			return repo
		}
	}
	remove := func(t *testing.T, path string) { must(t, os.Remove(path)) }
	flip := func(t *testing.T, path string) {
		b, err := os.ReadFile(path)
		must(t, err)
		b[len(b)/2] ^= 4
		must(t, os.WriteFile(path, b, 0o600))
	}
	cut := func(t *testing.T, path string) {
		info, err := os.Stat(path)
		must(t, err)
		must(t, os.Truncate(path, info.Size()/2))
	}
	whole := func(t *testing.T) string { return demo(t) }
	for _, c := range []struct {
		name string
		repo func(t *testing.T) string
		args []string
		code int
		says []string
	}{
		{"unknown snapshot", whole, []string{"--snapshot-name", "other"}, 1, []string{"other", "snap1"}},
		{"unknown index", whole, []string{"--index-allowlist", "no-such-index"}, 1, []string{"no-such-index", "it has"}},
		{"no repository", func(t *testing.T) string { return t.TempDir() }, nil, 5, []string{"no snapshot repository in file:///", "index.latest"}},
		{"bad flag value", whole, []string{"--initial-lease-duration", "soon"}, 1, []string{"--initial-lease-duration", "PT10M"}},
		{"two destinations", whole, []string{"--discard"}, 1, []string{"--export-dir", "--discard"}},
		{"bad session", whole, []string{"--session-name", "A_B"}, 1, []string{"--session-name"}},
		{"catalog damaged", damaged("index-*", cut), nil, 5, []string{"index-"}},
		{"snapshot blob missing", damaged("snap-*.dat", remove), nil, 5, []string{"snap-", "missing"}},
		{"snapshot blob flipped", damaged("snap-*.dat", flip), nil, 5, []string{"snap-", "offset"}},
		{"index metadata flipped", damaged("indices/*/meta-*.dat", flip), nil, 7, []string{"meta-", "offset"}},
		{"manifest flipped", damaged("indices/*/*/snap-*.dat", flip), nil, 7, []string{"indices/", "snap-", "offset"}},
		{"manifest cut", damaged("indices/*/*/snap-*.dat", cut), nil, 7, []string{"indices/", "snap-"}},
		{"data missing", damaged("indices/*/*/__*", remove), nil, 7, []string{"indices/", "__", "missing"}},
		// The byte may lie where no document is read from: only --verify-first reads that.
		{"data flipped", damaged("indices/*/*/__*", flip), []string{"--verify-first"}, 7, []string{"indices/", "__", "offset"}},
		{"data cut", damaged("indices/*/*/__*", cut), nil, 7, []string{"indices/", "__", "bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			res := RunIn(t, dir, nil, "rfsd", append(exportArgs(c.repo(t), filepath.Join(dir, "out")), c.args...)...)
			if res.Code != c.code {
				t.Errorf("exit %d, want %d: %s", res.Code, c.code, res.Stderr)
			}
			for _, s := range c.says {
				if !strings.Contains(res.Stderr+res.Stdout, s) {
					t.Errorf("%q is not said: %s%s", s, res.Stderr, res.Stdout)
				}
			}
		})
	}
}

func TestRepairedRepositoryIsFinishedByTheSecondRun(t *testing.T) {
	repo := copyTree(t, demo(t))
	files, err := filepath.Glob(filepath.Join(repo, "indices/*/*/__*"))
	must(t, err)
	victim := largest(t, files)
	b, err := os.ReadFile(victim)
	must(t, err)
	must(t, os.Remove(victim))
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if res := RunIn(t, dir, nil, "rfsd", exportArgs(repo, out)...); res.Code != 7 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	must(t, os.WriteFile(victim, b, 0o600))
	res := RunIn(t, dir, nil, "rfsd", exportArgs(repo, out)...)
	if res.Code != 0 {
		t.Fatalf("exit %d after the repair: %s", res.Code, res.Stderr)
	}
	got, err := truth.LoadExport(out)
	must(t, err)
	if n := parseSummary(t, res).total(); n != len(got) {
		t.Errorf("%d documents exported, the summary counts %d", len(got), n)
	}
}

// notShort skips a test that takes a quarter of a minute or longer among the short ones, and draws it like a test with a server.
func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("not run: longer than a short test; make e2e runs it")
	}
	draw.Test(t)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func largest(t *testing.T, files []string) string {
	t.Helper()
	best, size := "", int64(-1)
	for _, f := range files {
		info, err := os.Stat(f)
		must(t, err)
		if info.Size() > size {
			best, size = f, info.Size()
		}
	}
	return best
}
