package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/migration/worker"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/trial"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// pacedTarget takes requests with so many processors, each of which needs a time for a request and for each byte of it.
type pacedTarget struct {
	engine.Destination
	opening  time.Duration // of the output of a lease
	request  time.Duration
	byteTime time.Duration // of a byte
	cold     int64         // bytes until it has warmed up; before, a byte takes up to five times as long
	known    float64       // part of the time that a document takes whose id is there; 0: all of it

	docs map[string]map[string]string // index → id → source

	mu    sync.Mutex
	free  []time.Time // when each processor is
	taken int64
}

func (p *pacedTarget) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	time.Sleep(p.opening)
	o, err := p.Destination.Open(ctx, id, mayStart)
	return pacedOutput{o, p}, err
}

type pacedOutput struct {
	engine.Output
	p *pacedTarget
}

func (o pacedOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	p := o.p
	p.mu.Lock()
	before := p.held()
	res, err := o.Output.Send(ctx, body, n)
	next := 0
	for i, at := range p.free {
		if at.Before(p.free[next]) {
			next = i
		}
	}
	slow := 1.0
	if p.taken < p.cold {
		slow = 5 - 4*float64(p.taken)/float64(p.cold)
	}
	if p.known > 0 {
		slow *= p.known + (1-p.known)*float64(p.held()-before)/float64(n)
	}
	p.taken += int64(len(body))
	begin := time.Now()
	if p.free[next].After(begin) {
		begin = p.free[next]
	}
	end := begin.Add(p.request + time.Duration(slow*float64(len(body))*float64(p.byteTime)))
	p.free[next] = end
	p.mu.Unlock()
	time.Sleep(time.Until(end))
	return res, err
}

// held returns how many documents the target has.
func (p *pacedTarget) held() (n int) {
	for _, docs := range p.docs {
		n += len(docs)
	}
	return n
}

// slowIndices takes a time to create an index.
type slowIndices struct {
	phase.Indices
	making time.Duration
}

func (s slowIndices) Make(ctx context.Context, x plan.Index) (creation.Made, error) {
	time.Sleep(s.making)
	return s.Indices.Make(ctx, x)
}

// paced is one migration to a paced target, or its trial run.
func paced(t *testing.T, fixture string, sample int64, slots int, making time.Duration, to *pacedTarget, o bulk.Options) (*worker.Migration, *plan.Plan, map[string]map[string]string) {
	t.Helper()
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", fixture))
	if err != nil {
		t.Fatal(err)
	}
	store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c := cms.New(cms.Config{Store: store, Creator: "test", InitialLease: 10 * time.Minute})
	req := plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto, Sizes: true}
	if sample > 0 {
		req.Trial = &plan.Trial{Documents: sample, Prefix: "rfsd-trial-"}
	}
	p, err := plan.New(t.Context(), blobs, req)
	if err != nil {
		t.Fatal(err)
	}
	on := migrationtest.Whole{Seen: migrationtest.Seen{Outside: migrationtest.NewOutside(), Life: &migrationtest.Life{}}, Docs: map[string]map[string]string{}}
	to.Destination, to.docs = migrationtest.WholeOutput{Whole: on}, on.Docs
	log := slog.New(slog.DiscardHandler)
	return &worker.Migration{Slots: slots, Unavailable: time.Hour, Session: &phase.Session{
		Coordinator: c, Holder: "process", Settings: req.Settings(""), Log: log, Phases: phase.Phases{phase.PhaseIndices, phase.PhaseDocuments},
		Source:   phase.Source{Plan: func(context.Context, string) (*plan.Plan, error) { return p, nil }},
		Transfer: phase.Transfer{Shards: shards.Reader{Repo: blobs}, Runner: &engine.Runner{Destination: to, Failed: migrationtest.DroppedFailures{}, Meter: engine.NewMeter(), Clock: timing.SystemClock(), Log: log, Bulk: o}},
		Cluster:  phase.Cluster{Indices: slowIndices{on, making}, Targets: on, Counts: on},
	}}, p, on.Docs
}

// keptScratch is the record of scratch indices.
type keptScratch struct {
	on      migrationtest.Whole
	names   []string
	created int
}

