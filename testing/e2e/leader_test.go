package e2e

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

const (
	// leaderWatch is for how long answers are watched after the leader was killed.
	leaderWatch = 40 * time.Second
	// oldestAnswer is the oldest that an answer may be, in seconds: for 15 s the others wait for the next leader.
	oldestAnswer = 25
	// slowDocument is how long a document takes, so that work is left for all that time.
	slowDocument = 7 * time.Second
)

// TestTheStatusOfNodesWhoseLeaderIsKilled kills the leader of three nodes twice, while they migrate and while they import, and
// watches how old the answers of the others are. None counts less than an earlier one.
func TestTheStatusOfNodesWhoseLeaderIsKilled(t *testing.T) {
	if !long() {
		t.Skip("not run: RFSD_DAEMON_LONG=1 watches three nodes for three minutes")
	}
	t.Run("migration", func(t *testing.T) { watchLeaders(t, newMachines(t, slowDocument)) })
	t.Run("import", func(t *testing.T) {
		m := layMachines(t, slowDocument)
		out, _, _ := exportOf(t, m.node, repository{name: "7.10.2-demo", path: m.repo, snapshot: "snap1", truth: []string{m.repo + ".ndjson.gz"}})
		m.task = []string{"--from", out, "--documents-per-bulk-request", "1", "--max-connections", "1", "--window-lease", "20s", "--window-size", "2048", "--create-indices"}
		for _, x := range m.all {
			m.start(x)
		}
		watchLeaders(t, m)
	})
}

func watchLeaders(t *testing.T, m *machines) {
	for _, x := range m.all {
		until(t, x.name+" knows the others", func() bool { r, ok := m.ask(x); return ok && len(r.Nodes) == len(m.all) })
	}
	for range 2 {
		var leader *machine
		until(t, "a node leads", func() bool { leader = m.leader(); return leader != nil })
		must(t, leader.cmd.Process.Kill())
		_ = leader.cmd.Wait()
		oldest, answers := map[string]float64{}, 0
		before := map[string]progress.Counts{}
		for begin := time.Now(); time.Since(begin) < leaderWatch; time.Sleep(300 * time.Millisecond) {
			for _, x := range m.all {
				if x == leader {
					continue
				}
				r, ok := m.ask(x)
				if !ok {
					t.Fatalf("%s does not answer", x.name)
				}
				answers++
				oldest[x.name] = max(oldest[x.name], r.Stale)
				if is, was := r.Migration.Totals, before[x.name]; is.Indexed < was.Indexed || is.BytesDone < was.BytesDone {
					t.Errorf("%s states %+v, before %+v", x.name, is, was)
				}
				before[x.name] = r.Migration.Totals
			}
		}
		next := m.leader()
		t.Logf("%s was killed, %v leads; %d answers, the oldest in seconds: %v", leader.name, next != nil && next != leader, answers, oldest)
		if next == leader || slices.Max(slices.Collect(maps.Values(oldest))) > oldestAnswer {
			t.Errorf("after %s was killed the status was %v s old", leader.name, oldest)
		}
		m.start(leader)
		until(t, leader.name+" is back", func() bool { r, ok := m.ask(leader); return ok && len(r.Nodes) == len(m.all) })
	}
}

// leader returns the node that took the lead last, by the times of the logs; nil while none has.
func (m *machines) leader() (leader *machine) {
	last := ""
	for _, x := range m.all {
		for line := range strings.Lines(x.said.String()) {
			var l struct{ Msg, Time string }
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "leadership acquired" && cmp.Compare(l.Time, last) > 0 {
				last, leader = l.Time, x
			}
		}
	}
	return leader
}
