package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// following is a fleet of daemons on this machine that follows a source.
type following struct {
	t      *testing.T
	source *cluster.Node
	target *cluster.Node
	dir    string
	args   []string
	nodes  map[string]*exec.Cmd
	said   map[string]*lockedBuffer
}

// followingFleet returns a fleet without nodes that follows the indices of a pattern.
func followingFleet(t *testing.T, name string, source, n *cluster.Node, url string) *following {
	return &following{t: t, source: source, target: n, dir: t.TempDir(), nodes: map[string]*exec.Cmd{}, said: map[string]*lockedBuffer{}, args: []string{
		"run", "--follow", "--every", "2s", "--block-source-writes", "--repo-uri", "file://" + filepath.Join(source.Repos, name), "--source-host", source.URL, "--snapshot-repo-name", "rfsd-" + name,
		"--target-host", url, "--session-name", name, "--index-allowlist", name, "--documents-per-bulk-request", "20", "--one-machine", "--workers", "1", "--exit-when-done", "--status-socket", "off",
		"--disable-compression", "--initial-lease-duration", "10s",
	}}
}

func (f *following) start(name string, more ...string) {
	f.t.Helper()
	dir := filepath.Join(f.dir, name)
	must(f.t, os.MkdirAll(dir, 0o755))
	cmd := exec.Command(Binary(f.t, "rfsd"), append(append([]string{}, f.args...), append(more, "--node-name", name, "--socket", f.socket(name))...)...)
	f.said[name] = &lockedBuffer{}
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state")), f.said[name]
	must(f.t, cmd.Start())
	f.nodes[name] = cmd
	f.t.Cleanup(func() { f.kill(name) })
}

func (f *following) socket(name string) string { return filepath.Join(f.dir, name+".sock") }

// kill kills a node; its workers end with it.
func (f *following) kill(name string) {
	if cmd := f.nodes[name]; cmd != nil {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		delete(f.nodes, name)
	}
}

func (f *following) log() string {
	var b strings.Builder
	for name, said := range f.said {
		fmt.Fprintf(&b, "%s:\n%s\n", name, said)
	}
	return b.String()
}

// driver returns the node that drives the rounds.
func (f *following) driver() (name string) {
	f.t.Helper()
	until(f.t, "a node drives", func() bool {
		for of := range f.nodes {
			if strings.Contains(f.said[of].String(), "drives the rounds of its fleet") {
				name = of
			}
		}
		return name != ""
	})
	return name
}

// status returns what a node reports.
func (f *following) status(name string) (r status.Report) {
	res := RunIn(f.t, f.dir, nil, "rfsctl", "status", "--node", f.socket(name), "--output", "json")
	if res.Code == 0 {
		must(f.t, outputtest.Decode(res.Stdout, &r))
	}
	return r
}

// newestRound returns the number of the last round that has started; -1 for none.
func newestRound(m *progress.Migration) int {
	if m.Rounds == nil || len(m.Rounds.Rounds) == 0 {
		return -1
	}
	return m.Rounds.Rounds[len(m.Rounds.Rounds)-1].Number
}

