package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The times of a fleet, as daemon/fleet has them.
const (
	testLife, testLapse = time.Minute, time.Minute
	testLiving          = 75 * time.Second // in the list
)

// playedNode is a node of a played fleet: what it knows, and what it cannot hear.
type playedNode struct {
	name    string
	taker   RateFollower
	workers int
	nextAd  time.Duration
	nextAsk time.Duration // for hints
	nextSay time.Duration // its load
	joined  time.Duration
	dead    bool

	noGossip, noHints, noStore time.Duration // until then
}

// played is a fleet in virtual time: the list in the store, the hints, and who leads.
type played struct {
	t      *testing.T
	rand   *rand.Rand
	now    time.Duration
	budget int64
	nodes  []*playedNode
	list   map[string]time.Duration
	told   map[string]struct { // by gossip
		load Load
		at   time.Duration
	}
	plan    map[string]playedPlan // by Raft
	divided time.Duration         // by the store
	leader  *playedNode
	term    RateAllocator
	quiet   time.Duration
	nextDiv time.Duration
	worst   float64
}

type playedPlan struct {
	number, rate int64
	expires      time.Duration
}

var epoch = time.Unix(1_000_000_000, 0)

func at(d time.Duration) time.Time { return epoch.Add(d) }

func (f *played) about(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(f.rand.Int64N(int64(d/2)))
}

func (f *played) join() {
	n := &playedNode{name: fmt.Sprintf("n%03d", len(f.nodes)), workers: f.rand.IntN(9), nextAd: f.now, nextAsk: f.now + f.about(10*time.Second), nextSay: f.now}
	n.taker = RateFollower{PlanTTL: testLife, ListingTTL: testLapse}
	f.nodes = append(f.nodes, n)
}

// living returns the nodes that live by the list.
func (f *played) living() map[string]time.Duration {
	newest, all := time.Duration(-1), map[string]time.Duration{}
	for _, seen := range f.list {
		newest = max(newest, seen)
	}
	for name, seen := range f.list {
		if newest-seen <= testLiving {
			all[name] = seen
		}
	}
	return all
}

func (f *played) advertise(n *playedNode) {
	n.nextAd = f.now + f.about(30*time.Second)
	if f.now < n.noStore {
		return
	}
	f.list[n.name] = f.now
	if n.taker.ListingExpired(at(f.now)) {
		n.joined = f.now
	}
	living, counted := f.living(), true
	for name, seen := range living {
		counted = counted && (name == n.name || seen > n.joined)
	}
	n.taker.ObserveList(at(f.now), at(f.now), len(living), counted, f.divided > 0 && f.now-f.divided <= PlanExpiry(testLife))
}

func (f *played) ask(n *playedNode) {
	n.nextAsk = f.now + f.about(10*time.Second)
	if p, ok := f.plan[n.name]; ok && f.now >= n.noHints && f.now < p.expires {
		n.taker.Observe(at(f.now), at(p.expires), p.number, p.rate, testLife)
	}
}

func (f *played) lead() {
	if f.leader == nil || f.leader.dead || f.rand.IntN(40) == 0 {
		f.leader, f.term, f.quiet = nil, RateAllocator{}, 0
		var able []*playedNode
		for _, n := range f.nodes {
			if !n.dead && f.now >= n.noStore {
				able = append(able, n)
			}
		}
		if len(able) == 0 {
			return
		}
		f.leader = able[f.rand.IntN(len(able))]
		if f.divided > 0 {
			f.quiet = f.divided + PlanExpiry(testLife)
		}
	}
	f.nextDiv = f.now + f.about(15*time.Second)
	if f.now < f.leader.noStore || f.now < f.quiet {
		return
	}
	var askers []NodeDemand
	living := f.living()
	for _, n := range f.nodes {
		_, listed := living[n.name]
		told, heard := f.told[n.name]
		heard = heard && f.now-told.at <= 30*time.Second && f.now >= f.leader.noGossip || n == f.leader
		if n == f.leader {
			told.load = f.load(n)
		}
		if listed || heard {
			askers = append(askers, NodeDemand{Name: n.name, Load: told.load, Reported: heard, Listed: listed})
		}
	}
	f.divided = f.now
	for i, part := range f.term.Allocate(at(f.now), int64(f.now), f.budget, testLife, askers) {
		if part > 0 && f.now >= f.leader.noHints {
			f.plan[askers[i].Name] = playedPlan{int64(f.now), part, f.now + testLife}
		}
	}
}

func (f *played) load(n *playedNode) Load {
	return Load{Workers: n.workers, MaxWorkers: 8, Plan: n.taker.FollowedPlan(at(f.now))}
}

