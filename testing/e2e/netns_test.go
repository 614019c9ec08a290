package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

const (
	hosts     = 5
	bridge    = "rfsdbr0"
	subnet    = "10.213.77."
	apiPort   = 9443
	talkPort  = 7946
	nowhere   = "02:00:00:00:00:99" // no machine has this address: what is sent there is lost in silence
	proxyHost = subnet + "254"
)

// network are machines of a fleet in network namespaces, joined by a bridge, before a real cluster of three nodes.
type network struct {
	t     *testing.T
	proxy *proxy
	dir   string
	all   []*host
	begun time.Time
}

type host struct {
	n       int
	space   string // network namespace
	address string
	data    string
	program string   // Binary's rfsd unless another is named
	more    []string // options
	cmd     *exec.Cmd
	said    lockedBuffer
}

// ip runs the program of that name.
func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// layNetwork makes bridge and namespaces; they go with the test.
func layNetwork(t *testing.T) []*host {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil || os.Geteuid() != 0 {
		t.Skip("network namespaces need root and the program ip")
	}
	clearNetwork()
	t.Cleanup(func() { _ = ip("link", "del", bridge) })
	must(t, ip("link", "add", bridge, "type", "bridge"))
	must(t, ip("addr", "add", proxyHost+"/24", "dev", bridge))
	must(t, ip("link", "set", bridge, "up"))
	var all []*host
	for n := range hosts {
		h := &host{n: n, space: fmt.Sprint("rfsd-", n), address: fmt.Sprint(subnet, n+1), data: t.TempDir()}
		t.Cleanup(func() { _ = ip("netns", "del", h.space) })
		must(t, ip("netns", "add", h.space))
		must(t, ip("link", "add", fmt.Sprint("rfsdv", n), "type", "veth", "peer", "name", "eth0", "netns", h.space))
		// A namespace gives its links back some time after it is gone: the next test would meet this one's.
		t.Cleanup(func() { _ = ip("link", "del", fmt.Sprint("rfsdv", n)) })
		must(t, ip("link", "set", fmt.Sprint("rfsdv", n), "master", bridge, "up"))
		must(t, ip("-n", h.space, "addr", "add", h.address+"/24", "dev", "eth0"))
		must(t, ip("-n", h.space, "link", "set", "eth0", "up"))
		must(t, ip("-n", h.space, "link", "set", "lo", "up"))
		all = append(all, h)
	}
	return all
}

// clearNetwork removes what a run has left that was ended by its timeout: its nodes, their namespaces and the bridge.
func clearNetwork() {
	for n := range hosts {
		space := fmt.Sprint("rfsd-", n)
		pids, _ := exec.Command("ip", "netns", "pids", space).Output() // none when there is no such namespace
		for _, pid := range strings.Fields(string(pids)) {
			if p, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(p, syscall.SIGKILL)
			}
		}
		_ = ip("netns", "del", space)
		_ = ip("link", "del", fmt.Sprint("rfsdv", n))
	}
	_ = ip("link", "del", bridge)
}

// lose lets everything between a host and an address be lost without a word; heal ends that.
func (h *host) lose(address string) error {
	return ip("-n", h.space, "neigh", "replace", address, "lladdr", nowhere, "dev", "eth0", "nud", "permanent")
}

func (h *host) heal(address string) error {
	return ip("-n", h.space, "neigh", "del", address, "dev", "eth0")
}

func part(t *testing.T, a, b *host) {
	t.Helper()
	must(t, a.lose(b.address))
	must(t, b.lose(a.address))
}

func join(t *testing.T, a, b *host) {
	t.Helper()
	must(t, a.heal(b.address))
	must(t, b.heal(a.address))
}

// newNetwork makes certificates and keys, and a door to the target on the bridge.
func newNetwork(t *testing.T, n *cluster.Node, delay time.Duration) *network {
	t.Helper()
	wipe(t, n)
	w := &network{t: t, dir: t.TempDir(), all: layNetwork(t)}
	l, err := net.Listen("tcp", proxyHost+":0")
	must(t, err)
	w.proxy = &proxy{node: n.URL}
	w.proxy.delay.Store(int64(delay))
	w.proxy.Server = httptest.NewUnstartedServer(http.HandlerFunc(w.proxy.serve))
	w.proxy.Listener = l
	w.proxy.Start()
	t.Cleanup(w.proxy.Close)
	w.certify(Binary(t, "rfsctl"))
	t.Cleanup(func() {
		for _, h := range w.all {
			w.end(h, syscall.SIGTERM)
			if t.Failed() {
				t.Logf("%s\n%s", h.space, h.said.String())
			}
		}
	})
	return w
}

// certify makes certificates and keys with the given rfsctl.
func (w *network) certify(rfsctl string) {
	w.t.Helper()
	tool := func(args ...string) {
		if out, err := exec.Command(rfsctl, append([]string{"cert"}, args...)...).CombinedOutput(); err != nil {
			w.t.Fatalf("rfsctl cert %v: %v: %s", args, err, out)
		}
	}
	for _, h := range w.all {
		tool("create", "--dir", w.dir, "--fleet", "blue", fmt.Sprint("n", h.n))
	}
	tool("create", "--dir", w.dir, "--fleet", "blue", "--role", "operator", "op")
	tool("gossip-key", filepath.Join(w.dir, "gossip"))
}

