package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// fallible is a store of which also what only reads may fail.
type fallible struct{ mortal }

func (m fallible) Get(ctx context.Context, id string) (it cms.Item, err error) {
	if derr := m.life.call(func() { it, err = m.Store.Get(ctx, id) }); derr != nil {
		return cms.Item{}, derr
	}
	return it, err
}

func (m fallible) Candidates(ctx context.Context, grace time.Duration, n int) (items []cms.Item, err error) {
	if derr := m.life.call(func() { items, err = m.Store.Candidates(ctx, grace, n) }); derr != nil {
		return nil, derr
	}
	return items, err
}

func (m fallible) Open(ctx context.Context) (o cms.Open, err error) {
	if derr := m.life.call(func() { o, err = m.Store.Open(ctx) }); derr != nil {
		return cms.Open{}, derr
	}
	return o, err
}

func (m fallible) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return failsFirst(m.life, m.Store.List(ctx, kind))
}

func (m fallible) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	return failsFirst(m.life, m.Store.Scan(ctx))
}

// failsFirst yields what the store yields, or the error of the call.
func failsFirst[T any](l *life, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := l.call(func() {}); err != nil {
			var none T
			yield(none, err)
			return
		}
		all(yield)
	}
}

// whole is a target with everything that a migration asks of it.
type whole struct {
	seen
	docs map[string]map[string]string // index → id → source; "": another client has deleted it
}

func (w whole) Refresh(context.Context, string) error { return w.do(func() error { return nil }) }

func (w whole) Count(_ context.Context, index string) (n int64, err error) {
	err = w.do(func() error { n = int64(len(w.docs[index])) - w.deleted(index); return nil })
	return n, err
}

func (w whole) CountLucene(ctx context.Context, index string) (int64, error) {
	return w.Count(ctx, index)
}

func (w whole) Operations(_ context.Context, index string) (target.Operations, error) {
	deleted := w.deleted(index)
	return target.Operations{Executed: int64(len(w.docs[index])) + deleted, Deletes: deleted}, w.do(func() error { return nil })
}

func (w whole) deleted(index string) (n int64) {
	for _, source := range w.docs[index] {
		if source == "" {
			n++
		}
	}
	return n
}

func (w whole) GetIndex(_ context.Context, name string) ([]target.Index, error) {
	return []target.Index{{Name: name, UUID: "uuid of " + name}}, w.do(func() error { return nil })
}

func (w whole) Tune(_ context.Context, names []string, _ tuning.Wish) error {
	return w.do(func() error { w.created["tuned"] = len(names); return nil })
}

func (w whole) Harden(context.Context, []string) error {
	return w.do(func() error { w.created["tuned"] = 1; return nil })
}

func (w whole) Restore(context.Context) ([]tuning.Restored, error) {
	return nil, w.do(func() error { delete(w.created, "tuned"); return nil })
}

// looked is a target that reports each index that is asked for.
type looked struct {
	Targets
	asked func(index string)
}

func (t looked) IndexUUID(ctx context.Context, name string) (string, error) {
	if t.asked != nil {
		t.asked(name)
	}
	return t.Targets.IndexUUID(ctx, name)
}

// wholeOutput is the destination of its documents.
type wholeOutput struct{ whole }

func (w wholeOutput) Durable() bool                { return true }
func (w wholeOutput) Commit(context.Context) error { return w.do(func() error { return nil }) }
func (w wholeOutput) Abort() error                 { return nil }

func (w wholeOutput) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return w, w.do(func() error { return nil })
}

func (w wholeOutput) Send(_ context.Context, body []byte, _ int) (bulk.Result, error) {
	return bulk.Result{}, w.do(func() error {
		for len(body) > 0 {
			action, rest, _ := bytes.Cut(body, []byte("\n"))
			source, next, _ := bytes.Cut(rest, []byte("\n"))
			var a struct{ Index bulk.Key }
			if err := json.Unmarshal(action, &a); err != nil {
				return err
			}
			if w.docs[a.Index.Index] == nil {
				w.docs[a.Index.Index] = map[string]string{}
			}
			w.docs[a.Index.Index][a.Index.ID] = string(source)
			body = next
		}
		return nil
	})
}

