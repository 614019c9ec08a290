package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// looked is a target that reports each index that is asked for.
type looked struct {
	phase.Targets
	asked func(index string)
}

func (t looked) IndexUUID(ctx context.Context, name string) (string, error) {
	if t.asked != nil {
		t.asked(name)
	}
	return t.Targets.IndexUUID(ctx, name)
}

// world is a migration of a real snapshot with two shards, whose clusters and store may fail.
type world struct {
	blobs snapshot.Repository
	req   plan.Request
	store cms.Store
	on    *migrationtest.Outside
	docs  map[string]map[string]string
	wrap  func(engine.Destination) engine.Destination // nil: the destination as it is
	dead  []string                                    // holders that the next process knows to be dead
	freed func() error
	plan  func(*plan.Plan)          // changes what was planned; nil: nothing does
	asked func(index string)        // is called when a target index is asked for; nil: nothing
	with  func(m *worker.Migration) // changes the process before it runs; nil: nothing does
}

// multiply makes n of each index of a plan, under names of their own.
func multiply(p *plan.Plan, n int) {
	of := p.Indices
	p.Indices = nil
	for i := range n {
		for _, x := range of {
			x.Name = fmt.Sprintf("%s%d", x.Name, i)
			x.Entry.Locator.IndexName, x.Entry.Naming = x.Name, plan.Naming{Index: x.Name}
			p.Indices = append(p.Indices, x)
		}
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "6.8.23-plain"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	req := plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto, Sizes: true} // both shards are small
	return &world{blobs: blobs, req: req, store: store, on: migrationtest.NewOutside(), docs: map[string]map[string]string{}}
}

// run is one process of the migration.
func (w *world) run(t *testing.T, n int, l *migrationtest.Life) (*summary.Summary, error) {
	t.Helper()
	c := cms.New(cms.Config{Store: migrationtest.Fallible{Mortal: migrationtest.Mortal{Store: w.store, Life: l}}, Creator: "test", InitialLease: time.Minute})
	on := migrationtest.Whole{Seen: migrationtest.Seen{Outside: w.on, Life: l}, Docs: w.docs}
	log := slog.New(slog.DiscardHandler)
	var to engine.Destination = migrationtest.WholeOutput{Whole: on}
	if w.wrap != nil {
		to = w.wrap(to)
	}
	m := &worker.Migration{Slots: 1, Unavailable: time.Minute, Dead: w.dead, Freed: w.freed, Session: &phase.Session{
		Coordinator: c, Holder: fmt.Sprint("process", n), Settings: w.req.Settings(""), Log: log, Phases: phase.Phases{phase.PhaseMetadata, phase.PhaseIndices, phase.PhaseDocuments},
		Source: phase.Source{Request: &w.req, Plan: func(ctx context.Context, _ string) (*plan.Plan, error) {
			var p *plan.Plan
			var err error
			derr := l.Call(func() { p, err = plan.New(ctx, w.blobs, w.req) })
			if p != nil && w.plan != nil {
				w.plan(p)
			}
			return p, errors.Join(derr, err)
		}},
		Transfer: phase.Transfer{Shards: shards.Reader{Repo: w.blobs}, Runner: &engine.Runner{Destination: to, Failed: migrationtest.NoFailures{}, Meter: engine.NewMeter(), Clock: timing.SystemClock(), Log: log, Bulk: bulk.Options{MaxDocs: 40, MaxInFlight: 1}}},
		Cluster:  phase.Cluster{Globals: on.MigrateGlobals, Indices: on, Targets: looked{on, w.asked}, Counts: on, Tuner: on, Tune: tuning.All},
	}}
	if w.with != nil {
		w.with(m)
	}
	return m.Run(t.Context())
}

// left is what a complete migration leaves, as its summary and the target have it.
func (w *world) left(sum *summary.Summary) string {
	var b strings.Builder
	sum.Totals.Retried, sum.Totals.Resent = 0, 0 // what was sent again does not matter for what is left
	fmt.Fprintf(&b, "complete %v, %+v, problems %v\n", sum.Complete, sum.Totals, sum.Problems)
	for _, p := range sum.Phases {
		fmt.Fprintf(&b, "%s %s\n", p.Phase, p.State)
	}
	for _, x := range sum.Indices {
		arrival := progress.Arrival{}
		if x.Arrival != nil {
			arrival = *x.Arrival
		}
		fmt.Fprintf(&b, "%s %v %s: shards %d done %d open %d, created %v, waits %v, %+v\n", x.Index, x.Targets, x.State, x.Shards, x.Done, x.Open, x.Created, x.AliasesWait, arrival)
	}
	fmt.Fprintf(&b, "%v %v %v\n", w.on.Created, w.on.UUIDs, w.on.AliasesOf)
	for _, index := range slices.Sorted(maps.Keys(w.docs)) {
		fmt.Fprintf(&b, "%s: %v\n", index, w.docs[index])
	}
	return b.String()
}

// TestEveryCallMayFailOnce lets each call of a migration to the store and to the clusters fail once, before and after it
// had its effect. The run ends with that error or goes on; the next one completes what one without errors does.
func TestEveryCallMayFailOnce(t *testing.T) {
	calls, want := &migrationtest.Life{}, ""
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sum, err := w.run(t, 1, calls)
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		want = w.left(sum)
	})
	for i, fails := range []error{fmt.Errorf("no route to host: %w", fault.ErrUnavailable), errors.New("out of order")} {
		for call := 1; call <= calls.Calls; call++ {
			for _, after := range []bool{false, true} {
				if testing.Short() && (after || call%2 != i) {
					continue // what had its effect already is TestEveryDeathInThePhasesIsResumed
				}
				if t.Failed() {
					return
				}
				synctest.Test(t, func(t *testing.T) {
					w, place := newWorld(t), fmt.Sprintf("call %d (after: %v): %v", call, after, fails)
					sum, err := w.run(t, 1, &migrationtest.Life{Dies: call, After: after, Fails: fails})
					if err != nil && !errors.Is(err, fails) {
						t.Errorf("%s: the run ended with %v", place, err)
					}
					if err != nil {
						sum, err = w.run(t, 2, &migrationtest.Life{})
					}
					if err != nil {
						t.Fatalf("%s: the next run: %v", place, err)
					}
					if got := w.left(sum); got != want {
						t.Errorf("%s:\n%s\nwithout:\n%s", place, got, want)
					}
				})
			}
		}
	}
	t.Logf("%d calls", calls.Calls)
}
