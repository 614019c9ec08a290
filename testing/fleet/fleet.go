// Package fleet simulates a whole fleet in virtual time: hundreds of nodes, thousands of workers, shards of skewed sizes. Items change by
// the real transitions and are chosen by the real scheduler. Simulated are time, the store's search (which lags behind writes) and the
// reading of bytes.
package fleet

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// Config describes the simulated fleet.
type Config struct {
	Nodes, Workers int // workers of the whole fleet
	Shards         int
	Mean           int64   // mean size of a shard in bytes
	Skew           float64 // sigma of the logarithm of the sizes
	Rate           float64 // bytes per second of a worker
	Setup          time.Duration
	Lease          time.Duration // initial
	Hints          bool
	MaxRate        bool // --max-rate is set, so that each node keeps a permit
	Deaths         int  // nodes that die permanently at random times in the first quarter of Result.Least
	Seed           uint64
}

// Result holds the results of a simulation.
type Result struct {
	Makespan time.Duration
	Least    time.Duration // lower bound of any schedule: the largest shard alone, or all bytes over all workers
	Ops      int           // operations on the coordination store
	Mean     float64       // operations per second from start to end
	Peak     float64       // operations per second in the busiest minute
	Lost     int           // acquisitions of an item that was already leased
	Again    float64       // fraction of bytes that were read more than once
	Problems []string      // shards that are incomplete or have a gap
}

const (
	refresh    = time.Second          // maximum delay until a write is visible to searches
	round      = 5 * time.Millisecond // duration of one operation
	candidates = 32
	idle       = 30 * time.Second // between two searches of a node that found nothing free
	rounds     = 8                // of candidates that all were leased by others, before a node waits
	holderName = "n%d_w%d_%d"
)

// Operations of the program on the store that are not simulated in detail. testing/e2e counts them on a real store.
const (
	opsOfStart = 10  // of a worker process until it searches for an item
	opsOfBegin = 2   // from the lease to the first document
	opsOfEnd   = 1   // at the end of the lease, in addition to the change of its item
	opsOfBeat  = 2.5 // updates of a node's entry in the list; the store's clock is read at every second
	opsOfTerm  = 8   // of the leader, at each look
	opsOfRate  = 2.4 // renewal of a permit; the store's clock is read at every third or so
	pageOfRead = 1000
	readTook   = 50 * time.Millisecond // of one page
)

type item struct {
	cms.Item
	end int64 // size of the shard in bytes; an ordinal is a byte here
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
	found    []*item // result of the last search
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
	asking  bool  // only one slot searches at a time
	dead    bool
	leases  int
	rounds  int           // consecutive searches whose candidates were all leased by others
	quiet   time.Duration // no search before this time: nothing was free
	paced   time.Duration // no search before this time: other slots are starting
	timer   time.Duration // time of the next search; in the past: none is scheduled
	died    time.Duration
}

// Play runs the simulation to its end.
func Play(c Config) Result { return run1(c).result() }

func run1(c Config) *world {
	w := &world{Config: c, rng: rand.New(rand.NewPCG(c.Seed, 7)), items: map[string]*item{}, open: map[string]*item{}, foundAt: -refresh}
	w.seed()
	nodes := make([]*node, c.Nodes)
	for i := range nodes {
		n := &node{number: i, sched: &schedule.Scheduler{}}
		if c.Hints {
			n.sched.SetShards(w.shards)
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
			w.after(10*time.Second, func() { w.stand(nodes) }) // gossip detects it
		})
	}
	for len(w.events) > 0 && len(w.open) > 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.run()
	}
	return w
}

// spread returns the delay with which a node of a known fleet starts.
func (w *world) spread(n *node) time.Duration {
	if !w.Hints {
		return 0
	}
	return w.place(n.number, w.Nodes).StartDelay()
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
		n.sched.SetPosition(w.place(i, len(living)))
	}
}

func (w *world) place(position, living int) schedule.NodePosition {
	if !w.Hints {
		return schedule.NodePosition{}
	}
	return schedule.NodePosition{Position: position, Nodes: living, Workers: w.Workers * living / w.Nodes}
}

