package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// shelf is a coordination store with an item in each state that a hint might want to change.
type shelf struct {
	*cms.Coordinator
	bolt *boltcms.Store
	file string

	free             []string // items that a search finds
	done, held, bad  string
	replaced, beyond string // handed off, and an item that does not exist
}

const ruleLease = 10 * time.Minute

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{file: filepath.Join(t.TempDir(), "c.db")}
	var err error
	if s.bolt, err = boltcms.Open(s.file, time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.bolt.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Coordinator = cms.New(cms.Config{Store: s.bolt, Creator: "test", InitialLease: ruleLease})
	id := func(shard int, cursor int64) string {
		return cms.ItemID{Index: "logs", Shard: shard, Cursor: cursor}.String()
	}
	_, err = s.SeedItems(t.Context(), func(yield func(cms.ItemID) bool) {
		for n := 0; n < 6 && yield(cms.ItemID{Index: "logs", Shard: n}); n++ {
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	lease := func(id string) *cms.Lease {
		l, err := s.AcquireOneOf(t.Context(), "before", []string{id})
		if err != nil || l == nil {
			t.Fatalf("%s: %v, %v", id, l, err)
		}
		return l
	}
	s.done, s.held, s.bad, s.replaced, s.beyond = id(0, 0), id(1, 0), id(2, 0), id(3, 0), id(77, 0)
	if err := errors.Join(lease(s.done).Complete(t.Context(), cms.Work{}), lease(s.bad).Fail(t.Context(), "poison", nil), lease(s.replaced).Handoff(t.Context(), 50, cms.Work{})); err != nil {
		t.Fatal(err)
	}
	lease(s.held)
	s.free = []string{id(4, 0), id(5, 0), id(3, 50)}
	slices.Sort(s.free)
	return s
}

// items returns the records of all items, by id.
func (s *shelf) items(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for it, err := range s.bolt.Scan(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(it)
		if err != nil {
			t.Fatal(err)
		}
		all[it.ID] = string(b)
	}
	return all
}

func (s *shelf) bytes(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ruleCase is a value of a kind of hint, from a node that is faulty or hostile.
type ruleCase struct {
	kind, value string
	fleet       *neighbours
	say         func(*shelf, *Daemon) // what is not in a plan
}

func plans(kind string, all map[string]schedule.Plan) (cases []ruleCase) {
	for _, value := range slices.Sorted(maps.Keys(all)) {
		cases = append(cases, ruleCase{kind: kind, value: value, fleet: &neighbours{count: 3, plan: all[value]}})
	}
	return cases
}

func said(kind string, all map[string]func(*shelf, *Daemon)) (cases []ruleCase) {
	for _, value := range slices.Sorted(maps.Keys(all)) {
		cases = append(cases, ruleCase{kind: kind, value: value, fleet: &neighbours{count: 3}, say: all[value]})
	}
	return cases
}

// pressed returns the plan that a node derives from the loads reported by others.
func pressed(loads ...schedule.Load) schedule.Plan {
	for i := range loads {
		loads[i] = loads[i].Clamp()
	}
	shards := []schedule.Shard{{Bytes: 1 << 40}, {Bytes: -1 << 50}}
	busy, slow := schedule.Pressure(loads)
	return schedule.Plan{
		TargetRejectRatio: busy, RepoThrottleRatio: slow, Workers: schedule.ProposeWorkers(1, loads, 3), ShardDuration: schedule.TypicalShard(shards, loads, math.NaN()),
	}
}

func ruleCases() []ruleCase {
	nan, inf := math.NaN(), math.Inf(1)
	return slices.Concat(
		plans("none", map[string]schedule.Plan{"": {}}),
		plans("proposed workers", map[string]schedule.Plan{
			"one for all": {Workers: 1}, "negative": {Workers: math.MinInt}, "huge": {Workers: math.MaxInt},
		}),
		plans("pressure", map[string]schedule.Plan{
			"all is refused": {TargetRejectRatio: 1}, "all is throttled": {RepoThrottleRatio: 1}, "more than all": {TargetRejectRatio: 1e300}, "negative": {TargetRejectRatio: -1, RepoThrottleRatio: -1}, "no number": {TargetRejectRatio: nan, RepoThrottleRatio: nan},
			"endless": {TargetRejectRatio: inf, RepoThrottleRatio: inf},
		}),
		plans("load", map[string]schedule.Plan{
			"negative": pressed(schedule.Load{Workers: math.MinInt, MaxWorkers: math.MinInt, Rate: math.MinInt64, TargetRejectRatio: -1, RepoThrottleRatio: -1}),
			"huge": pressed(schedule.Load{Workers: math.MaxInt, MaxWorkers: math.MaxInt, Rate: math.MaxInt64, TargetRejectRatio: 1e300, RepoThrottleRatio: inf},
				schedule.Load{Workers: math.MaxInt, MaxWorkers: math.MaxInt, Rate: math.MaxInt64}),
			"no node": pressed(),
		}),
		plans("length of a shard", map[string]schedule.Plan{
			"negative": {ShardDuration: math.MinInt64}, "a lifetime": {ShardDuration: math.MaxInt64},
		}),
		plans("history", map[string]schedule.Plan{
			"nothing moves": {Throughput: 0}, "negative": {Throughput: -5}, "huge": {Throughput: math.MaxFloat64}, "nearly nothing": {Throughput: 1e-300}, "no number": {Throughput: nan}, "endless": {Throughput: inf},
			"by what another node reported": {Throughput: schedule.History{Samples: []schedule.Sample{{Took: math.MaxInt64, Bytes: math.MaxInt64, Worked: -1}, {Took: -1, Bytes: 1}}}.Recent().Bytes},
		}),
		said("sizes of the shards", map[string]func(*shelf, *Daemon){
			"of another fleet": func(_ *shelf, d *Daemon) {
				d.conf.Scheduler.SetShards([]schedule.Shard{{Index: "theirs", Shard: 1, Bytes: 5}, {Index: "", Shard: 0}, {Index: "\xff\x00", Shard: 2}})
			},
			"impossible": func(_ *shelf, d *Daemon) {
				d.conf.Scheduler.SetShards([]schedule.Shard{{Index: "logs", Shard: -1, Bytes: math.MinInt64}, {Index: "logs", Shard: math.MaxInt, Bytes: math.MaxInt64}})
			},
			"what is done, held and failed first": func(_ *shelf, d *Daemon) {
				d.conf.Scheduler.SetShards([]schedule.Shard{{Index: "logs", Shard: 0, Bytes: 9}, {Index: "logs", Shard: 1, Bytes: 8}, {Index: "logs", Shard: 2, Bytes: 7}, {Index: "logs", Shard: 3, Bytes: 6}})
			},
			"the same again and again": func(_ *shelf, d *Daemon) {
				d.conf.Scheduler.SetShards(slices.Repeat([]schedule.Shard{{Index: "logs", Shard: 4, Bytes: 9}}, 1000))
			},
			"nothing": func(_ *shelf, d *Daemon) { d.conf.Scheduler.SetShards(nil) },
		}),
		said("place in the fleet", map[string]func(*shelf, *Daemon){
			"nowhere": func(_ *shelf, d *Daemon) { d.conf.Scheduler.SetPosition(schedule.NodePosition{}) },
			"before the first": func(_ *shelf, d *Daemon) {
				d.conf.Scheduler.SetPosition(schedule.NodePosition{Position: -3, Nodes: 2, Workers: -7})
			},
			"after the last": func(_ *shelf, d *Daemon) {
				d.conf.Scheduler.SetPosition(schedule.NodePosition{Position: math.MaxInt, Nodes: math.MaxInt, Workers: math.MaxInt})
			},
			"among fewer than no node": func(_ *shelf, d *Daemon) {
				d.conf.Scheduler.SetPosition(schedule.NodePosition{Position: 1, Nodes: math.MinInt, Workers: 9})
			},
		}),
		[]ruleCase{
			{kind: "members", value: "a crowd", fleet: &neighbours{position: math.MaxInt, count: math.MaxInt, plan: schedule.Plan{Workers: 1}}},
			{kind: "members", value: "fewer than none", fleet: &neighbours{position: -1, count: math.MinInt, plan: schedule.Plan{Workers: 7}}},
		},
		said("items that others held", map[string]func(*shelf, *Daemon){
			"all": func(s *shelf, d *Daemon) {
				busy := map[string]bool{"": true, s.done: true, s.held: true, s.beyond: true}
				for _, id := range s.free {
					busy[id] = true
				}
				d.conf.Scheduler.MarkBusy(busy, time.Now().Add(100*365*24*time.Hour))
			},
			"long ago": func(s *shelf, d *Daemon) { d.conf.Scheduler.MarkBusy(map[string]bool{s.free[0]: true}, time.Time{}) },
		}),
		said("items that broke a worker", map[string]func(*shelf, *Daemon){
			"every free one, permanently": func(s *shelf, d *Daemon) {
				for _, id := range s.free {
					d.conf.Scheduler.MarkTaken(id, time.Now().Add(100*365*24*time.Hour))
				}
			},
			"nonsense": func(s *shelf, d *Daemon) {
				for _, id := range []string{"", "shard_setup", s.beyond, "session", "a__b__c", string(bytes.Repeat([]byte("x"), 1<<16))} {
					d.conf.Scheduler.MarkTaken(id, time.Now().Add(time.Hour))
				}
			},
			"expired": func(s *shelf, d *Daemon) { d.conf.Scheduler.MarkTaken(s.free[0], time.Time{}) },
		}),
		said("recent leases", map[string]func(*shelf, *Daemon){
			"of free items, endless": func(s *shelf, d *Daemon) {
				for _, id := range s.free {
					d.updateScheduler(&Lease{Item: id, Holder: "another worker", LeftMs: math.MaxInt64}, nil)
				}
			},
			"of the past":    func(s *shelf, d *Daemon) { d.updateScheduler(&Lease{Item: s.held, LeftMs: math.MinInt64}, nil) },
			"free ones done": func(s *shelf, d *Daemon) { d.updateScheduler(&Lease{Item: s.free[0]}, cleanEnd(ExitDone)) },
			"broke a worker": func(s *shelf, d *Daemon) { d.updateScheduler(&Lease{Item: s.free[0]}, &End{Code: 2}) },
		}),
		said("what was handed off", map[string]func(*shelf, *Daemon){
			"what is done, held, failed, handed off or nothing": func(s *shelf, d *Daemon) {
				d.updateScheduler(&Lease{Item: s.replaced}, cleanEnd(ExitDone, s.done, s.held, s.bad, s.replaced, s.beyond))
			},
			"nonsense": func(s *shelf, d *Daemon) {
				d.updateScheduler(&Lease{Item: s.replaced}, cleanEnd(ExitDone, "", cms.SetupID, "session", "phase:documents", "bG9ncw__0__-1", "bG9ncw__00__0", "bG9ncw__3__51", string(bytes.Repeat([]byte("_"), 1<<16))))
			},
			"the same again and again": func(s *shelf, d *Daemon) {
				d.updateScheduler(&Lease{Item: s.replaced}, cleanEnd(ExitDone, slices.Repeat(s.free[:1], 100)...))
			},
		}),
		said("wish", map[string]func(*shelf, *Daemon){
			"again and again": func(_ *shelf, d *Daemon) {
				for range 1000 {
					d.ReadIntent()
				}
			},
		}),
	)
}

func cleanEnd(code int, next ...string) *End {
	return &End{Code: code, Last: &Record{Exit: &code, Next: next}}
}

const ruleRate, ruleWorkers = 1_000_000, 4

// TestAHintMayReorderDelayOrShrinkWorkAndNothingElse: no hint changes the store. A node keeps at least one worker and no more than its
// limit, some of the rate and no more than all of it, and leases of limited length. Its workers get each free item once, with a normal
// lease, and no item that is done, failed or leased by another worker.
func TestAHintMayReorderDelayOrShrinkWorkAndNothingElse(t *testing.T) {
	for _, c := range ruleCases() {
		t.Run(c.kind+": "+c.value, func(t *testing.T) {
			s := newShelf(t)
			d := ruledNode(s, c.fleet)
			before, records := s.bytes(t), s.items(t)
			if c.say != nil {
				c.say(s, d)
			}
			wanted := holdNode(t, d)
			var prefer []string
			for range 20 {
				prefer = append(prefer, holdOrder(t, d)...)
			}
			if !bytes.Equal(before, s.bytes(t)) {
				t.Error("the store is another, only because of a hint")
			}
			if i, err := session.OrdersOf(s.Coordinator).Intent(t.Context()); err != nil || i.State != session.Run || i.Workers != nil || wanted == 0 {
				t.Errorf("the operator wants %+v (%v), the node %d workers", i, err, wanted)
			}
			s.workOff(t, prefer, records)
		})
	}
}

func ruledNode(s *shelf, f *neighbours) *Daemon {
	sched := &schedule.Scheduler{}
	sched.SetPosition(schedule.NodePosition{Nodes: 1, Workers: 1})
	d := New(Config{Name: "n1", Send: Limit{Most: ruleRate}, MaxWorkers: ruleWorkers, Fleet: f, Peers: f, Scheduler: sched, Position: sched.Position, Log: discard()})
	d.auto = autoscale{max: ruleWorkers, n: ruleWorkers}
	d.store.set(s.Coordinator)
	d.known, d.intent = true, session.Intent{State: session.Run}
	d.lastRead.migration = &progress.Migration{Totals: progress.Counts{Items: 6, ItemsOpen: 3, Bytes: 1 << 40, BytesDone: 1 << 30}}
	return d
}

// holdNode checks the node's reactions to the hints against the rule for a long time, and returns the final number of workers.
func holdNode(t *testing.T, d *Daemon) (wanted int) {
	t.Helper()
	now := time.Now()
	var worked metrics.Sample
	worked.Bulk.Count = 100
	for i := range 50 {
		d.metrics.Add(worked) // by now and then, so that the node chooses anew
		if wanted = d.wantedWorkers(now.Add(time.Duration(i) * autoscaleInterval)); wanted < 1 || wanted > ruleWorkers {
			t.Fatalf("%d workers are wanted", wanted)
		}
		d.pacer.update(now.Add(time.Duration(i)*autoscaleInterval), d.metrics.Total(), d.plan(), i%2 == 0)
		if p := d.pacer.current(); !(p.Target > 0 && p.Target <= 1 && p.Repository > 0 && p.Repository <= 1) {
			t.Fatalf("the connections of workers shrink to %+v", p)
		}
	}
	if b := d.rateLimit(sends); b != ruleRate { // no hint changes it
		t.Errorf("a budget of %d bytes per second", b)
	}
	if e := d.plan().MinExponent(timing.DefaultInitialLease); e < 0 || e > 2 {
		t.Errorf("the length of a shard makes leases 2^%d times as long", e)
	}
	r := d.view(now)
	if r.Left != nil && (*r.Left < 0 || math.IsNaN(*r.Left) || math.IsInf(*r.Left, 0)) {
		t.Errorf("%v seconds left", *r.Left)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	if _, err := json.Marshal(d.Status(context.Background())); err != nil {
		t.Error(err)
	}
	return wanted
}

// holdOrder checks the command of a new worker against the rule, and returns its preferred items.
func holdOrder(t *testing.T, d *Daemon) []string {
	t.Helper()
	var o WorkerCommand
	now := time.Now()
	d.addHints(&o, now)
	if o.Exponent < 0 || o.Exponent > timing.MaxExponent {
		t.Errorf("new leases are 2^%d times as long", o.Exponent)
	}
	if wait := d.startAfter.Sub(now); wait < 0 || wait > 10*time.Minute {
		t.Errorf("the next worker starts in %v", wait)
	}
	if o.Tries < 0 || o.Tries == 1 || o.Record < 10*time.Second || o.Record > 15*time.Minute {
		t.Errorf("a worker tries %d items of a search and records its progress every %v", o.Tries, o.Record)
	}
	if len(o.Prefer) > preferredItems {
		t.Errorf("%d items are preferred", len(o.Prefer))
	}
	return o.Prefer
}

// workOff leases the preferred items and then the results of a search, like a worker, and compares the items with their former state.
func (s *shelf) workOff(t *testing.T, prefer []string, before map[string]string) {
	t.Helper()
	var got []string
	for {
		l, err := s.AcquireOneOf(t.Context(), "node", prefer)
		if err == nil && l == nil {
			prefer = nil
			l, err = s.AcquireNext(t.Context(), "node", nil)
		}
		var none *cms.NoneAvailable
		if errors.As(err, &none) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if l.Length != ruleLease {
			t.Errorf("a lease of %v on %s", l.Length, l.Item.ID)
		}
		got = append(got, l.Item.ID)
	}
	slices.Sort(got)
	if !slices.Equal(got, s.free) {
		t.Errorf("leased were %q, free %q", got, s.free)
	}
	after := s.items(t)
	for id, was := range before {
		if !slices.Contains(s.free, id) && after[id] != was {
			t.Errorf("%s was %s, is %s", id, was, after[id])
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d items became %d", len(before), len(after))
	}
}
