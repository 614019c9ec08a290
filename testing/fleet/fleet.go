// Package fleet plays a whole fleet in virtual time: hundreds of nodes, thousands of workers, shards of
// skewed sizes. Items change by the real transitions and are chosen by the real scheduler; what is
// played is time, the store's search (which lags behind writes) and the reading of bytes.
package fleet

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/schedule"
)

// Config says what is played.
type Config struct {
	Nodes, Workers int // workers of the whole fleet
	Shards         int
	Mean           int64   // bytes of a shard on average
	Skew           float64 // sigma of the logarithm of the sizes
	Rate           float64 // bytes per second of a worker
	Setup          time.Duration
	Lease          time.Duration // initial
	Hints          bool
	Deaths         int // nodes that die at random times in the first quarter of the least time, for good
	Seed           uint64
}

// Result is what came of it.
type Result struct {
	Makespan time.Duration
	Least    time.Duration // no schedule is quicker: the biggest shard alone, or all bytes over all workers
	Ops      int           // operations on the coordination store
	Mean     float64       // operations per second from start to end
	Peak     float64       // operations per second in the busiest minute
	Lost     int           // acquisitions that found the item taken
	Again    float64       // bytes that were read more than once, of all
	Problems []string      // shards that are not done, or done with a gap
}

const (
	refresh    = time.Second          // what was written is found by a search after this long at most
	round      = 5 * time.Millisecond // of one operation
	candidates = 32
	idle       = 30 * time.Second // between two looks of a node that found nothing free
	rounds     = 8                // of candidates that all went to others, before a node waits
	holderName = "n%d_w%d_%d"
)

type item struct {
	cms.Item
	end int64 // bytes of the shard; an ordinal is a byte here
}

type event struct {
	at  time.Duration
	seq int
	run func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any     { e := (*q)[len(*q)-1]; *q = (*q)[:len(*q)-1]; return e }

type world struct {
	Config
	rng    *rand.Rand
	now    time.Duration
	events queue
	seq    int

	items    map[string]*item
	open     map[string]*item
	found    []*item // what a search saw last
	foundAt  time.Duration
	dirty    bool
	shards   []schedule.Shard
	ops      int
	minutes  []int
	lost     int
	read     int64
	lastDone time.Duration
}

type node struct {
	number  int
	sched   *schedule.Scheduler
	waiting []int // free slots
	asking  bool  // one slot looks for work at a time
	dead    bool
	leases  int
	rounds  int           // of searches whose candidates all went to others
	quiet   time.Duration // no search before
	died    time.Duration
}

// Play runs the world to its end.
func Play(c Config) Result {
	w := &world{Config: c, rng: rand.New(rand.NewPCG(c.Seed, 7)), items: map[string]*item{}, open: map[string]*item{}, foundAt: -refresh}
	w.seed()
	nodes := make([]*node, c.Nodes)
	for i := range nodes {
		n := &node{number: i, sched: &schedule.Scheduler{}}
		if c.Hints {
			n.sched.Learn(w.shards)
		}
		for slot := i; slot < c.Workers; slot += c.Nodes {
			n.waiting = append(n.waiting, slot)
		}
		nodes[i] = n
	}
	w.stand(nodes)
	for _, n := range nodes {
		w.after(time.Duration(w.rng.Int64N(int64(time.Second)))+w.spread(n), func() { w.ask(n) })
	}
	for range c.Deaths {
		victim := nodes[w.rng.IntN(len(nodes))]
		w.after(time.Duration(w.rng.Int64N(int64(w.least()/4)+1)), func() {
			victim.dead, victim.died = true, w.now
			w.after(10*time.Second, func() { w.stand(nodes) }) // gossip notices
		})
	}
	for len(w.events) > 0 && len(w.open) > 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.run()
	}
	return w.result()
}

// spread lets the nodes of a fleet that knows itself begin one after the other.
func (w *world) spread(n *node) time.Duration {
	if !w.Hints {
		return 0
	}
	p := schedule.Place{Nodes: w.Nodes}
	return p.Pause() * time.Duration(n.number) / time.Duration(w.Nodes)
}

func (w *world) stand(nodes []*node) {
	if !w.Hints {
		return
	}
	var living []*node
	for _, n := range nodes {
		if !n.dead {
			living = append(living, n)
		}
	}
	for i, n := range living {
		n.sched.Stand(w.place(i, len(living)))
	}
}

func (w *world) place(position, living int) schedule.Place {
	if !w.Hints {
		return schedule.Place{}
	}
	return schedule.Place{Position: position, Nodes: living, Workers: w.Workers * living / w.Nodes}
}

