package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

var now = time.Unix(1_000_000, 0)

func id(index string, shard int, cursor int64) string {
	return cms.ItemID{Index: index, Shard: shard, Cursor: cursor}.String()
}

func catalogue(n int) (all []Shard) {
	for i := range n {
		all = append(all, Shard{Index: "logs", Shard: i, Bytes: int64(1000 + i)})
	}
	return all
}

func TestNodesProposeTheirOwnShareOfTheBiggest(t *testing.T) {
	seen := map[string]int{}
	for node := range 3 {
		var s Scheduler
		s.SetShards(catalogue(9))
		s.SetPosition(NodePosition{Position: node, Nodes: 3, Workers: 9})
		got := s.Propose(now, 10)
		if want := []string{id("logs", 8-node, 0), id("logs", 5-node, 0), id("logs", 2-node, 0)}; !slices.Equal(got, want) {
			t.Errorf("node %d proposes %v", node, got)
		}
		for _, g := range got {
			seen[g]++
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d of 9 shards are proposed", len(seen))
	}
}

func TestWhatWasHandedOffComesFirstAndWhatIsKnownAgainstAnItemKeepsItBack(t *testing.T) {
	var s Scheduler
	s.SetShards(catalogue(5))
	s.SetPosition(NodePosition{Nodes: 1})
	s.AddHandedOff(id("logs", 1, 77))
	s.MarkTaken(id("logs", 4, 0), now.Add(time.Minute))
	s.MarkTaken(id("logs", 3, 0), now.Add(time.Hour)) // it broke a worker
	if got, want := s.Propose(now, 3), []string{id("logs", 1, 77), id("logs", 2, 0), id("logs", 1, 0)}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := s.Propose(now.Add(2*time.Minute), 1); !slices.Equal(got, []string{id("logs", 4, 0)}) {
		t.Errorf("an item whose lease is over is not proposed: %v", got)
	}
	if !s.IsBusy(id("logs", 3, 0), now) || s.IsBusy(id("logs", 3, 0), now.Add(2*time.Hour)) {
		t.Error("what is known of an item is not forgotten in time")
	}
}

func TestWhatOthersHeldAtTheLastReadingIsNotProposed(t *testing.T) {
	var s Scheduler
	s.SetShards(catalogue(3))
	s.SetPosition(NodePosition{Nodes: 1})
	s.MarkBusy(map[string]bool{id("logs", 2, 0): true, "of another fleet": true}, now.Add(time.Minute))
	if got, want := s.Propose(now, 2), []string{id("logs", 1, 0), id("logs", 0, 0)}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := s.Propose(now.Add(2*time.Minute), 1); !slices.Equal(got, []string{id("logs", 2, 0)}) {
		t.Errorf("an old reading still speaks against an item: %v", got)
	}
	s.MarkBusy(nil, now.Add(time.Minute))
	if got := s.Propose(now, 1); !slices.Equal(got, []string{id("logs", 2, 0)}) {
		t.Errorf("an item that is free again is not proposed: %v", got)
	}
}

func TestWithoutHintsNothingIsProposedOrDelayed(t *testing.T) {
	var s Scheduler
	if got := s.Propose(now, 10); len(got) != 0 {
		t.Errorf("%v", got)
	}
	s.SetShards(catalogue(3)) // sizes, but the fleet is unknown
	if got := s.Propose(now, 10); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if p := (NodePosition{}); p.StartInterval() != 0 || p.MinExponent(10*time.Minute) != 0 {
		t.Errorf("pause %v, exponent %d", p.StartInterval(), p.MinExponent(10*time.Minute))
	}
}

func TestBigFleetsTakeLongerLeasesAndStartSlowly(t *testing.T) {
	for _, c := range []struct {
		place    NodePosition
		exponent int
		pause    time.Duration
	}{
		{NodePosition{Nodes: 3, Workers: 12}, 0, 0},
		{NodePosition{Nodes: 10, Workers: 80}, 0, 2 * time.Second},
		{NodePosition{Nodes: 50, Workers: 2000}, 1, 15333 * time.Millisecond},
		{NodePosition{Nodes: 100, Workers: 4000}, 2, 32 * time.Second},
		{NodePosition{Nodes: 500, Workers: 20000}, 4, 165333 * time.Millisecond},
	} {
		if got := c.place.MinExponent(10 * time.Minute); got != c.exponent {
			t.Errorf("%+v: exponent %d", c.place, got)
		}
		if got := c.place.StartInterval(); got.Truncate(time.Millisecond) != c.pause {
			t.Errorf("%+v: pause %v", c.place, got)
		}
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	var s Scheduler
	for i := range maxTaken + 10 {
		if i > maxTaken-5 {
			s.MarkTaken(fmt.Sprint(i), now.Add(time.Hour))
			continue
		}
		if s.taken == nil {
			s.taken = map[string]time.Time{}
		}
		s.taken[fmt.Sprint(i)] = now
	}
	if len(s.taken) > maxTaken {
		t.Errorf("%d items are remembered", len(s.taken))
	}
}

func BenchmarkPropose(b *testing.B) {
	var s Scheduler
	s.SetShards(catalogue(20000))
	s.SetPosition(NodePosition{Nodes: 500})
	for b.Loop() {
		s.Propose(now, 4)
	}
}

// TestTheMoreThereAreTheLessOftenEachAsks: periodic operations of nodes and workers, which a small fleet makes without delay.
func TestTheMoreThereAreTheLessOftenEachAsks(t *testing.T) {
	const took = 2 * time.Second
	for _, c := range []struct {
		place                         NodePosition
		intent, events, read, records time.Duration
	}{
		{NodePosition{}, 2 * time.Second, 10 * time.Second, 8 * time.Second, 10 * time.Second},
		{NodePosition{Nodes: -5, Workers: -7}, 2 * time.Second, 10 * time.Second, 8 * time.Second, 10 * time.Second},
		{NodePosition{Nodes: 5, Workers: 100}, 2 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second},
		{NodePosition{Nodes: 100, Workers: 4000}, 20 * time.Second, 50 * time.Second, 200 * time.Second, 133_333_333_333},
		{NodePosition{Nodes: 500, Workers: 20000}, 100 * time.Second, 250 * time.Second, 15 * time.Minute, 666_666_666_666},
	} {
		got := []time.Duration{c.place.Interval(2*time.Second, IntentRate), c.place.Interval(10*time.Second, EventRate), c.place.ReadInterval(4*took, took), c.place.RecordInterval()}
		if want := []time.Duration{c.intent, c.events, c.read, c.records}; !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", c.place, got, want)
		}
	}
}

func TestACrowdTriesFewOfWhatASearchFinds(t *testing.T) {
	for nodes, want := range map[int]int{0: 0, 1: 0, 16: 0, 17: 30, 50: 10, 500: 2, 4096: 2} {
		if got := (NodePosition{Nodes: nodes}).MaxTries(); got != want {
			t.Errorf("%d nodes: %d, want %d", nodes, got, want)
		}
	}
	if first, last := (NodePosition{Nodes: 500}).StartDelay(), (NodePosition{Nodes: 500, Position: 499}).StartDelay(); first != 0 || last < 160*time.Second || last > (NodePosition{Nodes: 500}).StartInterval() {
		t.Errorf("nodes start between %v and %v", first, last)
	}
}
