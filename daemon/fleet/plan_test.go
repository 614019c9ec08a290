package fleet

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/schedule"
)

// TestTheLeaderDividesTheRateAndProposesWorkers: every node hears its part, the parts are within the budget, and the summary is
// in the coordination store.
func TestTheLeaderDividesTheRateAndProposesWorkers(t *testing.T) {
	f := newTestFleet(t)
	for _, name := range []string{"n0", "n1", "n2"} {
		f.start(name)
	}
	f.agree()
	loaded := func(n *testNode) bool {
		p := n.Plan()
		return p.Rate > 0 && p.Workers == 12 && p.Shard > 0
	}
	eventually(t, "every node has a plan", func() bool {
		for _, n := range f.nodes {
			if !loaded(n) {
				return false
			}
		}
		return true
	})
	var sum int64
	for name, n := range f.nodes {
		p := n.Plan()
		sum += p.Rate
		if p.Rate < testRate/4 || p.Busy != 0 || p.Slow != 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if sum > testRate {
		t.Errorf("%d bytes per second are allotted of %d", sum, testRate)
	}
	eventually(t, "the summary tells of all", func() bool {
		r, err := f.store.Record(t.Context(), summaryID)
		var s Summary
		return err == nil && json.Unmarshal(r.Body, &s) == nil && s.Nodes == 3 && s.Workers == 6 && s.OpenItems == 40 && s.Leader != ""
	})
	// A plan lives no longer than it is repeated: nodes that hear nothing more have none.
	for _, gone := range []string{"n0", "n1"} {
		f.stop(gone)
	}
	left := f.nodes["n2"]
	left.mu.Lock()
	left.plan.until, left.plan.rated = time.Now(), time.Now()
	left.mu.Unlock()
	if p := left.Plan(); p.Rate != 0 || p.Workers != 0 || p.Shard != 0 {
		t.Errorf("an expired plan: %+v", p)
	}
}

func TestAWishAndAPoisonedItemAreHeardByAllOthers(t *testing.T) {
	f := newTestFleet(t)
	for _, name := range []string{"a", "b", "c"} {
		f.startWith(name, false)
	}
	eventually(t, "all know all", func() bool {
		return !slices.ContainsFunc([]string{"a", "b", "c"}, func(n string) bool { _, count := f.nodes[n].Share(); return count != 3 })
	})
	f.nodes["a"].Wish()
	f.nodes["a"].Poison("item")
	for _, name := range []string{"b", "c"} {
		n := f.nodes[name]
		eventually(t, name+" hears of the wish", func() bool { return n.wished.Load() > 0 })
		eventually(t, name+" hears of the item", func() bool { return n.sched.Knows("item", time.Now()) })
	}
	if f.nodes["a"].wished.Load() != 0 {
		t.Error("a node heard of its own wish")
	}
}

// testRate is the budget of a test's fleet, in bytes per second.
const testRate = 9_000_000

func testLoad() schedule.Load { return schedule.Load{Workers: 2, Most: 4, Rate: 1000} }
