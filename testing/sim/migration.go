package sim

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// Faults are chances per request to the store, but Bulk, which is per bulk request.
type Faults struct {
	Lost, Twice, Late, Die, Conflict float64
	Bulk                             float64
}

// Config of a simulated migration.
type Config struct {
	Seed    uint64
	Workers int
	Shards  int // items to begin with
	Lease   time.Duration
	Faults  Faults
	Quiet   time.Duration // from then on nothing fails any more
	Limit   time.Duration // everything must have ended by then

	Kill    time.Duration // mean time between kills of a random worker; 0 = none
	Stop    time.Duration // mean time between stops of a random worker; 0 = none
	Skew    time.Duration // wall clocks are off by up to this
	Refuse  bool          // clocks beyond the default tolerance are refused leases
	Jump    time.Duration // the store's clock jumps by up to this
	Lose    time.Duration // the store forgets up to this much now and then
	Poison  int           // shards whose documents kill their worker
	Ordinal int64         // most ordinals of a shard
	Foreign int           // shards that another engine began; it seeded all when there are any

	// CountCursor makes workers hand off at the number of finished documents
	// instead of the contiguous watermark: a known way to lose documents.
	CountCursor bool

	// AtCall decides the fate of the n-th request to the store, from 1, instead of
	// chance; nil means by chance.
	AtCall func(n int) Fate
}

// Report is what a simulated migration did.
type Report struct {
	Ended      bool
	Problems   []string
	Leases     int
	Requests   int // also those that never arrived
	Skewed     int
	Kills      int
	Forgotten  int
	Failed     int
	Sent       int
	Ordinals   int
	Virtual    time.Duration
	Trespasses int
	History    *History
	Verdicts   map[string]int
}

type migration struct {
	cfg        Config
	w          *World
	server     *server
	target     *target
	history    *History
	poison     map[cms.ItemID]bool
	kept       map[cms.ItemID]bool // done by another engine
	faults     Faults
	calls      int
	workers    []*worker
	leases     int
	skewed     int
	kills      int
	forgotten  int
	born       int
	trespasses []string
}

const perIndex = 20

// Run simulates one migration.
func Run(cfg Config) Report {
	m := newMigration(cfg)
	for range cfg.Workers {
		m.startWorker()
	}
	m.trouble()
	m.w.After(cfg.Quiet, m.calm)
	ended := m.w.Run(cfg.Limit)
	return m.report(ended)
}

func newMigration(cfg Config) *migration {
	w := NewWorld(cfg.Seed)
	m := &migration{cfg: cfg, w: w, server: newServer(w), history: &History{}, faults: cfg.Faults,
		target: &target{arrived: map[cms.ItemID][]bool{}}, poison: map[cms.ItemID]bool{}, kept: map[cms.ItemID]bool{}}
	for i := range cfg.Shards {
		id := cms.ItemID{Index: fmt.Sprintf("i%03d", i/perIndex), Shard: i % perIndex}
		n := w.r.Int64N(cfg.Ordinal + 1)
		if i < cfg.Poison {
			m.poison[id] = true
			n = max(n, 1)
		}
		m.target.arrived[id] = make([]bool, n)
	}
	if cfg.Foreign > 0 {
		m.foreignQueue(cfg.Foreign)
	}
	return m
}

func (m *migration) shards() map[string]int {
	out := map[string]int{}
	for id := range m.target.arrived {
		out[id.Index]++
	}
	return out
}

func (m *migration) roots() iter.Seq[cms.ItemID] {
	ids := slices.Collect(maps.Keys(m.target.arrived))
	slices.SortFunc(ids, func(a, b cms.ItemID) int {
		if a.Index != b.Index {
			if a.Index < b.Index {
				return -1
			}
			return 1
		}
		return a.Shard - b.Shard
	})
	return slices.Values(ids)
}

func (m *migration) startWorker() {
	m.born++
	name := fmt.Sprintf("w%d", m.born)
	k := &worker{m: m, name: name, batch: 5 + m.w.r.Int64N(60)}
	seed := m.w.r.Uint64()
	k.p = m.w.Go(func(p *Process) {
		c, err := cms.New(cms.Config{
			Store:   &network{p: p, s: m.server, faults: &m.faults, log: m.history, calls: &m.calls, atCall: m.cfg.AtCall},
			Clock:   p,
			Creator: name, InitialLease: m.cfg.Lease, SkewTolerance: m.tolerance(),
			Rand: rand.New(rand.NewPCG(seed, 7)),
		})
		if err != nil {
			m.trespasses = append(m.trespasses, err.Error())
			return
		}
		k.c = c
		k.run()
	})
	if m.cfg.Skew > 0 {
		k.p.skew = m.w.between(-m.cfg.Skew, m.cfg.Skew)
	}
	m.workers = append(m.workers, k)
	m.w.After(time.Second, func() { m.watch(k) })
}

