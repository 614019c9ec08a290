package sim

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Faults are probabilities per request to the store; the last three are per bulk request or document.
type Faults struct {
	Lost, Twice, Late, Die, Conflict float64
	Bulk                             float64 // no response; half of the requests are applied, late
	TooLarge                         float64 // 413
	Items                            float64 // 429 for a document
}

// Config configures a simulated migration.
type Config struct {
	Seed      uint64
	Processes int
	Migrate   bool // processes of `rfsd migrate` with two slots; else of `rfsd worker`, one lease at a time
	Indices   int
	Long      int // number of these with documents for several leases
	Lease     time.Duration
	Trip      time.Duration // maximum duration of a normal bulk request
	Slow      float64       // fraction of bulk requests that take up to ten times as long
	StoreTrip time.Duration // maximum one-way latency to the store
	Documents int           // documents per body
	Flying    int           // concurrent bulk requests of a lease; 0: up to four, depending on the process
	Faults    Faults
	Quiet     time.Duration // time after which no fault occurs
	Limit     time.Duration // time by which everything must have ended
	Tolerance time.Duration // clock tolerance; 0: off

	Split  int64 // shard size in bytes above which shards are split; 0: never
	Bucket bool  // the coordination state is in a bucket
	File   bool  // one process, a coordination file and an export directory
	Crash  bool  // kills in a File world crash the machine, which loses unsynced data

	Kill    time.Duration // mean time between kills (-9) of a random process; 0 = none
	Drain   time.Duration // mean time between SIGTERMs of a random process
	Stop    time.Duration // mean time between pauses of a random machine
	Skew    time.Duration // maximum error of wall clocks
	Jump    time.Duration // maximum jump of the store's clock
	Lose    time.Duration // maximum age of changes that the store loses at times
	Silence time.Duration // maximum time for which the store hangs, every ten minutes
	Outage  time.Duration // maximum time for which the target or an index is down, busy, blocked or hangs, every ten minutes
	Rules   string        // TOML
	Think   time.Duration // maximum time to process a document before it is sent or left out
	Refuses float64       // fraction of documents that the target rejects permanently, in various ways
	Drops   float64       // fraction of documents that a pipeline of the target drops
	Held    time.Duration // maximum delay of a bulk request whose response is lost; 0: twice the timeout of its sender
	Deadly  int           // shards with a document that crashes its process
	Hints   bool          // workers try proposed items before they search

	// AtCall returns the fate of the n-th request to the store, starting from 1; what names the request. nil: fates are random.
	AtCall func(w *world, n int, what string) Fate
	// During runs concurrently with the world, and reports violations with world.bad.
	During func(w *world)
}

// Report holds the results of a simulated migration.
type Report struct {
	Ended     bool
	Problems  []string
	Leases    int
	Lost      int // leases with the outcome Lost
	Requests  int // includes requests that never arrived
	Skewed    int
	Kills     int
	Forgotten int
	Failed    int
	Taken     int   // documents accepted, including repetitions
	Copies    int64 // documents that the target accepted in addition to the first copy of each
	Counted   int64 // copies counted by the items
	Documents int
	Hot       int // requests for the only overloaded index
	Read      int // documents read, including repetitions
	Parts     int // items of parts of shards
	Virtual   time.Duration
	History   *History
	Results   map[string]int
}

// world is one simulated migration.
type world struct {
	cfg     Config
	dice    dice
	start   time.Time
	sources map[string]*source
	rules   *rules.Set
	plan    *plan.Plan
	server  *server
	target  *cluster
	disk    *disk
	history *History
	truth   map[key]truth
	ends    map[shardKey]int64
	deadly  map[key]bool
	rounds  *rounds       // state of a followed cluster; nil: a single migration
	over    chan struct{} // closed when all processes have ended or the time is up
	seats   []*seat

	mu       sync.Mutex
	problems []string
	failed   map[string]string // items marked FAILED, with the reason
	recorded map[key]doc.Failure
	report   Report
	calm     bool
}