// world is a migration of a real snapshot with two shards, whose clusters and store may fail.
type world struct {
	blobs snapshot.Repository
	req   plan.Request
	store cms.Store
	on    *outside
	docs  map[string]map[string]string
	wrap  func(engine.Destination) engine.Destination // nil: the destination as it is
	dead  []string                                    // holders that the next process knows to be dead
	freed func() error
	plan  func(*plan.Plan)   // changes what was planned; nil: nothing does
	asked func(index string) // is called when a target index is asked for; nil: nothing
	with  func(m *Migration) // changes the process before it runs; nil: nothing does
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
	return &world{blobs: blobs, req: req, store: store, on: newOutside(), docs: map[string]map[string]string{}}
}

// run is one process of the migration.
func (w *world) run(t *testing.T, n int, l *life) (*Summary, error) {
	t.Helper()
	c, err := cms.New(cms.Config{Store: fallible{mortal{w.store, l}}, Creator: "test", InitialLease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	on := whole{seen{w.on, l}, w.docs}
	log := slog.New(slog.DiscardHandler)
	var to engine.Destination = wholeOutput{on}
	if w.wrap != nil {
		to = w.wrap(to)
	}
	m := &Migration{Slots: 1, Unavailable: time.Minute, Dead: w.dead, Freed: w.freed, Session: &Session{
		Coordinator: c, Holder: fmt.Sprint("process", n), Settings: w.req.Settings(""), Request: &w.req, Log: log,
		Phases:  Phases{PhaseMetadata, PhaseIndices, PhaseDocuments},
		Globals: on.migrateGlobals, Indices: on, Targets: looked{on, w.asked}, Counts: on, Tuner: on, Tune: tuning.All,
		Plan: func(ctx context.Context, _ string) (*plan.Plan, error) {
			var p *plan.Plan
			var err error
			derr := l.call(func() { p, err = plan.New(ctx, w.blobs, w.req) })
			if p != nil && w.plan != nil {
				w.plan(p)
			}
			return p, errors.Join(derr, err)
		},
		Shards: shards.Reader{Repo: w.blobs}, Runner: &engine.Runner{Destination: to, Failed: noFailures{}, Meter: engine.NewMeter(), Clock: cms.SystemClock(), Log: log, Bulk: bulk.Options{MaxDocs: 40, MaxInFlight: 1}},
	}}
	if w.with != nil {
		w.with(m)
	}
	return m.Run(t.Context())
}

// left is what a complete migration leaves, as its summary and the target have it.
func (w *world) left(sum *Summary) string {
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
	fmt.Fprintf(&b, "%v %v %v\n", w.on.created, w.on.uuids, w.on.aliases)
	for _, index := range slices.Sorted(maps.Keys(w.docs)) {
		fmt.Fprintf(&b, "%s: %v\n", index, w.docs[index])
	}
	return b.String()
}

// TestEveryCallMayFailOnce lets each call of a migration to the store and to the clusters fail once, before and after it
// had its effect. The run ends with that error or goes on; the next one completes what one without errors does.
func TestEveryCallMayFailOnce(t *testing.T) {
	calls, want := &life{}, ""
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		sum, err := w.run(t, 1, calls)
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		want = w.left(sum)
	})
	for _, fails := range []error{fmt.Errorf("no route to host: %w", fault.ErrUnavailable), errors.New("out of order")} {
		for call := 1; call <= calls.calls; call++ {
			for _, after := range []bool{false, true} {
				if after && testing.Short() {
					continue // what had its effect already is TestEveryDeathInThePhasesIsResumed
				}
				if t.Failed() {
					return
				}
				synctest.Test(t, func(t *testing.T) {
					w, place := newWorld(t), fmt.Sprintf("call %d (after: %v): %v", call, after, fails)
					sum, err := w.run(t, 1, &life{dies: call, after: after, fails: fails})
					if err != nil && !errors.Is(err, fails) {
						t.Errorf("%s: the run ended with %v", place, err)
					}
					if err != nil {
						sum, err = w.run(t, 2, &life{})
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
	t.Logf("%d calls", calls.calls)
}
