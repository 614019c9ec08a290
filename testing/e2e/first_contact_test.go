package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/s3server"
)

// contact is one program and one fault. Each has indices, session and directories of its own.
type contact struct {
	t                *testing.T
	n                int
	dir, repo, certs string
	target, store    *gate
	node             *cluster.Node
	buckets          string        // directory that holds them
	bucket           *gate         // of the source, and of the state of the work; nil: both are elsewhere
	broker           *brokerGate   // of a topic
	url              string        // of the target
	rfsd             string        // the program
	fast             func() string // returns one whose clock is ten minutes ahead
	gossip, api      string
	program          contactProgram
	fault            contactFault
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
	reads   string
	before  func(c *contact) // prepares the session, without the fault
	args    func(c *contact) []string
}

// What a program reads documents from.
const (
	aRepository = "repository"
	someFiles   = "files"
	aTopic      = "topic"
)

// at returns the options that name target and state of a session.
func (c *contact) at(session string) []string {
	args := []string{"--target-host", c.url, "--session-name", session}
	if c.fault.place == workBucket {
		return append(args, "--coordinator-bucket", "s3://bucket/state", "--coordinator-s3-endpoint", c.bucket.url(), "--coordinator-s3-region", "us-east-1", "--coordinator-s3-path-style")
	}
	return append(args, "--coordinator-host", c.store.url())
}

// sending returns the options of a program that sends documents one by one.
func (c *contact) sending() []string {
	args := append(c.at(c.session()), "--documents-per-bulk-request", "1", "--disable-compression", "--max-connections", "2", "--failed-documents", filepath.Join(c.dir, "failed"))
	return append(args, c.source()...)
}

// source returns the options of a program that reads a bucket.
func (c *contact) source() []string {
	if c.fault.place != sourceBucket {
		return nil
	}
	return []string{"--s3-endpoint", c.bucket.url(), "--s3-region", "us-east-1", "--s3-path-style"}
}

func migration(c *contact) []string {
	return append(c.sending(), "--repo-uri", c.repo, "--snapshot-name", "snap1", "--index-rename", "regex:(.*)="+c.session()+"-$1")
}

func (c *contact) session() string { return fmt.Sprint("contact", c.n) }

