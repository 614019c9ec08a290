package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
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

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/cluster"
)

// fleet is a daemon under test whose workers are the built program, before a real target.
type fleet struct {
	*daemon.Daemon
	node    *cluster.Node
	proxy   *proxy
	repo    string
	snap    string
	session string
	coord   *cms.Coordinator
	live    int64
	lease   time.Duration

	stop func() error
}

// newFleet prepares a target, slowed down by delay for each document.
func newFleet(t *testing.T, session string, delay, lease time.Duration) *fleet {
	t.Helper()
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	return fleetOn(t, n, filepath.Join(Root(), "testing", "fixtures", "7.10.2-demo"), "snap1", session, delay, lease)
}

// fleetOn prepares a daemon for a snapshot of a repository.
func fleetOn(t *testing.T, n *cluster.Node, repo, snap, session string, delay, lease time.Duration) *fleet {
	t.Helper()
	f := &fleet{node: n, proxy: newProxy(t, n.URL, delay), session: session, repo: repo, snap: snap, lease: lease}
	for _, x := range parseSummary(t, Run(t, "rfsd", "migrate", "--repo-uri", f.repo, "--snapshot-name", f.snap, "--discard", "--output", "json")).Indices {
		f.live += int64(x.Live)
	}
	f.coord = coordinator(t, n, session, lease)
	return f
}

