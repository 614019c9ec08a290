package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/browser"
	"github.com/rfsd/rfsd/testing/cluster"
)

// TestFollow_IsShown: between two rounds the process that follows shows its rounds and the lag to rfsctl status, in its metrics and on the
// page, which continues through the next round.
func TestFollow_IsShown(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	call(t, source, "PUT", "/shown-a/_doc/1?refresh=true", map[string]any{"v": 1})
	w := &watched{t: t, dir: t.TempDir()}
	args := followLive(source, "shown", n.URL, "shown-*")
	args[1] = "--every=45s" // instead of --once
	log := begin(t, func(c *exec.Cmd, said *lockedBuffer) {
		w.process, c.Env, c.Stderr, c.Stdout = c, w.env(), said, io.Discard
	}, "rfsd", args...)
	followed := func(least int) (r status.Report) {
		until(t, "the status shows that a round has arrived, and the lag", func() bool {
			var ok bool
			r, ok = w.status()
			if !ok || r.Migration == nil || r.Migration.Rounds == nil || r.Migration.Lag == nil {
				return false
			}
			last, arrived := r.Migration.Rounds.LastArrived()
			return arrived && last.Number >= least
		})
		return r
	}
	until(t, "the pause after round 0 is shown", func() bool { return strings.Count(log.String(), "rfsctl status shows this process") == 2 })
	if r := followed(0); r.Node.State != "waiting" || !strings.HasPrefix(r.Node.Reason, "following; the next round starts at ") {
		t.Errorf("between two rounds the process is %s: %s", r.Node.State, r.Node.Reason)
	} else if r.Migration.Session != "shown" || !r.Migration.Complete || *r.Migration.Lag < 0 || *r.Migration.Lag > 120 {
		t.Errorf("session %s, a lag of %f s", r.Migration.Session, *r.Migration.Lag)
	}
	sockets, err := filepath.Glob(filepath.Join(w.dir, "rfsd", "*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets %q, %v", sockets, err)
	}
	asks := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", sockets[0])
	}}}
	until(t, "the metrics have the lag", func() bool {
		res, err := asks.Get("http://rfsd/metrics")
		if err != nil {
			return false // between two rounds
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return strings.Contains(string(text), "\nrfsd_follow_lag_seconds ") && strings.Contains(string(text), `rfsd_follow_round_documents{result="inserted"} `)
	})

	b, err := browser.Start(ctx)
	if errors.Is(err, browser.ErrNone) {
		t.Skip("the page was not looked at: ", err)
	}
	must(t, err)
	defer b.Close()
	page := begin(t, func(c *exec.Cmd, said *lockedBuffer) { c.Env, c.Stdout = w.env(), said }, "rfsctl", "page", "--no-browser", "--node", sockets[0])
	address := regexp.MustCompile(`http://[0-9a-f]{32}\.localhost:\d+/\?token=[0-9a-f]{64}`)
	until(t, "rfsctl tells the address", func() bool { return address.MatchString(page.String()) })
	must(t, b.Look(ctx, 1280, 1100, false))
	must(t, b.Open(ctx, address.FindString(page.String())))
	call(t, source, "PUT", "/shown-a/_doc/2?refresh=true", map[string]any{"v": 1})
	const shown = "document.getElementById('state').textContent.startsWith('following') && document.querySelectorAll('#timeline rect').length >= LEAST && / behind the source/.test(document.getElementById('lag').textContent)"
	must(t, b.Wait(ctx, strings.ReplaceAll(shown, "LEAST", "1")))
	must(t, b.Wait(ctx, strings.ReplaceAll(shown, "LEAST", "2"))) // round 1 has arrived
	followed(1)
	picture, err := b.Screenshot(ctx)
	must(t, err)
	if dir := os.Getenv("RFSD_ARTIFACTS"); dir != "" {
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "page-following.png"), picture, 0o644))
	}
	for _, e := range b.Events("Runtime.exceptionThrown") {
		t.Errorf("%s", e.Params)
	}
	must(t, w.process.Process.Signal(syscall.SIGTERM))
	until(t, "the source makes no snapshot", func() bool { return source.JSON(ctx, "DELETE", "/shown-*", nil, nil) == nil })
}
