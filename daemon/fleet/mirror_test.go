package fleet

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/rfsd/rfsd/daemon/mirror"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// testReading returns a reading with a number of items, the first of which are completed.
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

// TestEveryNodeShowsTheLeadersReading has four nodes, one of them without a copy of the hints.
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
		eventually(t, "the leader publishes", func() bool { return leader.PublishReading(r) == nil })
		want, _, _ := status.Sum(r)
		for name, n := range f.nodes {
			if n == leader {
				continue
			}
			eventually(t, name+" has it", func() bool {
				is, err := n.Reading(t.Context(), true)
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
	eventually(t, "the others hear when it was published", func() bool {
		for _, n := range f.nodes {
			if n.Published().UnixMilli() != leader.reading.published.Load() {
				return false
			}
		}
		return true
	})
	// The leader is gone, and the store may be: a node that has not asked before gets what a voter has.
	f.stop(leader.gossip.Name())
	late := f.start("n9")
	eventually(t, "the former leader's reading is there", func() bool {
		is, err := late.Reading(t.Context(), true)
		return err == nil && is != nil && len(is.Items) == 1500
	})
	lead()
	show(testReading(1500, 710))
}

// TestReading_Asked: a node without a copy of the hints requests readings when an operator asks it, and otherwise within the common limit.
func TestReading_Asked(t *testing.T) {
	f := newTestFleet(t)
	one, two := f.start("n1"), f.start("n2")
	f.agree()
	leader, other := one, two
	eventually(t, "one leads and has a copy", func() bool {
		if two.Mirrors() {
			leader, other = two, one
		}
		return leader.Mirrors() && !other.isVoter() && len(other.voters()) == 1
	})
	r := testReading(3, 1)
	if err := leader.PublishReading(r); err != nil {
		t.Fatal(err)
	}
	read := func(asked bool) bool {
		t.Helper()
		is, err := other.Reading(t.Context(), asked)
		if err != nil {
			t.Error(err)
		}
		return is != nil
	}
	if !read(false) || read(true) {
		t.Error("a small fleet: each has a reading once")
	}
	other.reading.due = other.now().Add(time.Hour)
	if r.At = r.At.Add(time.Second); leader.PublishReading(r) != nil || read(false) || !read(true) {
		t.Error("not asked, it waits; asked, it does not")
	}
}

// TestReading_VotersAlwaysAsk: the leader's reading survives the leader, although no operator has asked another node.
func TestReading_VotersAlwaysAsk(t *testing.T) {
	f := newTestFleet(t)
	for i := range 3 {
		f.start(fmt.Sprint("n", i))
	}
	f.agree()
	var leader, voter *testNode
	eventually(t, "one of three voters leads", func() bool {
		leader, voter = nil, nil
		for _, n := range f.nodes {
			switch {
			case n.Mirrors():
				leader = n
			case n.isVoter() && len(n.voters()) == 2:
				voter = n
			}
		}
		return leader != nil && voter != nil
	})
	if err := leader.PublishReading(testReading(3, 1)); err != nil {
		t.Fatal(err)
	}
	voter.reading.due = voter.now().Add(time.Hour)
	if is, err := voter.Reading(t.Context(), false); err != nil || is == nil {
		t.Errorf("%+v, %v", is, err)
	}
}

// TestPackedReading_IsBounded: nodes that ask continuously get a few readings, then none.
func TestPackedReading_IsBounded(t *testing.T) {
	f := &Fleet{reading: reading{served: rate.NewLimiter(serveRate, serveBurst)}}
	f.reading.set(make([]byte, mirror.MaxPacked), time.Now())
	for range 4 {
		if b, err := f.PackedReading(time.Time{}); err != nil || len(b) == 0 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
	if b, err := f.PackedReading(time.Time{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
