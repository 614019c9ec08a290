package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// repositoryOn is the directory in which a node may keep repositories, or the test is skipped.
func repositoryOn(t *testing.T, n *cluster.Node) string {
	t.Helper()
	dir := n.Repos
	if dir == "" { // a node that the test did not start
		var nodes struct {
			Nodes map[string]struct {
				Settings struct{ Path struct{ Repo []string } }
			}
		}
		if err := n.JSON(t.Context(), "GET", "/_nodes/settings", nil, &nodes); err != nil {
			t.Fatal(err)
		}
		for _, x := range nodes.Nodes {
			if len(x.Settings.Path.Repo) > 0 {
				dir = x.Settings.Path.Repo[0]
			}
		}
	}
	if _, err := os.Stat(dir); err != nil || dir == "" {
		t.Skipf("the repositories of the node are not on this machine: %q", dir)
	}
	return filepath.Join(dir, fmt.Sprintf("%s-%d", strings.ToLower(filepath.Base(t.Name())), rand.Int32()))
}

// filled makes a cluster that holds the documents of the demo snapshot, and forgets how.
func filled(t *testing.T, n *cluster.Node) {
	t.Helper()
	wipe(t, n)
	if res := Run(t, "rfsd", targetArgs(n.URL, demoRepo(), "--session-name", "filled")...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	for _, index := range []string{".migrations_working_state_filled", ".rfs_control_filled"} {
		call(t, n, "DELETE", "/"+index, nil)
	}
}

func sourceArgs(command, source, target, repo, session string, more ...string) []string {
	return append([]string{command, "--repo-uri", repo, "--source-host", source, "--snapshot-repo-name", "repo-of-" + session,
		"--target-host", target, "--session-name", session, "--allow-source-as-target", "--existing-documents", "overwrite"}, more...)
}

// forget removes what a test registered on the source.
func forget(t *testing.T, n *cluster.Node, session string) {
	t.Cleanup(func() {
		if _, err := n.Send(context.WithoutCancel(t.Context()), "DELETE", "/_snapshot/repo-of-"+session, "", nil); err != nil {
			t.Logf("nothing to forget: %v", err)
		}
	})
}

// TestOneCommandTakesTheSnapshotAndMigratesIt takes a snapshot of a cluster, empties it, and brings
// everything back into it, phase by phase and in one go.
func TestOneCommandTakesTheSnapshotAndMigratesIt(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	filled(t, n)
	want := landed(t, n)
	repo := repositoryOn(t, n)
	forget(t, n, "whole")
	dir := t.TempDir()
	// The phases in steps of their own, by the same session.
	res := RunIn(t, dir, nil, "rfsd", sourceArgs("migrate", n.URL, n.URL, repo, "whole", "--phases", "snapshot", "--output", "json")...)
	if p := phasesOf(t, res); res.Code != 0 || len(p.Phases) != 1 || p.Phases[0].State != session.PhaseCompleted || len(p.Indices) != 0 {
		t.Fatalf("exit %d: %+v: %s", res.Code, p, res.Stderr)
	}
	for _, index := range demoIndices(t) {
		call(t, n, "DELETE", "/"+index, nil)
	}
	res = RunIn(t, dir, nil, "rfsd", sourceArgs("migrate", n.URL, n.URL, repo, "whole", "--phases", "metadata,indices", "--output", "json")...)
	if p := phasesOf(t, res); res.Code != 0 || !p.Complete {
		t.Fatalf("exit %d: %+v: %s", res.Code, p, res.Stderr)
	}
	res = RunIn(t, dir, nil, "rfsd", sourceArgs("migrate", n.URL, n.URL, repo, "whole", "--output", "json")...)
	if p := phasesOf(t, res); res.Code != 0 || !p.Complete || len(p.Phases) != 4 {
		t.Fatalf("exit %d: %+v: %s", res.Code, p, res.Stderr)
	}
	if f := truth.Compare(want, landed(t, n)).Faults(); f != "" {
		t.Error(f)
	}
	// What it left on the source is listed, and stays.
	created := Run(t, "rfsctl", "created", "--target-host", n.URL, "--session-name", "whole", "--output", "json")
	left := 0
	for name, e := range createdOf(t, created) {
		if name == "repository repo-of-whole" || strings.HasPrefix(name, "snapshot repo-of-whole/") {
			if left++; !strings.Contains(e.Reason, "DELETE /_snapshot/repo-of-whole") {
				t.Errorf("%+v", e)
			}
		}
	}
	if left != 2 {
		t.Errorf("on the source: %d of 2 in %s", left, created.Stdout)
	}
	call(t, n, "GET", "/_snapshot/repo-of-whole/_all", nil)
}

// TestWhoDoesNotWaitForTheSnapshotComesBackForIt starts a slow snapshot, and repeats the command until the snapshot is complete.
func TestWhoDoesNotWaitForTheSnapshotComesBackForIt(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	filled(t, n)
	repo := repositoryOn(t, n)
	forget(t, n, "unwaited")
	source := newProxy(t, n.URL, 0)
	dir := t.TempDir()
	args := sourceArgs("migrate", source.URL, n.URL, repo, "unwaited", "--phases", "snapshot", "--snapshot-no-wait", "--snapshot-max-rate", "60kb", "--output", "json")
	codes := map[int]int{}
	for end := time.Now().Add(4 * time.Minute); codes[0] == 0; {
		res := RunIn(t, dir, nil, "rfsd", args...)
		if codes[res.Code]++; res.Code != 0 && res.Code != 4 || time.Now().After(end) {
			t.Fatalf("exit %d: %s", res.Code, res.Stderr)
		}
		if res.Code == 4 && !strings.Contains(res.Stdout, "being made on the source") {
			t.Errorf("%s", res.Stdout)
		}
	}
	if codes[4] == 0 {
		t.Error("the snapshot was not slow enough to come back for it")
	}
	begun := 0
	for _, request := range source.answered(200) {
		if strings.HasPrefix(request, "PUT /_snapshot/repo-of-unwaited/") {
			begun++
		}
	}
	if begun != 1 {
		t.Errorf("the snapshot was started %d times", begun)
	}
	t.Logf("came back %d times", codes[4])
}

// TestFiveWorkersTakeOneSnapshot starts five processes at once against source and target, and
// kills some; the request log of the source shows one snapshot.
func TestFiveWorkersTakeOneSnapshot(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, wanted := range []int64{0, 8} {
		t.Run(fmt.Sprint(wanted), func(t *testing.T) {
			filled(t, n)
			want := landed(t, n)
			session := fmt.Sprint("snapshots-", wanted)
			repo := repositoryOn(t, n)
			forget(t, n, session)
			source := newProxy(t, n.URL, 0)
			args := sourceArgs("worker", source.URL, n.URL, repo, session, "--status-fd", "3", "--initial-lease-duration", "4s")
			dir := t.TempDir()
			killed := fiveWorkers(t, dir, args, wanted, 1200*time.Millisecond)
			var made []string
			for _, request := range source.answered(200) {
				if strings.HasPrefix(request, "PUT /_snapshot/repo-of-"+session+"/") {
					made = append(made, request)
				}
			}
			// The answer to a process that was killed meanwhile is not in the log.
			if len(made) > 1 || len(made) == 0 && wanted == 0 {
				t.Errorf("snapshots that were started: %v", made)
			}
			if f := truth.Compare(want, landed(t, n)).Faults(); f != "" {
				t.Error(f)
			}
			t.Logf("%d killed, %s", killed, made)
		})
	}
}

func TestASourceThatCannotMakeTheSnapshotIsToldPlainly(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := repositoryOn(t, n)
	forget(t, n, "plain")
	forget(t, n, "locked")
	// Within path.repo, and no user may write there, its owner neither.
	locked := repo + "-locked"
	must(t, os.Mkdir(locked, 0o555))
	t.Cleanup(func() { must(t, os.Remove(locked)) })
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no source", sourceArgs("migrate", "http://127.0.0.1:9", n.URL, repo, "unreachable", "--unavailable-timeout", "1s"), 1, "source http://127.0.0.1:9"},
		{"outside path.repo", sourceArgs("migrate", n.URL, n.URL, "/proc/nowhere", "plain"), 1, "/proc/nowhere"},
		{"not writable", sourceArgs("migrate", n.URL, n.URL, locked, "locked"), 1, locked},
		{"no such phase", sourceArgs("migrate", n.URL, n.URL, repo, "plain", "--phases", "snapshots"), 1, "snapshots"},
		{"a named snapshot is not made", sourceArgs("migrate", n.URL, n.URL, repo, "plain", "--snapshot-name", "x", "--phases", "snapshot"), 1, "--snapshot-name"},
		{"the snapshot is missing yet", sourceArgs("migrate", n.URL, n.URL, repo, "early", "--phases", "indices"), 1, "--phases"},
	} {
		if res := Run(t, "rfsd", c.args...); res.Code != c.code || !strings.Contains(res.Stderr, c.says) {
			t.Errorf("%s: exit %d: %s", c.name, res.Code, res.Stderr)
		}
	}
}

