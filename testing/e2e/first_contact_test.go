package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/testing/cluster"
)

// contact is one program and one fault. Each has indices, session and directories of its own.
type contact struct {
	t                *testing.T
	n                int
	dir, repo, certs string
	target, store    *gate
	url              string // of the target
	gossip, api      string
	program          contactProgram
	fault            contactFault
	node             *cluster.Node
	more             []string // of the fault, for the program
	env              []string
	undo             []func()
}

type contactProgram struct {
	name    string
	fleet   bool
	long    bool // it works until it is done, rather than asking once
	node    bool // it never ends by itself while a fault lasts
	watches bool // it shows a session until it is stopped
	args    func(c *contact) []string
}

// contactFault is a fault. begin brings it about and end ends it; nil: it does not end. A fault that ends says that the program does not wait for its end;
// then its text has what the program says.
type contactFault struct {
	name       string
	fleet      bool // concerns nodes of a fleet only
	ends       string
	says       string // in the log of a program that goes on
	begin, end func(c *contact)
	again      bool // it may happen in the middle of the work, too
	night      bool // too slow for every change
}

func migration(c *contact) []string {
	return []string{"--repo-uri", c.repo, "--snapshot-name", "snap1", "--target-host", c.url, "--coordinator-host", c.store.url(), "--session-name", c.session(),
		"--index-rename", "regex:(.*)=" + c.session() + "-$1", "--documents-per-bulk-request", "1", "--disable-compression", "--max-connections", "2", "--failed-documents", filepath.Join(c.dir, "failed")}
}

func (c *contact) session() string { return fmt.Sprint("contact", c.n) }

var contactPrograms = []contactProgram{
	{name: "rfsd run", long: true, node: true, args: func(c *contact) []string {
		return append([]string{"rfsd", "run", "--workers", "2", "--exit-when-done", "--socket", "off", "--status-socket", "off", "--max-rate", "5"}, migration(c)...)
	}},
	{name: "rfsd run of a fleet", fleet: true, long: true, node: true, args: func(c *contact) []string {
		cert := func(name string) string { return filepath.Join(c.certs, name) }
		return append([]string{"rfsd", "run", "--workers", "2", "--exit-when-done", "--socket", "off", "--status-socket", "off", "--one-machine", "--max-rate", "5",
			"--gossip-listen", c.gossip, "--gossip-keys", cert("gossip"), "--listen", c.api, "--data-dir", filepath.Join(c.dir, "data"), "--fleet", "blue",
			"--tls-cert", cert("n.crt"), "--tls-key", cert("n.key"), "--tls-ca", cert("ca.crt"), "--scale-driver", "exec", "--scale-command", "true", "--scale-max", "1"}, migration(c)...)
	}},
	{name: "rfsd migrate", long: true, args: func(c *contact) []string {
		return append([]string{"rfsd", "migrate"}, migration(c)...)
	}},
	{name: "rfsd worker", args: func(c *contact) []string {
		return append([]string{"rfsd", "worker"}, migration(c)...)
	}},
	{name: "rfsctl status", args: func(c *contact) []string {
		return []string{"rfsctl", "status", "--target-host", c.url, "--coordinator-host", c.store.url(), "--session-name", "contact-done"}
	}},
	{name: "rfsctl status --watch", watches: true, args: func(c *contact) []string {
		return []string{"rfsctl", "status", "--watch", "--target-host", c.url, "--coordinator-host", c.store.url(), "--session-name", "contact-done"}
	}},
}

func gateFault(name, mode string, which func(c *contact) []*gate) contactFault {
	set := func(mode string) func(c *contact) {
		return func(c *contact) {
			for _, g := range which(c) {
				g.set(c.t, mode)
			}
		}
	}
	return contactFault{name: name, begin: set(mode), end: set(passes), again: true}
}

func atNight(f contactFault) contactFault {
	f.night = true
	return f
}

func targetOf(c *contact) []*gate { return []*gate{c.target} }
func storeOf(c *contact) []*gate  { return []*gate{c.store} }
func bothOf(c *contact) []*gate   { return []*gate{c.target, c.store} }

