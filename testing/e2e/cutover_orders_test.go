package e2e

import (
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// holder holds the first request of a kind until it is opened. Later ones pass.
type holder struct {
	mu      sync.Mutex
	is      func(path string, isBulk bool, body []byte) bool
	blocked bool // a write block was requested since the gate was closed
	reached chan struct{}
	open    chan struct{}
}

// close makes the holder hold the next request for which is returns true.
func (g *holder) close(is func(path string, isBulk bool, body []byte) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.is, g.blocked, g.reached, g.open = is, false, make(chan struct{}), make(chan struct{})
}

func (g *holder) held(path string, isBulk bool, body []byte) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	hold := g.is != nil && g.is(path, isBulk, body)
	g.blocked = g.blocked || strings.HasSuffix(path, "/_block/write")
	if !hold {
		return nil
	}
	g.is = nil
	close(g.reached)
	return g.open
}

// gated is a source that is followed through proxies which hold requests.
type gated struct {
	*followed
	t *testing.T
	holder
	session string
	w       *writer
}

func followsGated(t *testing.T, session string) *gated {
	t.Helper()
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	g := &gated{t: t, session: session}
	target := newProxy(t, n.URL, 0)
	target.held = g.held
	g.followed = follows(t, "7.10.2", session, target.URL, n, "--block-source-writes")
	g.kill() // it gives its address of the source to a proxy
	source := newProxy(t, g.source.URL, 0)
	source.held = g.held
	g.args[slices.Index(g.args, g.source.URL)] = source.URL
	g.start(t)
	t.Cleanup(g.kill)
	g.w = write(t, g.source, session)
	until(t, "the first round has arrived", func() bool {
		return strings.Contains(g.status(), "round 0: ") && strings.Contains(g.status(), "arrived")
	})
	return g
}

// The requests at which a cut-over is held.
func (g *gated) snapshot(path string, _ bool, body []byte) bool {
	return len(body) > 0 && strings.HasPrefix(path, "/_snapshot/rfsd-"+g.session+"/")
}
func (g *gated) snapshotInOutage(path string, isBulk bool, body []byte) bool {
	return g.blocked && g.snapshot(path, isBulk, body)
}
func (g *gated) block(path string, _ bool, _ []byte) bool {
	return strings.HasSuffix(path, "/_block/write")
}
func (g *gated) delta(_ string, isBulk bool, _ []byte) bool { return g.blocked && isBulk }
func (g *gated) count(path string, _ bool, _ []byte) bool {
	return g.blocked && strings.Contains(path, "/_stats")
}
func (g *gated) unblock(path string, _ bool, body []byte) bool {
	return path == "/"+g.session+"/_settings" && strings.Contains(string(body), "blocks.write")
}

func (g *gated) reach(what string) {
	g.t.Helper()
	select {
	case <-g.reached:
	case <-time.After(2 * time.Minute):
		g.kill()
		g.t.Fatalf("%s: no request is held\n%s", what, g.log)
	}
}

func (g *gated) status() string {
	return RunIn(g.t, g.dir, nil, "rfsctl", "status", "--target-host", g.target.URL, "--session-name", g.session).Stdout
}

// state returns the step of the cut-over.
func (g *gated) state() string {
	g.t.Helper()
	r := RunIn(g.t, g.dir, nil, "rfsctl", "status", "--target-host", g.target.URL, "--session-name", g.session, "--output", "json")
	var of struct {
		Migration struct {
			Cutover struct{ State string }
		}
	}
	must(g.t, outputtest.Decode(r.Stdout, &of))
	return of.Migration.Cutover.State
}

// writes fails the test unless the source has no write block, and acknowledges writes.
func (g *gated) writes(what string) {
	g.t.Helper()
	until(g.t, what+": writes are not blocked", func() bool { return !blockedWrites(g.t, g.source, g.session) })
	acked := g.w.acked.Load()
	until(g.t, what+": a write is acknowledged", func() bool { return g.w.acked.Load() > acked })
}

func (g *gated) says(r Result, code int, words string) {
	g.t.Helper()
	if r.Code != code || !strings.Contains(r.Stdout+r.Stderr, words) {
		g.t.Errorf("exit %d, want %d and %q: %s%s", r.Code, code, words, r.Stdout, r.Stderr)
	}
}