// Run simulates one migration. It uses t only for a temporary directory and for the bubble of virtual time.
func Run(t *testing.T, cfg Config) (r Report) {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	dir := ""
	if cfg.File {
		dir = t.TempDir()
	}
	synctest.Test(t, func(t *testing.T) {
		w, err := newWorld(cfg, all)
		if err != nil {
			t.Error(err)
			return
		}
		w.makePlan()
		w.makeDeadly()
		r = w.run(dir)
	})
	return r
}

func newWorld(cfg Config, all map[string]*source) (*world, error) {
	w := &world{
		cfg: cfg, dice: dice{cfg.Seed, time.Now()}, start: time.Now(), sources: all, disk: newDisk(), history: &History{},
		truth: map[key]truth{}, ends: map[shardKey]int64{}, deadly: map[key]bool{}, over: make(chan struct{}),
		failed: map[string]string{}, recorded: map[key]doc.Failure{},
	}
	if cfg.Rules != "" {
		set, err := rules.Parse("sim.toml", []byte(cfg.Rules))
		if err != nil {
			return nil, err
		}
		w.rules = set
	}
	w.server, w.target = newServer(w), newCluster(w)
	return w, nil
}

// base returns the name that an index of the plan has in its fixture.
func (w *world) base(index string) string {
	for _, x := range w.plan.Indices {
		if x.Name == index {
			return x.Entry.Locator.IndexName
		}
	}
	return ""
}

