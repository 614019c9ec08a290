package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/cluster"
)

// TestFollow_OrdersHoldForAllRounds: rfsctl pause ends the work on the round in progress. No further round starts until rfsctl resume, also
// in a process that is started while the session is paused.
func TestFollow_OrdersHoldForAllRounds(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	p, w := newProxy(t, n.URL, 0), &watched{t: t, dir: t.TempDir()}
	t.Cleanup(func() { _ = source.JSON(t.Context(), http.MethodDelete, "/paused-a", nil, nil) })
	put := func(value int) {
		var b strings.Builder
		for i := range 300 {
			fmt.Fprintf(&b, `{"index":{"_index":"paused-a","_id":"%d"}}`+"\n"+`{"v":%d}`+"\n", i, value)
		}
		_, err := source.Send(t.Context(), http.MethodPost, "/_bulk", "application/x-ndjson", []byte(b.String()))
		must(t, err)
	}
	args := followLive(source, "paused", p.URL, "paused-*", "--documents-per-bulk-request", "20", "--slots", "1", "--max-connections", "1")
	args[1] = "--every=2s" // instead of --once
	start := func() *lockedBuffer {
		return begin(t, func(c *exec.Cmd, said *lockedBuffer) {
			w.process, c.Env, c.Stderr, c.Stdout = c, w.env(), said, io.Discard
		}, "rfsd", args...)
	}
	order := func(kind string) {
		t.Helper()
		var r Result
		until(t, kind, func() bool { // between two rounds there is no socket for a moment
			r = RunIn(t, w.dir, w.env(), "rfsctl", kind)
			return r.Code == 0 || !strings.Contains(r.Stderr, "no node runs on this machine")
		})
		if r.Code != 0 {
			t.Fatalf("%s: exit %d: %s", kind, r.Code, r.Stderr)
		}
	}
	// shown blocks until the status shows what is wanted, and returns it with the last round that has arrived.
	shown := func(what string, is func(r status.Report) bool) (arrived int) {
		t.Helper()
		until(t, what, func() bool {
			r, ok := w.status()
			if !ok || r.Migration == nil || r.Migration.Rounds == nil || !is(r) {
				return false
			}
			last, ok := r.Migration.Rounds.LastArrived()
			if arrived = last.Number; !ok {
				arrived = -1
			}
			return true
		})
		return arrived
	}
	put(0)
	said := start()
	shown("round 0 has arrived", func(r status.Report) bool { _, ok := r.Migration.Rounds.LastArrived(); return ok })
	p.delay.Store(int64(time.Second))
	put(1)
	before := p.bulks.Load()
	until(t, "documents of a round are sent", func() bool { return p.bulks.Load() > before+1 })
	order("pause")
	until(t, "the process waits", func() bool { return strings.Contains(said.String(), "no round runs until rfsctl resume") })
	p.delay.Store(0)
	quiet := func() (arrived int) {
		t.Helper()
		paused := func(r status.Report) bool {
			return r.Migration.Session == "paused" && r.Migration.Intent.State == "pause" && r.Node.State == "paused" && strings.HasPrefix(r.Node.Reason, "by ")
		}
		arrived, sent := shown("the session is paused", paused), p.bulks.Load()
		time.Sleep(5 * time.Second) // longer than --every
		if now := shown("the session is paused", paused); now != arrived || p.bulks.Load() != sent {
			t.Errorf("round %d has arrived after round %d, and %d requests were sent, while the session is paused", now, arrived, p.bulks.Load()-sent)
		}
		return arrived
	}
	quiet()
	must(t, w.process.Process.Signal(syscall.SIGTERM))
	_ = w.process.Wait() // which ends with exit code 1
	start()
	last := quiet()
	order("resume")
	shown("the round and the one after it have arrived", func(r status.Report) bool {
		x, ok := r.Migration.Rounds.LastArrived()
		return ok && x.Number > last+1 && r.Migration.Intent.State == "run"
	})
	same(t, source, n, "paused-a")
}
