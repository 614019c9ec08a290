package e2e

import (
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

// TestANodeNeedsOnlyTargetCredentialsSessionAndKeyToJoin starts a migration on one node, kills the node, and completes the migration on a
// second node, which was given no repository, no snapshot and no rules.
func TestANodeNeedsOnlyTargetCredentialsSessionAndKeyToJoin(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	p := newProxy(t, n.URL, 100*time.Millisecond)
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.toml")
	must(t, os.WriteFile(rules, []byte("[[rename-index]]\nmatch = \"*\"\nto = \"moved-$1\"\n"), 0o600))
	key := filepath.Join(dir, "fleet.key")
	if res := RunIn(t, dir, nil, "rfsctl", "cert", "gossip-key", key); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	const canary = "canary-31c9"
	start := func(name string, more ...string) (*exec.Cmd, *lockedBuffer) {
		var said lockedBuffer
		cmd := exec.Command(Binary(t, "rfsd"), append([]string{"run", "--target-host", p.URL, "--target-username", "me", "--session-name", "joined", "--node-name", name, "--fleet-key", key,
			"--workers", "2", "--failed-documents", filepath.Join(dir, "failed-"+name), "--exit-when-done"}, more...)...)
		cmd.Env = append(os.Environ(), "RFS_TARGET_PASSWORD="+canary)
		cmd.Dir, cmd.Stderr = dir, &said
		must(t, cmd.Start())
		return cmd, &said
	}
	first, said := start("first", "--repo-uri", demoRepo(), "--snapshot-name", "snap1", "--rules", rules, "--documents-per-bulk-request", "1", "--disable-compression",
		"--initial-lease-duration", "5s")
	t.Cleanup(func() { // unless it is gone by now
		_ = first.Process.Kill()
		_ = first.Wait()
		if t.Failed() {
			t.Logf("first:\n%s", said.String())
		}
	})
	for end := time.Now().Add(2 * time.Minute); p.documents.Load() < 10; <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first node sends nothing")
		}
	}
	must(t, os.Remove(rules))
	must(t, first.Process.Signal(syscall.SIGKILL))
	_ = first.Wait()
	p.delay.Store(0)

	second, heard := start("second")
	ended := make(chan error, 1)
	go func() { ended <- second.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("second: %v\n%s", err, heard.String())
		}
	case <-time.After(4 * time.Minute):
		_ = second.Process.Kill()
		t.Fatalf("the second node does not end\n%s", heard.String())
	}
	if !strings.Contains(heard.String(), "settings of the fleet were taken over") {
		t.Error(heard.String())
	}
	all, err := truth.Load(false, demoRepo()+".ndjson.gz")
	must(t, err)
	want := truth.Docs{}
	for k, v := range visible(all) {
		k.Index = "moved-" + k.Index
		want[k] = v
	}
	if f := truth.Compare(want, landed(t, n)).Faults(); f != "" {
		t.Error(f)
	}
	// A worker that is started by hand needs no more; it finds that nothing is left.
	if res := RunIn(t, dir, []string{"RFS_TARGET_PASSWORD=" + canary}, "rfsd", "worker", "--target-host", p.URL, "--target-username", "me", "--session-name", "joined", "--fleet-key", key); res.Code != 3 {
		t.Errorf("worker by hand: exit %d\n%s", res.Code, res.Stderr)
	}
	status, err := n.Send(t.Context(), "GET", "/.rfs_control_joined/_search?size=1000", "", nil)
	if err != nil || !strings.Contains(string(status), "moved-$1") || strings.Contains(string(status), canary) || strings.Contains(string(status), rules) {
		t.Errorf("the control index: %v\n%s", err, status)
	}
}