// start starts a daemon with so many workers.
func (f *fleet) start(t *testing.T, workers int) {
	t.Helper()
	stderr := &lockedBuffer{}
	f.Daemon = daemon.New(daemon.Config{
		Name: "node-1", Version: "test", Session: f.session, Workers: workers, Log: slog.New(slog.NewJSONHandler(stderr, nil)),
		Open: func(context.Context) (*cms.Coordinator, error) { return f.coord, nil },
		Starter: &daemon.Processes{
			Program: Binary(t, "rfsd"), Args: []string{"worker"}, Memory: 256 << 20,
			Line: func(_, _ int, line []byte) { stderr.line(line) },
			Options: map[string][]string{
				"repo-uri": {f.repo}, "snapshot-name": {f.snap}, "target-host": {f.proxy.URL}, "session-name": {f.session},
				"documents-per-bulk-request": {"1"}, "disable-compression": {"true"}, "max-connections": {"1"},
				"initial-lease-duration": {f.lease.String()}, "failed-documents": {t.TempDir()},
			},
		},
		IntentInterval: 500 * time.Millisecond, ReadInterval: 300 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	f.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) line(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(p)
	l.b.WriteByte('\n')
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// working gives the workers that hold a lease.
func (f *fleet) working(t *testing.T) []status.Worker {
	return slices.DeleteFunc(f.Status(t.Context()).Workers, func(w status.Worker) bool { return w.State != "working" })
}

// long says that the proof of minutes is wanted, with kills every 5 s.
func long() bool { return os.Getenv("RFSD_DAEMON_LONG") != "" }

// checkStatus is what must hold of every status at any moment: sums add up, and nothing goes backwards.
func checkStatus(t *testing.T, m, before *progress.Migration, live int64) {
	t.Helper()
	var sum progress.Counts
	for _, x := range m.Indices {
		sum.Items += x.Counts.Items
		sum.Indexed += x.Counts.Indexed
		sum.Shards += x.Counts.Shards
		sum.ShardsDone += x.Counts.ShardsDone
		for _, s := range x.Shards {
			if s.Fraction < 0 || s.Fraction > 1 || s.State == progress.Failed {
				t.Errorf("%s shard %+v", x.Name, s)
			}
		}
	}
	if sum.Items != m.Totals.Items || sum.Indexed != m.Totals.Indexed || sum.Shards != m.Totals.Shards || sum.ShardsDone != m.Totals.ShardsDone {
		t.Errorf("sum over the indices %+v, totals %+v", sum, m.Totals)
	}
	if m.Totals.Indexed > live || m.Totals.Failed > 0 || m.Totals.ItemsBad > 0 || len(m.Failures) > 0 {
		t.Errorf("%+v, failures %+v", m.Totals, m.Failures)
	}
	if before != nil && (m.Totals.Indexed < before.Totals.Indexed || m.Totals.Items < before.Totals.Items || m.Totals.ShardsDone < before.Totals.ShardsDone) {
		t.Errorf("status went backwards: %+v after %+v", m.Totals, before.Totals)
	}
	if m.Complete && m.Totals.Indexed != live {
		t.Errorf("complete with %d of %d documents", m.Totals.Indexed, live)
	}
}

func TestADaemonWhoseWorkersAreKilledMigratesEverything(t *testing.T) {
	delay, every := 40*time.Millisecond, 900*time.Millisecond
	if long() {
		delay, every = 500*time.Millisecond, 5*time.Second
	}
	f := newFleet(t, "daemon-kills", delay, 10*time.Minute)
	f.start(t, 4)
	var last *progress.Migration
	kills, restarted := 0, false
	next := time.Now().Add(every)
	deadline := time.Now().Add(5 * time.Minute)
	for last == nil || !last.Complete {
		if time.Now().After(deadline) {
			t.Fatalf("not complete: %+v", last)
		}
		<-time.After(50 * time.Millisecond)
		r := f.Status(t.Context())
		if r.Migration != nil && r.Migration != last {
			checkStatus(t, r.Migration, last, f.live)
			last = r.Migration
		}
		if !restarted && last != nil && last.Totals.Indexed > f.live/2 {
			// The daemon goes, and another one says the same at once.
			restarted = true
			if err := f.stop(); err != nil {
				t.Error(err)
			}
			f.start(t, 4)
			until(t, "the new daemon has read the store", func() bool { return f.Ready() == nil })
		}
		if workers := f.working(t); time.Now().After(next) && len(workers) > 0 {
			next = time.Now().Add(every)
			if syscall.Kill(workers[rand.IntN(len(workers))].PID, syscall.SIGKILL) == nil {
				kills++
			}
		}
	}
	until(t, "the node is done", func() bool { return f.Status(t.Context()).Node.State == "done" })
	compareLanded(t, f.node, f.repo)
	// The one document that a killed worker had under way may arrive after the next worker's: then its copy is in no account.
	copies, counted := copiesOf(t, f.node), last.Totals.Resent
	if counted > copies || copies > counted+last.Totals.Retried+int64(kills) || counted == 0 || last.Totals.Replaced != 0 {
		t.Errorf("the target took %d copies; %d are counted after hand-overs, %d of repeated requests, %d of earlier runs", copies, last.Totals.Resent, last.Totals.Retried, last.Totals.Replaced)
	}
	t.Logf("the target took %d copies; %d are counted after hand-overs, %d of repeated requests", copies, last.Totals.Resent, last.Totals.Retried)
	if last.Totals.Indexed != f.live || kills < 3 || !restarted {
		t.Errorf("%d of %d documents, %d kills, restarted %v", last.Totals.Indexed, f.live, kills, restarted)
	}
	t.Logf("%d workers were killed, %d documents arrived in %d bulk requests", kills, last.Totals.Indexed, f.proxy.bulks.Load())
}

// copiesOf returns how many documents the cluster took beside the first of each id, by their versions.
func copiesOf(t *testing.T, n *cluster.Node) (copies int64) {
	t.Helper()
	call(t, n, "POST", "/_refresh", nil)
	var found struct {
		Hits struct {
			Hits []struct {
				Version int64 `json:"_version"`
			} `json:"hits"`
		} `json:"hits"`
	}
	must(t, n.JSON(t.Context(), "GET", "/*,-.*/_search?version=true&_source=false&size=10000", nil, &found))
	for _, h := range found.Hits.Hits {
		copies += h.Version - 1
	}
	return copies
}

// order gives an order of ann.
func order(t *testing.T, d *daemon.Daemon, o session.Order) error {
	o.Who = "ann"
	_, err := d.Order(t.Context(), o)
	return err
}

func TestADaemonScalesPausesReapsAndDrains(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	repo, _ := wide(t, n) // a hundred shards: there is work for every worker
	f := fleetOn(t, n, repo, "all", "daemon-steer", 400*time.Millisecond, 6*time.Second)
	f.start(t, 1)
	until(t, "documents flow", func() bool { return f.proxy.documents.Load() > 2 })

	for _, wanted := range []int{0, 8, 2, 0} {
		if err := order(t, f.Daemon, session.Order{Kind: session.OrderScale, Workers: &wanted}); err != nil {
			t.Fatal(err)
		}
		until(t, fmt.Sprintf("%d workers", wanted), func() bool {
			n := f.Status(t.Context()).Node
			return n.Wanted == wanted && n.Running == wanted
		})
	}
	if held := heldItems(t, f.coord); len(held) > 0 {
		t.Errorf("leases after scaling to none: %+v", held)
	}
	four := 4
	must(t, order(t, f.Daemon, session.Order{Kind: session.OrderScale, Workers: &four}))
	until(t, "workers work", func() bool { return len(f.working(t)) >= 2 })

	begin := time.Now()
	must(t, order(t, f.Daemon, session.Order{Kind: session.OrderPause}))
	until(t, "all have handed off", func() bool { return f.Status(t.Context()).Node.Running == 0 })
	paused := time.Since(begin)
	if held := heldItems(t, f.coord); len(held) > 0 {
		t.Errorf("leases after a pause: %+v", held)
	}
	begin = time.Now()
	must(t, order(t, f.Daemon, session.Order{Kind: session.OrderResume}))
	until(t, "workers run", func() bool { return f.Status(t.Context()).Node.Running > 0 })
	resumed := time.Since(begin)
	t.Logf("pause took %v, resume %v", paused, resumed)
	if limit := 2 * time.Second; os.Getenv("RFSD_DAEMON_LONG") != "" && (paused > limit || resumed > limit) { // on a machine with nothing else to do
		t.Errorf("more than %v", limit)
	}

	var hung status.Worker
	until(t, "workers work again", func() bool {
		working := f.working(t)
		if len(working) > 0 {
			hung = working[0]
		}
		return len(working) > 0
	})
	must(t, syscall.Kill(hung.PID, syscall.SIGSTOP))
	until(t, "the hung worker is reaped", func() bool { return syscall.Kill(hung.PID, 0) != nil })
	until(t, "an event names it", func() bool {
		events, err := f.Events(t.Context(), 0)
		return err == nil && slices.ContainsFunc(events, func(e status.Event) bool {
			return e.Code == "worker_hung" && e.Item == hung.Item && strings.HasPrefix(e.Subject, "index ")
		})
	})

	until(t, "workers work after that", func() bool { return len(f.working(t)) > 0 })
	must(t, order(t, f.Daemon, session.Order{Kind: session.OrderDrain}))
	until(t, "all leases are handed over", func() bool {
		return f.Status(t.Context()).Node.Running == 0 && len(heldItems(t, f.coord)) == 0
	})
	t.Logf("pause took %v, resume %v", paused, resumed)
}

// heldItems are the open items that are held or that counted an attempt for a hand-off.
func heldItems(t *testing.T, c *cms.Coordinator) (held []cms.Item) {
	t.Helper()
	for it, err := range c.Items(t.Context()) {
		must(t, err)
		if it.Open() && it.Holder != "" {
			held = append(held, it)
		}
	}
	return held
}

// TestRfsdRunIsAServiceWithoutLeaks runs the built daemon as a service manager would.
func TestRfsdRunIsAServiceWithoutLeaks(t *testing.T) {
	f := newFleet(t, "daemon-service", 150*time.Millisecond, 10*time.Minute)
	dir := t.TempDir()
	const canary = "canary-7f3a"
	config := filepath.Join(dir, "rfsd.toml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `[source]
repo-uri = %q
snapshot-name = "snap1"
[target]
target-host = %q
target-username = "me"
disable-compression = true
[work]
documents-per-bulk-request = 1
max-connections = 1
first = ["weblogs"]
[coordination]
session-name = %q
[daemon]
node-name = "service"
workers = 2
`, f.repo, f.proxy.URL, f.session), 0o600))
	secret := []string{"RFS_TARGET_PASSWORD=" + canary}
	check := RunIn(t, dir, secret, "rfsd", "config", "check", config)
	if check.Code != 0 || !strings.Contains(check.Stdout, "first = [\"weblogs\"]") || strings.Contains(check.Stdout, canary) {
		t.Errorf("config check: %+v", check)
	}

	sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	must(t, err)
	defer sock.Close()
	var told lockedBuffer
	go copyDatagrams(sock, &told)
	cmd := exec.Command(Binary(t, "rfsd"), "run", "--config", config, "--verbose")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), secret...), "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "WATCHDOG_USEC=2000000")
	out, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	var logs lockedBuffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			logs.line(lines.Bytes())
		}
	}()
	ended := false
	t.Cleanup(func() {
		if !ended {
			must(t, cmd.Process.Kill())
		}
	})
	until(t, "workers send documents", func() bool { return f.proxy.documents.Load() > 5 && strings.Contains(told.String(), "READY=1") })
	workers := 0
	until(t, "the daemon has workers", func() bool {
		for _, pid := range childrenOf(cmd.Process.Pid) {
			args, environment := argsAndEnvironment(pid)
			if !strings.Contains(args, "\x00worker\x00") { // it has ended, or is a copy of the daemon that has not begun the program
				continue
			}
			if workers++; strings.Contains(args+environment, canary) {
				t.Errorf("worker %d shows %q, %q", pid, args, environment)
			}
		}
		return workers > 0
	})
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	until(t, "it reloads and feeds the watchdog", func() bool {
		s := told.String()
		return strings.Contains(s, "RELOADING=1\nMONOTONIC_USEC=") && strings.Contains(s, "WATCHDOG=1")
	})
	begin := time.Now()
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	<-read
	err = cmd.Wait()
	ended = true
	if took := time.Since(begin); err != nil || took > 30*time.Second {
		t.Errorf("ended after %v: %v\n%s", took, err, logs.String())
	}
	until(t, "it states that it stops", func() bool { return strings.Contains(told.String(), "STOPPING=1") })
	if held := heldItems(t, f.coord); len(held) > 0 {
		t.Errorf("leases after the end: %+v\n%s", held, logs.String())
	}
	for line := range strings.Lines(logs.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if !strings.Contains(logs.String(), `"msg":"lease ended"`) || !strings.Contains(logs.String(), `"index":`) {
		t.Error("no log line names a lease")
	}
	everything := logs.String() + told.String()
	for it, err := range f.coord.Items(t.Context()) {
		must(t, err)
		everything += fmt.Sprintf("%+v", it)
	}
	for _, kind := range []string{"event", "index", "phase", "target", "meta", "intent", "config"} {
		for r, err := range session.List(t.Context(), f.coord, kind) {
			must(t, err)
			everything += fmt.Sprintf("%+v%s", r, r.Body)
		}
	}
	if strings.Contains(everything, canary) {
		t.Error("the password is in logs, in messages to the service manager, or in the store")
	}
	// What a person gives on the command line would be seen by all.
	if r := RunIn(t, dir, nil, "rfsd", "run", "--config", config, "--target-password", "x"); r.Code != 1 || !strings.Contains(r.Stderr, "visible to other users") {
		t.Errorf("%+v", r)
	}
}

func copyDatagrams(from *net.UnixConn, to io.Writer) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := to.Write(append(b[:n:n], '\n')); err != nil {
			return
		}
	}
}

// argsAndEnvironment is what others may see of a process; empty when it has ended.
func argsAndEnvironment(pid int) (args, environment string) {
	a, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "", ""
	}
	e, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return "", ""
	}
	return string(a), string(e)
}