var contactPrograms = []contactProgram{
	{name: "rfsd run", long: true, node: true, reads: aRepository, args: func(c *contact) []string {
		return append([]string{"rfsd", "run", "--workers", "2", "--exit-when-done", "--socket", "off", "--status-socket", "off", "--max-rate", "5MB"}, migration(c)...)
	}},
	{name: "rfsd run of a fleet", fleet: true, long: true, node: true, reads: aRepository, args: func(c *contact) []string {
		cert := func(name string) string { return filepath.Join(c.certs, name) }
		return append([]string{"rfsd", "run", "--workers", "2", "--exit-when-done", "--socket", "off", "--status-socket", "off", "--one-machine", "--max-rate", "5MB",
			"--gossip-listen", c.gossip, "--gossip-keys", cert("gossip"), "--listen", c.api, "--data-dir", filepath.Join(c.dir, "data"), "--fleet", "blue",
			"--tls-cert", cert("n.crt"), "--tls-key", cert("n.key"), "--tls-ca", cert("ca.crt"), "--scale-driver", "exec", "--scale-command", "true", "--scale-max", "1"}, migration(c)...)
	}},
	{name: "rfsd migrate", long: true, reads: aRepository, args: func(c *contact) []string {
		return append([]string{"rfsd", "migrate"}, migration(c)...)
	}},
	{name: "rfsd follow", long: true, reads: aRepository, args: func(c *contact) []string {
		return append([]string{"rfsd", "follow", "--once"}, migration(c)...)
	}},
	{name: "rfsd verify", reads: aRepository, args: func(c *contact) []string {
		// with a rule of its own it waits for no comparison of another pair that was killed
		args := append(c.at("contact-done"), "--repo-uri", c.repo, "--snapshot-name", "snap1", "--index-rename", c.session()+"=none")
		if c.fault.place == workBucket {
			args = append(args, "--index-rename", "regex:(.*)=contact-0-$1")
		}
		return append([]string{"rfsd", "verify"}, append(args, c.source()...)...)
	}},
	{name: "rfsd worker", reads: aRepository, args: func(c *contact) []string {
		return append([]string{"rfsd", "worker"}, migration(c)...)
	}},
	{name: "rfsd import", long: true, reads: someFiles, args: func(c *contact) []string {
		return append([]string{"rfsd", "import", "--from", c.repo, "--create-indices"}, c.sending()...)
	}},
	{name: "rfsd consume", long: true, reads: aTopic, args: func(c *contact) []string {
		return append([]string{"rfsd", "consume", "--brokers", c.broker.Addr().String(), "--topic", c.session() + "-topic", "--create-indices", "--partition-lease", "PT5S", "--until-end"}, c.sending()...)
	}},
	{name: "rfsd migrate --verify", long: true, reads: aRepository, args: func(c *contact) []string {
		return append([]string{"rfsd", "migrate", "--verify"}, migration(c)...)
	}},
	{name: "rfsd plan", reads: aRepository, args: func(c *contact) []string {
		return append([]string{"rfsd", "plan"}, migration(c)...)
	}},
	{name: "rfsd redrive", before: rejected, args: func(c *contact) []string {
		return append([]string{"rfsd", "redrive"}, c.sending()...)
	}},
	{name: "rfsctl undo", before: migrated, args: func(c *contact) []string {
		return append([]string{"rfsctl", "undo", "--yes"}, c.at(c.session())...)
	}},
	{name: "rfsctl cleanup", before: migrated, args: func(c *contact) []string {
		return append([]string{"rfsctl", "cleanup"}, c.at(c.session())...)
	}},
	{name: "rfsctl status", args: func(c *contact) []string {
		return append([]string{"rfsctl", "status"}, c.at("contact-done")...)
	}},
	{name: "rfsctl status --watch", watches: true, args: func(c *contact) []string {
		return append([]string{"rfsctl", "status", "--watch"}, c.at("contact-done")...)
	}},
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
	program := Binary(c.t, args[0])
	if args[0] == "rfsd" {
		program = c.rfsd
	}
	r := &contactRun{cmd: exec.Command(program, args[1:]...), end: make(chan error, 1)}
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

// lastWord returns the reason that a program gave at its end, or the problem that it reports.
func (r *contactRun) lastWord() string {
	lines := strings.Split(strings.TrimSpace(r.said.String()), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "rfsd: ") || strings.HasPrefix(line, "rfsctl: ") || strings.Contains(line, "  problem  ") {
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

// runDeleted plays a fault in the middle of the work that takes away what the work rests on. It returns what became of the program.
func (c *contact) runDeleted() string {
	c.t.Helper()
	c.target.delay.Store(int64(100 * time.Millisecond))
	r := c.start()
	until(c.t, "documents arrive", func() bool { return c.target.documents.Load() > 3 || len(r.end) > 0 })
	c.fault.deletes(c)
	if !r.ended(time.Minute) {
		c.t.Fatalf("it has not ended a minute later:\n%s", r.said.String())
	}
	c.check(r, true)
	if code := r.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(r.lastWord(), c.fault.ends) {
		c.t.Fatalf("exit %d: %s\n%s", code, r.lastWord(), r.said.String())
	}
	if left, _ := filepath.Glob(filepath.Join(c.buckets, "bucket", "state", c.session(), "*")); len(left) > 0 {
		c.t.Errorf("it has made a state in place of the deleted one: %v", left)
	}
	return "ends: " + shortened(r.lastWord())
}

// run plays the fault before the start, its end, and the fault again while documents are sent. It returns what became of it.
func (c *contact) run() string {
	c.t.Helper()
	if c.fault.deletes != nil {
		return c.runDeleted()
	}
	if c.program.before != nil {
		c.program.before(c)
	}
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
	if over && (c.program.node || c.program.watches && r.cmd.ProcessState.ExitCode() != 0) && c.fault.ends == "" {
		c.t.Fatalf("it ended by itself: %v\n%s", r.cmd.ProcessState, r.said.String())
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
		c.terminate(r)
		return result + " until SIGTERM"
	}
	until(c.t, "it states "+c.fault.says, func() bool { return strings.Contains(r.said.String(), c.fault.says) || len(r.end) > 0 })
	over = over || r.ended(0)
	done := over && !c.program.long && r.cmd.ProcessState.ExitCode() == 0 // its one step needs nothing that the fault concerns
	if !done && !strings.Contains(r.said.String(), c.fault.says) {
		c.t.Errorf("it does not say %q:\n%s", c.fault.says, r.said.String())
	}
	c.fault.end(c)
	if done && c.program.before != nil {
		return result // its session is as it should be, and cannot be treated twice
	}
	if !over && c.fault.process {
		if c.target.documents.Load() > 0 {
			c.t.Errorf("%d documents were sent", c.target.documents.Load())
		}
		c.terminate(r)
	}
	if over || c.fault.process {
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
		return result + "; then continues"
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
	return result + "; then continues when it is started again"
}

func (c *contact) terminate(r *contactRun) {
	c.t.Helper()
	must(c.t, r.cmd.Process.Signal(syscall.SIGTERM))
	if !r.ended(40 * time.Second) {
		c.t.Fatalf("it has not ended 40 s after SIGTERM:\n%s", r.said.String())
	}
	c.check(r, false)
}

func shortened(s string) string {
	if len(s) > 160 {
		return s[:160] + "…"
	}
	return s
}

// contactPairs is how many pairs each change plays.
const contactPairs = 30

// pairsOf returns all pairs by night, and else as many as each change plays: a draw of those that are not too slow.
func pairsOf(t *testing.T) (all []*contact) {
	for _, fault := range contactFaults {
		for _, program := range contactPrograms {
			if fault.concerns(program) && (long() || !fault.night) {
				all = append(all, &contact{n: len(all) + 1, program: program, fault: fault})
			}
		}
	}
	if long() {
		return all
	}
	return draw.Of(t, contactPairs, all)
}

// contactWorld is what all pairs share.
type contactWorld struct {
	node  *cluster.Node
	certs string
	root  string // holds the buckets
	s3    string // URL of the server that serves them
	fast  func() string
}

func newContactWorld(t *testing.T) *contactWorld {
	w := &contactWorld{node: cluster.OpenSearch(t, targets[0]), certs: filepath.Join(t.TempDir(), "certs"), root: t.TempDir(), fast: sync.OnceValue(func() string { return wrongClock(t, 600, "./cmd/rfsd") })}
	wipe(t, w.node)
	now := time.Now()
	_, err := cert.CreateAuthority(w.certs, "blue", now.Add(-48*time.Hour))
	must(t, err)
	must(t, cert.Create(w.certs, cert.Request{Fleet: "blue", Name: "n", Role: cert.Node, Life: time.Hour}, now))
	must(t, cert.Create(w.certs, cert.Request{Fleet: "blue", Name: "old", Role: cert.Node, Life: time.Hour}, now.Add(-24*time.Hour)))
	if res := Run(t, "rfsctl", "cert", "gossip-key", filepath.Join(w.certs, "gossip")); res.Code != 0 {
		t.Fatal(res.Stderr)
	}
	must(t, os.CopyFS(filepath.Join(w.root, "bucket", "demo"), os.DirFS(fixture(t, "7.10.2-demo"))))
	server := s3server.Start(t, w.root)
	server.Setenv(t)
	w.s3 = server.Endpoint
	for _, at := range [][]string{
		{"--coordinator-host", w.node.URL},
		{"--coordinator-bucket", "s3://bucket/state", "--coordinator-s3-endpoint", w.s3, "--coordinator-s3-region", server.Region, "--coordinator-s3-path-style", "--index-rename", "regex:(.*)=contact-0-$1"},
	} {
		if res := Run(t, "rfsd", append([]string{"migrate", "--repo-uri", fixture(t, "7.10.2-demo"), "--snapshot-name", "snap1", "--target-host", w.node.URL, "--session-name", "contact-done"}, at...)...); res.Code != 0 {
			t.Fatal(res.Stderr)
		}
	}
	return w
}

// prepare gives a pair its directories, gates and documents.
func (w *contactWorld) prepare(t *testing.T, c *contact) {
	c.node, c.buckets = w.node, w.root
	c.t, c.dir, c.certs, c.rfsd, c.fast = t, t.TempDir(), w.certs, Binary(t, "rfsd"), w.fast
	c.target, c.store, c.bucket, c.gossip, c.api = newGate(t, w.node.URL), newGate(t, w.node.URL), newGate(t, w.s3), freeAddress(t), freeAddress(t)
	c.url = c.target.url()
	c.repo = filepath.Join(c.dir, "repo")
	switch c.program.reads {
	case aTopic:
		c.topic()
		return
	case someFiles:
		if c.fault.place == sourceBucket {
			c.repo = filepath.Join(w.root, "bucket", c.session())
		}
		must(t, os.MkdirAll(c.repo, 0o755))
		var lines strings.Builder
		for i := range contactDocuments {
			fmt.Fprintf(&lines, `{"index":{"_index":"%s-files","_id":"%d"}}`+"\n{}\n", c.session(), i)
		}
		must(t, os.WriteFile(filepath.Join(c.repo, "all.ndjson"), []byte(lines.String()), 0o600))
		if c.fault.place == sourceBucket {
			c.repo = "s3://bucket/" + c.session()
		}
	default:
		if c.fault.place == sourceBucket {
			c.repo = "s3://bucket/demo"
			return
		}
		must(t, os.CopyFS(c.repo, os.DirFS(fixture(t, "7.10.2-demo"))))
	}
}

// contactDocuments is how many documents files and topics of a pair hold.
const contactDocuments = 100

// topic starts a broker with messages.
func (c *contact) topic() {
	name := c.session() + "-topic"
	brokers, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, name), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		c.broker = &brokerGate{Listener: l, mode: passes}
		return c.broker, err
	}))
	must(c.t, err)
	c.t.Cleanup(brokers.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers.ListenAddrs()...))
	must(c.t, err)
	defer client.Close()
	for i := range contactDocuments {
		client.Produce(c.t.Context(), record(name, 0, strconv.Itoa(i), "{}"), nil)
	}
	must(c.t, client.Flush(c.t.Context()))
}

