package schedule

import "time"

// The rate of a fleet is divided by two sides that never see each other's state: the leader (Divider) and each node (Taker).
// What follows holds while clocks run equally fast, however wrong they are, and a plan that was made is heard within half a
// life or not at all; the test of this file plays it.
//
//   - A plan is followed for one life at most, so 1½ lives after it was made nobody does (Spent).
//   - A node whose plan ran out takes at most what it had and at most an equal part until Hold has passed since it heard it,
//     then an equal part. The leader believes that a node follows for one life after the plan that the node named last, and
//     from then on keeps back an equal part: when the node takes it, every plan that counted on less is spent.
//   - The leader raises one node only by what all others cannot be taking any more. Of a node that follows that is the most it
//     was allotted since the plan it named last.
//   - An equal part is of all nodes that live by the list in the store. A node that others may not count has no part unless it
//     follows: one that joins until all others have counted it and all plans without it are spent, and one that cannot reach
//     the list while others may have ceased to count it. So when two nodes count differently, the one that counts less leaves
//     out only nodes without a part, and what the other keeps back for those covers the difference.
//   - A node that counts fewer than before takes the smaller part for another Hold: plans that counted on it are spent then.
//   - A new leader divides nothing until the plans of the one before are spent.
//
// So the parts never add up to more than the budget. A node without a part still goes on, at a tenth of an equal one
// (uncountedShare): that is the only excess, and it ends when the node is counted.

// PlanExpiry is how long after it was made a plan of this life is followed by nobody.
func PlanExpiry(life time.Duration) time.Duration { return life * 3 / 2 }

// HoldTime is how long after it heard its last plan of this life a node takes no more than that plan gave it.
func HoldTime(life time.Duration) time.Duration { return life * 5 / 2 }

// uncountedShare is the part of an equal part that a node takes while others may not count it.
const uncountedShare = 0.1

// NodeDemand is a node as the leader knows it.
type NodeDemand struct {
	Name     string
	Load     Load // what it told last
	Reported bool // it told its load
	Listed   bool // it lives by the list of the coordination store
}

// RateAllocator is the leader's side, for one term.
type RateAllocator struct {
	granted map[string][]grant // what may still be taken, oldest first
}

type grant struct {
	number int64
	at     time.Time
	rate   int64
}

// Allocate makes the plan with this number, greater than all before: what each node may take from now on, in bytes per second; 0
// proposes nothing to it. life is that of the plan. What it gives counts as heard.
func (d *RateAllocator) Allocate(now time.Time, number, budget int64, life time.Duration, nodes []NodeDemand) []int64 {
	if d.granted == nil {
		d.granted = map[string][]grant{}
	}
	listed := int64(0)
	for _, n := range nodes {
		if n.Listed {
			listed++
		}
	}
	equal := budget / max(listed, 1)
	left, room := budget, budget-d.unlisted(now, life, nodes)
	most := make([]int64, len(nodes)) // that each may be taking by what it was allotted
	follows := make([]bool, len(nodes))
	var loads []Load
	for i, n := range nodes {
		most[i], follows[i] = d.maxInUse(now, life, n)
		if follows[i] {
			room -= most[i]
			loads = append(loads, n.Load)
			continue
		}
		if n.Listed {
			left -= equal
			room -= max(most[i], equal)
		} else {
			room -= most[i]
		}
	}
	parts, wanted, more := make([]int64, len(nodes)), AllocateShares(max(left, 0), loads), int64(0)
	for i := range nodes {
		if !follows[i] {
			continue
		}
		parts[i], wanted = wanted[0], wanted[1:]
		more += max(parts[i]-most[i], 0)
	}
	for i, n := range nodes {
		switch {
		case follows[i]:
			if raise := parts[i] - most[i]; raise > 0 {
				parts[i] = most[i] + min(raise, int64(float64(raise)*float64(max(room, 0))/float64(more)))
			}
		case n.Reported && n.Listed:
			parts[i] = equal
			if last, ok := d.lastGrant(n.Name); ok && room < 0 {
				parts[i] = min(last, equal)
			}
		}
		if parts[i] > 0 {
			d.granted[n.Name] = append(d.granted[n.Name], grant{number, now, parts[i]})
		}
	}
	return parts
}

// maxInUse is the most that a node may be taking of what it was allotted, and whether it follows. What it has left behind is
// forgotten.
func (d *RateAllocator) maxInUse(now time.Time, life time.Duration, n NodeDemand) (most int64, follows bool) {
	all := d.granted[n.Name]
	for len(all) > 0 && now.Sub(all[0].at) > HoldTime(life) {
		all = all[1:]
	}
	for i, g := range all {
		if n.Reported && g.number == n.Load.Plan {
			follows = now.Sub(g.at) <= life
			all = all[i:]
			break
		}
	}
	d.granted[n.Name] = all
	if len(all) == 0 {
		delete(d.granted, n.Name)
	}
	for _, g := range all {
		if now.Sub(g.at) <= PlanExpiry(life) {
			most = max(most, g.rate)
		}
	}
	return most, follows
}

