package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// slowWork is a shard that a worker sends document by document through a slow proxy.
type slowWork struct {
	node    *cluster.Node
	proxy   *proxy
	repo    string
	index   string
	live    int64
	session string
	dir     string
	coord   *cms.Coordinator
}

func newSlowWork(t *testing.T, session string, delay, lease time.Duration) *slowWork {
	t.Helper()
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	w := &slowWork{
		node: n, proxy: newProxy(t, n.URL, delay), session: session, dir: t.TempDir(),
		repo: filepath.Join(Root(), "testing", "fixtures", "7.10.2-demo"),
	}
	res := Run(t, "rfsd", "migrate", "--repo-uri", w.repo, "--snapshot-name", "snap1", "--discard", "--output", "json")
	for _, i := range parseSummary(t, res).Indices {
		if int64(i.Live) > w.live && i.Shards == 1 {
			w.index, w.live = i.Index, int64(i.Live)
		}
	}
	if w.live < 50 {
		t.Fatalf("no index of one shard with documents enough: %s", res.Stdout)
	}
	w.coord = coordinator(t, n, session, lease)
	return w
}

func (w *slowWork) args(lease string, more ...string) []string {
	return workerArgs(w.proxy.URL, w.repo, w.session, append([]string{"--index-allowlist", w.index, "--documents-per-bulk-request", "1",
		"--disable-compression", "--max-connections", "2", "--initial-lease-duration", lease}, more...)...)
}

// start lets two workers do what comes before the documents, and starts one that gets a lease.
func (w *slowWork) start(t *testing.T, args []string) *process {
	t.Helper()
	for range 2 {
		if r, _, code := runWorker(t.Context(), t, w.dir, args); code != 0 || r.Outcome != "phase" {
			t.Fatalf("exit %d, record %+v before the documents", code, r)
		}
	}
	return startWorker(t, w.dir, args)
}

// underWay waits until a worker has sent some documents.
func (w *slowWork) underWay(t *testing.T) {
	t.Helper()
	until(t, "documents are sent", func() bool { return w.proxy.documents.Load() >= 6 })
}

// finish runs workers without a brake until no work is left.
func (w *slowWork) finish(t *testing.T, args []string) {
	t.Helper()
	w.proxy.delay.Store(0)
	for range 20 {
		r, ok, code := runWorker(t.Context(), t, w.dir, args)
		switch {
		case !ok || r.Exit != code:
			t.Fatalf("exit %d, record %+v (%v)", code, r, ok)
		case code == 3:
			return
		case code == 4: // a lease has to end first
			until(t, "a lease ends", func() bool { return len(w.items(t, leased)) == 0 })
		case code != 0 && code != 2:
			t.Fatalf("exit %d, record %+v", code, r)
		}
	}
	t.Fatal("20 workers have not finished the work")
}

func leased(it cms.Item) bool {
	return it.Open() && it.Holder != "" && time.Unix(it.Expiration+1, 0).After(time.Now())
}

func (w *slowWork) items(t *testing.T, which func(cms.Item) bool) []cms.Item {
	t.Helper()
	var found []cms.Item
	for it, err := range w.coord.Items(t.Context()) {
		must(t, err)
		if which(it) {
			found = append(found, it)
		}
	}
	return found
}

func (w *slowWork) compare(t *testing.T) {
	t.Helper()
	docs, err := truth.Load(false, w.repo+".ndjson.gz")
	must(t, err)
	want := truth.Docs{}
	for k, v := range docs {
		if k.Index == w.index {
			want[k] = v
		}
	}
	if int64(len(want)) != w.live {
		t.Fatalf("the truth has %d documents, the snapshot %d", len(want), w.live)
	}
	if f := truth.Compare(want, landed(t, w.node)).Faults(); f != "" {
		t.Error(f)
	}
}