func (k *keptScratch) Intend(_ context.Context, index string) error {
	k.names = append(k.names, index)
	return nil
}

func (k *keptScratch) Confirm(context.Context, string) error {
	k.created++
	return nil
}

func (k *keptScratch) Withdraw(_ context.Context, index string) error {
	k.names = slices.DeleteFunc(k.names, func(name string) bool { return name == index })
	return nil
}

func (k *keptScratch) Discard(_ context.Context, prefix string, by rollback.Filled) error {
	docs := 0
	for _, name := range by.Indices {
		if !strings.HasPrefix(name, prefix) {
			return fmt.Errorf("%s has not the prefix %q", name, prefix)
		}
		docs += len(k.on.Docs[name])
	}
	if int64(docs) > by.Sent {
		return fmt.Errorf("%d documents, %d sent", docs, by.Sent)
	}
	for _, name := range k.names {
		delete(k.on.UUIDs, name)
		delete(k.on.Docs, name)
	}
	k.names = nil
	return nil
}

// loadOf measures after a trial run.
func loadOf(m *worker.Migration, plan *plan.Plan, slots int) (*Load, *keptScratch) {
	kept := &keptScratch{on: m.Counts.(migrationtest.Whole)}
	return &Load{Session: m.Session, Scratch: kept, Failed: migrationtest.DroppedFailures{}, Plan: plan, Slots: slots, Lasts: time.Minute}, kept
}

// TestATrialRunForetellsTheTimeOfAMigration runs both against targets of known speed, in virtual time.
func TestATrialRunForetellsTheTimeOfAMigration(t *testing.T) {
	const perByte = 150 * time.Microsecond
	for _, c := range []struct {
		name, fixture string
		sample        int64
		slots         int
		making        time.Duration
		to            *pacedTarget
		o             bulk.Options
		warms         bool // it still gets faster when the measurement ends
	}{
		{name: "one shard, long documents", fixture: "5.6.16-many-chunks", sample: 20, slots: 1},
		{name: "a sample of five documents of each shard", fixture: "7.10.2-multi-index", sample: 5, slots: 2},
		{name: "several shards", fixture: "1.7.6-updates-deletes", sample: 10, slots: 2},
		{name: "creating indices takes long", fixture: "1.7.6-updates-deletes", sample: 10, slots: 2, making: 7 * time.Second},
		{name: "each request takes long", fixture: "1.7.6-updates-deletes", sample: 30, slots: 2, to: &pacedTarget{request: time.Second}, o: bulk.Options{MaxDocs: 7}},
		{name: "each shard takes long", fixture: "1.7.6-updates-deletes", sample: 10, slots: 2, to: &pacedTarget{opening: 3 * time.Second}},
		{name: "documents whose ids are there are cheap", fixture: "5.6.16-many-chunks", sample: 20, slots: 1, to: &pacedTarget{known: 0.3}},
		{name: "a target that has just started", fixture: "5.6.16-many-chunks", sample: 20, slots: 1, to: &pacedTarget{cold: 2 << 20}},
		{name: "a target that warms up for a minute", fixture: "5.6.16-many-chunks", sample: 20, slots: 1, to: &pacedTarget{cold: 4 << 20}, warms: true},
		{name: "a target that warms up for minutes", fixture: "5.6.16-many-chunks", sample: 20, slots: 1, to: &pacedTarget{cold: 8 << 20}, warms: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := cmp.Or(c.to, &pacedTarget{})
				to.byteTime, to.free = perByte, make([]time.Time, 2)
				if c.fixture == "5.6.16-many-chunks" {
					to.byteTime = perByte / 16
				}
				c.o.MaxBytes, c.o.MaxInFlight = 20_000, 2
				m, plan, docs := paced(t, c.fixture, c.sample, c.slots, c.making, to, c.o)
				time.Sleep(time.Second) // readings of the clock are not 0
				begin := time.Now()
				sum, err := m.Run(t.Context())
				if err != nil || !sum.Complete {
					t.Fatalf("%+v, %v", sum, err)
				}
				p := m.Runner.Meter.Read(time.Now())
				measured := trial.Measured{Wall: time.Since(begin), Busy: p.Busy, Leases: p.Leases, Slots: c.slots}
				w := trial.Whole{}
				for _, x := range sum.Indices {
					measured.Shards += x.Done
					measured.Setup += time.Duration(x.Tried.Setup * float64(time.Second))
					measured.Copying += time.Duration(x.Tried.Copying * float64(time.Second))
					w.Bytes, w.Largest = w.Bytes+x.Tried.Bytes, max(w.Largest, x.Tried.Largest)
				}
				before := fmt.Sprint(docs)
				l, kept := loadOf(m, plan, c.slots)
				load, err := l.Measure(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(docs) != before || kept.created == 0 || len(kept.names) > 0 {
					t.Errorf("the target holds other documents than the sample; %d scratch indices were created, left are %v", kept.created, kept.names)
				}
				measured.Load, measured.Refresh = load.All, load.Refresh
				e, ok := trial.Of(measured, w, nil)
				if !ok {
					t.Fatalf("no estimate of %+v", measured)
				}
				m, _, _ = paced(t, c.fixture, 0, c.slots, c.making, to, c.o)
				begin = time.Now()
				if sum, err = m.Run(t.Context()); err != nil || !sum.Complete {
					t.Fatalf("%+v, %v", sum, err)
				}
				took := time.Since(begin).Seconds()
				off := 100 * (e.Seconds/took - 1)
				t.Logf("estimated %.1f s (%.1f to %.1f, fixed %.1f), in truth %.1f s: %+.0f %%; %d bytes by the sample, in truth %d", e.Seconds, e.Least, e.Most, e.Fixed, took, off, w.Bytes, sum.Totals.Bytes)
				if took < e.Least || took > e.Most {
					t.Errorf("%.1f s is not in the range", took)
				}
				// Of a short migration, of one shard and of a target that warms up, the range alone counts.
				if ranged := e.Least == 0 || e.Bound == trial.OneShard || c.warms; !ranged && (off < -25 || off > 25) {
					t.Errorf("%+.0f %%", off)
				}
				if told := strings.Contains(fmt.Sprint(e.Basis), "still got faster"); told != c.warms {
					t.Errorf("a gain is told: %v: %v", told, e.Basis)
				}
			})
		})
	}
}

