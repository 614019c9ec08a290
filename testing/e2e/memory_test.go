package e2e

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/truth"
)

const (
	// memoryLimit is what a process may allocate, in KiB: enough for everything but the document of 120 MB.
	memoryLimit = "175000"
	// maxLives bounds the processes of one migration: six deaths beside other work, five alone, and some to spare.
	maxLives = 16
)

// died matches the last words of a program of Go that gets no memory. Its collector may meet a page that it was not given.
var died = regexp.MustCompile(`fatal error: .*(out of memory|cannot allocate memory)|SIGSEGV: segmentation violation`)

// inLittleMemory runs a command under memoryLimit to its end.
func inLittleMemory(t *testing.T, dir string, args []string) (out string, code int) {
	t.Helper()
	script := `ulimit -d "$1" && shift && exec "$@"`
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "sh", memoryLimit, Binary(t, "rfsd")}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// exhaustsMemory starts the same command again and again in too little memory: each process dies of one document, until
// its item is FAILED with its ordinal.
func exhaustsMemory(t *testing.T, dir string, args []string) {
	t.Helper()
	for deaths := range maxLives {
		out, code := inLittleMemory(t, dir, args)
		if died.MatchString(out) {
			continue
		}
		if code != 7 || deaths < 10 {
			t.Fatalf("exit %d after %d deaths: %s", code, deaths, out)
		}
		if !strings.Contains(out, "on nothing else and all at ordinal 1:") {
			t.Errorf("the failure does not name the document: %s", out)
		}
		t.Logf("FAILED after %d deaths", deaths)
		return
	}
	t.Fatalf("%d processes died, and the item is not FAILED", maxLives)
}

// allOfSmall fails unless every document of the index beside the large one arrived.
func allOfSmall(t *testing.T, repo string, got truth.Docs) {
	t.Helper()
	want, err := truth.Load(true, repo+".ndjson.gz")
	must(t, err)
	n := 0
	for k, source := range want {
		if k.Index != "small" {
			continue
		}
		if n++; !bytes.Equal(got[k], source) {
			t.Errorf("%v did not arrive as it is: %s", k, got[k])
		}
	}
	if n == 0 {
		t.Fatal("the snapshot holds nothing but the large document: nothing is proven")
	}
}

// TestKillsAtRandomFailNothing kills an export more often than it takes to blame a document.
func TestKillsAtRandomFailNothing(t *testing.T) {
	notShort(t)
	repo := fixture(t, "7.10.2-many-chunks")
	want, err := truth.Load(false, repo+".ndjson.gz")
	must(t, err)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	for i := range maxLives {
		cmd := exec.CommandContext(t.Context(), Binary(t, "rfsd"), exportArgs(repo, out, "--max-rate", "5MB")...)
		cmd.Dir = dir
		begun := sizeOf(t, out)
		ended := startAndWatch(t, cmd)
		until(t, "the export works on its files", func() bool { return sizeOf(t, out) != begun || isClosed(ended) })
		timer := time.NewTimer(time.Duration(rand.IntN(1500)) * time.Millisecond)
		select {
		case <-timer.C:
		case <-ended:
			t.Fatalf("life %d ended before it was killed", i)
		}
		must(t, cmd.Process.Kill())
		<-ended
	}
	if res := RunIn(t, dir, nil, "rfsd", exportArgs(repo, out)...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	got, err := truth.LoadExport(out)
	must(t, err)
	if f := truth.Compare(want, got).Exact(); f != "" {
		t.Error(f)
	}
}
