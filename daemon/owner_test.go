package daemon

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// TestOwner_LeasesOfDeadWorkersAreFreed restarts a node after a run with dead processes, next to a run with a live worker and a run of
// another node: only the leases of the first run are released, and no attempt counts.
func TestOwner_LeasesOfDeadWorkersAreFreed(t *testing.T) {
	dir, store := t.TempDir(), newStore(t, 3)
	run := func(node, holder string) *Owner {
		o, err := Own(dir, node, holder)
		must(t, err)
		_, err = store.AcquireNext(t.Context(), holder+"_pid2_x", nil)
		must(t, err)
		return o
	}
	dead, alive, other := run("move-1", "dead"), run("move-1", "alive"), run("move-2", "other")
	inherited := startProcess(t, Processes{Owner: alive}, "waits")
	for _, o := range []*Owner{dead, alive, other} { // as the system does when a process is killed
		must(t, o.file.Close())
	}
	own, err := Own(dir, "move-1", "again")
	must(t, err)
	d := New(Config{Name: "n", Open: func(context.Context) (*cms.Coordinator, error) { return store, nil }, Owner: own, Workers: -1, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	held := func() string {
		var all []string
		for it, err := range store.Items(t.Context()) {
			must(t, err)
			if it.Holder != "" {
				all = append(all, strings.Split(it.Holder, "_")[0])
			} else if it.Attempts != 0 || it.LeaseExponent != 0 {
				t.Errorf("a freed item has %d attempts", it.Attempts)
			}
		}
		return strings.Join(all, " ")
	}
	until(t, "the leases of the dead run are freed", func() bool { return !strings.Contains(held(), "dead") })
	if got := held(); !strings.Contains(got, "alive") || !strings.Contains(got, "other") {
		t.Errorf("held by %q: leases of living processes or of another node were freed", got)
	}
	inherited.Kill()
	until(t, "the leases of the worker that lived are freed", func() bool { return held() == "other" })
	cancel()
	must(t, <-ended)
	must(t, own.Close())
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 1 || !strings.HasPrefix(left[0].Name(), "move-2.") {
		t.Errorf("%v are left; only the file of the other node should be", left)
	}
}

// TestOwn_DirectoryThatCannotBeWritten checks that the error has the reason.
func TestOwn_DirectoryThatCannotBeWritten(t *testing.T) {
	file := t.TempDir() + "/file"
	must(t, os.WriteFile(file, nil, 0o600))
	if o, err := Own(file, "n", "h"); err == nil || o != nil {
		t.Errorf("a run was recorded in a file: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
