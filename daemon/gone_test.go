package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
)

func codes(t *testing.T, n *node) (all []string) {
	t.Helper()
	events, err := n.Events(t.Context(), 0)
	must(t, err)
	for _, e := range events {
		all = append(all, e.Code+" "+e.Subject+" "+e.Detail)
	}
	return all
}

// TestDaemon_EventsNameTheOrders gives the orders of an operator: each is an event with kind, subject and issuer.
func TestDaemon_EventsNameTheOrders(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		n := startNode(t, Config{Workers: 1, Fleet: &neighbours{count: 2, names: []string{"n1", "n2"}}}, &fakeStarter{stopped: handsOff})
		time.Sleep(time.Second)
		two := 2
		must(t, n.order(t, "pause", nil))
		must(t, n.order(t, "resume", nil))
		must(t, n.order(t, "drain", nil, "n2"))
		must(t, n.order(t, "resume", nil, "n2"))
		must(t, n.order(t, "scale", &two))
		must(t, n.order(t, "scale", nil))
		var got []string
		for _, e := range codes(t, n) {
			if len(e) > 7 && e[:7] == "intent " {
				got = append(got, e[len("intent fleet "):])
			}
		}
		want := []string{"pause by ann", "resume by ann", "drain n2 by ann", "resume n2 by ann", "scale 2 by ann", "scale auto by ann"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		must(t, n.stop())
	})
}

// TestDaemon_LossAndReturnOfANodeAreEvents loses a node, lets another leave, and restarts the first.
func TestDaemon_LossAndReturnOfANodeAreEvents(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		first, again := time.Now(), time.Now().Add(time.Hour)
		f := &neighbours{count: 2, names: []string{"n1", "n2"}, started: map[string]time.Time{"n2": first}}
		n := startNode(t, Config{Workers: -1, Fleet: f}, &fakeStarter{})
		time.Sleep(time.Minute)
		if got := codes(t, n); len(got) > 0 {
			t.Errorf("%q while all nodes live", got)
		}
		f.mu.Lock()
		f.names = []string{"n1"}
		f.gone = []status.Node{{Name: "n2", Started: first, State: status.NodeLost}, {Name: "n3", Started: first, State: status.NodeLeft}}
		f.mu.Unlock()
		time.Sleep(time.Minute)
		events, err := n.Events(t.Context(), 0)
		must(t, err)
		gone := status.Gone(events, f.Nodes())
		if len(events) != 2 || len(gone) != 2 || gone[0].Name != "n2" || gone[0].State != status.NodeLost || gone[1].State != status.NodeLeft || !gone[0].Started.Equal(first) || gone[0].Seen.IsZero() {
			t.Errorf("events %+v, gone %+v", events, gone)
		}
		f.mu.Lock()
		f.names, f.started["n2"] = []string{"n1", "n2"}, again
		f.mu.Unlock()
		time.Sleep(time.Minute)
		events, err = n.Events(t.Context(), 0)
		must(t, err)
		if gone = status.Gone(events, f.Nodes()); len(events) != 3 || events[2].Code != status.NodeReturned || len(gone) != 1 || gone[0].Name != "n3" {
			t.Errorf("events %+v, gone %+v after the return", events, gone)
		}
		must(t, n.stop())
	})
}
