package fleet

import (
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// TestTheLeaderProposesWorkers: every node gets the proposal, and the summary is in the coordination store.
func TestTheLeaderProposesWorkers(t *testing.T) {
	f := newTestFleet(t)
	for _, name := range []string{"n0", "n1", "n2"} {
		f.start(name)
	}
	f.agree()
	loaded := func(n *testNode) bool {
		p := n.Plan()
		return p.Workers == 12 && p.ShardDuration > 0 && p.TargetRejectRatio == 0 && p.RepoThrottleRatio == 0
	}
	eventually(t, "every node has a plan", func() bool {
		for _, n := range f.nodes {
			if !loaded(n) {
				return false
			}
		}
		return true
	})
	eventually(t, "the summary tells of all", func() bool {
		s, ok := f.summary()
		return ok && s.Nodes == 3 && s.Workers == 6 && s.Leader != "" && s.At > 0 &&
			s.OpenItems == 40 && s.FailedItems == 1 && s.Shards == 90 && s.ShardsDone == 9 &&
			s.Indexed > 0 && s.Failed == 3 && s.Filtered == 4 && s.Bytes == 1<<40 && s.LeftBytes < s.Bytes && s.Seconds != nil
	})
	// A plan lives no longer than it is repeated: nodes that hear nothing more have none.
	for _, gone := range []string{"n0", "n1"} {
		f.stop(gone)
	}
	left := f.nodes["n2"]
	left.mu.Lock()
	left.heard.proposed = left.now()
	left.mu.Unlock()
	if p := left.Plan(); p.Workers != 0 || p.ShardDuration != 0 {
		t.Errorf("an expired plan: %+v", p)
	}
}

// summary returns the summary that the leader has written.
func (f *testFleet) summary() (s Summary, ok bool) {
	r, err := f.store.Record(f.t.Context(), summaryID)
	return s, err == nil && json.Unmarshal(r.Body, &s) == nil
}

// TestTheNextLeaderGoesOnWithTheHistoryAndWhoComesKnowsIt: a node that has just started and has read nothing can estimate the end.
func TestTheNextLeaderGoesOnWithTheHistoryAndWhoComesKnowsIt(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	for _, name := range []string{"n0", "n1"} {
		f.start(name)
	}
	f.agree()
	eventually(t, "there is a history", func() bool { s, ok := f.summary(); return ok && len(s.History.Samples) > 0 && s.Seconds != nil })
	first, _ := f.summary()
	f.stop(first.Leader)
	var next Summary
	eventually(t, "the other one leads", func() bool { next, _ = f.summary(); return next.Leader != first.Leader })
	if next.History.Samples[0].Begin != first.History.Samples[0].Begin || next.History.Samples[0].Bytes < first.History.Samples[0].Bytes {
		t.Errorf("%+v continues as %+v", first.History, next.History)
	}
	late := f.start("n9")
	eventually(t, "who comes late knows how quick it is: a million bytes per second", func() bool {
		rate := late.Plan().Throughput
		return rate > 900_000 && rate < 1_100_000
	})
}

func TestAWishAndAPoisonedItemAreHeardByAllOthers(t *testing.T) {
	f := newTestFleet(t)
	for _, name := range []string{"a", "b", "c"} {
		f.startWith(name, false)
	}
	eventually(t, "all know all", func() bool {
		return !slices.ContainsFunc([]string{"a", "b", "c"}, func(n string) bool { _, count := f.nodes[n].Share(); return count != 3 })
	})
	f.nodes["a"].IntentChanged()
	f.nodes["a"].ItemPoisoned("item")
	for _, name := range []string{"b", "c"} {
		n := f.nodes[name]
		eventually(t, name+" hears of the wish", func() bool { return n.wished.Load() > 0 })
		eventually(t, name+" hears of the item", func() bool { return n.sched.IsBusy("item", time.Now()) })
	}
	// Whatever wakes a node, its own wish is none that it hears of.
	f.nodes["b"].ItemPoisoned("another item")
	eventually(t, "a hears of another item", func() bool { return f.nodes["a"].sched.IsBusy("another item", time.Now()) })
	if f.nodes["a"].wished.Load() != 0 {
		t.Error("a node heard of its own wish")
	}
}

func testLoad() schedule.Load { return schedule.Load{Workers: 2, MaxWorkers: 4, Rate: 1000, Intent: 7} }

// The load has the version of the intent that a node follows. After a change the node does not wait for the next report, 10 s later.
func TestTheVersionOfTheIntentIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	var version atomic.Int64
	n, err := Start(t.Context(), Config{
		Store: f.store, Clock: timing.SystemClock(), Workers: func() int { return 1 }, Scheduler: &schedule.Scheduler{}, Log: slog.New(slog.DiscardHandler),
		Gossip:    gossip.Config{Fleet: "blue", Name: "n0", Bind: "127.0.0.1:0", Keys: gossip.Keys{make([]byte, 32)}, Log: slog.New(slog.DiscardHandler)},
		Load:      func() schedule.Load { return schedule.Load{Workers: 1, Intent: version.Load()} },
		Remaining: f.left,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	reported := func(want int64) func() bool {
		return func() bool { all := n.Nodes(); return len(all) == 1 && all[0].Order == want }
	}
	version.Store(5)
	n.IntentFollowed()
	eventually(t, "the first is reported", reported(5))
	begin := time.Now()
	version.Store(9)
	n.IntentFollowed()
	eventually(t, "the next is reported", reported(9))
	if took := time.Since(begin); took > 7*time.Second {
		t.Errorf("it took %v", took)
	}
}