func (w *world) seed() {
	for i := range w.Shards {
		size := int64(float64(w.Mean) * math.Exp(w.Skew*w.rng.NormFloat64()-w.Skew*w.Skew/2))
		s := schedule.Shard{Index: "logs", Shard: i, Bytes: max(1, size)}
		w.shards = append(w.shards, s)
		w.create(cms.ItemID{Index: s.Index, Shard: s.Shard}, s.Bytes, w.place(0, w.Nodes).MinExponent(w.Lease))
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

func (w *world) does(ops int) {
	for range ops {
		w.op()
	}
}

// start is the epoch of the store's clock.
const start = int64(1_000_000_000_000)

func (w *world) clock() int64 { return start + w.now.Milliseconds() }

// search returns open items with expired leases, as of the last refresh.
func (w *world) search() []cms.Item {
	w.op()
	if w.now-w.foundAt >= refresh {
		w.foundAt, w.found = w.now, w.found[:0]
		for _, it := range w.open {
			if it.Expiration*1000+timing.Grace(w.Lease).Milliseconds() < w.clock() {
				w.found = append(w.found, it)
			}
		}
		slices.SortFunc(w.found, func(a, b *item) int { // maps are unordered; a seed must reproduce a run
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

// ask lets one slot of a node look for work as a worker process does: a few proposals first, then a search. The node pauses between two
// slots that start, and after a search that found nothing.
func (w *world) ask(n *node) {
	if n.dead || n.asking || len(n.waiting) == 0 {
		return
	}
	if due := max(n.paced, n.quiet); w.now < due {
		if n.timer < w.now { // one scheduled search is enough
			n.timer = due
			w.after(due-w.now, func() { n.timer = -1; w.ask(n) })
		}
		return
	}
	n.asking, n.rounds, n.paced = true, 0, w.now+w.pause()
	w.does(opsOfStart)
	w.tryEach(n, n.sched.Propose(time.UnixMilli(w.clock()), 4), func() { w.look(n) })
}

// look searches for an item, as a worker does if no proposed item is free.
func (w *world) look(n *node) {
	if n.dead || len(n.waiting) == 0 {
		n.asking = false
		return
	}
	w.after(round, func() {
		found, most := w.search(), rounds
		if tries := w.place(0, w.Nodes).MaxTries(); tries > 0 {
			found, most = found[:min(len(found), tries)], 1
		}
		if len(found) == 0 || n.rounds == most {
			w.op() // counts the open items, which determines the pause
			n.asking, n.quiet = false, w.now+idle/2+time.Duration(w.rng.Int64N(int64(idle)))
			w.ask(n)
			return
		}
		n.rounds++
		ids := make([]string, 0, len(found))
		for _, it := range found {
			ids = append(ids, it.ID)
		}
		w.tryEach(n, ids, func() { w.look(n) })
	})
}

// tryEach tries to lease the items in turn until one succeeds.
func (w *world) tryEach(n *node, ids []string, none func()) {
	if n.dead {
		return
	}
	if len(ids) == 0 {
		w.after(time.Duration(w.rng.Int64N(int64(50*time.Millisecond))), none)
		return
	}
	w.after(round, func() {
		w.op()
		it := w.items[ids[0]]
		n.leases++
		holder := fmt.Sprintf(holderName, n.number, n.waiting[0], n.leases)
		result := cms.Lost
		if it != nil {
			it.Item, result = cms.Acquire{
				Holder: holder, InitialMs: w.Lease.Milliseconds(), MaxMs: timing.DefaultMaxLease.Milliseconds(),
				GraceMs: timing.Grace(w.Lease).Milliseconds(), MaxAttempts: timing.DefaultMaxAttempts,
			}.Apply(it.Item, w.clock())
		}
		if result != cms.Applied {
			w.lost++
			until := time.UnixMilli(w.clock()).Add(24 * time.Hour)
			if it != nil && it.Open() {
				until = time.Unix(it.Expiration, 0)
			}
			n.sched.MarkTaken(ids[0], until)
			w.tryEach(n, ids[1:], none)
			return
		}
		n.sched.MarkTaken(ids[0], time.Unix(it.Expiration, 0))
		slot := n.waiting[0]
		n.waiting = n.waiting[1:]
		n.asking = false
		w.work(n, slot, it, holder)
		w.ask(n)
	})
}

func (w *world) pause() time.Duration {
	if !w.Hints {
		return round
	}
	return max(schedule.NodePosition{Nodes: w.Nodes}.StartInterval(), round)
}

// work reads a shard from the item's watermark until its end or the lease's trigger.
func (w *world) work(n *node, slot int, it *item, holder string) {
	length := timing.LeaseLength(w.Lease, int(it.LeaseExponent), timing.DefaultMaxLease)
	begin := it.Begin()
	id, err := it.Range()
	if err != nil {
		panic(err) // the simulation is wrong
	}
	need := time.Duration(float64(it.end-begin) / w.Rate * float64(time.Second))
	until := min(timing.TriggerAfter(length), length-timing.Margin(length)) - w.Setup
	at := func(d time.Duration) int64 { return begin + int64(d.Seconds()*w.Rate) }
	began := w.now

	w.does(opsOfBegin)
	every := w.place(0, w.Nodes).RecordInterval()
	var guard func()
	guard = func() {
		if since := w.now - began - w.Setup; n.dead || since >= min(need, until) {
			return
		}
		w.op()
		w.after(max(30*time.Second, 3*every), guard)
	}
	w.after(max(30*time.Second, 3*every), guard)
	for at := every / 16; at < every; at *= 2 { // more often at first
		if at >= time.Second && at < min(need, until)-w.Setup {
			w.after(w.Setup+at, w.op)
		}
	}
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
		w.does(opsOfEnd)
		var v cms.Result
		if need <= until {
			w.op()
			it.Item, v = cms.Complete{Holder: holder, Watermark: it.end}.Apply(it.Item, w.clock())
			w.read += it.end - begin
		} else {
			mark := at(until)
			next := cms.ItemID{Index: id.Index, Shard: id.Shard, Cursor: mark}
			k := max(timing.RightSize(length, w.Lease, w.Setup), w.place(0, w.Nodes).MinExponent(w.Lease))
			w.op()
			it.Item, _ = cms.SetSuccessors{Holder: holder, Successors: next.String(), HandExponent: k, Watermark: mark}.Apply(it.Item, w.clock())
			w.op()
			w.create(next, it.end, k)
			w.op()
			it.Item, v = cms.Complete{Holder: holder, Successors: next.String()}.Apply(it.Item, w.clock())
			w.read += mark - begin
			if w.Hints {
				n.sched.AddHandedOff(next.String())
			}
		}
		if v == cms.Applied {
			delete(w.open, it.ID)
			w.lastDone = w.now
		}
		n.waiting = append(n.waiting, slot)
		n.quiet = 0 // a hand-off creates an item
		w.ask(n)
	})
}

// daemons returns the background load of all nodes on the store, in operations per second.
func (w *world) daemons() float64 {
	p := w.place(0, w.Nodes)
	pages := 4 + w.Shards/pageOfRead
	took := time.Duration(pages) * readTook
	each := func(ops float64, every time.Duration) float64 { return float64(w.Nodes) * ops / every.Seconds() }
	own := p.ReadInterval(max(3*time.Second, 4*took), took)
	if w.Hints { // the leader reads for all nodes
		own = p.MirroredReadInterval()
	}
	all := each(float64(pages), own) + each(1, p.Interval(2*time.Second, schedule.IntentRate)) + each(1, p.Interval(10*time.Second, schedule.EventRate))
	if w.Hints {
		all += each(1, p.Interval(10*time.Second, schedule.RaftProbeRate)) + each(opsOfBeat, min(p.Interval(30*time.Second, schedule.HeartbeatRate), 150*time.Second)) +
			opsOfTerm/15.0 +
			float64(pages)/(took+max(3*time.Second, 4*took)).Seconds()
	}
	if w.MaxRate {
		all += each(opsOfRate, primitive.PermitInterval(w.Nodes)*7/8)
	}
	return all
}

func (w *world) result() Result {
	r := Result{Makespan: w.lastDone, Least: w.least(), Ops: w.ops, Lost: w.lost}
	daemons := w.daemons()
	r.Mean = float64(w.ops)/max(1, w.now.Seconds()) + daemons
	for _, m := range w.minutes {
		r.Peak = max(r.Peak, float64(m)/60+daemons)
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

// gap follows a shard's chain of items to its end, and describes the first gap; "" if it is complete.
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