func (m *migration) tolerance() time.Duration {
	if m.cfg.Refuse {
		return cms.DefaultTolerance
	}
	return 0
}

// watch starts another worker for one that died.
func (m *migration) watch(k *worker) {
	if k.p.dead {
		m.kills++
		m.workers = slices.DeleteFunc(m.workers, func(o *worker) bool { return o == k })
		m.startWorker()
		m.w.live--
		return
	}
	if m.w.live > 0 {
		m.w.After(5*time.Second, func() { m.watch(k) })
	}
}

// trouble schedules what goes wrong by itself.
func (m *migration) trouble() {
	every := func(mean time.Duration, f func()) {
		if mean <= 0 {
			return
		}
		var again func()
		again = func() {
			if m.w.now >= m.cfg.Quiet || m.w.live == 0 {
				return
			}
			f()
			m.w.After(m.w.between(0, 2*mean), again)
		}
		m.w.After(m.w.between(0, 2*mean), again)
	}
	victim := func() *worker { return m.workers[m.w.r.IntN(len(m.workers))] }
	every(m.cfg.Kill, func() { victim().p.Kill() })
	every(m.cfg.Stop, func() {
		k, d := victim(), m.w.between(time.Second, 40*time.Minute)
		if m.w.chance(0.5) {
			k.p.Suspend(d)
		} else {
			k.p.Freeze(d)
		}
	})
	if m.cfg.Skew > 0 {
		every(10*time.Minute, func() { victim().p.skew = m.w.between(-m.cfg.Skew, m.cfg.Skew) })
	}
	if m.cfg.Jump > 0 {
		every(20*time.Minute, func() { m.server.skew = m.w.between(-m.cfg.Jump, m.cfg.Jump) })
	}
	if m.cfg.Lose > 0 {
		every(15*time.Minute, func() { m.forgotten += m.server.loseSuffix(m.w.between(0, m.cfg.Lose)) })
	}
}

// calm ends all faults.
func (m *migration) calm() {
	m.faults = Faults{}
	m.server.skew = 0
	for _, k := range m.workers {
		k.p.skew = 0
	}
	m.cfg.Skew, m.cfg.Faults.Bulk = 0, 0
}

// cursor is where a worker hands off.
func (m *migration) cursor(start, mark, finished int64) int64 {
	if m.cfg.CountCursor {
		return start + finished
	}
	return mark
}

// report checks what must hold at the end.
func (m *migration) report(ended bool) Report {
	r := Report{Ended: ended, Leases: m.leases, Requests: m.server.requests, Skewed: m.skewed, Kills: m.kills,
		Forgotten: m.forgotten, Sent: m.target.sent, Virtual: m.w.now, Trespasses: len(m.trespasses), History: m.history,
		Verdicts: m.server.applied}
	bad := func(format string, args ...any) { r.Problems = append(r.Problems, fmt.Sprintf(format, args...)) }
	if !ended {
		bad("not ended after %v", m.cfg.Limit)
	}
	if m.cfg.Jump == 0 && m.cfg.Lose == 0 { // the store's own clock and memory are good
		r.Problems = append(r.Problems, m.trespasses...)
	}
	for id := range m.server.records {
		if m.cfg.Lose == 0 && strings.HasSuffix(id, ":audit_repair") {
			bad("the audit had to repair %s", id)
		}
	}
	failed := map[cms.ItemID]bool{}
	counted := map[cms.ItemID]int64{}
	for _, id := range slices.Sorted(maps.Keys(m.server.items)) {
		it := m.server.items[id]
		if id == cms.SetupID {
			continue
		}
		at, err := it.Range()
		if err != nil {
			bad("%v", err)
			continue
		}
		stray := at.Cursor > 0 && it.Engine == "" // created by another engine when everything was done
		if it.Open() && !stray {
			bad("%s is open", id)
		}
		if it.FailedItem() {
			r.Failed++
			failed[shardOf(at)] = true
			if ev := m.server.records["event:"+eventKey(id)+":failed"]; ev.Revision.Seq == 0 && m.cfg.Lose == 0 {
				bad("%s failed without an event", id)
			}
		}
		counted[shardOf(at)] += it.Counts.Ordinals
	}
	for id := range m.roots() {
		got := m.target.arrived[id]
		r.Ordinals += len(got)
		if failed[id] {
			continue
		}
		for i, ok := range got {
			if !ok {
				bad("%v lost ordinal %d of %d", id, i, len(got))
				break
			}
		}
		if m.cfg.Lose == 0 && !m.kept[id] && counted[id] != int64(len(got)) {
			bad("%v has %d ordinals, the items count %d", id, len(got), counted[id])
		}
		if m.poison[id] {
			bad("%v is poisoned and did not fail", id)
		}
	}
	for id := range failed {
		if !m.poison[id] {
			bad("%v failed and is healthy", id)
		}
	}
	return r
}

// eventKey is the key of an item's events, as the records name it.
func eventKey(id string) string { return cms.EventKey(id) }
