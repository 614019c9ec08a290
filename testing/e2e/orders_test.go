package e2e

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// late keeps the writes of pauses on their way while it holds; they arrive although their senders have given up.
type late struct {
	mu      sync.Mutex
	arrives chan struct{} // nil: at once
}

func (l *late) hold() (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	arrives := make(chan struct{})
	l.arrives = arrives
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.arrives = nil
		close(arrives)
	})
}

func (l *late) held(path string, _ bool, body []byte) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Contains(path, "intent:fleet") && bytes.Contains(body, []byte(`"PAUSE"`)) {
		return l.arrives
	}
	return nil
}

// TestOrdersOverASlowTarget sends pauses to three nodes whose target is silent. A pause that arrives after a newer resume has no effect;
// a late pause without one is in force, and stays in force after all nodes are restarted.
func TestOrdersOverASlowTarget(t *testing.T) {
	m := layMachines(t, 6*time.Second)
	var writes late
	m.proxy.held = writes.held
	m.task = []string{"--repo-uri", m.repo, "--snapshot-name", "snap1", "--documents-per-bulk-request", "1", "--max-connections", "1", "--initial-lease-duration", "40s"}
	for _, x := range m.all {
		m.start(x)
	}
	ctl := func(node int, args ...string) Result {
		return m.ctl(m.all[node], args...)
	}
	// A fleet that works leaves none of its nodes paused; which of them hold the few items is theirs to share out.
	is := func(state string) {
		t.Helper()
		sent := m.proxy.documents.Load()
		until(t, "all nodes are "+state, func() bool {
			for _, x := range m.all {
				if r, ok := m.ask(x); !ok || r.Node.State != state || len(r.Nodes) != len(m.all) || state == "paused" && r.Node.Running > 0 {
					return false
				}
			}
			return state == "paused" || m.proxy.documents.Load() > sent
		})
	}
	unknown := func() {
		t.Helper()
		if res := ctl(0, "pause"); res.Code != 9 || !strings.Contains(res.Stderr, "rfsctl status") {
			t.Fatalf("a pause while the target is silent: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
		}
	}
	inForce := func(node int, args ...string) {
		t.Helper()
		res := ctl(node, append(args, "--output", "json")...)
		var o status.Ordered
		if err := outputtest.Decode(res.Stdout, &o); err != nil || res.Code != 0 || !strings.HasPrefix(o.Intent.By, "op") {
			t.Fatalf("%v: exit %d: %s%s", args, res.Code, res.Stdout, res.Stderr)
		}
	}
	is("running")

	release := writes.hold()
	defer release()
	unknown()
	inForce(1, "resume")
	release()
	until(t, "the late pause has arrived", func() bool { return len(m.proxy.answered(409)) > 0 })
	time.Sleep(5 * time.Second) // more than two reads of the intent
	is("running")

	release = writes.hold()
	defer release()
	unknown()
	is("running")
	release()
	is("paused")
	inForce(2, "resume")
	is("running")

	inForce(0, "pause")
	is("paused")
	until(t, "every node is known to follow", func() bool {
		r, ok := m.ask(m.all[2])
		return ok && !slices.ContainsFunc(r.Nodes, func(n status.Node) bool { return n.State != "paused" })
	})
	m.stop()
	sent := m.proxy.documents.Load()
	for _, x := range m.all {
		m.start(x)
	}
	is("paused")
	if m.proxy.documents.Load() != sent {
		t.Error("documents were sent by a paused fleet that was started again")
	}
	if res := ctl(1, "status"); !strings.Contains(res.Stdout, "intent: pause; last order by op") {
		t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	inForce(2, "resume")
	is("running")
}