// TestFirstContact_EveryFaultOfEveryProgram starts each program before a fault has ended, and brings the fault back in the middle of the
// work. No program panics; each waits, or ends with its reason and does its work when it is started again after the fault. Each change
// plays some of the pairs, RFSD_DAEMON_LONG=1 all.
func TestFirstContact_EveryFaultOfEveryProgram(t *testing.T) {
	w := newContactWorld(t)
	var mu sync.Mutex
	var table []string
	all := make(chan struct{}, 16) // at a time; they wait most of it, more than go test runs in parallel
	var pairs sync.WaitGroup
	for _, c := range pairsOf(t) {
		pairs.Go(func() {
			all <- struct{}{}
			defer func() { <-all }()
			t.Run(c.program.name+", "+c.fault.name, func(t *testing.T) {
				w.prepare(t, c)
				result := c.run()
				t.Log(result)
				mu.Lock()
				defer mu.Unlock()
				table = append(table, fmt.Sprintf("%-22s | %-42s | %s", c.program.name, c.fault.name, result))
				_, _ = w.node.Send(t.Context(), "DELETE", "/"+c.session()+"-*", "", nil)
			})
		})
	}
	pairs.Wait()
	slices.Sort(table)
	t.Log("program | fault | result\n" + strings.Join(table, "\n"))
}
