package fleet

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/mirror"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/store"
)

// testReading returns a reading of so many items of which the first done are completed.
func testReading(items, done int) *progress.Reading {
	r := &progress.Reading{At: time.UnixMilli(time.Now().UnixMilli()), Intent: progress.Intent{State: "run"}, Snapshot: "snap"}
	for i := range items {
		it := cms.NewItem(cms.ItemID{Index: "logs", Shard: i}.String(), "n1_w1_a", 0)
		if i < done {
			it.CompletedAt, it.Counts.Indexed = 1_000_000_000, int64(i)
		}
		r.Items = append(r.Items, it)
	}
	return r
}

// TestEveryNodeShowsTheLeadersReading has four nodes, of which one has no copy of the hints.
func TestEveryNodeShowsTheLeadersReading(t *testing.T) {
	f := newTestFleet(t)
	for i := range 4 {
		f.start(fmt.Sprint("n", i))
	}
	f.agree()
	var leader *testNode
	lead := func() {
		t.Helper()
		eventually(t, "a leader with a copy of the hints", func() bool {
			for _, n := range f.nodes {
				if leader = n; n.Mirrors() {
					return true
				}
			}
			return false
		})
	}
	copies := func() (n int) {
		for _, x := range f.nodes {
			if x.isVoter() {
				n++
			}
		}
		return n
	}
	eventually(t, "three of four have a copy", func() bool { return copies() == 3 })
	show := func(r *progress.Reading) {
		t.Helper()
		lead()
		eventually(t, "the leader publishes", func() bool { return leader.PublishReading(t.Context(), r) == nil })
		want, _, _ := status.Sum(r)
		for name, n := range f.nodes {
			eventually(t, name+" has it", func() bool {
				is, err := n.Reading(true)
				if err != nil || is == nil {
					return false
				}
				m, _, _ := status.Sum(is)
				return reflect.DeepEqual(m, want)
			})
		}
	}
	show(testReading(2000, 5))
	show(testReading(2000, 700))
	show(testReading(1500, 700)) // items are gone
	lead()
	f.stop(leader.gossip.Name())
	lead()
	r := testReading(1500, 710)
	before := leader.reading.index
	show(r)
	after, err := leader.hintStore().Changes(kindMirror, before)
	if n := len(after.Hints); err != nil || n == 0 || n > 30 || before == 0 {
		t.Errorf("a new leader wrote %d parts for ten items: %v", n, err)
	}
	eventually(t, "all hear when it was published", func() bool {
		for _, n := range f.nodes {
			if !n.Published().Equal(r.At) {
				return false
			}
		}
		return true
	})
}

// TestAVoterThatLiesAboutItsChanges answers without an end, and with an index that goes back.
func TestAVoterThatLiesAboutItsChanges(t *testing.T) {
	r := &reading{copy: &mirror.Copy{}}
	asked := 0
	if _, err := r.take(func(since uint64) (store.Changes, error) {
		asked++
		return store.Changes{Index: since + 1, More: true}, nil
	}); err != nil || asked != maxPages {
		t.Errorf("%d requests: %v", asked, err)
	}
	if _, err := r.take(func(uint64) (store.Changes, error) { return store.Changes{Index: 1}, nil }); err == nil || r.index != maxPages {
		t.Errorf("an answer of the past was taken: %d", r.index)
	}
}