// unlisted is what nodes may be taking that are neither listed nor heard any more.
func (d *RateAllocator) unlisted(now time.Time, life time.Duration, nodes []NodeDemand) (sum int64) {
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Name] = true
	}
	for name := range d.granted {
		if !known[name] {
			most, _ := d.maxInUse(now, life, NodeDemand{Name: name})
			sum += most
		}
	}
	return sum
}

func (d *RateAllocator) lastGrant(name string) (int64, bool) {
	all := d.granted[name]
	if len(all) == 0 {
		return 0, false
	}
	return all[len(all)-1].rate, true
}

// RateFollower is a node's side. Life is that of plans, as far as the node knows; Lapse is how long the node may be out of the list
// before others cease to count it.
type RateFollower struct {
	PlanTTL, ListingTTL time.Duration

	number, rate int64     // of the plan that was heard last
	until, hold  time.Time // it is followed, and binds

	listed time.Time   // when the node was last written to the list that it then read
	joined bool        // all others have counted it
	free   time.Time   // and the plans without it are spent
	counts []nodeCount // of nodes, falling, oldest first; the last one is now's
}

type nodeCount struct {
	nodes int
	until time.Time // it counts for so long although it is less now
}

// Observe takes a plan: its number, what it gives this node and when it ends by this node's clock. A plan that was heard already,
// or an older one, changes nothing.
func (t *RateFollower) Observe(now, expires time.Time, number, rate int64, life time.Duration) {
	if number <= t.number || rate <= 0 || life <= 0 {
		return
	}
	t.number, t.rate, t.until, t.hold = number, rate, now.Add(life), now.Add(HoldTime(life))
	if expires.Before(t.until) {
		t.until = expires
	}
}

// ListingExpired says whether a node that is written to the list at this instant joins: for the first time, or after it was out for so
// long that others have to count it anew.
func (t *RateFollower) ListingExpired(at time.Time) bool {
	return t.listed.IsZero() || at.Sub(t.listed) > t.ListingTTL
}

// ObserveList says that the node was written to the list at an instant and then read it: how many nodes live by it, whether all others
// have been in it again since this node joined, and whether a plan that does not count it may still be followed.
func (t *RateFollower) ObserveList(at, now time.Time, nodes int, counted, plans bool) {
	if t.ListingExpired(at) {
		t.joined = false
	}
	if !t.joined && counted {
		t.joined, t.free = true, now
		if plans {
			t.free = now.Add(PlanExpiry(t.PlanTTL))
		}
	}
	t.listed = at
	t.count(now, nodes)
}

func (t *RateFollower) count(now time.Time, nodes int) {
	keep := t.counts[:0]
	for _, c := range t.counts {
		if c.nodes > nodes && (c.until.IsZero() || now.Before(c.until)) {
			if c.until.IsZero() {
				c.until = now.Add(HoldTime(t.PlanTTL))
			}
			keep = append(keep, c)
		}
	}
	t.counts = append(keep, nodeCount{nodes: nodes})
}

// FollowedPlan is the number of the plan that the node follows; 0: none.
func (t *RateFollower) FollowedPlan(now time.Time) int64 {
	if !t.Joined(now) || !now.Before(t.until) {
		return 0
	}
	return t.number
}

// Joined says whether all others have counted the node and every plan without it is spent.
func (t *RateFollower) Joined(now time.Time) bool { return t.joined && !now.Before(t.free) }

// uncounted says whether others may divide the whole without this node.
func (t *RateFollower) uncounted(now time.Time) bool {
	return !t.Joined(now) || !now.Before(t.until) && now.Sub(t.listed) > t.ListingTTL
}

// Share is what the node may send of the whole fleet's budget, in bytes per second. others is how many nodes live as far as it
// hears itself. A zero Taker is that of a node that is in no list yet.
func (t *RateFollower) Share(now time.Time, budget int64, others int) int64 {
	nodes := max(others, 1)
	for _, c := range t.counts {
		if c.until.IsZero() || now.Before(c.until) {
			nodes = max(nodes, c.nodes)
		}
	}
	if t.listed.IsZero() { // of the list it knows only how long it may be
		nodes = max(nodes, maxNodes)
	}
	equal := budget / int64(nodes)
	part := equal
	switch {
	case t.uncounted(now):
		part = int64(uncountedShare * float64(equal))
	case now.Before(t.until):
		part = t.rate
	case now.Before(t.hold):
		part = min(t.rate, equal)
	}
	return max(min(part, budget), 1)
}