// completes cuts over, compares, and orders a return too late.
func (g *gated) completes() {
	g.t.Helper()
	r, x := g.cutover(g.t, "--block-source-writes")
	g.w.end()
	if r.Code != 0 || x.Cutover.State != "FINISHING" || !blockedWrites(g.t, g.source, g.session) {
		g.kill()
		g.t.Fatalf("exit %d: %s%s\n%s", r.Code, r.Stdout, r.Stderr, g.log)
	}
	g.equal(g.t, g.session)
	late, _ := g.cutover(g.t, "--abort")
	g.says(late, 1, "too late: everything has arrived")
	if !blockedWrites(g.t, g.source, g.session) {
		g.t.Error("the source takes writes after the cut-over")
	}
}

// TestCutover_AbortedAtEachStep: a second order is refused, and so is a process with other options, which blocks nothing. --abort leads
// back, also when the request in progress reaches the source afterwards. Then a cut-over brings everything.
func TestCutover_AbortedAtEachStep(t *testing.T) {
	g := followsGated(t, "cut-aborted")
	call(t, g.source, "PUT", "/cut-other", nil)
	type step struct {
		name  string
		is    func(path string, isBulk bool, body []byte) bool
		state string
	}
	for _, step := range draw.Of(t, 2, []step{
		{"before the block", g.snapshot, "ORDERED"},
		{"at the block", g.block, "BLOCKED"},
		{"at the snapshot", g.snapshotInOutage, "BLOCKED"},
		{"at the changes", g.delta, "BLOCKED"},
		{"at the counts", g.count, "BLOCKED"},
	}) {
		if step.state != "ORDERED" {
			g.close(step.is)
		}
		first, _ := g.cutover(t, "--block-source-writes", "--no-wait")
		g.says(first, 4, "")
		if step.state == "ORDERED" {
			g.close(step.is)
		}
		g.reach(step.name)
		if is := g.state(); is != step.state {
			t.Errorf("%s: %s, want %s", step.name, is, step.state)
		}
		for _, more := range [][]string{nil, {"--indices", "cut-*"}} {
			second, _ := g.cutover(t, append(more, "--block-source-writes", "--no-wait")...)
			g.says(second, 1, "is "+step.state+" already; this order was not stored: rfsctl status")
		}
		other := slices.Clone(g.args)
		other[slices.Index(other, "--index-allowlist")+1] = "*"
		g.says(RunIn(t, t.TempDir(), nil, "rfsd", append(other, "--once")...), 1, "this session belongs to another migration")
		if is := g.state(); is != step.state || blockedWrites(t, g.source, "cut-other") {
			t.Errorf("%s: %s after a process with other options; another index is blocked: %t", step.name, is, blockedWrites(t, g.source, "cut-other"))
		}
		aborted, _ := g.cutover(t, "--abort", "--no-wait")
		g.says(aborted, map[string]int{"ORDERED": 0, "BLOCKED": 4}[step.state], "aborted by")
		time.Sleep(3 * time.Second) // the process learns of it
		close(g.open)
		until(t, step.name+": returned", func() bool { return g.state() == "RETURNED" })
		time.Sleep(2 * time.Second)
		g.writes(step.name)
		again, _ := g.cutover(t, "--abort")
		g.says(again, 0, "RETURNED")
	}
	g.completes()
}