// TestASnapshotOfOurNameThatWeDidNotMakeIsRefused makes one by hand under the name that the session
// will derive, and then lets the session take another.
func TestASnapshotOfOurNameThatWeDidNotMakeIsRefused(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	filled(t, n)
	repo := repositoryOn(t, n)
	forget(t, n, "foreign")
	dir := t.TempDir()
	args := sourceArgs("migrate", n.URL, n.URL, repo, "foreign", "--phases", "snapshot", "--output", "json", "--index-allowlist", demoIndices(t)[0])
	if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 0 {
		t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	// The session's memory is lost, the snapshot is still there.
	for _, index := range []string{".migrations_working_state_foreign", ".rfs_control_foreign"} {
		call(t, n, "DELETE", "/"+index, nil)
	}
	res := RunIn(t, dir, nil, "rfsd", args...)
	if p := phasesOf(t, res); res.Code != 5 || !strings.Contains(res.Stderr, "did not create") || len(p.Events) != 1 {
		t.Errorf("exit %d, %+v: %s", res.Code, p.Events, res.Stderr)
	}
	res = RunIn(t, dir, nil, "rfsd", append(args, "--retry-snapshot")...)
	if res.Code != 0 {
		t.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	if name := phasesOf(t, res).Snapshot; !strings.HasSuffix(name, "-2") {
		t.Errorf("snapshot %q", name)
	}
}

func TestASnapshotWithoutTheClustersStateIsMigratedWithAWarning(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	filled(t, n)
	repo := repositoryOn(t, n)
	forget(t, n, "stateless")
	res := Run(t, "rfsd", sourceArgs("migrate", n.URL, n.URL, repo, "stateless", "--without-global-state", "--output", "json")...)
	p := phasesOf(t, res)
	if res.Code != 0 || !p.Complete || len(p.Events) != 1 || p.Events[0].Code != "warning" || !strings.Contains(p.Events[0].Detail, "without the cluster's state") {
		t.Errorf("exit %d, %+v: %s", res.Code, p.Events, res.Stderr)
	}
}