// arrived blocks until a round has arrived that had not started yet, and returns it.
func (f *following) arrived(by string) (last progress.Round) {
	f.t.Helper()
	least := -1
	if m := f.status(by).Migration; m != nil && m.Rounds != nil {
		least = newestRound(m)
	}
	deadline := time.Now().Add(4 * time.Minute) // as until
	for time.Now().Before(deadline) {
		if m := f.status(by).Migration; m != nil && m.Rounds != nil {
			if x, ok := m.Rounds.LastArrived(); ok && x.Number > least {
				return x
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	f.t.Fatalf("no round arrives\n%s", f.log())
	return last
}

// put writes documents to the source.
func (f *following) put(index string, from, to, value int) {
	f.t.Helper()
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `{"index":{"_index":%q,"_id":"%d"}}`+"\n"+`{"v":%d}`+"\n", index, i, value)
	}
	if _, err := f.source.Send(f.t.Context(), http.MethodPost, "/_bulk", "application/x-ndjson", []byte(b.String())); err != nil {
		f.t.Fatal(err)
	}
}

// operations returns how many documents the target has indexed and deleted in an index.
func (f *following) operations(index string) int {
	f.t.Helper()
	var is struct {
		All struct {
			Primaries struct {
				Indexing struct {
					Indexed int `json:"index_total"`
					Deleted int `json:"delete_total"`
				} `json:"indexing"`
			} `json:"primaries"`
		} `json:"_all"`
	}
	must(f.t, f.target.JSON(f.t.Context(), http.MethodGet, "/"+index+"/_stats/indexing", nil, &is))
	return is.All.Primaries.Indexing.Indexed + is.All.Primaries.Indexing.Deleted
}

// order gives an order to a node.
func (f *following) order(name, kind string) {
	f.t.Helper()
	if r := RunIn(f.t, f.dir, nil, "rfsctl", kind, "--node", f.socket(name)); r.Code != 0 {
		f.t.Fatalf("%s: exit %d: %s", kind, r.Code, r.Stderr)
	}
}

// TestFollow_AFleetOfDaemons: three daemons follow a source. The driver is killed within a round, an order to pause spans the change to the next
// round, a node joins late and one leaves early, and the fleet cuts over and ends although the driver is killed within the cut-over.
func TestFollow_AFleetOfDaemons(t *testing.T) {
	draw.Test(t)
	const index = "follow-fleet"
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	p := newProxy(t, n.URL, 0)
	_, _ = source.Send(t.Context(), http.MethodDelete, "/"+index, "", nil)
	call(t, source, "PUT", "/"+index, map[string]any{"settings": map[string]any{"number_of_shards": 3, "number_of_replicas": 0}})
	f := followingFleet(t, index, source, n, p.URL)
	f.put(index, 0, 600, 0)
	f.start("n1")
	f.start("n2")
	if r := f.arrived("n1"); r.Failed != 0 {
		t.Errorf("%+v", r)
	}
	f.put(index, 500, 900, 1)
	call(t, source, "DELETE", "/"+index+"/_doc/3", nil)
	f.arrived("n2")
	same(t, source, n, index)
	was := f.operations(index)
	f.arrived("n1")
	if now := f.operations(index); now != was || was < 600+400+1 {
		t.Errorf("a round without changes sent %d operations after %d", now-was, was)
	}

	f.put(index, 800, 1200, 2)
	p.delay.Store(int64(100 * time.Millisecond))
	before := p.bulks.Load()
	until(t, "documents of a round are sent", func() bool { return p.bulks.Load() > before+2 })
	killed := f.driver()
	left := map[string]string{"n1": "n2", "n2": "n1"}[killed]
	f.kill(killed)
	p.delay.Store(0)
	f.start("n3") // it joins in the middle of a round
	f.arrived(left)
	f.arrived(left)
	same(t, source, n, index)

	f.put(index, 1100, 1300, 3)
	p.delay.Store(int64(100 * time.Millisecond))
	before = p.bulks.Load()
	until(t, "documents of a round are sent", func() bool { return p.bulks.Load() > before+1 })
	f.order(left, "pause")
	p.delay.Store(0)
	until(t, "no worker runs", func() bool {
		a, b := f.status(left).Node, f.status("n3").Node
		return a.State == "paused" && b.State == "paused" && a.Running+b.Running == 0
	})
	newest := newestRound(f.status(left).Migration)
	f.put(index, 1300, 1400, 3)
	time.Sleep(5 * time.Second) // longer than --every
	if now := newestRound(f.status(left).Migration); now != newest {
		t.Errorf("round %d has started while the fleet is paused", now)
	}
	f.order("n3", "resume")
	f.arrived("n3")
	f.arrived("n3")
	same(t, source, n, index)

	w := write(t, source, index)
	time.Sleep(3 * time.Second)
	cut, said := exec.Command(Binary(t, "rfsctl"), "cutover", "--target-host", n.URL, "--session-name", index, "--block-source-writes"), &lockedBuffer{}
	cut.Dir, cut.Stdout, cut.Stderr = f.dir, said, said
	must(t, cut.Start())
	until(t, "writes are blocked", func() bool { return blockedWrites(t, source, index) })
	f.kill(f.driver()) // another node completes the cut-over
	err := cut.Wait()
	w.end()
	if err != nil || !blockedWrites(t, source, index) {
		t.Fatalf("cut-over: %v: %s\n%s", err, said, f.log())
	}
	same(t, source, n, index)
	if !long() { // the nodes end when the settings of the target are restored, two minutes later
		return
	}
	for name, cmd := range f.nodes {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, f.said[name])
		}
	}
	if v := gcDeletes(t, n, index); v != nil {
		t.Errorf("gc_deletes is %v", v)
	}
	if t.Failed() || os.Getenv("RFSD_SHOW") != "" {
		t.Log(f.log())
	}
}
