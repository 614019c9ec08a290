package e2e

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
)

// tuning are the settings that --tune-target changes, of every migrated index.
func tuning(t *testing.T, n *cluster.Node) map[string]string {
	t.Helper()
	var all map[string]struct {
		Settings map[string]string
	}
	must(t, n.JSON(t.Context(), "GET", "/_all/_settings?flat_settings=true&expand_wildcards=open", nil, &all))
	is := map[string]string{}
	for name, x := range all {
		if !strings.HasPrefix(name, ".") {
			is[name] = "refresh " + x.Settings["index.refresh_interval"] + " replicas " + x.Settings["index.number_of_replicas"]
		}
	}
	return is
}

// TestTunedIndicesComeBackAfterAKillByTheNextRunAndByHand kills a migration in its middle.
func TestTunedIndicesComeBackAfterAKillByTheNextRunAndByHand(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	if res := Run(t, "rfsd", targetArgs(n.URL, demoRepo())...); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	want := tuning(t, n)
	wipe(t, n)
	slow := newProxy(t, n.URL, 50*time.Millisecond)
	args := targetArgs(slow.URL, demoRepo(), "--tune-target", "--documents-per-bulk-request", "1", "--max-connections", "1", "--initial-lease-duration", "5s")
	tuned := func(is map[string]string) bool {
		for _, x := range is {
			if x != "refresh -1 replicas 0" {
				return false
			}
		}
		return len(is) == len(want)
	}
	kill := func() {
		t.Helper()
		cmd := exec.Command(Binary(t, "rfsd"), args...)
		cmd.Dir = t.TempDir()
		must(t, cmd.Start())
		until(t, "documents come to tuned indices", func() bool { return slow.bulks.Load() > 5 && tuned(tuning(t, n)) })
		must(t, cmd.Process.Signal(syscall.SIGKILL))
		_ = cmd.Wait()
	}
	same := func(how string) {
		t.Helper()
		is := tuning(t, n)
		for name, x := range want {
			if is[name] != x {
				t.Errorf("%s: %s has %s, not %s", how, name, is[name], x)
			}
		}
	}
	kill()
	if res := Run(t, "rfsctl", "target", "restore", "--target-host", n.URL); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	same("by hand")
	wipe(t, n)
	slow.bulks.Store(0)
	kill()
	if res := Run(t, "rfsd", targetArgs(n.URL, demoRepo())...); res.Code != 0 { // without --tune-target
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	same("by the next run")
	compareLanded(t, n, demoRepo())
}

// TestIndexingPausesWhileATargetDiskIsNearlyFull moves the watermark instead of filling a disk.
func TestIndexingPausesWhileATargetDiskIsNearlyFull(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	// Above the watermark no shard of a new index would start.
	if res := Run(t, "rfsd", targetArgs(n.URL, demoRepo(), "--phases", "metadata,indices")...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	marks := func(low, high, on any) {
		t.Helper()
		call(t, n, "PUT", "/_cluster/settings", map[string]any{"transient": map[string]any{
			"cluster.routing.allocation.disk.watermark.low": low, "cluster.routing.allocation.disk.watermark.high": high,
			"cluster.routing.allocation.disk.threshold_enabled": on}})
	}
	t.Cleanup(func() { // the test's context has ended by now
		// A look at the disks meanwhile, which the node takes every 30 s, forbids new indices, and none ever allows them again
		// while the thresholds are off, as they are on this node.
		const off = `{"cluster.routing.allocation.disk.*":null,"cluster.blocks.create_index":null}`
		if _, err := n.Send(context.WithoutCancel(t.Context()), "PUT", "/_cluster/settings", "application/json",
			[]byte(`{"transient":`+off+`,"persistent":`+off+`}`)); err != nil {
			t.Error(err)
		}
	})
	marks("0.01%", "0.02%", true)
	w := &watched{t: t, dir: t.TempDir()}
	cmd := exec.Command(Binary(t, "rfsd"), targetArgs(n.URL, demoRepo())...)
	cmd.Dir, cmd.Env = w.dir, w.env()
	said := &lockedBuffer{}
	cmd.Stderr = said
	must(t, cmd.Start())
	until(t, "it pauses", func() bool { return strings.Contains(said.String(), "above its high disk watermark") })
	until(t, "its status states why", func() bool {
		r, ok := w.status()
		return ok && r.Node.State == "paused" && r.Node.Wanted > 0 && strings.Contains(r.Node.Reason, " % full, above its high watermark of 0.02%: free or add disk space there") && strings.Contains(r.Node.Reason, "the target's node ")
	})
	if res := RunIn(t, w.dir, w.env(), "rfsctl", "status"); !strings.Contains(res.Stdout, ") paused: indexing is paused, because the disk of the target's node ") {
		t.Errorf("exit %d: %s %s", res.Code, res.Stdout, res.Stderr)
	}
	if got := landed(t, n); len(got) != 0 {
		t.Errorf("documents were sent to a full disk: %d", len(got))
	}
	marks(nil, nil, nil)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	compareLanded(t, n, demoRepo())
}
