package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/truth"
)

// writer writes to a source until it is stopped, and remembers what was acknowledged.
type writer struct {
	n       *cluster.Node
	stop    chan struct{}
	done    sync.WaitGroup
	acked   atomic.Int64
	refused atomic.Int64
	longest atomic.Int64 // milliseconds without an acknowledged write
}

// write starts a writer on an index. Each document has an id of its own; every third one is changed, and every tenth deleted.
func write(t *testing.T, n *cluster.Node, index string) *writer {
	t.Helper()
	kind := "" // before Elasticsearch 7 documents have a mapping type
	if n.Product == "elasticsearch" && n.Version < "7" {
		kind = `,"_type":"doc"`
	}
	w := &writer{n: n, stop: make(chan struct{})}
	w.done.Go(func() {
		last := time.Now()
		for i := 0; ; i++ {
			select {
			case <-w.stop:
				return
			default:
			}
			var b strings.Builder
			for j := range 10 {
				fmt.Fprintf(&b, `{"index":{"_index":%q%s,"_id":"%d"}}`+"\n"+`{"v":%d}`+"\n", index, kind, 10*i+j, i)
			}
			fmt.Fprintf(&b, `{"index":{"_index":%q%s,"_id":"%d"}}`+"\n"+`{"changed":%d}`+"\n", index, kind, i*3, i)
			fmt.Fprintf(&b, `{"delete":{"_index":%q%s,"_id":"%d"}}`+"\n", index, kind, i*5+1)
			answer, err := n.Send(context.Background(), http.MethodPost, "/_bulk", "application/x-ndjson", []byte(b.String()))
			if err == nil && !bytes.Contains(answer, []byte(`"errors":true`)) {
				w.acked.Add(1)
				w.longest.Store(max(w.longest.Load(), time.Since(last).Milliseconds()))
				last = time.Now()
			} else {
				w.refused.Add(1)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	t.Cleanup(w.end)
	return w
}

func (w *writer) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.done.Wait()
}

// followed is a source that is followed by a process of its own.
type followed struct {
	source, target *cluster.Node
	dir            string
	args           []string
	cmd            *exec.Cmd
	log            *bytes.Buffer
	ended          chan struct{}
}

func (f *followed) start(t *testing.T) {
	t.Helper()
	f.cmd, f.log, f.ended = exec.Command(Binary(t, "rfsd"), f.args...), &bytes.Buffer{}, make(chan struct{})
	f.cmd.Dir, f.cmd.Stdout, f.cmd.Stderr = f.dir, f.log, f.log
	f.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+f.dir, "TMPDIR="+f.dir, "XDG_STATE_HOME="+filepath.Join(f.dir, "state"))
	must(t, f.cmd.Start())
	go func(cmd *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait()
	}(f.cmd, f.ended)
}

func (f *followed) kill() {
	_ = f.cmd.Process.Kill() // it may have ended
	<-f.ended
}

// livingSource returns a node of a version of Elasticsearch, or of OpenSearch as "os2.19.4". It is the test's own: the directory for
// repositories of a node that others have started is not known.
func livingSource(t *testing.T, version string) *cluster.Node {
	if of, ok := strings.CutPrefix(version, "os"); ok {
		return cluster.OpenSearch(t, of, cluster.Heap("512m"))
	}
	return cluster.Elasticsearch(t, version, cluster.Heap("512m"))
}

// follows prepares a source with an index that is written to, and starts to follow it.
func follows(t *testing.T, version, session, url string, target *cluster.Node, more ...string) *followed {
	t.Helper()
	source := livingSource(t, version)
	if _, err := source.Send(t.Context(), http.MethodDelete, "/"+session, "", nil); err != nil && !strings.Contains(err.Error(), "status 404") {
		t.Fatal(err) // of a former test
	}
	call(t, source, "PUT", "/"+session, map[string]any{"settings": map[string]any{"number_of_shards": 2, "number_of_replicas": 0}})
	f := &followed{source: source, target: target, dir: t.TempDir(), args: append([]string{
		"follow", "--every", "2s", "--repo-uri", "file://" + filepath.Join(source.Repos, session), "--source-host", source.URL, "--snapshot-repo-name", "rfsd-" + session,
		"--index-allowlist", session, "--target-host", url, "--session-name", session}, more...)}
	f.start(t)
	t.Cleanup(f.kill)
	return f
}

// cutovers is what rfsctl cutover reports.
type cutovers struct {
	Cutover struct {
		State   string   `json:"state"`
		Reason  string   `json:"reason"`
		Blocks  []string `json:"blocks"`
		Outage  float64  `json:"outage_seconds"`
		Arrived string   `json:"arrived"`
	} `json:"cutover"`
}

func (f *followed) cutover(t *testing.T, more ...string) (Result, cutovers) {
	t.Helper()
	session := f.args[len(f.args)-1]
	for i, a := range f.args {
		if a == "--session-name" {
			session = f.args[i+1]
		}
	}
	r := RunIn(t, f.dir, nil, "rfsctl", append([]string{"cutover", "--target-host", f.target.URL, "--session-name", session, "--output", "json"}, more...)...)
	var x cutovers
	all, err := outputtest.Documents(r.Stdout)
	must(t, err)
	if all[0].Data != nil {
		must(t, outputtest.Decode(r.Stdout, &x))
	}
	return r, x
}

// blockedWrites reports whether an index of a source has a write block.
func blockedWrites(t *testing.T, n *cluster.Node, index string) bool {
	t.Helper()
	settings := call(t, n, "GET", "/"+index+"/_settings?flat_settings=true", nil)[index].(map[string]any)["settings"].(map[string]any)
	return settings["index.blocks.write"] == "true"
}

func (f *followed) equal(t *testing.T, index string) {
	t.Helper()
	for _, n := range []*cluster.Node{f.source, f.target} {
		call(t, n, "POST", "/"+index+"/_refresh", nil)
	}
	want := scrolled(t, f.source, "/"+index+"/_search?scroll=1m&size=500")
	if faults := truth.Compare(want, scrolled(t, f.target, "/"+index+"/_search?scroll=1m&size=500")).Faults(); faults != "" || len(want) == 0 {
		t.Errorf("%d documents: %s", len(want), faults)
	}
}

// TestCutover_BringsEverythingOfALivingSource cuts over from a source that is written to.
func TestCutover_BringsEverythingOfALivingSource(t *testing.T) {
	for _, version := range draw.Of(t, 1, []string{"2.4.6", "5.6.16", "6.8.23", "7.10.2", "8.19.21", "9.5.3", "os1.3.14", "os2.19.4", "os3.8.0"}) {
		t.Run(version, func(t *testing.T) { cutsOver(t, version, 5*time.Second) })
	}
}

// cutsOver cuts over from a source that is written to, and compares.
func cutsOver(t *testing.T, version string, after time.Duration) {
	to := targets[0]
	if version == "os"+to {
		if len(targets) == 1 {
			t.Skip("the only target (RFSD_TARGETS) has the version of the source")
		}
		to = targets[1]
	}
	n := cluster.OpenSearch(t, to)
	wipe(t, n)
	p := newProxy(t, n.URL, 0)
	var mu sync.Mutex
	type request struct {
		path string
		body []byte
	}
	var late []request
	p.held = func(path string, isBulk bool, body []byte) <-chan struct{} {
		if isBulk {
			mu.Lock()
			defer mu.Unlock()
			late = append(late, request{path, body})
		}
		return nil
	}
	f := follows(t, version, "cut-living", p.URL, n, "--block-source-writes", "--disable-compression")
	w := write(t, f.source, "cut-living")
	time.Sleep(after)
	r, x := f.cutover(t, "--block-source-writes")
	w.end()
	if r.Code != 0 || x.Cutover.State != "FINISHING" || len(x.Cutover.Blocks) != 1 {
		f.kill()
		t.Fatalf("exit %d: %s %s\n%s", r.Code, r.Stdout, r.Stderr, f.log)
	}
	t.Logf("%d bulk requests acknowledged, %d refused; outage %.1f s", w.acked.Load(), w.refused.Load(), x.Cutover.Outage)
	if !blockedWrites(t, f.source, "cut-living") {
		t.Error("the source takes writes after the cut-over")
	}
	f.equal(t, "cut-living")
	mu.Lock()
	defer mu.Unlock()
	for _, x := range slices.Backward(late) { // all requests of all rounds arrive once more, the last one first
		if _, err := n.Send(t.Context(), http.MethodPost, x.path, "application/x-ndjson", x.body); err != nil {
			t.Fatal(err)
		}
	}
	f.equal(t, "cut-living")
	if v := gcDeletes(t, n, "cut-living"); v != "1441m" {
		t.Errorf("gc_deletes is %v while a request of the last round may arrive", v)
	}
	if again, _ := f.cutover(t); again.Code != 1 || !strings.Contains(again.Stderr, "was finished") {
		t.Errorf("again: exit %d: %s", again.Code, again.Stderr)
	}
}

// TestCutover_Killed kills the process that cuts over, at later and later times, until a cut-over has ended. The next process completes
// or undoes the interrupted cut-over.
func TestCutover_Killed(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	f := follows(t, "7.10.2", "cut-killed", n.URL, n, "--block-source-writes")
	w := write(t, f.source, "cut-killed")
	time.Sleep(5 * time.Second)
	for delay := 3 * time.Second; ; delay += 700 * time.Millisecond {
		f.cutover(t, "--block-source-writes", "--no-wait") // refused while one is in progress
		select {
		case <-f.ended:
		case <-time.After(delay):
		}
		f.kill()
		status := RunIn(t, f.dir, nil, "rfsctl", "status", "--target-host", n.URL, "--session-name", "cut-killed", "--output", "json")
		var of struct {
			Migration struct {
				Cutover struct{ State string }
			}
		}
		must(t, outputtest.Decode(status.Stdout, &of))
		t.Logf("killed after %s: %s, source blocked: %v", delay, of.Migration.Cutover.State, blockedWrites(t, f.source, "cut-killed"))
		if of.Migration.Cutover.State == "FINISHING" {
			break
		}
		if delay > 20*time.Second {
			t.Fatalf("no cut-over has ended: %s", f.log)
		}
		f.start(t)
	}
	w.end()
	if !blockedWrites(t, f.source, "cut-killed") {
		t.Error("the source takes writes after the cut-over")
	}
	f.equal(t, "cut-killed")
}

// TestCutover_SilentTarget: the target does not answer for a while, within a round and during the outage. The round continues afterwards.
// The cut-over continues when the target answers again, and returns when the permitted outage is over, even if the target, which keeps
// the records, is still silent.
func TestCutover_SilentTarget(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	p := newProxy(t, n.URL, 0)
	f := follows(t, "7.10.2", "cut-silent", p.URL, n, "--block-source-writes")
	w := write(t, f.source, "cut-silent")
	time.Sleep(5 * time.Second)
	await := func(what string, most time.Duration, is func() bool) {
		t.Helper()
		for end := time.Now().Add(most); !is(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				f.kill()
				t.Fatalf("%s after %s\n%s", what, most, f.log)
			}
		}
	}
	blocked := func() bool { return blockedWrites(t, f.source, "cut-silent") }
	silence := func() {
		p.silent.Store(true)
		time.Sleep(map[bool]time.Duration{false: 15 * time.Second, true: 30 * time.Second}[long()])
		p.silent.Store(false)
	}
	if long() {
		before := p.bulks.Load()
		await("no documents of a round are sent", time.Minute, func() bool { return p.bulks.Load() > before })
		silence()
		before = p.bulks.Load()
		await("no round goes on", time.Minute, func() bool { return p.bulks.Load() > before+3 })
	}
	f.cutover(t, "--block-source-writes", "--no-wait", "--max-outage", "80s") // a round has to take a quarter at most, beside other tests, too
	await("writes are not blocked", time.Minute, blocked)
	p.silent.Store(true)
	await("writes are still blocked", 2*time.Minute, func() bool { return !blocked() })
	p.silent.Store(false)
	select {
	case <-f.ended:
	case <-time.After(2 * time.Minute):
	}
	f.kill()
	f.start(t)
	await("the cut-over has not returned", time.Minute, func() bool {
		status := RunIn(t, f.dir, nil, "rfsctl", "status", "--target-host", n.URL, "--session-name", "cut-silent")
		return strings.Contains(status.Stdout, "cut-over returned")
	})
	if blocked() {
		t.Error("writes are blocked")
	}
	acked := w.acked.Load()
	await("no write is acknowledged", time.Minute, func() bool { return w.acked.Load() > acked })

	f.cutover(t, "--block-source-writes", "--no-wait")
	await("writes are not blocked", time.Minute, blocked)
	silence()
	await("the cut-over has not ended", 3*time.Minute, func() bool {
		status := RunIn(t, f.dir, nil, "rfsctl", "status", "--target-host", n.URL, "--session-name", "cut-silent")
		if strings.Contains(status.Stdout, "cut-over returned") { // it could not read, just after the block, whether another process had returned
			f.cutover(t, "--block-source-writes", "--no-wait")
			return false
		}
		return strings.Contains(status.Stdout, "cut over:")
	})
	w.end()
	if !blocked() {
		t.Error("the source takes writes after the cut-over")
	}
	f.equal(t, "cut-silent")
}

// TestCutover_ProcessesShareTheWork: two processes follow the source with the same options and share each round. Both end with the cut-over.
func TestCutover_ProcessesShareTheWork(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	f := follows(t, "7.10.2", "cut-shared", n.URL, n, "--block-source-writes")
	other := &followed{source: f.source, target: n, dir: t.TempDir(), args: f.args}
	other.start(t)
	t.Cleanup(other.kill)
	w := write(t, f.source, "cut-shared")
	time.Sleep(10 * time.Second)
	r, x := f.cutover(t, "--block-source-writes")
	w.end()
	if r.Code != 0 || x.Cutover.State != "FINISHING" {
		f.kill()
		t.Fatalf("exit %d: %s %s\n%s", r.Code, r.Stdout, r.Stderr, f.log)
	}
	f.equal(t, "cut-shared")
	if refused := RunIn(t, f.dir, nil, "rfsctl", "cleanup", "--target-host", n.URL, "--session-name", "cut-shared"); refused.Code != 1 || !strings.Contains(refused.Stderr, "is FINISHING; end it first") {
		t.Errorf("cleanup: exit %d: %s", refused.Code, refused.Stderr)
	}
	for i, p := range []*followed{f, other} {
		<-p.ended
		if code := p.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(p.log.String(), "cut over:") {
			t.Errorf("process %d: exit %d\n%s", i, code, p.log)
		}
	}
	if v := gcDeletes(t, n, "cut-shared"); v != nil {
		t.Errorf("gc_deletes is %v", v)
	}
}
