package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// soon is how long the items of a killed daemon may wait for another worker, with leases of ten minutes.
const soon = 30 * time.Second

// TestKilledDaemon_ItemsGoOn kills a daemon of three in the middle of its leases, and then another one together with its workers: the
// workers that survive hand off, and the daemon that starts again frees the leases of those that did not.
func TestKilledDaemon_ItemsGoOn(t *testing.T) {
	m := layMachines(t, time.Second)
	m.task = []string{"--repo-uri", m.repo, "--snapshot-name", "snap1", "--documents-per-bulk-request", "1", "--max-connections", "1", "--initial-lease-duration", "10m"}
	for _, x := range m.all {
		m.start(x)
	}
	coord := coordinator(t, m.node, "fleet", 10*time.Minute)
	heldBy := func(pids []int) (held []string) {
		for it, err := range coord.Items(t.Context()) {
			must(t, err)
			if it.Open() && slices.ContainsFunc(pids, func(pid int) bool { return strings.Contains(it.Holder, fmt.Sprintf("_pid%d_", pid)) }) {
				held = append(held, it.ID)
			}
		}
		return held
	}
	// goesOn waits until nothing is held by processes that were killed, and no attempt was counted for what they held.
	goesOn := func(what string, pids []int, begin time.Time) {
		t.Helper()
		until(t, what, func() bool { return len(heldBy(pids)) == 0 })
		if took := time.Since(begin); took > soon {
			t.Errorf("%s: after %v", what, took)
		} else {
			t.Logf("%s: after %v", what, took)
		}
		for it, err := range coord.Items(t.Context()) {
			must(t, err)
			if it.Attempts > 1 || it.LeaseExponent > 0 {
				t.Errorf("%s: %d attempts, lease exponent %d", cms.ItemName(it.ID), it.Attempts, it.LeaseExponent)
			}
		}
	}
	working := func(x *machine) (pids []int) {
		until(t, x.name+" works on an item", func() bool {
			pids = nil
			for _, pid := range childrenOf(x.cmd.Process.Pid) {
				if len(heldBy([]int{pid})) > 0 {
					pids = append(pids, pid)
				}
			}
			return len(pids) > 0
		})
		return pids
	}

	busy := func() *machine { // one that holds an item
		var found *machine
		until(t, "a daemon has a worker with an item", func() bool {
			for _, x := range m.all {
				if slices.ContainsFunc(childrenOf(x.cmd.Process.Pid), func(pid int) bool { return len(heldBy([]int{pid})) > 0 }) {
					found = x
					return true
				}
			}
			return false
		})
		return found
	}
	first := busy()
	pids := working(first)
	begin := time.Now()
	must(t, first.cmd.Process.Kill())
	_ = first.cmd.Wait()
	goesOn("the workers of a killed daemon have handed off", pids, begin)
	until(t, "they have ended", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})
	m.start(first)

	second := busy()
	pids = working(second)
	must(t, second.cmd.Process.Kill())
	for _, pid := range pids {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	_ = second.cmd.Wait()
	begin = time.Now()
	m.start(second)
	goesOn("the leases of dead workers were freed", pids, begin)

	m.proxy.delay.Store(0)
	m.complete(func() {})
	compareLanded(t, m.node, m.repo)
}
