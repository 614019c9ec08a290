package e2e

import (
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
)

// TestDaemons_StartedBeforeTheirTarget starts three daemons 25 s before their target, and kills the target twice in the middle of the
// documents: no daemon ends by itself, and nothing is lost.
func TestDaemons_StartedBeforeTheirTarget(t *testing.T) {
	if !long() {
		t.Skip("RFSD_DAEMON_LONG=1 starts three daemons before their target, and kills the target twice: some minutes")
	}
	m := layMachines(t, 0)
	_, text, err := net.SplitHostPort(freeAddress(t))
	must(t, err)
	port, err := strconv.Atoi(text)
	must(t, err)
	m.proxy = &proxy{Server: &httptest.Server{URL: "http://127.0.0.1:" + text}} // nothing between daemons and target
	m.task = []string{"--repo-uri", m.repo, "--snapshot-name", "snap1", "--documents-per-bulk-request", "1", "--max-connections", "1", "--max-rate", "0.001MB"}
	for _, x := range m.all {
		m.start(x)
	}
	living := func(when string) {
		t.Helper()
		for _, x := range m.all {
			if err := x.cmd.Process.Signal(syscall.Signal(0)); err != nil || strings.Contains(x.said.String(), "goroutine ") {
				t.Fatalf("%s has ended %s: %v", x.name, when, err)
			}
		}
	}
	<-time.After(25 * time.Second)
	living("before its target answered")
	if m.node, err = cluster.Boot(t.Context(), "opensearch", targets[0], cluster.Port(port)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.node.Stop() })
	arrived := func() int64 {
		r, ok := m.ask(m.all[0])
		if !ok {
			return 0
		}
		return r.Migration.Totals.Indexed
	}
	for _, documents := range []int64{20, 70} {
		until(t, "documents arrive", func() bool { return arrived() >= documents })
		m.node.Kill()
		<-time.After(10 * time.Second)
		living("while its target was down")
		must(t, m.node.Restart(t.Context()))
	}
	m.complete(func() { living("before the migration was complete") })
	compareLanded(t, m.node, m.repo)
}