// makeDeadly chooses a document in each of some indices.
func (w *world) makeDeadly() {
	for i := range w.cfg.Deadly {
		index := w.plan.Indices[i].Entry.Naming.Index
		var ids []key
		for k := range w.truth {
			if k.index == index {
				ids = append(ids, k)
			}
		}
		slices.SortFunc(ids, func(a, b key) int { return strings.Compare(a.id, b.id) })
		w.deadly[ids[w.dice.about("deadly", i).IntN(len(ids))]] = true
	}
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// bad records a violated invariant.
func (w *world) bad(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf("%s: ", w.now().Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (w *world) count(n *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*n++
}

func (w *world) request() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Requests++
	return w.report.Requests
}

func (w *world) currentFaults() Faults {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm {
		return Faults{}
	}
	return w.cfg.Faults
}

func (w *world) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// itemFailed records an item that was marked FAILED.
func (w *world) itemFailed(it cms.Item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[it.ID] = it.Failure
}

func (w *world) run(dir string) Report {
	var all sync.WaitGroup
	for i := range w.cfg.Processes {
		s := &seat{w: w, number: i, dir: dir}
		w.seats = append(w.seats, s)
		all.Go(s.run)
	}
	var beside sync.WaitGroup
	w.trouble(&beside)
	if w.cfg.During != nil {
		beside.Go(func() { w.cfg.During(w) })
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	limit := time.NewTimer(w.cfg.Limit)
	select {
	case <-ended:
		w.report.Ended = true
	case <-limit.C:
	}
	limit.Stop()
	w.report.Virtual = w.now()
	close(w.over)
	for _, s := range w.seats {
		s.end()
	}
	<-ended
	beside.Wait()
	return w.check()
}

// pause waits in virtual time; it returns false if the world has ended.
func (w *world) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.over:
		return false
	}
}

// trouble starts the faults that occur over time.
func (w *world) trouble(beside *sync.WaitGroup) {
	every := func(what string, mean time.Duration, f func(n int)) {
		if mean <= 0 {
			return
		}
		beside.Go(func() {
			for n := 0; w.pause(between(w.dice.about("every", what), 0, 2*mean)) && w.now() < w.cfg.Quiet; n++ {
				f(n)
			}
		})
	}
	victim := func(what string) *machine { return w.seats[w.dice.about("victim", what).IntN(len(w.seats))].machine() }
	every("kill", w.cfg.Kill, func(int) {
		if m := victim("kill"); m != nil {
			m.kill()
		}
	})
	every("drain", w.cfg.Drain, func(int) {
		if m := victim("drain"); m != nil {
			m.stop()
		}
	})
	every("stop", w.cfg.Stop, func(int) {
		r := w.dice.about("stop")
		d := between(r, time.Second, 2*w.cfg.Lease)
		if m := victim("stop"); m != nil && chance(r, 0.5) {
			m.suspend(d)
		} else if m != nil {
			m.freeze(d)
		}
	})
	if w.cfg.Skew > 0 {
		every("skew", 10*time.Minute, func(int) {
			if m := victim("skew"); m != nil && w.cfg.Tolerance == 0 {
				m.setSkew(w.randomSkew())
			}
		})
	}
	if w.cfg.Jump > 0 {
		every("jump", 20*time.Minute, func(int) {
			w.server.setSkew(between(w.dice.about("jump"), -w.cfg.Jump, w.cfg.Jump))
		})
	}
	if w.cfg.Lose > 0 {
		every("lose", 15*time.Minute, func(int) {
			n := w.server.forget(between(w.dice.about("lose"), 0, w.cfg.Lose))
			w.mu.Lock()
			w.report.Forgotten += n
			w.mu.Unlock()
		})
	}
	if w.cfg.Silence > 0 {
		every("silence", 5*time.Minute, func(int) {
			r := w.dice.about("silence")
			w.server.silence(between(r, 0, w.cfg.Silence), chance(r, 0.5))
		})
	}
	if w.cfg.Outage > 0 {
		every("outage", 10*time.Minute, func(int) {
			r := w.dice.about("outage")
			switch one := w.plan.Indices[r.IntN(len(w.plan.Indices))].Entry.Naming.Index; r.IntN(6) {
			case 0:
				w.target.trouble(one, "")
			case 1:
				w.target.trouble("", one)
			default:
				w.target.set(away + weather(r.IntN(4)))
			}
			w.pause(between(r, time.Second, w.cfg.Outage))
			w.target.set(fair)
			w.target.trouble("", "")
		})
	}
	beside.Go(func() { // no more faults
		w.pause(w.cfg.Quiet)
		w.mu.Lock()
		w.calm = true
		w.mu.Unlock()
		w.server.setSkew(0)
		w.target.set(fair)
		w.target.trouble("", "")
		for _, s := range w.seats {
			if m := s.machine(); m != nil {
				m.setSkew(0)
			}
		}
	})
}

func (w *world) randomSkew() time.Duration {
	return between(w.dice.about("skew"), -w.cfg.Skew, w.cfg.Skew)
}

// checkHolder records a request that starts while another process holds the item of its documents.
func (w *world) checkHolder(m *machine, all []pair) {
	if w.cfg.File || w.cfg.Jump > 0 || w.cfg.Lose > 0 {
		return
	}
	for _, p := range all {
		t, ok := w.truth[p.key]
		if w.rounds != nil {
			t, ok = w.rounds.sends[operation{p.key, p.deletes}]
		}
		if !ok {
			w.bad("%s sends %v, which does not exist, or was left out", m.name, p.key)
			return
		}
		if p.kept != t.source {
			w.bad("%s sends %v changed: %.80s", m.name, p.key, p.kept)
			return
		}
		if it, ok := w.server.heldAt(t.shard, t.ordinal); ok && !strings.HasPrefix(it.Holder, m.name+"_") {
			w.bad("%s sends ordinal %d of %v, which %s holds", m.name, t.ordinal, t.shard, it.Holder)
			return
		}
	}
}

// roots yields the first item of each shard.
func (w *world) roots() iter.Seq[cms.ItemID] {
	var ids []cms.ItemID
	for k := range w.ends {
		ids = append(ids, cms.ItemID{Index: k.index, Shard: k.shard})
	}
	slices.SortFunc(ids, func(a, b cms.ItemID) int {
		if c := strings.Compare(a.Index, b.Index); c != 0 {
			return c
		}
		return a.Shard - b.Shard
	})
	return slices.Values(ids)
}

func shardOf(id cms.ItemID) shardKey { return shardKey{id.Index, id.Shard} }

// keys returns the documents in order.
func (w *world) keys() []key {
	return slices.SortedFunc(maps.Keys(w.truth), func(a, b key) int {
		if c := strings.Compare(a.index, b.index); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
}