// TestALoadWaitsForABusyTarget: one that refuses checks for some seconds (429) is measured, one that refuses them all is not.
func TestALoadWaitsForABusyTarget(t *testing.T) {
	for _, c := range []struct {
		name string
		busy time.Duration
		ok   bool
	}{{"at first", 5 * time.Second, true}, {"always", time.Hour, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				to := &pacedTarget{byteTime: time.Microsecond, free: make([]time.Time, 1)}
				m, plan, _ := paced(t, "5.6.16-many-chunks", 5, 2, 0, to, bulk.Options{MaxBytes: 100_000, MaxInFlight: 2})
				if _, err := m.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				m.Targets = askedTargets{m.Targets, func() error {
					if time.Since(begin) < c.busy {
						return fmt.Errorf("circuit_breaking_exception: %w", fault.ErrUnavailable)
					}
					return nil
				}}
				l, _ := loadOf(m, plan, 2)
				load, err := l.Measure(t.Context())
				if (err == nil) != c.ok || (load.All.Mean > 0) != c.ok || !c.ok && !errors.Is(err, fault.ErrUnavailable) {
					t.Errorf("%+v: %v", load, err)
				}
			})
		})
	}
}

// askedTargets asks before it answers for an index.
type askedTargets struct {
	phase.Targets
	ask func() error
}

func (a askedTargets) IndexUUID(ctx context.Context, name string) (string, error) {
	if err := a.ask(); err != nil {
		return "", err
	}
	return a.Targets.IndexUUID(ctx, name)
}

func TestALoadEndsWithTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pacedTarget{byteTime: time.Microsecond, free: make([]time.Time, 1)}
		m, plan, docs := paced(t, "5.6.16-many-chunks", 5, 2, 0, to, bulk.Options{MaxBytes: 100_000, MaxInFlight: 2})
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprint(docs)
		l, kept := loadOf(m, plan, 2)
		replaced, left := migrationtest.Seen{Outside: kept.on.Outside, Life: &migrationtest.Life{}}, 3
		m.Targets = askedTargets{m.Targets, func() error {
			if left--; left == 0 {
				for _, name := range kept.names {
					replaced.UUIDs[name] = "of another"
				}
			}
			return nil
		}}
		if _, err := l.Measure(t.Context()); !errors.Is(err, engine.ErrTargetReplaced) || !strings.Contains(fmt.Sprint(err), "rfsctl cleanup --trial") || len(kept.names) == 0 {
			t.Errorf("another index: %v, recorded %v", err, kept.names)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Measure(ctx); !errors.Is(err, context.DeadlineExceeded) || len(kept.names) == 0 {
			t.Errorf("interrupted: %v, recorded %v", err, kept.names)
		}
		gone := errors.New("gone")
		was := m.Runner.Destination
		m.Runner.Destination = goneTarget{was, gone}
		if _, err := l.Measure(t.Context()); !errors.Is(err, gone) || len(kept.names) == 0 {
			t.Errorf("a target that fails: %v, recorded %v", err, kept.names)
		}
		m.Runner.Destination = was
		if _, err := l.Measure(t.Context()); err != nil || len(kept.names) > 0 || fmt.Sprint(docs) != before {
			t.Errorf("after runs that left scratch indices: %v, recorded %v", err, kept.names)
		}
	})
}

// racedIndices lets something happen right before an index is created.
type racedIndices struct {
	phase.Indices
	before func()
}

func (r racedIndices) Make(ctx context.Context, x plan.Index) (creation.Made, error) {
	r.before()
	return r.Indices.Make(ctx, x)
}

// TestALoadTouchesNothingOfOthers: an index that has the name of a scratch index stays, and is not written to.
func TestALoadTouchesNothingOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pacedTarget{byteTime: time.Microsecond, free: make([]time.Time, 1)}
		m, plan, docs := paced(t, "5.6.16-many-chunks", 5, 2, 0, to, bulk.Options{MaxBytes: 100_000, MaxInFlight: 2})
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprint(docs)
		l, kept := loadOf(m, plan, 2)
		name := scratchPrefix(plan) + plan.Indices[0].Name
		for _, since := range []string{"before", "a moment before it is created"} {
			delete(kept.on.UUIDs, name)
			appear := func() { kept.on.UUIDs[name] = "of another" }
			if l.Session.Indices = kept.on; since == "before" {
				appear()
			} else {
				l.Session.Indices = racedIndices{kept.on, appear}
			}
			if _, err := l.Measure(t.Context()); !errors.Is(err, fault.ErrConfig) || !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%s: %v", since, err)
			}
			if fmt.Sprint(docs) != before || kept.on.UUIDs[name] == "" || kept.created > 0 {
				t.Errorf("%s: %d created, the other index: %q", since, kept.created, kept.on.UUIDs[name])
			}
		}
	})
	p := &plan.Plan{Indices: []plan.Index{{Entry: plan.Entry{Trial: &plan.Trial{Prefix: "p-"}, Naming: plan.Naming{Index: "p-measure-a"}}}}}
	if prefix := scratchPrefix(p); prefix != "p-measure-measure-" {
		t.Errorf("an index of the snapshot is named measure-a: scratch indices are named %s…", prefix)
	}
}

// TestPartsAreSpreadAndAllRead: the parts of a shard are read once each before one is read again.
func TestPartsAreSpreadAndAllRead(t *testing.T) {
	for parts := int64(1); parts < 300; parts++ {
		s := &loadShard{parts: parts}
		for round := range int64(2) {
			seen := map[int64]bool{}
			for range parts {
				part, n := s.next()
				if n != round || seen[part] || part < 0 || part >= parts {
					t.Fatalf("%d parts: part %d in round %d", parts, part, n)
				}
				seen[part] = true
			}
		}
	}
}

// goneTarget is a destination that answers with an error.
type goneTarget struct {
	engine.Destination
	err error
}

func (f goneTarget) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	o, err := f.Destination.Open(ctx, id, mayStart)
	return goneOutput{o, f.err}, err
}

type goneOutput struct {
	engine.Output
	err error
}

func (o goneOutput) Send(context.Context, []byte, int) (bulk.Result, error) {
	return bulk.Result{}, o.err
}
