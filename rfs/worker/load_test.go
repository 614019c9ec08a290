package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/trial"
)

// pacedTarget takes requests with so many processors, each of which needs a time for a request and for each byte of it.
type pacedTarget struct {
	Destination
	opening  time.Duration // of the output of a lease
	request  time.Duration
	byteTime time.Duration // of a byte
	cold     int64         // bytes until it has warmed up; before, a byte takes up to five times as long

	mu    sync.Mutex
	free  []time.Time // when each processor is
	taken int64
}

func (p *pacedTarget) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (Output, error) {
	time.Sleep(p.opening)
	o, err := p.Destination.Open(ctx, id, mayStart)
	return pacedOutput{o, p}, err
}

type pacedOutput struct {
	Output
	p *pacedTarget
}

func (o pacedOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	p := o.p
	p.mu.Lock()
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

// slowIndices takes a time to create an index.
type slowIndices struct {
	Indices
	making time.Duration
}

func (s slowIndices) Make(ctx context.Context, x IndexPlan) (Made, error) {
	time.Sleep(s.making)
	return s.Indices.Make(ctx, x)
}

// paced is one migration to a paced target, or its trial run.
func paced(t *testing.T, fixture string, sample int64, slots int, making time.Duration, to *pacedTarget, o bulk.Options) (*Migration, *Plan, map[string]map[string]string) {
	t.Helper()
	blobs, err := repo.NewDir(filepath.Join("..", "..", "testing", "fixtures", fixture))
	if err != nil {
		t.Fatal(err)
	}
	store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c, err := cms.New(cms.Config{Store: store, Creator: "test", InitialLease: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	req := Request{SnapshotName: "snap1", MultiType: SplitTypes, EmitType: EmitAuto, Sizes: true}
	if sample > 0 {
		req.Trial = &Trial{Documents: sample, Prefix: "rfsd-trial-"}
	}
	plan, err := NewPlan(t.Context(), blobs, req)
	if err != nil {
		t.Fatal(err)
	}
	on := whole{seen{newOutside(), &life{}}, map[string]map[string]string{}}
	to.Destination = wholeOutput{on}
	log := slog.New(slog.DiscardHandler)
	return &Migration{Slots: slots, Unavailable: time.Hour, Session: &Session{
		Coordinator: c, Holder: "process", Settings: req.Settings(""), Log: log, Phases: Phases{PhaseIndices, PhaseDocuments},
		Indices: slowIndices{on, making}, Targets: on, Counts: on,
		Plan:   func(context.Context, string) (*Plan, error) { return plan, nil },
		Runner: &Runner{Repo: blobs, Destination: to, Failed: noted{map[string]int64{}}, Meter: NewMeter(), Clock: cms.SystemClock(), Log: log, Bulk: o},
	}}, plan, on.docs
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
	}{
		{name: "one shard, long documents", fixture: "5.6.16-many-chunks", sample: 20, slots: 1},
		{name: "a sample of five documents of each shard", fixture: "7.10.2-multi-index", sample: 5, slots: 2},
		{name: "several shards", fixture: "1.7.6-updates-deletes", sample: 10, slots: 2},
		{name: "creating indices takes long", fixture: "1.7.6-updates-deletes", sample: 10, slots: 2, making: 7 * time.Second},
		{name: "each request takes long", fixture: "1.7.6-updates-deletes", sample: 10, slots: 2, to: &pacedTarget{request: time.Second}, o: bulk.Options{MaxDocs: 7}},
		{name: "each shard takes long", fixture: "1.7.6-updates-deletes", sample: 10, slots: 2, to: &pacedTarget{opening: 3 * time.Second}},
		{name: "a target that has just started", fixture: "5.6.16-many-chunks", sample: 20, slots: 1, to: &pacedTarget{cold: 2 << 20}},
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
				load, err := (&Load{Runner: m.Runner, Plan: plan, Slots: c.slots, Most: 45 * time.Second, Check: func(ctx context.Context) error { return m.Present(ctx, plan) }}).Measure(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(docs) != before {
					t.Error("the target holds other documents than the sample")
				}
				measured.Load, measured.Alone = load.All, load.Alone
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
				if off < -25 || off > 25 {
					t.Errorf("%+.0f %%", off)
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
				check := func(context.Context) error {
					if time.Since(begin) < c.busy {
						return fmt.Errorf("circuit_breaking_exception: %w", fault.ErrUnavailable)
					}
					return nil
				}
				l := &Load{Runner: m.Runner, Plan: plan, Slots: 2, Most: 45 * time.Second, Check: check}
				load, err := l.Measure(t.Context())
				if (err == nil) != c.ok || (load.All.Rate > 0) != c.ok || !c.ok && !errors.Is(err, fault.ErrUnavailable) {
					t.Errorf("%+v: %v", load, err)
				}
			})
		})
	}
}

func TestALoadEndsWithTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &pacedTarget{byteTime: time.Microsecond, free: make([]time.Time, 1)}
		m, plan, _ := paced(t, "5.6.16-many-chunks", 5, 2, 0, to, bulk.Options{MaxBytes: 100_000, MaxInFlight: 2})
		if _, err := m.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := &Load{Runner: m.Runner, Plan: plan, Slots: 2, Most: 45 * time.Second, Check: func(context.Context) error { return ErrTargetReplaced }}
		if _, err := l.Measure(t.Context()); !errors.Is(err, ErrTargetReplaced) {
			t.Errorf("another index: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.Check = nil
		if _, err := l.Measure(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted: %v", err)
		}
		gone := errors.New("gone")
		m.Runner.Destination = goneTarget{m.Runner.Destination, gone}
		if _, err := l.Measure(t.Context()); !errors.Is(err, gone) {
			t.Errorf("a target that fails: %v", err)
		}
	})
}

// goneTarget is a destination that answers with an error.
type goneTarget struct {
	Destination
	err error
}

func (f goneTarget) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (Output, error) {
	o, err := f.Destination.Open(ctx, id, mayStart)
	return goneOutput{o, f.err}, err
}

type goneOutput struct {
	Output
	err error
}

func (o goneOutput) Send(context.Context, []byte, int) (bulk.Result, error) {
	return bulk.Result{}, o.err
}