var contactFaults = []contactFault{
	gateFault("target and store refuse connections", refuses, bothOf),
	gateFault("target and store do not answer", hangs, bothOf),
	atNight(gateFault("target and store answer 503", unavailable, bothOf)),
	atNight(gateFault("target refuses connections", refuses, targetOf)),
	gateFault("store refuses connections", refuses, storeOf),
	atNight(gateFault("store does not answer", hangs, storeOf)),
	{name: "name of the target is unknown", night: true, begin: func(c *contact) { c.url = "http://nowhere.invalid:9200" }},
	{name: "repository is missing", begin: func(c *contact) { must(c.t, os.Rename(c.repo, c.repo+".away")) }, end: func(c *contact) { must(c.t, os.Rename(c.repo+".away", c.repo)) }},
	{name: "gossip port is taken", fleet: true, ends: "--gossip-listen", begin: func(c *contact) { c.take(c.gossip) }, end: func(c *contact) { c.free() }},
	{name: "port of the API is taken", fleet: true, ends: "address already in use", begin: func(c *contact) { c.take(c.api) }, end: func(c *contact) { c.free() }},
	{name: "certificate cannot be read", fleet: true, ends: "--tls-cert", begin: func(c *contact) { c.more = []string{"--tls-cert", filepath.Join(c.dir, "none.crt")} }, end: func(c *contact) { c.more = nil }},
	{name: "certificate has expired", night: true, fleet: true, says: "has expired", begin: func(c *contact) {
		c.more = []string{"--tls-cert", filepath.Join(c.certs, "old.crt"), "--tls-key", filepath.Join(c.certs, "old.key")}
	}, end: func(c *contact) {}},
	{name: "directory of the node's state is read-only", night: true, fleet: true, says: "state of the node cannot be kept", begin: func(c *contact) { c.tmpfs("ro") }, end: func(c *contact) {}},
	{name: "directory of the node's state is full", fleet: true, says: "state of the node cannot be kept", begin: func(c *contact) { c.tmpfs("size=4k,nr_inodes=2") }, end: func(c *contact) {}},
}

// take opens an address until free.
func (c *contact) take(address string) {
	l, err := net.Listen("tcp", address)
	must(c.t, err)
	c.undo = append(c.undo, func() { l.Close() })
}

func (c *contact) free() {
	for _, f := range c.undo {
		f()
	}
	c.undo = nil
}

// tmpfs puts the directories of a node on a file system with options.
func (c *contact) tmpfs(options string) {
	dir := filepath.Join(c.dir, "small")
	must(c.t, os.Mkdir(dir, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "none", dir).CombinedOutput(); err != nil {
		c.t.Skipf("no file system can be mounted here (root can): %v: %s", err, out)
	}
	c.t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	c.more, c.env = []string{"--data-dir", filepath.Join(dir, "data")}, []string{"XDG_STATE_HOME=" + dir}
}

// contactRun is one process.
type contactRun struct {
	cmd  *exec.Cmd
	said lockedBuffer
	end  chan error
}

func (c *contact) start() *contactRun {
	c.t.Helper()
	args := append(c.program.args(c), c.more...)
	r := &contactRun{cmd: exec.Command(Binary(c.t, args[0]), args[1:]...), end: make(chan error, 1)}
	r.cmd.Dir, r.cmd.Stderr, r.cmd.Stdout = c.dir, &r.said, &r.said
	r.cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(c.dir, "state")), c.env...)
	must(c.t, r.cmd.Start())
	go func() { r.end <- r.cmd.Wait() }()
	c.t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// ended waits for the end for so long.
func (r *contactRun) ended(most time.Duration) bool {
	select {
	case err := <-r.end:
		r.end <- err
		return true
	case <-time.After(most):
		return false
	}
}

// lastWord returns the reason that a program gave at its end.
func (r *contactRun) lastWord() string {
	lines := strings.Split(strings.TrimSpace(r.said.String()), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "rfsd: ") || strings.HasPrefix(line, "rfsctl: ") {
			return line
		}
	}
	return ""
}

// check fails for a panic, and for an end without a reason.
func (c *contact) check(r *contactRun, over bool) {
	c.t.Helper()
	if said := r.said.String(); strings.Contains(said, "goroutine ") || strings.Contains(said, "panic:") {
		c.t.Fatalf("it panicked:\n%s", said)
	}
	if over && r.cmd.ProcessState.ExitCode() != 0 && (r.cmd.ProcessState.ExitCode() < 0 || r.lastWord() == "") {
		c.t.Fatalf("%v; reason %q:\n%s", r.cmd.ProcessState, r.lastWord(), r.said.String())
	}
}

// patienceOf is how long a program is left with its fault: longer than every loop takes to its second round.
const patienceOf = 5 * time.Second

