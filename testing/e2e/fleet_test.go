package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// machine is one rfsd run of a fleet on this machine.
type machine struct {
	name, api, gossip string
	dir               string // data; it may be wiped
	cmd               *exec.Cmd
	said              *lockedBuffer
	lonely            bool // no gossip, no votes
	late              bool // knows target and session only
}

// machines are three nodes with certificates, gossip and Raft, before a real target that is slowed down.
type machines struct {
	t     *testing.T
	node  *cluster.Node
	proxy *proxy
	repo  string
	certs string
	task  []string // of all
	all   []*machine
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := cluster.FreeAddress()
	must(t, err)
	return address
}

// newMachines starts a migration on all.
func newMachines(t *testing.T, delay time.Duration) *machines {
	t.Helper()
	m := layMachines(t, delay)
	m.task = []string{"--repo-uri", m.repo, "--snapshot-name", "snap1", "--documents-per-bulk-request", "1", "--max-connections", "1", "--initial-lease-duration", "20s"}
	for _, x := range m.all {
		m.start(x)
	}
	return m
}

// layMachines prepares them.
func layMachines(t *testing.T, delay time.Duration) *machines {
	t.Helper()
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	m := &machines{t: t, node: n, proxy: newProxy(t, n.URL, delay), certs: filepath.Join(t.TempDir(), "certs"), repo: filepath.Join(Root(), "testing", "fixtures", "7.10.2-demo")}
	run := func(args ...string) {
		if res := Run(t, "rfsctl", args...); res.Code != 0 {
			t.Fatalf("rfsctl %v: %s", args, res.Stderr)
		}
	}
	for i := range 3 {
		x := &machine{name: fmt.Sprint("n", i), api: freeAddress(t), gossip: freeAddress(t), dir: t.TempDir()}
		run("cert", "create", "--dir", m.certs, "--fleet", "blue", x.name)
		m.all = append(m.all, x)
	}
	run("cert", "create", "--dir", m.certs, "--fleet", "blue", "--role", "operator", "op")
	run("cert", "gossip-key", filepath.Join(m.certs, "gossip"))
	t.Cleanup(func() {
		for _, x := range m.all {
			if x.cmd != nil {
				_ = x.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
		for _, x := range m.all {
			if x.cmd == nil {
				continue
			}
			_ = x.cmd.Wait()
			if t.Failed() {
				t.Logf("%s\n%s", x.name, x.said.String())
			}
		}
	})
	return m
}

func (m *machines) start(x *machine) {
	m.t.Helper()
	cert := func(name string) string { return filepath.Join(m.certs, name) }
	gossip := []string{"--gossip-listen", x.gossip, "--gossip-keys", cert("gossip"), "--one-machine", "--data-dir", x.dir}
	if x.lonely {
		gossip = nil
	}
	task := m.task
	if x.late {
		task = nil
	}
	x.cmd = exec.Command(Binary(m.t, "rfsd"), slices.Concat([]string{"run", "--target-host", m.proxy.URL,
		"--session-name", "fleet", "--node-name", x.name, "--workers", "2", "--disable-compression", "--failed-documents", filepath.Join(m.certs, "failed-"+x.name),
		"--listen", x.api, "--tls-cert", cert(x.name + ".crt"), "--tls-key", cert(x.name + ".key"), "--tls-ca", cert("ca.crt"), "--fleet", "blue",
		"--socket", "off", "--status-socket", "off"}, task, gossip)...)
	if x.said == nil {
		x.said = &lockedBuffer{}
	}
	x.cmd.Stderr = x.said
	must(m.t, x.cmd.Start())
}

// slowStart is the time per document while a test needs unfinished work. It is long enough for any machine.
const slowStart = 2500 * time.Millisecond

// stop kills all nodes.
func (m *machines) stop() {
	m.t.Helper()
	for _, x := range m.all {
		must(m.t, x.cmd.Process.Kill())
		_ = x.cmd.Wait()
	}
}

// drainOne drains the last node through the first, and lets it work again. The others continue meanwhile.
func (m *machines) drainOne() {
	m.t.Helper()
	first, last := m.all[0], m.all[len(m.all)-1]
	order := func(args ...string) {
		m.t.Helper()
		if res := m.ctl(first, args...); res.Code != 0 {
			m.t.Fatalf("rfsctl %v: %s", args, res.Stderr)
		}
	}
	order("drain", last.name)
	until(m.t, "the drained node has handed off", func() bool {
		r, ok := m.ask(last)
		return ok && r.Node.State == "drained" && r.Node.Running == 0
	})
	until(m.t, "the first node states so and continues", func() bool {
		r, ok := m.ask(first)
		return ok && r.Node.State == "running" && slices.ContainsFunc(r.Nodes, func(n status.Node) bool { return n.Name == last.name && n.State == "drained" })
	})
	order("resume", last.name)
	until(m.t, "it works again", func() bool {
		r, ok := m.ask(last)
		return ok && (r.Node.Running > 0 || r.Migration.Complete)
	})
}

// ctl runs a command of rfsctl through a node, as the operator.
func (m *machines) ctl(x *machine, args ...string) Result {
	m.t.Helper()
	flags := []string{args[0], "--node", x.api, "--tls-cert", filepath.Join(m.certs, "op.crt"), "--tls-key", filepath.Join(m.certs, "op.key"),
		"--tls-ca", filepath.Join(m.certs, "ca.crt"), "--fleet", "blue"}
	return Run(m.t, "rfsctl", append(flags, args[1:]...)...)
}

// ask gives a node's status; false while it does not answer or has not read the store.
func (m *machines) ask(x *machine) (r status.Report, ok bool) {
	m.t.Helper()
	res := m.ctl(x, "status", "--output", "json")
	if res.Code != 0 || outputtest.Decode(res.Stdout, &r) != nil || r.Migration == nil {
		return r, false
	}
	return r, true
}

// complete blocks until every node reports that the migration is complete.
func (m *machines) complete(meanwhile func()) []status.Report {
	m.t.Helper()
	deadline := time.Now().Add(8 * time.Minute)
	for {
		var all []status.Report
		for _, x := range m.all {
			if r, ok := m.ask(x); ok && r.Migration.Complete {
				all = append(all, r)
			}
		}
		if len(all) == len(m.all) {
			return all
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("only %d of %d nodes are complete", len(all), len(m.all))
		}
		meanwhile()
		<-time.After(200 * time.Millisecond)
	}
}

// TestThreeNodesMigrateWhileTheyAreKilledAndWiped kills a node again and again, wipes its data, and
// starts it anew: the documents are equal, and all nodes report the same.
func TestThreeNodesMigrateWhileTheyAreKilledAndWiped(t *testing.T) {
	every, delay := 4*time.Second, 150*time.Millisecond
	if long() {
		every, delay = 5*time.Second, 600*time.Millisecond
	}
	m := newMachines(t, slowStart)
	until(t, "the nodes know each other", func() bool {
		r, ok := m.ask(m.all[0])
		return ok && len(r.Nodes) == len(m.all)
	})
	m.drainOne()
	m.proxy.delay.Store(int64(delay))
	next, kills := time.Now(), 0
	reports := m.complete(func() {
		if time.Now().Before(next) || kills == 6 && !long() {
			return
		}
		x := m.all[kills%len(m.all)]
		must(t, x.cmd.Process.Kill())
		_ = x.cmd.Wait()
		must(t, os.RemoveAll(x.dir))
		must(t, os.Mkdir(x.dir, 0o700))
		m.start(x)
		kills++
		next = time.Now().Add(every)
	})
	compareLanded(t, m.node, m.repo)
	for _, r := range reports[1:] {
		if r.Migration.Totals != reports[0].Migration.Totals {
			t.Errorf("%s states %+v, %s states %+v", reports[0].Node.Name, reports[0].Migration.Totals, r.Node.Name, r.Migration.Totals)
		}
	}
	if bad := reports[0].Migration.Totals.ItemsBad; bad != 0 || kills == 0 {
		t.Errorf("%d items failed, %d kills", bad, kills)
	}
	t.Logf("%d nodes were killed and wiped; %d documents in %d bulk requests", kills, reports[0].Migration.Totals.Indexed, m.proxy.bulks.Load())
}

// TestTheTimeWithoutHintsIsMeasured alternates migrations with hints and without, RFSD_HINTS of each, and logs both medians.
func TestTheTimeWithoutHintsIsMeasured(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("RFSD_HINTS"))
	if err != nil {
		t.Skip("RFSD_HINTS=5 measures five runs of each")
	}
	times := map[bool][]time.Duration{}
	for range rounds {
		for _, hints := range []bool{true, false} {
			t.Run(fmt.Sprint("hints ", hints), func(t *testing.T) {
				m := newMachines(t, 300*time.Millisecond)
				m.stop()
				wipe(t, m.node)
				for _, x := range m.all {
					x.lonely = !hints
				}
				begin := time.Now()
				for _, x := range m.all {
					m.start(x)
				}
				m.complete(func() {})
				times[hints] = append(times[hints], time.Since(begin))
				compareLanded(t, m.node, m.repo)
			})
		}
	}
	median := func(all []time.Duration) time.Duration { slices.Sort(all); return all[len(all)/2] }
	with, without := median(times[true]), median(times[false])
	t.Logf("median of %d: with hints %v, without %v (%+.1f %%); all %v", rounds, with, without, 100*(float64(without)/float64(with)-1), times)
}

// TestMigrationWithoutHints runs nodes without any gossip, since their keys differ, and without votes. The same documents arrive.
func TestMigrationWithoutHints(t *testing.T) {
	m := newMachines(t, 20*time.Millisecond)
	m.stop()
	wipe(t, m.node)
	for _, x := range m.all { // each has a key of its own
		key := filepath.Join(m.certs, "gossip")
		must(t, os.Remove(key))
		if res := Run(t, "rfsctl", "cert", "gossip-key", key); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
		m.start(x)
		until(t, "the node has read its key", func() bool { return strings.Contains(x.said.String(), "the API listens") })
	}
	reports := m.complete(func() {})
	compareLanded(t, m.node, m.repo)
	for _, r := range reports {
		if len(r.Nodes) > 1 {
			t.Errorf("%s knows %d nodes", r.Node.Name, len(r.Nodes))
		}
	}
}
