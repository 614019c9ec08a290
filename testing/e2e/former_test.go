package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// formerProgram returns a program of a former release; testing/former.sh builds them.
func formerProgram(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("RFSD_FORMER")
	if dir == "" {
		t.Skip("RFSD_FORMER=DIR goes on with migrations that the programs in DIR began (testing/former.sh)")
	}
	return filepath.Join(dir, name)
}

// killed runs a migration with the program of a former release until enough has arrived, and kills it.
func killed(t *testing.T, dir string, args []string, enough func() bool) {
	t.Helper()
	said := &lockedBuffer{}
	cmd := exec.Command(formerProgram(t, "rfsd"), args...)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, said, append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !enough() {
		select {
		case err := <-ended:
			t.Fatalf("the former release ended before it was killed: %v\n%s", err, said.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	must(t, cmd.Process.Kill())
	<-ended
}

// TestAMigrationOfTheFormerReleaseGoesOn kills a former release in the middle of a migration, into files and into a cluster. This
// release goes on with its items, leases and phases: it does not begin anew, and every document arrives once.
func TestAMigrationOfTheFormerReleaseGoesOn(t *testing.T) {
	repo := fixture(t, "7.10.2-many-chunks")
	want, err := truth.Load(false, repo+".ndjson.gz")
	must(t, err)
	slow := []string{"migrate", "--repo-uri", repo, "--snapshot-name", "snap1", "--session-name", "former", "--initial-lease-duration", "20s",
		"--documents-size-per-bulk-request", "500000", "--output", "json"}
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		args := append(slow[:len(slow):len(slow)], "--export-dir", out, "--slots", "1")
		killed(t, dir, append(args, "--max-rate", "10"), func() bool {
			found := false
			must(t, filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
				found = found || err == nil && !e.IsDir() && strings.Contains(path, ".ndjson")
				return nil // it is not there yet, or is removed meanwhile
			}))
			return found
		})
		res := RunIn(t, dir, nil, "rfsd", args...)
		if res.Code != 0 {
			t.Fatalf("exit %d\n%s", res.Code, res.Stderr)
		}
		got, err := truth.LoadExport(out)
		must(t, err)
		if f := truth.Compare(want, got).Exact(); f != "" {
			t.Error(f)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		n := cluster.OpenSearch(t, targets[0])
		wipe(t, n)
		p, dir := newProxy(t, n.URL, 300*time.Millisecond), t.TempDir()
		args := append(slow[:len(slow):len(slow)], "--target-host", p.URL, "--max-connections", "1")
		killed(t, dir, args, func() bool { return p.bulks.Load() >= 30 })
		before := p.bulks.Load()
		p.delay.Store(0)
		res := RunIn(t, dir, nil, "rfsd", args...)
		if res.Code != 0 {
			t.Fatalf("exit %d\n%s", res.Code, res.Stderr)
		}
		compareLanded(t, n, repo)
		t.Logf("%d bulk requests of the former release, %d of this one", before, p.bulks.Load()-before)
	})
}

// TestOldAndNewNodesOfOneFleetMigrateTogether starts two nodes of a former release and one of this one.
func TestOldAndNewNodesOfOneFleetMigrateTogether(t *testing.T) {
	program := formerProgram(t, "rfsd")
	m := layMachines(t, 300*time.Millisecond)
	m.task = []string{"--repo-uri", m.repo, "--snapshot-name", "snap1", "--documents-per-bulk-request", "1", "--max-connections", "1", "--initial-lease-duration", "20s"}
	m.all[0].program, m.all[1].program = program, program
	for _, x := range m.all {
		m.start(x)
	}
	fresh := m.all[2]
	until(t, "the new node works", func() bool {
		r, ok := m.ask(fresh)
		return ok && (r.Node.Running > 0 || r.Migration.Complete)
	})
	m.proxy.delay.Store(int64(20 * time.Millisecond))
	deadline := time.Now().Add(4 * time.Minute)
	for {
		if r, ok := m.ask(fresh); ok && r.Migration.Complete {
			t.Logf("complete: %s; the new node knows %d nodes", fmt.Sprint(r.Migration.Totals), len(r.Nodes))
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the fleet does not end")
		}
		<-time.After(200 * time.Millisecond)
	}
	compareLanded(t, m.node, m.repo)
	for _, x := range m.all {
		if err := x.cmd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("%s has ended: %v", x.name, err)
		}
	}
}