// startAll starts the machines that do not run yet.
func (w *network) startAll() {
	if w.begun.IsZero() {
		w.begun = time.Now()
	}
	for _, h := range w.all {
		if h.cmd == nil {
			w.start(h)
		}
	}
}

func (w *network) start(h *host) {
	w.t.Helper()
	file := func(name string) string { return filepath.Join(w.dir, name) }
	name := fmt.Sprint("n", h.n)
	api, talk := fmt.Sprintf("%s:%d", h.address, apiPort), fmt.Sprintf("%s:%d", h.address, talkPort)
	if h.program == "" {
		h.program = Binary(w.t, "rfsd")
	}
	h.cmd = exec.Command("ip", append([]string{"netns", "exec", h.space, h.program, "run", "--repo-uri", demoRepo(), "--snapshot-name", "snap1",
		"--target-host", w.proxy.URL, "--session-name", "network", "--node-name", name, "--workers", "2", "--documents-per-bulk-request", "1",
		"--disable-compression", "--max-connections", "1", "--initial-lease-duration", "20s", "--failed-documents", file("failed-" + name),
		"--listen", api, "--tls-cert", file(name + ".crt"), "--tls-key", file(name + ".key"), "--tls-ca", file("ca.crt"), "--fleet", "blue",
		"--gossip-listen", talk, "--gossip-keys", file("gossip"), "--one-machine", "--data-dir", h.data, "--socket", "off", "--status-socket", "off",
		"--unavailable-timeout", "PT3M"}, h.more...)...)
	h.cmd.Stderr = &h.said
	must(w.t, h.cmd.Start())
}

func (w *network) end(h *host, how syscall.Signal) {
	if h.cmd == nil {
		return
	}
	_ = h.cmd.Process.Signal(how)
	_ = h.cmd.Wait()
	h.cmd = nil
}

// ask asks a node on its own machine.
func (w *network) ask(h *host) (r status.Report, ok bool) {
	file := func(name string) string { return filepath.Join(w.dir, name) }
	out, err := exec.Command("ip", "netns", "exec", h.space, Binary(w.t, "rfsctl"), "status", "--node", fmt.Sprintf("%s:%d", h.address, apiPort),
		"--tls-cert", file("op.crt"), "--tls-key", file("op.key"), "--tls-ca", file("ca.crt"), "--fleet", "blue", "--output", "json").Output()
	return r, err == nil && outputtest.Decode(out, &r) == nil && r.Migration != nil
}

// complete blocks until all nodes report completion, and compares their reports and the documents.
func (w *network) complete(n *cluster.Node, meanwhile func(elapsed time.Duration)) {
	w.t.Helper()
	var reports []status.Report
	for end := time.Now().Add(6 * time.Minute); len(reports) < len(w.all); <-time.After(300 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("only %d of %d nodes are complete", len(reports), len(w.all))
		}
		meanwhile(time.Since(w.begun))
		reports = nil
		for _, h := range w.all {
			if r, ok := w.ask(h); ok && r.Migration.Complete {
				reports = append(reports, r)
			}
		}
	}
	took := time.Since(w.begun)
	compareLanded(w.t, n, demoRepo())
	for _, r := range reports {
		if r.Migration.Totals != reports[0].Migration.Totals {
			w.t.Errorf("%s states %+v, %s states %+v", reports[0].Node.Name, reports[0].Migration.Totals, r.Node.Name, r.Migration.Totals)
		}
	}
	t := reports[0].Migration.Totals
	if t.ItemsBad != 0 {
		w.t.Errorf("%d items failed", t.ItemsBad)
	}
	w.t.Logf("complete after %.0f s: %d documents, %d bulk requests", took.Seconds(), t.Indexed, w.proxy.bulks.Load())
}

