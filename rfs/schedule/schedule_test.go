package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
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
		s.Learn(catalogue(9))
		s.Stand(Place{Position: node, Nodes: 3, Workers: 9})
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
	s.Learn(catalogue(5))
	s.Stand(Place{Nodes: 1})
	s.HandedOff(id("logs", 1, 77))
	s.Taken(id("logs", 4, 0), now.Add(time.Minute))
	s.Poisoned(id("logs", 3, 0))
	if got, want := s.Propose(now, 3), []string{id("logs", 1, 77), id("logs", 2, 0), id("logs", 1, 0)}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := s.Propose(now.Add(2*time.Minute), 1); !slices.Equal(got, []string{id("logs", 4, 0)}) {
		t.Errorf("an item whose lease is over is not proposed: %v", got)
	}
	s.Throttled("logs", now.Add(time.Hour))
	if got := s.Propose(now, 3); len(got) != 0 {
		t.Errorf("a throttled index is proposed: %v", got)
	}
}

func TestCandidatesAreOrderedAndOnlyDelayed(t *testing.T) {
	var s Scheduler
	s.Learn(catalogue(40))
	s.Stand(Place{Nodes: 2})
	var items []cms.Item
	for i := range 40 {
		items = append(items, cms.NewItem(id("logs", i, 0), "c", 0))
	}
	theirs := cms.NewItem(id("logs", 3, 500), "c", 0) // its creator is about to go on with it
	items = append(items, cms.Item{ID: "rubbish"}, theirs)
	s.Taken(id("logs", 38, 0), now.Add(time.Minute))
	s.Poisoned(id("logs", 39, 0))
	ids := func(at time.Time) (all []string) {
		for _, it := range s.Choose(slices.Clone(items), at) {
			all = append(all, it.ID)
		}
		return all
	}
	first := ids(now)
	if len(first) != 40 || slices.Contains(first, id("logs", 38, 0)) || slices.Contains(first, theirs.ID) {
		t.Errorf("%d items: %v", len(first), first)
	}
	if last := first[len(first)-1]; last != id("logs", 39, 0) {
		t.Errorf("an item that broke a worker here is not the last, but %s", last)
	}
	if later := ids(now.Add(2 * time.Minute)); len(later) != len(items) {
		t.Errorf("after a while %d of %d items are offered", len(later), len(items))
	}
	var none Scheduler
	if all := none.Choose(slices.Clone(items), now); len(all) != len(items) {
		t.Errorf("without hints %d of %d items are offered", len(all), len(items))
	}
}

func TestWithoutHintsNothingIsProposedOrDelayed(t *testing.T) {
	var s Scheduler
	if got := s.Propose(now, 10); len(got) != 0 {
		t.Errorf("%v", got)
	}
	s.Learn(catalogue(3)) // sizes, but nobody knows the fleet
	if got := s.Propose(now, 10); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if p := (Place{}); p.Pause() != 0 || p.Exponent(10*time.Minute) != 0 {
		t.Errorf("pause %v, exponent %d", p.Pause(), p.Exponent(10*time.Minute))
	}
}

func TestBigFleetsTakeLongerLeasesAndStartSlowly(t *testing.T) {
	for _, c := range []struct {
		place    Place
		exponent int
		pause    time.Duration
	}{
		{Place{Nodes: 3, Workers: 12}, 0, 200 * time.Millisecond},
		{Place{Nodes: 50, Workers: 2000}, 0, 3333 * time.Millisecond},
		{Place{Nodes: 500, Workers: 20000}, 2, 33333 * time.Millisecond},
	} {
		if got := c.place.Exponent(10 * time.Minute); got != c.exponent {
			t.Errorf("%+v: exponent %d", c.place, got)
		}
		if got := c.place.Pause(); got.Truncate(time.Millisecond) != c.pause {
			t.Errorf("%+v: pause %v", c.place, got)
		}
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	var s Scheduler
	for i := range maxTaken + 10 {
		if i > maxTaken-5 {
			s.Taken(fmt.Sprint(i), now.Add(time.Hour))
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

func BenchmarkChoose(b *testing.B) {
	var s Scheduler
	s.Learn(catalogue(20000))
	items := make([]cms.Item, 32)
	for i := range items {
		items[i] = cms.NewItem(id("logs", i*100, 0), "c", 0)
	}
	for b.Loop() {
		s.Choose(slices.Clone(items), now)
	}
}