func TestTerminatedWorkerHandsOffAndTheNextContinues(t *testing.T) {
	w := newSlowWork(t, "term", 50*time.Millisecond, 10*time.Minute)
	args := w.args("10m")
	p := w.start(t, args)
	w.underWay(t)
	p.signal(t, syscall.SIGTERM)
	asked := time.Now()
	r, ok, code := p.end(t)
	if took := p.time.Sub(asked); took > 30*time.Second {
		t.Errorf("ended %v after SIGTERM", took)
	}
	if !ok || code != 0 || r.Outcome != "handed off" {
		t.Fatalf("exit %d, record %+v (%v): %s", code, r, ok, p.stderr.String())
	}
	sent := w.proxy.documents.Load()
	ended := w.items(t, func(it cms.Item) bool { return !it.Open() })
	open := w.items(t, cms.Item.Open)
	if len(ended) != 1 || len(open) != 1 || ended[0].Successors != open[0].ID || ended[0].Counts.Indexed != sent {
		t.Fatalf("%d documents were sent; ended %+v, open %+v", sent, ended, open)
	}
	w.finish(t, args)
	w.compare(t)
	if all := w.proxy.documents.Load(); all != w.live {
		t.Errorf("%d documents were sent for %d", all, w.live)
	}
	out := RunIn(t, w.dir, nil, "rfsctl", "items", "list", "--target-host", w.node.URL, "--session-name", w.session)
	if out.Code != 0 || !strings.Contains(out.Stdout, "1 handed off") || !strings.Contains(out.Stdout, "safe to write: not before") {
		t.Errorf("exit %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
	if out := RunIn(t, w.dir, nil, "rfsctl", "items", "list", "--target-host", w.node.URL, "--session-name", "never-begun"); out.Code != 1 || !strings.Contains(out.Stderr, "never-begun") {
		t.Errorf("a session that was never started: exit %d: %s", out.Code, out.Stderr)
	}
	if indices := call(t, w.node, "GET", "/_settings?expand_wildcards=all", nil); strings.Contains(strings.Join(keys(indices), " "), "never-begun") {
		t.Errorf("listing a session made its indices: %v", keys(indices))
	}
}

func keys(m map[string]any) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	return all
}

func TestShortLeasesHandOffUntilTheWorkIsDone(t *testing.T) {
	w := newSlowWork(t, "short", 200*time.Millisecond, 8*time.Second)
	args := w.args("8s")
	timeouts := 0
	for range 12 {
		r, ok, code := runWorker(t.Context(), t, w.dir, args)
		if !ok || r.Exit != code {
			t.Fatalf("exit %d, record %+v (%v)", code, r, ok)
		}
		if code == 3 {
			break
		}
		if code == 2 {
			timeouts++
			if r.Outcome != "handed off" {
				t.Errorf("record %+v of a lease that ended in time", r)
			}
		} else if code != 0 {
			t.Fatalf("exit %d, record %+v", code, r)
		}
	}
	if timeouts == 0 {
		t.Error("no lease ended before the work did")
	}
	w.compare(t)
	t.Logf("%d leases were handed off, %d documents sent for %d", timeouts, w.proxy.documents.Load(), w.live)
}

func TestStoppedWorkerStartsNoRequestAfterItsLease(t *testing.T) {
	w := newSlowWork(t, "stopped", 150*time.Millisecond, 8*time.Second)
	args := w.args("8s")
	p := w.start(t, args)
	w.underWay(t)
	p.signal(t, syscall.SIGSTOP)
	until(t, "the lease is over", func() bool { return len(w.items(t, leased)) == 0 })
	before := w.proxy.bulks.Load()
	p.signal(t, syscall.SIGCONT)
	r, ok, code := p.end(t)
	if late := w.proxy.bulks.Load() - before; late > 2 {
		t.Errorf("%d bulk requests arrived after the lease, more than --max-connections", late)
	} else {
		t.Logf("%d bulk requests arrived after the lease", late)
	}
	if !ok || code != 2 {
		t.Errorf("exit %d, record %+v (%v): %s", code, r, ok, p.stderr.String())
	}
	w.finish(t, args)
	w.compare(t)
}

func TestHungWorkerEndsAtItsDeadline(t *testing.T) {
	w := newSlowWork(t, "hung", 50*time.Millisecond, 8*time.Second)
	args := w.args("8s")
	p := w.start(t, args)
	w.underWay(t)
	w.proxy.silent.Store(true)
	held := w.items(t, leased)
	if len(held) != 1 {
		t.Fatalf("leased: %+v", held)
	}
	r, ok, code := p.end(t)
	// Long before a request to the target ends by itself, after two minutes; a busy machine takes some seconds to end a process.
	if late := p.time.Sub(time.Unix(held[0].Expiration, 0)); late > 40*time.Second {
		t.Errorf("ended %v after its lease", late)
	}
	if !ok || code != 2 {
		t.Errorf("exit %d, record %+v (%v): %s", code, r, ok, p.stderr.String())
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("between the lines of JSON: %s", line)
		}
	}
	w.proxy.silent.Store(false)
	until(t, "the lease is over", func() bool { return len(w.items(t, leased)) == 0 })
	w.finish(t, args)
	w.compare(t)
}

func TestTerminatedWorkerEndsWithinHalfAMinuteOfASilentTarget(t *testing.T) {
	w := newSlowWork(t, "silent", 50*time.Millisecond, 10*time.Minute)
	p := w.start(t, w.args("10m"))
	w.underWay(t)
	w.proxy.silent.Store(true)
	p.signal(t, syscall.SIGTERM)
	asked := time.Now()
	_, ok, code := p.end(t)
	if took := p.time.Sub(asked); took > 30*time.Second {
		t.Errorf("ended %v after SIGTERM", took)
	}
	if !ok {
		t.Errorf("exit %d without a record: %s", code, p.stderr.String())
	}
}

