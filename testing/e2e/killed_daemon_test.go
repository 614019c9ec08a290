package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/outputtest"
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
	// A node that dies before another one has met it is not missed.
	until(t, "the nodes have met", func() bool {
		return !slices.ContainsFunc(m.all, func(x *machine) bool {
			listed := m.ctl(x, "nodes").Stdout
			return slices.ContainsFunc(m.all, func(o *machine) bool { return !strings.Contains(listed, "\n"+o.name+" ") })
		})
	})
	first := busy()
	pids := working(first)
	begin := time.Now()
	must(t, first.cmd.Process.Kill())
	_ = first.cmd.Wait()
	m.proxy.delay.Store(int64(5 * time.Second)) // until the fleet has noticed it
	goesOn("the workers of a killed daemon have handed off", pids, begin)
	until(t, "they have ended", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})
	listed := func(state string) func() bool {
		return func() bool {
			other := m.all[(slices.Index(m.all, first)+1)%len(m.all)]
			return regexp.MustCompile(`(?m)^` + first.name + ` +` + state + ` `).MatchString(m.ctl(other, "nodes", "--all").Stdout)
		}
	}
	until(t, "the killed daemon is listed as lost", listed("lost"))
	m.start(first)
	until(t, "it is listed as one that runs", listed("running"))
	m.proxy.delay.Store(int64(time.Second))

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

	m.accountOfTheDead()
	for _, x := range m.all {
		m.start(x)
	}
	m.proxy.delay.Store(0)
	m.complete(func() {})
	compareLanded(t, m.node, m.repo)
}

// accountOfTheDead kills all daemons and workers in the middle of the work. rfsctl then reads from the store: the time of the last report,
// the leases with their expiries, and the way to continue, but no remaining time.
func (m *machines) accountOfTheDead() {
	t := m.t
	t.Helper()
	at := []string{"status", "--target-host", m.node.URL, "--session-name", "fleet"}
	read := func() (r status.Report) {
		t.Helper()
		res := Run(t, "rfsctl", append(at, "--output", "json")...)
		if err := outputtest.Decode(res.Stdout, &r); err != nil || r.Migration == nil {
			t.Fatalf("exit %d, %v: %s%s", res.Code, err, res.Stdout, res.Stderr)
		}
		return r
	}
	inWork := func(r status.Report) *progress.Index {
		i := slices.IndexFunc(r.Migration.Indices, func(x progress.Index) bool {
			return x.State == progress.InProgress && x.Counts.BytesDone > 0 && x.Counts.ShardsDone == 0
		})
		if i < 0 {
			return nil
		}
		return &r.Migration.Indices[i]
	}
	until(t, "a part of an item in progress is done", func() bool {
		r := read()
		return r.Migration.Complete || inWork(r) != nil && r.Migration.Totals.Leased > 0
	})
	var pids []int
	for _, x := range m.all {
		pids = append(pids, childrenOf(x.cmd.Process.Pid)...)
		must(t, x.cmd.Process.Kill())
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	for _, x := range m.all {
		_ = x.cmd.Wait()
	}
	var r status.Report
	until(t, "nothing has reported for a while", func() bool { r = read(); return r.Progress.Silent > 0 })
	x := inWork(r)
	if r.Progress.State != progress.StateSilent || r.Progress.Left != nil || r.Migration.Totals.Leased == 0 || x == nil {
		t.Fatalf("%+v, %+v", r.Progress, r.Migration.Totals)
	}
	for _, h := range r.Migration.Holders {
		if left := time.Until(h.Expiry); left < 5*time.Minute || left > 10*time.Minute || !slices.ContainsFunc(pids, func(pid int) bool { return strings.Contains(h.Name, fmt.Sprintf("_pid%d_", pid)) }) {
			t.Errorf("%+v for %v", h, left)
		}
	}
	res := Run(t, "rfsctl", at...)
	for _, want := range []string{`no process has reported for \d+s`, `(?m)^last report of a process: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, `, `(?m)^held: \d+ items? by \S+_pid\d+_\S*, until \d{4}-`,
		`the command that started the session, run again with the same options, continues it`, `(?m)^` + x.Name + ` .*\[[#.]+\] +[1-9]\d? %`} {
		if !regexp.MustCompile(want).MatchString(res.Stdout) {
			t.Errorf("no %q in\n%s%s", want, res.Stdout, res.Stderr)
		}
	}
	if strings.Contains(res.Stdout, " left") {
		t.Errorf("it estimates:\n%s", res.Stdout)
	}
	t.Logf("all are dead:\n%s", res.Stdout)
}