// run plays the fault before the start, its end, and the fault again while documents are sent. It returns what became of it.
func (c *contact) run() string {
	c.t.Helper()
	c.target.delay.Store(int64(20 * time.Millisecond))
	c.fault.begin(c)
	r := c.start()
	most := patienceOf
	if c.fault.ends != "" {
		most = time.Minute
	}
	over := r.ended(most)
	c.check(r, over)
	result := "waits"
	if over && c.program.node && c.fault.ends == "" {
		c.t.Fatalf("a node ended by itself: %v\n%s", r.cmd.ProcessState, r.said.String())
	}
	if over {
		result = "ends: " + shortened(r.lastWord())
		if r.cmd.ProcessState.ExitCode() == 0 {
			result = "is not concerned"
		}
	}
	if c.fault.ends != "" && (!over || !strings.Contains(r.said.String(), c.fault.ends)) {
		c.t.Fatalf("ended %v; it should end and name %s:\n%s", over, c.fault.ends, r.said.String())
	}
	if c.fault.end == nil {
		if over {
			return result
		}
		must(c.t, r.cmd.Process.Signal(syscall.SIGTERM))
		if !r.ended(40 * time.Second) {
			c.t.Fatalf("it has not ended 40 s after SIGTERM:\n%s", r.said.String())
		}
		c.check(r, false)
		return result + " until SIGTERM"
	}
	if !strings.Contains(r.said.String(), c.fault.says) {
		c.t.Errorf("it does not say %q:\n%s", c.fault.says, r.said.String())
	}
	c.fault.end(c)
	if over {
		r = c.start()
	}
	if c.program.long && c.fault.again && c.fault.ends == "" {
		until(c.t, "documents arrive after the end of the fault: "+r.said.String(), func() bool { return c.target.documents.Load() > 3 || len(r.end) > 0 })
		c.fault.begin(c)
		again := r.ended(3 * time.Second)
		c.check(r, again)
		if again && c.program.node && r.cmd.ProcessState.ExitCode() != 0 {
			c.t.Fatalf("a node ended by itself: %v\n%s", r.cmd.ProcessState, r.said.String())
		}
		c.fault.end(c)
		if again {
			result += "; in the middle ends: " + shortened(r.lastWord())
			r = c.start()
		} else {
			result += "; in the middle waits"
		}
	}
	c.target.delay.Store(0)
	if c.program.watches {
		until(c.t, "it shows the session", func() bool { return strings.Contains(r.said.String(), "complete") || len(r.end) > 0 })
		_ = r.cmd.Process.Signal(syscall.SIGTERM) // a session that is complete may have ended it
	}
	if !r.ended(2 * time.Minute) {
		c.t.Fatalf("it has not ended two minutes after the fault:\n%s", r.said.String())
	}
	c.check(r, true)
	if r.cmd.ProcessState.ExitCode() == 0 || c.program.watches {
		return result + "; then goes on"
	}
	if !over && !c.program.node { // it had sent a request to which no answer came
		result = "ends: " + shortened(r.lastWord())
		if r = c.start(); !r.ended(time.Minute) {
			c.t.Fatalf("it has not ended after it was started again:\n%s", r.said.String())
		}
	}
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		c.t.Fatalf("exit %d after the fault: %s\n%s", code, r.lastWord(), r.said.String())
	}
	return result + "; then goes on when it is started again"
}

func shortened(s string) string {
	if len(s) > 160 {
		return s[:160] + "…"
	}
	return s
}

// TestFirstContact_EveryFaultOfEveryProgram starts each program before a fault has ended, and brings the fault back in the middle of the
// work. No program panics; each waits, or ends with its reason and does its work when it is started again after the fault. Wrong clocks
// have tests of their own (clock_test.go). RFSD_DAEMON_LONG=1 plays all faults.
func TestFirstContact_EveryFaultOfEveryProgram(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	certs, now := filepath.Join(t.TempDir(), "certs"), time.Now()
	_, err := cert.CreateAuthority(certs, "blue", now.Add(-48*time.Hour))
	must(t, err)
	must(t, cert.Create(certs, cert.Request{Fleet: "blue", Name: "n", Role: cert.Node, Life: time.Hour}, now))
	must(t, cert.Create(certs, cert.Request{Fleet: "blue", Name: "old", Role: cert.Node, Life: time.Hour}, now.Add(-24*time.Hour)))
	if res := Run(t, "rfsctl", "cert", "gossip-key", filepath.Join(certs, "gossip")); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	if res := Run(t, "rfsd", "migrate", "--repo-uri", fixture(t, "7.10.2-demo"), "--snapshot-name", "snap1", "--target-host", n.URL, "--session-name", "contact-done"); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	var mu sync.Mutex
	var table []string
	all := make(chan struct{}, 16) // at a time; they wait most of it, more than go test runs in parallel
	var pairs sync.WaitGroup
	number := 0
	for _, fault := range contactFaults {
		for _, program := range contactPrograms {
			local := strings.Contains(fault.name, "repository") && !strings.HasPrefix(program.name, "rfsd ")
			if fault.fleet && !program.fleet || local || fault.night && !long() {
				continue
			}
			number++
			c := &contact{n: number, program: program, fault: fault, certs: certs, node: n}
			pairs.Go(func() {
				all <- struct{}{}
				defer func() { <-all }()
				t.Run(program.name+", "+fault.name, func(t *testing.T) {
					c.t, c.dir = t, t.TempDir()
					c.repo = filepath.Join(c.dir, "repo")
					must(t, os.CopyFS(c.repo, os.DirFS(fixture(t, "7.10.2-demo"))))
					c.target, c.store, c.gossip, c.api = newGate(t, n.URL), newGate(t, n.URL), freeAddress(t), freeAddress(t)
					c.url = c.target.url()
					result := c.run()
					mu.Lock()
					defer mu.Unlock()
					table = append(table, fmt.Sprintf("%-22s | %-42s | %s", program.name, fault.name, result))
					_, _ = n.Send(t.Context(), "DELETE", "/"+c.session()+"-*", "", nil)
				})
			})
		}
	}
	pairs.Wait()
	slices.Sort(table)
	t.Log("program | fault | result\n" + strings.Join(table, "\n"))
}