func (w *world) seed() {
	for i := range w.Shards {
		size := int64(float64(w.Mean) * math.Exp(w.Skew*w.rng.NormFloat64()-w.Skew*w.Skew/2))
		s := schedule.Shard{Index: "logs", Shard: i, Bytes: max(1, size)}
		w.shards = append(w.shards, s)
		w.create(cms.ItemID{Index: s.Index, Shard: s.Shard}, s.Bytes, w.place(0, w.Nodes).Exponent(w.Lease))
	}
}

func (w *world) create(id cms.ItemID, end int64, exponent int) {
	it := &item{Item: cms.NewItem(id.String(), "sim", exponent), end: end}
	it.Engine = "go"
	if w.items[it.ID] == nil {
		w.items[it.ID], w.open[it.ID] = it, it
		w.dirty = true
	}
}

func (w *world) least() time.Duration {
	total, biggest := int64(0), int64(0)
	for _, s := range w.shards {
		total, biggest = total+s.Bytes, max(biggest, s.Bytes)
	}
	seconds := max(float64(total)/w.Rate/float64(w.Workers), float64(biggest)/w.Rate)
	return w.Setup + time.Duration(seconds*float64(time.Second))
}

func (w *world) after(d time.Duration, run func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + d, w.seq, run})
}

// op counts one operation on the store.
func (w *world) op() {
	w.ops++
	m := int(w.now / time.Minute)
	for len(w.minutes) <= m {
		w.minutes = append(w.minutes, 0)
	}
	w.minutes[m]++
}

// start is the epoch of the store's clock.
const start = int64(1_000_000_000_000)

func (w *world) clock() int64 { return start + w.now.Milliseconds() }

// search finds open items whose lease is over, as they were at the last refresh.
func (w *world) search() []cms.Item {
	w.op()
	if w.now-w.foundAt >= refresh {
		w.foundAt, w.found = w.now, w.found[:0]
		for _, it := range w.open {
			if it.Expiration*1000+cms.Grace(w.Lease).Milliseconds() < w.clock() {
				w.found = append(w.found, it)
			}
		}
		slices.SortFunc(w.found, func(a, b *item) int { // maps have no order; a seed must replay
			if a.ID < b.ID {
				return -1
			}
			return 1
		})
	}
	var some []cms.Item
	for i := range min(candidates, len(w.found)) {
		k := i + w.rng.IntN(len(w.found)-i)
		w.found[i], w.found[k] = w.found[k], w.found[i]
		some = append(some, w.found[i].Item)
	}
	return some
}

// ask lets one slot of a node look for work as a worker process does: a few proposals first, then a search.
func (w *world) ask(n *node) {
	if n.dead || n.asking || len(n.waiting) == 0 {
		return
	}
	n.asking = true
	now := time.UnixMilli(w.clock())
	ids := n.sched.Propose(now, 4)
	if len(ids) > 0 {
		w.tryEach(n, ids, func() {
			if !n.asking {
				n.asking = true
				w.look(n)
			}
		})
		return
	}
	w.look(n)
}

// look searches, as a worker does that was proposed nothing which is free.
func (w *world) look(n *node) {
	if n.dead || len(n.waiting) == 0 {
		n.asking = false
		return
	}
	if w.now < n.quiet { // nothing was free a moment ago; a timer looks again
		n.asking = false
		return
	}
	w.after(round, func() {
		found := w.search()
		if len(found) == 0 || n.rounds == rounds {
			w.op() // the count of open items, which says until when to wait
			n.asking, n.rounds = false, 0
			wait := idle/2 + time.Duration(w.rng.Int64N(int64(idle)))
			n.quiet = w.now + wait
			w.after(wait, func() { w.ask(n) })
			return
		}
		n.rounds++
		ids := make([]string, 0, len(found))
		for _, it := range found {
			ids = append(ids, it.ID)
		}
		w.tryEach(n, ids, func() { w.ask(n) })
	})
}

// tryEach tries to lease the items in turn until one is ours.
func (w *world) tryEach(n *node, ids []string, none func()) {
	if n.dead {
		return
	}
	if len(ids) == 0 {
		n.asking = false
		w.after(time.Duration(w.rng.Int64N(int64(50*time.Millisecond))), none)
		return
	}
	w.after(round, func() {
		w.op()
		it := w.items[ids[0]]
		n.leases++
		holder := fmt.Sprintf(holderName, n.number, n.waiting[0], n.leases)
		verdict := cms.Lost
		if it != nil {
			it.Item, verdict = cms.Acquire{
				Holder: holder, InitialMs: w.Lease.Milliseconds(), MaxMs: cms.DefaultMaxLease.Milliseconds(),
				GraceMs: cms.Grace(w.Lease).Milliseconds(), MaxAttempts: cms.DefaultMaxAttempts,
			}.Apply(it.Item, w.clock())
		}
		if verdict != cms.Applied {
			w.lost++
			until := time.UnixMilli(w.clock()).Add(24 * time.Hour)
			if it != nil && it.Open() {
				until = time.Unix(it.Expiration, 0)
			}
			n.sched.Taken(ids[0], until)
			w.tryEach(n, ids[1:], none)
			return
		}
		n.sched.Taken(ids[0], time.Unix(it.Expiration, 0))
		slot := n.waiting[0]
		n.waiting = n.waiting[1:]
		n.asking, n.rounds = false, 0
		w.work(n, slot, it, holder)
		w.after(w.pause(), func() { w.ask(n) })
	})
}

