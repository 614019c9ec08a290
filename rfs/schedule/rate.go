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

// PlanExpiry returns how long after it was made a plan of this life is followed by nobody.
func PlanExpiry(life time.Duration) time.Duration { return life * 3 / 2 }

// HoldTime returns how long after it heard its last plan of this life a node takes no more than that plan gave it.
func HoldTime(life time.Duration) time.Duration { return life * 5 / 2 }

// uncountedShare is the fraction of an equal share that a node uses while others may not count it.
const uncountedShare = 0.1

// NodeDemand is a node as the leader sees it.
type NodeDemand struct {
	Name     string
	Load     Load // last reported
	Reported bool // it has reported its load
	Listed   bool // it is live in the node list of the coordination store
}

// RateAllocator divides the rate on the leader, for one term.
type RateAllocator struct {
	granted map[string][]grant // grants that may still be in use, oldest first
}

type grant struct {
	number int64
	at     time.Time
	rate   int64
}

// Allocate returns the shares of a plan, in bytes per second by node; 0 proposes nothing to a node. number must be greater than
// those of all former plans; life is the plan's TTL. All shares count as received.
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

// maxInUse returns the highest rate that a node may be using by its grants, and whether it follows a plan. It drops grants that
// are no longer in use.
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

// unlisted returns the rate that may be in use by nodes that are neither listed nor reported any more.
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

// RateFollower determines the share of one node. PlanTTL is that of plans, as far as the node knows; ListingTTL is how long the
// node may be missing from the list before others stop counting it.
type RateFollower struct {
	PlanTTL, ListingTTL time.Duration

	number, rate int64     // of the last plan received
	until, hold  time.Time // end of following it, and of the limit it sets

	listed time.Time   // last update of the node list that was followed by a read
	joined bool        // all others have counted this node
	free   time.Time   // when all plans without it have expired
	counts []nodeCount // descending, oldest first; the last one is current
}

type nodeCount struct {
	nodes int
	until time.Time // still in effect until then, although the count is lower now
}

// Observe records a plan: its number, this node's share and its expiry by this node's clock. Known and older plans are ignored.
func (t *RateFollower) Observe(now, expires time.Time, number, rate int64, life time.Duration) {
	if number <= t.number || rate <= 0 || life <= 0 {
		return
	}
	t.number, t.rate, t.until, t.hold = number, rate, now.Add(life), now.Add(HoldTime(life))
	if expires.Before(t.until) {
		t.until = expires
	}
}

// ListingExpired reports whether a node that updates the list at this time joins: for the first time, or after it was missing for
// so long that others have to count it again.
func (t *RateFollower) ListingExpired(at time.Time) bool {
	return t.listed.IsZero() || at.Sub(t.listed) > t.ListingTTL
}

// ObserveList records that the node updated the list at a time and then read it: the number of live nodes, whether all others have
// updated it since this node joined, and whether a plan that does not count this node may still be followed.
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

// FollowedPlan returns the number of the plan that the node follows; 0: none.
func (t *RateFollower) FollowedPlan(now time.Time) int64 {
	if !t.Joined(now) || !now.Before(t.until) {
		return 0
	}
	return t.number
}

// Joined reports whether all others have counted the node and every plan without it has expired.
func (t *RateFollower) Joined(now time.Time) bool { return t.joined && !now.Before(t.free) }

// uncounted reports whether others may divide the whole budget without this node.
func (t *RateFollower) uncounted(now time.Time) bool {
	return !t.Joined(now) || !now.Before(t.until) && now.Sub(t.listed) > t.ListingTTL
}

// Share returns the node's share of the fleet's budget, in bytes per second. others is the number of live nodes by gossip. The
// zero RateFollower belongs to a node that is not listed yet.
func (t *RateFollower) Share(now time.Time, budget int64, others int) int64 {
	nodes := max(others, 1)
	for _, c := range t.counts {
		if c.until.IsZero() || now.Before(c.until) {
			nodes = max(nodes, c.nodes)
		}
	}
	if t.listed.IsZero() { // only the maximum length of the list is known
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
