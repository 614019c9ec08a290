package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
)

// TestTheStatusOutlivesTheLeader kills the leader of three nodes: what the others show stays young, and is what the store holds.
func TestTheStatusOutlivesTheLeader(t *testing.T) {
	m := newMachines(t, slowStart)
	leads := func(x *machine) bool { return strings.Contains(x.said.String(), "leadership_acquired") }
	var leader *machine
	until(t, "one node leads three", func() bool {
		for _, x := range m.all {
			if leads(x) {
				leader = x
			}
		}
		r, ok := m.ask(m.all[0])
		return ok && leader != nil && len(r.Nodes) == len(m.all) && r.Migration.Totals.Items > 0
	})
	oldest := 0.0
	look := func(forSoLong time.Duration, but *machine) {
		t.Helper()
		for end := time.Now().Add(forSoLong); time.Now().Before(end); <-time.After(300 * time.Millisecond) {
			for _, x := range m.all {
				if x == but {
					continue
				}
				r, ok := m.ask(x)
				if !ok || r.Migration.Totals.Items == 0 {
					t.Fatalf("%s does not answer", x.name)
				}
				oldest = max(oldest, r.Stale)
			}
		}
	}
	look(8*time.Second, nil)
	must(t, leader.cmd.Process.Kill())
	_ = leader.cmd.Wait()
	look(20*time.Second, leader)
	if oldest > 25 { // a reading, its interval, and what a new leader takes to be elected
		t.Errorf("a node showed a reading that was %.1f s old", oldest)
	}
	t.Logf("at most %.1f s old", oldest)
	m.start(leader)
	m.proxy.delay.Store(int64(20 * time.Millisecond))
	m.complete(func() {})
	compareLanded(t, m.node, m.repo)
	res := Run(t, "rfsctl", "status", "--target-host", m.node.URL, "--session-name", "fleet", "--output", "json")
	var of status.Report
	must(t, json.Unmarshal([]byte(res.Stdout), &of))
	for _, x := range m.all {
		until(t, x.name+" shows what the store has", func() bool {
			at, ok := m.ask(x)
			return ok && asJSON(t, timeless(object(t, at.Migration))) == asJSON(t, timeless(object(t, of.Migration)))
		})
	}
}