// step plays a second and looks at what all take together.
func (f *played) step() {
	f.now += time.Second
	switch f.rand.IntN(30) { // something happens
	case 0:
		if len(f.nodes) < 40 {
			f.join()
		}
	case 1:
		n := f.nodes[f.rand.IntN(len(f.nodes))]
		n.dead = f.rand.IntN(3) == 0
	case 2, 3, 4:
		n, deaf := f.nodes[f.rand.IntN(len(f.nodes))], f.now+time.Duration(f.rand.IntN(300))*time.Second
		switch f.rand.IntN(3) {
		case 0:
			n.noGossip = deaf
		case 1:
			n.noHints = deaf
		default:
			n.noStore = deaf
		}
	case 5, 6:
		f.nodes[f.rand.IntN(len(f.nodes))].workers = f.rand.IntN(9)
	}
	for _, n := range f.nodes {
		if n.dead {
			continue
		}
		if f.now >= n.nextAd {
			f.advertise(n)
		}
		if f.now >= n.nextAsk {
			f.ask(n)
		}
		if f.now >= n.nextSay {
			n.nextSay = f.now + 10*time.Second
			if f.now >= n.noGossip {
				f.told[n.name] = struct {
					load Load
					at   time.Duration
				}{f.load(n), f.now}
			}
		}
	}
	if f.now >= f.nextDiv {
		f.lead()
	}
	f.check()
}

func (f *played) check() {
	var sum int64
	for _, n := range f.nodes {
		if n.dead {
			continue
		}
		now := at(f.now)
		part := n.taker.Share(now, f.budget, 1)
		if part <= 0 || part > f.budget {
			f.t.Fatalf("%s takes %d of %d", n.name, part, f.budget)
		}
		if n.taker.uncounted(now) {
			if part > f.budget/10 {
				f.t.Fatalf("%s takes %d of %d, and nobody counts it", n.name, part, f.budget)
			}
			continue
		}
		sum += part
	}
	f.worst = max(f.worst, float64(sum)/float64(f.budget))
	if sum > f.budget+int64(len(f.nodes)) {
		for _, n := range f.nodes {
			if !n.dead {
				f.t.Logf("%s takes %d: follows %d, %+v", n.name, n.taker.Share(at(f.now), f.budget, 1), n.taker.FollowedPlan(at(f.now)), n.taker)
			}
		}
		f.t.Fatalf("after %v the nodes take %d of %d", f.now, sum, f.budget)
	}
}

// TestTheNodesOfAFleetNeverTakeMoreThanItsRate: whoever hears nothing, joins, dies, leads or counts differently, and for any loads.
func TestTheNodesOfAFleetNeverTakeMoreThanItsRate(t *testing.T) {
	used, steps := 0.0, 0
	for seed := range uint64(40) {
		f := &played{t: t, rand: rand.New(rand.NewPCG(seed, 1)), budget: 1_000_000, list: map[string]time.Duration{}, plan: map[string]playedPlan{}}
		f.told = map[string]struct {
			load Load
			at   time.Duration
		}{}
		for range 1 + f.rand.IntN(5) {
			f.join()
		}
		for range 3600 {
			f.step()
			steps++
		}
		used += f.worst
	}
	t.Logf("%d seconds of 40 fleets; at their best they took %.2f of the rate", steps, used/40)
	if used/40 < 0.99 {
		t.Error("no fleet ever uses its rate")
	}
}

// TestAFleetThatHearsGivesTheRateToWhoWorks: within a few minutes nearly all of the rate is where the workers are, and it follows them.
func TestAFleetThatHearsGivesTheRateToWhoWorks(t *testing.T) {
	f := &played{t: t, rand: rand.New(rand.NewPCG(7, 7)), budget: 1_000_000, list: map[string]time.Duration{}, plan: map[string]playedPlan{}}
	f.told = map[string]struct {
		load Load
		at   time.Duration
	}{}
	for range 4 {
		f.join()
	}
	calm := func(steps int) {
		for range steps {
			f.now += time.Second
			for _, n := range f.nodes {
				if f.now >= n.nextAd {
					f.advertise(n)
				}
				if f.now >= n.nextAsk {
					f.ask(n)
				}
				if f.now >= n.nextSay {
					n.nextSay = f.now + 10*time.Second
					f.told[n.name] = struct {
						load Load
						at   time.Duration
					}{f.load(n), f.now}
				}
			}
			if f.leader == nil {
				f.leader = f.nodes[0]
			}
			if f.now >= f.nextDiv {
				leader := f.leader
				f.lead()
				if f.leader != leader { // another leads, and knows nothing
					calmed := f.now
					f.quiet = min(f.quiet, calmed+PlanExpiry(testLife))
				}
			}
			f.check()
		}
	}
	for _, busy := range []int{0, 3} {
		for i, n := range f.nodes {
			n.workers = 0
			if i == busy {
				n.workers = 8
			}
		}
		best := int64(0)
		for range 20 {
			calm(60)
			best = max(best, f.nodes[busy].taker.Share(at(f.now), f.budget, 1))
		}
		if best < 900_000 {
			t.Errorf("node %d works alone and takes %d of 1000000 at best", busy, best)
		}
	}
}