func TestReplacedTargetIndexFailsTheItems(t *testing.T) {
	w := newSlowWork(t, "replaced", 400*time.Millisecond, 10*time.Minute)
	args := w.args("10m")
	p := w.start(t, args)
	w.underWay(t)
	if _, err := w.node.Send(t.Context(), "DELETE", "/"+w.index, "", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.node.Send(t.Context(), "PUT", "/"+w.index, "", nil); err != nil {
		t.Logf("a document was quicker than the new index: %v", err)
	}
	r, ok, code := p.end(t)
	if !ok || r.Outcome != "failed" {
		t.Errorf("exit %d, record %+v (%v): %s", code, r, ok, p.stderr.String())
	}
	all := w.items(t, func(cms.Item) bool { return true })
	if len(all) != 1 || !all[0].FailedItem() || !strings.Contains(all[0].Failure, "target_index_replaced") {
		t.Errorf("items %+v", all)
	}
	// What is lost stays lost for this session: a retry fails again.
	if res := RunIn(t, w.dir, nil, "rfsctl", "items", "retry", "--target-host", w.node.URL, "--session-name", w.session, all[0].ID); res.Code != 0 {
		t.Fatalf("retry: exit %d: %s", res.Code, res.Stderr)
	}
	w.proxy.delay.Store(0)
	if r, _, code := runWorker(t.Context(), t, w.dir, args); r.Outcome != "failed" {
		t.Errorf("exit %d, record %+v: a replaced index was taken for the former one", code, r)
	}
}

func TestDeletedCoordinationStopsWorkAndIsNotMadeAgain(t *testing.T) {
	w := newSlowWork(t, "gone", 400*time.Millisecond, 10*time.Minute)
	p := w.start(t, w.args("10m"))
	w.underWay(t)
	for _, index := range []string{".migrations_working_state_gone", ".rfs_control_gone"} {
		if _, err := w.node.Send(t.Context(), "DELETE", "/"+index, "", nil); err != nil {
			t.Fatal(err)
		}
	}
	r, ok, code := p.end(t)
	if !ok || code != 1 || !strings.Contains(r.Error, "coordination") {
		t.Errorf("exit %d, record %+v (%v): %s", code, r, ok, p.stderr.String())
	}
	if sent := w.proxy.documents.Load(); sent >= w.live {
		t.Errorf("all %d documents were sent without coordination", sent)
	}
	for _, index := range keys(call(t, w.node, "GET", "/_settings?expand_wildcards=all", nil)) {
		if strings.HasPrefix(index, ".rfs") || strings.HasPrefix(index, ".migrations") {
			t.Errorf("index %s was made again", index)
		}
	}
}

func TestCoordinatorOfItsOwnKeepsTheStateOutOfTheTarget(t *testing.T) {
	w := newSlowWork(t, "apart", 0, 10*time.Minute)
	state := newProxy(t, w.node.URL, 0)
	w.finish(t, w.args("10m", "--coordinator-host", state.URL))
	w.compare(t)
	if w.proxy.called("/.rfs_") || w.proxy.called("/_aliases") || !state.called("/.rfs_") {
		t.Errorf("requests for the state: target %v and %v, coordinator %v", w.proxy.called("/.rfs_"), w.proxy.called("/_aliases"), state.called("/.rfs_"))
	}
	if state.called("/"+w.index) || state.bulks.Load() > 0 {
		t.Error("documents went to the coordinator")
	}
	out := RunIn(t, w.dir, nil, "rfsctl", "report", "--target-host", "http://127.0.0.1:9", "--coordinator-host", state.URL, "--session-name", w.session)
	if out.Code != 0 || !strings.Contains(out.Stdout, w.index) {
		t.Errorf("report: exit %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
}

func TestCoordinatorFileKeepsTheStateOutOfEveryCluster(t *testing.T) {
	w := newSlowWork(t, "file", 0, 10*time.Minute)
	// newSlowWork opened the store of the session in the cluster; no other does.
	file := filepath.Join(w.dir, "state.db")
	w.finish(t, w.args("10m", "--coordinator-file", file))
	w.compare(t)
	if w.proxy.called("/.rfs") || w.proxy.called("/.migrations") {
		t.Error("the target was asked for coordination")
	}
	out := RunIn(t, w.dir, nil, "rfsctl", "items", "list", "--coordinator-file", file)
	if out.Code != 0 || !strings.Contains(out.Stdout, "1 item: 1 done") {
		t.Errorf("exit %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
}
