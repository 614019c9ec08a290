package fleet

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/primitive"
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
		return p.Rate > 0 && p.Rate <= testRate && p.Workers == 12 && p.ShardDuration > 0 && p.TargetRejectRatio == 0 && p.RepoThrottleRatio == 0
	}
	eventually(t, "every node has a plan", func() bool {
		for _, n := range f.nodes {
			if !loaded(n) {
				return false
			}
		}
		return true
	})
	f.partsFit("n0", 3)
	eventually(t, "the summary tells of all", func() bool {
		s, ok := f.summary()
		return ok && s.Nodes == 3 && s.Workers == 6 && s.Leader != "" && s.At > 0 && s.Divided > 0 &&
			s.OpenItems == 40 && s.FailedItems == 1 && s.Shards == 90 && s.ShardsDone == 9 &&
			s.Indexed > 0 && s.Failed == 3 && s.Filtered == 4 && s.Bytes == 1<<40 && s.LeftBytes < s.Bytes && s.Seconds != nil
	})
	// A plan lives no longer than it is repeated: nodes that hear nothing more have none, but keep to their part of the rate.
	for _, gone := range []string{"n0", "n1"} {
		f.stop(gone)
	}
	left := f.nodes["n2"]
	left.mu.Lock()
	left.plan.expires = left.now()
	left.mu.Unlock()
	if p := left.Plan(); p.Rate <= 0 || p.Rate > testRate || p.Workers != 0 || p.ShardDuration != 0 {
		t.Errorf("an expired plan: %+v", p)
	}
}

// summary returns the summary that the leader has written.
func (f *testFleet) summary() (s Summary, ok bool) {
	r, err := f.store.Record(f.t.Context(), summaryID)
	return s, err == nil && json.Unmarshal(r.Body, &s) == nil
}

// partsFit waits until a plan gives every one of so many nodes a part of the rate, and holds every plan that is seen against the rate.
func (f *testFleet) partsFit(node string, nodes int) {
	f.t.Helper()
	eventually(f.t, "a plan gives every node its part", func() bool {
		hints, err := f.nodes[node].list(kindPlan)
		if err != nil {
			return false
		}
		parts, sums := map[int64]int{}, map[int64]int64{}
		for _, h := range hints {
			var p proposal
			if h.Key != allNodes && json.Unmarshal(h.Payload, &p) == nil {
				parts[p.Number], sums[p.Number] = parts[p.Number]+1, sums[p.Number]+p.Rate
			}
		}
		for number, sum := range sums {
			if sum > testRate {
				f.t.Fatalf("plan %d gives %d of %d", number, sum, testRate)
			}
			if parts[number] == nodes && sum > testRate*9/10 {
				return true
			}
		}
		return false
	})
}

// TestTheNextLeaderGoesOnWithTheHistoryAndWhoComesKnowsIt: a node that has just started and has read nothing can tell the end.
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
		t.Errorf("%+v goes on as %+v", first.History, next.History)
	}
	late := f.start("n9")
	eventually(t, "who comes late knows how quick it is: a million bytes per second", func() bool {
		rate := late.Plan().Throughput
		return rate > 900_000 && rate < 1_100_000
	})
}

// TestTheLeaderKeepsBackThePartOfANodeThatItDoesNotHear: it is in the list of the store only.
func TestTheLeaderKeepsBackThePartOfANodeThatItDoesNotHear(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	deaf := &primitive.Nodes{Store: f.store, Clock: cms.SystemClock()}
	ctx, stop := context.WithCancel(t.Context())
	var listed sync.WaitGroup
	listed.Go(func() {
		for ctx.Err() == nil {
			_ = deaf.Advertise(ctx, primitive.Node{Token: "deaf"}) // the store may be busy: it is done again
			_ = cms.SystemClock().Sleep(ctx, 200*time.Millisecond)
		}
	})
	defer listed.Wait()
	defer stop()
	n := f.start("n0")
	eventually(t, "the leader has half of the rate by a plan", func() bool {
		n.mu.Lock()
		follows := n.follower.FollowedPlan(n.now())
		n.mu.Unlock()
		return follows > 0 && n.Plan().Rate == testRate/2
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

// testRate is the budget of a test's fleet, in bytes per second.
const testRate = 9_000_000

func testLoad() schedule.Load { return schedule.Load{Workers: 2, MaxWorkers: 4, Rate: 1000, Intent: 7} }

// The load has the version of the intent that a node follows. A change of it does not wait for the next report, 10 s later.
func TestTheVersionOfTheIntentIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	var version atomic.Int64
	n, err := Start(t.Context(), Config{
		Store: f.store, Clock: cms.SystemClock(), Workers: func() int { return 1 }, Scheduler: &schedule.Scheduler{}, Log: slog.New(slog.DiscardHandler),
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