// TestFiveMachinesMigrateWhateverBecomesOfTheirNetwork runs the same migration into three nodes of OpenSearch several times: undisturbed,
// with links that are cut for a minute, without a quorum of Raft, partitioned in two halves, with gossip partitioned only, with wrong
// clocks, with machines that die, with wiped data.
func TestFiveMachinesMigrateWhateverBecomesOfTheirNetwork(t *testing.T) {
	if os.Getenv("RFSD_NETNS") == "" {
		t.Skip("RFSD_NETNS=1 runs five machines in network namespaces for twenty minutes")
	}
	n := cluster.OpenSearchNodes(t, targets[0], 3)[0]
	const delay = 900 * time.Millisecond
	for _, c := range []struct {
		name string
		play func(t *testing.T, w *network) (meanwhile func(time.Duration))
	}{
		{"in calm", func(*testing.T, *network) func(time.Duration) { return func(time.Duration) {} }},
		{"links are cut for 60 s", cutLinks},
		{"Raft has no quorum", func(t *testing.T, w *network) func(time.Duration) {
			for _, h := range w.all { // gossip has another port
				must(t, ip("-n", h.space, "rule", "add", "to", subnet+"0/25", "ipproto", "tcp", "dport", fmt.Sprint(apiPort), "blackhole"))
			}
			return func(time.Duration) {}
		}},
		{"the network is split in two", func(t *testing.T, w *network) func(time.Duration) {
			for _, a := range w.all[:2] {
				for _, b := range w.all[2:] {
					part(t, a, b)
				}
			}
			return func(time.Duration) {}
		}},
		{"gossip is split in two", splitGossip},
		{"the clocks of two machines are 10 minutes off", refuseWrongClocks},
		{"the clocks of two machines are 10 minutes off and that is tolerated", allowWrongClocks},
		{"a machine dies every 5 s", func(t *testing.T, w *network) func(time.Duration) {
			kills := 0
			t.Cleanup(func() {
				if t.Logf("%d kills", kills); kills < hosts {
					t.Error("not every machine died once")
				}
			})
			return func(elapsed time.Duration) {
				if elapsed > time.Duration(kills+1)*5*time.Second {
					h := w.all[kills%hosts]
					w.end(h, syscall.SIGKILL)
					w.start(h)
					kills++
				}
			}
		}},
		{"all data is wiped in the middle", func(t *testing.T, w *network) func(time.Duration) {
			var once sync.Once
			wiped := false
			t.Cleanup(func() {
				if !wiped {
					t.Error("nothing was wiped")
				}
			})
			return func(elapsed time.Duration) {
				if elapsed > 30*time.Second {
					once.Do(func() {
						wiped = true
						for i, h := range w.all {
							must(t, os.RemoveAll(h.data))
							must(t, os.Mkdir(h.data, 0o700))
							if i%2 == 0 { // these begin anew without, the others go on without
								w.end(h, syscall.SIGKILL)
								w.start(h)
							}
						}
					})
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNetwork(t, n, delay)
			meanwhile := c.play(t, w)
			w.startAll()
			w.complete(n, meanwhile)
		})
	}
}

// deafen lets what comes from an address to a port be lost, without a word to who sent it.
func (h *host) deafen(address string, port int) error {
	for _, protocol := range []string{"tcp", "udp"} {
		if err := ip("-n", h.space, "rule", "add", "pref", "1", "iif", "eth0", "from", address, "ipproto", protocol, "dport", fmt.Sprint(port), "blackhole"); err != nil {
			return err
		}
	}
	return nil
}

// splitGossip drops the gossip between two machines and the three others, and nothing else. No half may know members of the other, and
// each must be complete.
func splitGossip(t *testing.T, w *network) func(time.Duration) {
	halves := [][]*host{w.all[:2], w.all[2:]}
	half := map[string]int{} // by the node's name
	for i := range halves {
		for _, a := range halves[i] {
			half[fmt.Sprint("n", a.n)] = i
			must(t, ip("-n", a.space, "rule", "add", "pref", "2", "lookup", "local")) // what is for this machine: after the rules below
			must(t, ip("-n", a.space, "rule", "del", "pref", "0"))
			for _, b := range halves[1-i] {
				must(t, a.deafen(b.address, talkPort))
			}
		}
	}
	whole := make([]bool, len(halves))
	t.Cleanup(func() {
		epochs := 0
		for _, h := range w.all {
			epochs += strings.Count(h.said.String(), `"raft cluster bootstrapped"`)
		}
		t.Logf("hints started %d times", epochs)
		for i, is := range whole {
			if !is {
				t.Errorf("no node of half %d knew all of it", i)
			}
		}
	})
	calls := 0
	return func(time.Duration) {
		h := w.all[calls%hosts]
		calls++
		r, ok := w.ask(h)
		if !ok {
			return
		}
		mine := half[fmt.Sprint("n", h.n)]
		for _, n := range r.Nodes {
			if other, known := half[n.Name]; !known || other != mine {
				t.Errorf("n%d knows %s of the other half", h.n, n.Name)
			}
		}
		whole[mine] = whole[mine] || len(r.Nodes) == len(halves[mine])
	}
}

// cutLinks cuts the link between two machines, and later that between a third one and the target, each for 60 s.
func cutLinks(t *testing.T, w *network) func(time.Duration) {
	cuts := []struct {
		from, to time.Duration
		do, undo func()
		state    int
	}{
		{from: 10 * time.Second, to: 70 * time.Second, do: func() { part(t, w.all[0], w.all[1]) }, undo: func() { join(t, w.all[0], w.all[1]) }},
		{from: 15 * time.Second, to: 75 * time.Second, do: func() { must(t, w.all[2].lose(proxyHost)) }, undo: func() { must(t, w.all[2].heal(proxyHost)) }},
	}
	t.Cleanup(func() {
		for i, x := range cuts {
			if x.state != 2 {
				t.Errorf("cut %d was not made and healed", i)
			}
		}
	})
	return func(elapsed time.Duration) {
		for i := range cuts {
			x := &cuts[i]
			switch {
			case x.state == 0 && elapsed > x.from:
				x.do()
				x.state = 1
			case x.state == 1 && elapsed > x.to:
				x.undo()
				x.state = 2
			}
		}
	}
}