func (w *world) pause() time.Duration {
	if !w.Hints {
		return round
	}
	return schedule.Place{Nodes: w.Nodes}.Pause()
}

// work reads a shard from the item's watermark until its end or the lease's trigger.
func (w *world) work(n *node, slot int, it *item, holder string) {
	length := cms.LeaseLength(w.Lease, int(it.LeaseExponent), cms.DefaultMaxLease)
	begin := it.Begin()
	id, err := it.Range()
	if err != nil {
		panic(err) // the simulation made it
	}
	need := time.Duration(float64(it.end-begin) / w.Rate * float64(time.Second))
	until := min(cms.TriggerAfter(length), length-cms.Margin(length)) - w.Setup
	at := func(d time.Duration) int64 { return begin + int64(d.Seconds()*w.Rate) }
	began := w.now

	every := max(10*time.Second, time.Duration(float64(w.Workers)/100*float64(time.Second)))
	var record func()
	record = func() {
		since := w.now - began - w.Setup
		if n.dead || since >= min(need, until) {
			return
		}
		w.op()
		it.Item, _ = cms.Progress{Holder: holder, Begin: begin, Watermark: at(since)}.Apply(it.Item, w.clock())
		w.after(every, record)
	}
	w.after(w.Setup+time.Duration(w.rng.Int64N(int64(every))), record)

	w.after(w.Setup+min(need, until), func() {
		if n.dead {
			w.read += int64(max(0, (n.died-began-w.Setup).Seconds()) * w.Rate)
			return
		}
		var v cms.Verdict
		if need <= until {
			w.op()
			it.Item, v = cms.Complete{Holder: holder, Watermark: it.end}.Apply(it.Item, w.clock())
			w.read += it.end - begin
		} else {
			mark := at(until)
			next := cms.ItemID{Index: id.Index, Shard: id.Shard, Cursor: mark}
			k := max(cms.RightSize(length, w.Lease, w.Setup), w.place(0, w.Nodes).Exponent(w.Lease))
			w.op()
			it.Item, _ = cms.SetSuccessors{Holder: holder, Successors: next.String(), HandExponent: k, Watermark: mark}.Apply(it.Item, w.clock())
			w.op()
			w.create(next, it.end, k)
			w.op()
			it.Item, v = cms.Complete{Holder: holder, Successors: next.String()}.Apply(it.Item, w.clock())
			w.read += mark - begin
			if w.Hints {
				n.sched.HandedOff(next.String())
			}
		}
		if v == cms.Applied {
			delete(w.open, it.ID)
			w.lastDone = w.now
		}
		n.waiting = append(n.waiting, slot)
		w.ask(n)
	})
}

func (w *world) result() Result {
	r := Result{Makespan: w.lastDone, Least: w.least(), Ops: w.ops, Lost: w.lost}
	r.Mean = float64(w.ops) / max(1, w.now.Seconds())
	for _, m := range w.minutes {
		r.Peak = max(r.Peak, float64(m)/60)
	}
	total := int64(0)
	for _, s := range w.shards {
		total += s.Bytes
		if why := w.gap(s); why != "" {
			r.Problems = append(r.Problems, why)
		}
	}
	r.Again = float64(w.read-total) / float64(total)
	return r
}

// gap follows a shard's chain of items to its end.
func (w *world) gap(s schedule.Shard) string {
	id := cms.ItemID{Index: s.Index, Shard: s.Shard}
	for {
		it := w.items[id.String()]
		switch {
		case it == nil:
			return fmt.Sprintf("shard %d: item at %d is missing", s.Shard, id.Cursor)
		case it.Open() || it.FailedItem():
			return fmt.Sprintf("shard %d: item at %d is open or failed", s.Shard, id.Cursor)
		case it.Successors == "" && it.Watermark < s.Bytes:
			return fmt.Sprintf("shard %d: ends at %d of %d", s.Shard, it.Watermark, s.Bytes)
		case it.Successors == "":
			return ""
		}
		next, err := cms.ParseID(it.Successors)
		if err != nil || next.Cursor <= id.Cursor || next.Cursor > it.Watermark {
			return fmt.Sprintf("shard %d: successor %s of %d", s.Shard, it.Successors, id.Cursor)
		}
		id = next
	}
}