// TestCutover_PausedInTheOutage: a pause while writes are blocked makes the cut-over return at once, also when the process is killed before
// it has removed the blocks: the next one removes them while the session is paused, unless its options differ.
func TestCutover_PausedInTheOutage(t *testing.T) {
	g := followsGated(t, "cut-paused")
	env := append(os.Environ(), "XDG_RUNTIME_DIR="+g.dir, "TMPDIR="+g.dir, "XDG_STATE_HOME="+g.dir+"/state")
	order := func(kind string) {
		t.Helper()
		until(t, kind, func() bool { return RunIn(t, g.dir, env, "rfsctl", kind).Code == 0 })
	}
	type step struct {
		name string
		is   func(path string, isBulk bool, body []byte) bool
		kill bool
	}
	for _, step := range draw.Of(t, 1, []step{{"at the snapshot", g.snapshotInOutage, false}, {"at the changes", g.delta, true}}) {
		g.close(step.is)
		ended := make(chan Result, 1)
		go func() {
			r, _ := g.cutover(t, "--block-source-writes")
			ended <- r
		}()
		g.reach(step.name)
		release := g.open
		if step.kill {
			g.close(g.unblock)
		}
		order("pause")
		time.Sleep(3 * time.Second) // the process learns of it
		close(release)
		if step.kill {
			g.reach("unblock")
			g.kill()
			close(g.open)
			time.Sleep(time.Second)                                      // the request may arrive nevertheless
			call(t, g.source, "PUT", "/"+g.session+"/_block/write", nil) // as before it
			if is := g.state(); is != "RETURNING" {
				t.Errorf("%s: %s", step.name, is)
			}
			other := slices.Clone(g.args)
			other[slices.Index(other, "--index-allowlist")+1] = "cut-none"
			g.says(RunIn(t, t.TempDir(), nil, "rfsd", append(other, "--once")...), 1, "the cut-over keeps its write blocks on "+g.session+" until the next run of rfsd follow with the options of the session")
			if is := g.state(); is != "RETURNING" || !blockedWrites(t, g.source, g.session) {
				t.Errorf("%s after a process with other options", is)
			}
			g.start(t)
		}
		g.writes(step.name)
		r := <-ended
		g.says(r, 1, "rfsctl resume continues the following")
		g.says(r, 1, "wants no work: PAUSE")
		refused, _ := g.cutover(t, "--block-source-writes")
		g.says(refused, 1, "give the order after rfsctl resume")
		order("resume")
	}
	g.completes()
}

// TestCutover_KilledAfterAnAbort: the next process removes the write blocks.
func TestCutover_KilledAfterAnAbort(t *testing.T) {
	g := followsGated(t, "cut-lost")
	for _, step := range draw.Of(t, 1, []func(path string, isBulk bool, body []byte) bool{g.block, g.snapshotInOutage, g.delta}) {
		g.close(step)
		ordered, _ := g.cutover(t, "--block-source-writes", "--no-wait")
		g.says(ordered, 4, "")
		g.reach("the outage")
		must(t, g.cmd.Process.Signal(syscall.SIGSTOP)) // it does not learn of the abort
		aborted, _ := g.cutover(t, "--abort", "--no-wait")
		g.says(aborted, 4, "RETURNING")
		g.kill()
		close(g.open)
		time.Sleep(time.Second)
		if is := g.state(); is != "RETURNING" || !blockedWrites(t, g.source, g.session) {
			t.Errorf("%s; the source is blocked: %t", is, blockedWrites(t, g.source, g.session))
		}
		g.start(t)
		until(t, "returned", func() bool { return g.state() == "RETURNED" })
		g.writes("killed")
	}
	g.completes()
}

// TestCutover_RecordsRemovedInTheOutage: rfsctl cleanup --force names the write blocks, and the process removes them.
func TestCutover_RecordsRemovedInTheOutage(t *testing.T) {
	g := followsGated(t, "cut-forgotten")
	g.close(g.snapshotInOutage)
	ordered, _ := g.cutover(t, "--block-source-writes", "--no-wait")
	g.says(ordered, 4, "")
	g.reach("the outage")
	at := []string{"--target-host", g.target.URL, "--session-name", g.session}
	g.says(RunIn(t, g.dir, nil, "rfsctl", append([]string{"cleanup"}, at...)...), 1, "or return from it (rfsctl cutover --abort)")
	g.says(RunIn(t, g.dir, nil, "rfsctl", append([]string{"undo", "--yes"}, at...)...), 1, "or return from it (rfsctl cutover --abort)")
	g.says(RunIn(t, t.TempDir(), nil, "rfsd", append(slices.Clone(g.args), "--finish")...), 1, "a cut-over by")
	g.says(RunIn(t, g.dir, nil, "rfsctl", append([]string{"cleanup", "--force"}, at...)...), 0, "remove index.blocks.write on the source from "+g.session)
	close(g.open)
	g.writes("forgotten")
	<-g.ended
	if code := g.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit %d\n%s", code, g.log)
	}
}
