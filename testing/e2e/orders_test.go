package e2e

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
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
	if strings.Contains(path, "_update/intent") && bytes.Contains(body, []byte(`"PAUSE"`)) {
		return l.arrives
	}
	return nil
}

// TestOrdersOverASlowTarget gives pauses to three nodes whose target is silent: one arrives after a newer resume, one after its
// end. Neither stops the fleet; one that is in force outlives all nodes.
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
	id := regexp.MustCompile("rfsctl orders ([0-9a-z]+-[0-9a-z]{6})")
	unknown := func() string {
		t.Helper()
		res := ctl(0, "pause")
		found := id.FindStringSubmatch(res.Stderr)
		if res.Code != 9 || found == nil {
			t.Fatalf("a pause while the target is silent: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
		}
		if res := ctl(1, "orders", found[1]); res.Code != 9 || !strings.Contains(res.Stdout, "unknown") {
			t.Errorf("before its end: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
		}
		return found[1]
	}
	expires := func(id string) {
		t.Helper()
		until(t, "the order is over", func() bool {
			res := ctl(1, "orders", id, "--output", "json")
			var o status.Order
			if res.Code == 9 {
				return false
			}
			if err := json.Unmarshal([]byte(res.Stdout), &o); err != nil || res.Code != 1 || o.State != "expired" {
				t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			return true
		})
	}
	inForce := func(node int, args ...string) string {
		t.Helper()
		res := ctl(node, append(args, "--output", "json")...)
		var o status.Order
		if err := json.Unmarshal([]byte(res.Stdout), &o); err != nil || res.Code != 0 || o.State != "in_force" || o.ID == "" || !strings.HasPrefix(o.By, "op") {
			t.Fatalf("%v: exit %d: %s%s", args, res.Code, res.Stdout, res.Stderr)
		}
		return o.ID
	}
	is("running")

	release := writes.hold()
	defer release()
	first := unknown()
	newer := inForce(1, "resume")
	release()
	until(t, "the late pause has arrived", func() bool { return len(m.proxy.answered(409)) > 0 })
	expires(first)
	is("running")
	if res := ctl(2, "orders", newer); res.Code != 0 || !strings.Contains(res.Stdout, "in_force") {
		t.Errorf("the resume: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}

	release = writes.hold()
	defer release()
	second := unknown()
	expires(second)
	release()
	until(t, "the pause has arrived after its end", func() bool {
		for _, request := range m.proxy.answered(400) {
			if strings.Contains(request, "_update/intent") {
				return true
			}
		}
		return false
	})
	expires(second)
	is("running")

	pause := inForce(0, "pause")
	is("paused")
	until(t, "every node is known to follow", func() bool {
		var o status.Order
		res := ctl(2, "orders", pause, "--output", "json")
		return json.Unmarshal([]byte(res.Stdout), &o) == nil && res.Code == 0 && o.State == "in_force" && len(o.NotFollowing) == 0
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
	if res := ctl(1, "orders"); res.Code != 0 || !strings.Contains(res.Stdout, pause+"  in_force  pause") || strings.Contains(res.Stdout, first) {
		t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	inForce(2, "resume")
	is("running")
}
