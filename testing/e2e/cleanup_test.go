package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// TestCleanupForgetsOneSessionAndNothingElse has two migrations on one target, one with the plain names.
func TestCleanupForgetsOneSessionAndNothingElse(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	for _, session := range []string{"", "other"} {
		if res := Run(t, "rfsd", targetArgs(n.URL, demoRepo(), "--session-name", session, "--existing-documents", "overwrite")...); res.Code != 0 {
			t.Fatalf("exit %d: %s", res.Code, res.Stderr)
		}
	}
	hidden := func() (all []string) {
		t.Helper()
		var indices []struct{ Index string }
		must(t, n.JSON(t.Context(), "GET", "/_cat/indices?format=json&h=index&expand_wildcards=all", nil, &indices))
		for _, x := range indices {
			if strings.HasPrefix(x.Index, ".rfs_control") || strings.HasPrefix(x.Index, ".migrations_working_state") {
				all = append(all, x.Index)
			}
		}
		slices.Sort(all)
		return all
	}
	want := landed(t, n)
	if got := hidden(); len(got) != 4 {
		t.Fatalf("before: %v", got)
	}
	res := Run(t, "rfsctl", "cleanup", "--target-host", n.URL)
	if res.Code != 0 || !strings.HasSuffix(res.Stdout, ": .migrations_working_state, .rfs_control\n") {
		t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if got := hidden(); !slices.Equal(got, []string{".migrations_working_state_other", ".rfs_control_other"}) {
		t.Errorf("after: %v", got)
	}
	if f := truth.Compare(want, landed(t, n)).Faults(); f != "" {
		t.Error(f)
	}
	if res := Run(t, "rfsctl", "cleanup", "--target-host", n.URL); res.Code != 1 || !strings.Contains(res.Stderr, "holds no session") {
		t.Errorf("again: exit %d: %s", res.Code, res.Stderr)
	}
	// Half of a session was removed by hand: it cannot be opened any more, and force removes the rest.
	call(t, n, "DELETE", "/.migrations_working_state_other", nil)
	if res := Run(t, "rfsctl", "cleanup", "--target-host", n.URL, "--session-name", "other", "--force"); res.Code != 0 {
		t.Errorf("the rest: exit %d: %s", res.Code, res.Stderr)
	}
	if got := hidden(); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}
