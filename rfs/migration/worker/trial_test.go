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
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// refusing rejects every document whose position in its body is even.
type refusing struct{ engine.Destination }
type refusingOutput struct{ engine.Output }

func (r refusing) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	o, err := r.Destination.Open(ctx, id, mayStart)
	return refusingOutput{o}, err
}

func (o refusingOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	res, err := o.Output.Send(ctx, body, n)
	for i := 0; i < n; i += 2 {
		res.Refused = append(res.Refused, bulk.Refusal{Pos: i, Status: 400, Type: "mapper_parsing_exception", Reason: "failed to parse field [x]"})
	}
	return res, err
}

// trial is one process of a trial run.
func (w *world) trial(t *testing.T, n int, l *migrationtest.Life) (*summary.Summary, error) {
	t.Helper()
	c := cms.New(cms.Config{Store: migrationtest.Fallible{Mortal: migrationtest.Mortal{Store: w.store, Life: l}}, Creator: "test", InitialLease: time.Minute})
	on := migrationtest.Whole{Seen: migrationtest.Seen{Outside: w.on, Life: l}, Docs: w.docs}
	log := slog.New(slog.DiscardHandler)
	var to engine.Destination = migrationtest.WholeOutput{Whole: on}
	if w.wrap != nil {
		to = w.wrap(to)
	}
	m := &worker.Migration{Slots: 1, Unavailable: time.Minute, Session: &phase.Session{
		Coordinator: c, Holder: fmt.Sprint("process", n), Settings: w.req.Settings(""), Log: log, Phases: phase.Phases{phase.PhaseIndices, phase.PhaseDocuments},
		Source: phase.Source{Plan: func(ctx context.Context, _ string) (*plan.Plan, error) { return plan.New(ctx, w.blobs, w.req) }},
		Transfer: phase.Transfer{Shards: shards.Reader{Repo: w.blobs}, Runner: &engine.Runner{Destination: to, Failed: migrationtest.DroppedFailures{}, Meter: engine.NewMeter(), Clock: timing.SystemClock(), Log: log,
			Bulk: bulk.Options{MaxDocs: 4, MaxInFlight: 1, MaxAge: time.Hour}}},
		Cluster: phase.Cluster{Indices: on, Targets: on, Counts: on},
	}}
	return m.Run(t.Context())
}

const tried = 9

func newTrialWorld(t *testing.T) *world {
	w := newWorld(t)
	w.req.Trial = &plan.Trial{Documents: tried, Prefix: "rfsd-trial-"}
	return w
}

// sent lists what arrived.
func (w *world) sent() string {
	var b strings.Builder
	for _, index := range slices.Sorted(maps.Keys(w.docs)) {
		fmt.Fprintf(&b, "%s: %v\n", index, slices.Sorted(maps.Keys(w.docs[index])))
	}
	return b.String()
}

func TestATrialRunSendsAPartOfEachShardToIndicesOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrialWorld(t)
		sum, err := w.trial(t, 1, &migrationtest.Life{})
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		all, live := 0, int64(0)
		for _, x := range sum.Indices {
			all += x.Shards
			plan, err := plan.New(t.Context(), w.blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range plan.Indices {
				for shard := range p.Entry.Shards {
					n, err := shards.Count(t.Context(), w.blobs, p.Entry, shard)
					if err != nil {
						t.Fatal(err)
					}
					if live += n; p.Name != x.Index {
						t.Errorf("index %s", x.Index)
					}
				}
			}
			if x.Tried == nil || x.Tried.Scanned == 0 {
				t.Fatalf("%+v", x.Tried)
			}
			if off := float64(x.Tried.Documents)/float64(live) - 1; off < -0.25 || off > 0.25 {
				t.Errorf("the whole has %d documents by the sample, in truth %d", x.Tried.Documents, live)
			}
		}
		if sum.Totals.Live != int64(tried*all) || sum.Totals.Indexed != sum.Totals.Live {
			t.Errorf("%+v of %d shards", sum.Totals, all)
		}
		for name := range w.docs {
			if !strings.HasPrefix(name, "rfsd-trial-") {
				t.Errorf("documents went to %s", name)
			}
		}
		if len(sum.NotVerified) > 0 {
			t.Errorf("not verified: %v", sum.NotVerified)
		}
	})
}

// TestATrialRunGoesOnAfterEveryDeath ends the process at each of its calls. The next one sends the same documents.
func TestATrialRunGoesOnAfterEveryDeath(t *testing.T) {
	calls, want, counts := &migrationtest.Life{}, "", cms.Counts{}
	synctest.Test(t, func(t *testing.T) {
		w := newTrialWorld(t)
		sum, err := w.trial(t, 1, calls)
		if err != nil {
			t.Fatal(err)
		}
		want, counts = w.sent(), sum.Totals
	})
	for call := 1; call <= calls.Calls && !t.Failed(); call++ {
		for _, after := range []bool{false, true} {
			if testing.Short() && after != (call%2 == 0) {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				w := newTrialWorld(t)
				w.trial(t, 1, &migrationtest.Life{Dies: call, After: after}) //nolint:errcheck // it dies
				sum, err := w.trial(t, 2, &migrationtest.Life{})
				if err != nil || !sum.Complete || sum.Totals != counts || w.sent() != want {
					t.Errorf("call %d (after: %v): %v, %+v instead of %+v\n%s", call, after, err, sum.Totals, counts, w.sent())
				}
			})
		}
	}
}

func TestATrialRunReportsClassesOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrialWorld(t)
		w.wrap = func(d engine.Destination) engine.Destination { return refusing{d} }
		sum, err := w.trial(t, 1, &migrationtest.Life{})
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		all := int64(0)
		for _, x := range sum.Indices {
			for class, n := range x.Tried.Classes {
				if all += n; class == "other" {
					t.Errorf("class %s: %d", class, n)
				}
			}
		}
		if all == 0 || all != sum.Totals.Failed {
			t.Errorf("%d documents by class, %d failed", all, sum.Totals.Failed)
		}
	})
}

func TestATrialRunDoesNotTouchWhatIsNotItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTrialWorld(t)
		plan, err := plan.New(t.Context(), w.blobs, w.req)
		if err != nil {
			t.Fatal(err)
		}
		name := plan.Indices[0].Entry.Naming.Targets()[0]
		w.on.UUIDs[name] = "of another session"
		sum, err := w.trial(t, 1, &migrationtest.Life{})
		if !errors.Is(err, fault.ErrConfig) || !strings.Contains(fmt.Sprint(err), name) || !strings.Contains(fmt.Sprint(err), "--trial-prefix") {
			t.Errorf("%v", err)
		}
		if len(w.docs) > 0 || sum != nil && sum.Totals.Live > 0 || len(w.on.Created) > 0 {
			t.Errorf("sent %v, created %v", w.sent(), w.on.Created)
		}
	})
	t.Run("an index that appears after the plan", func(t *testing.T) {
		e := plan.Entry{Trial: &plan.Trial{Prefix: "p-"}, Naming: plan.Naming{Index: "p-a"}}
		for _, c := range []struct {
			name         string
			absent, ours []string
			refused      bool
		}{
			{"absent", []string{"p-a"}, nil, false}, {"made by the trial run", nil, []string{"p-a"}, false}, {"made by another", nil, nil, true},
		} {
			e.Ours = c.ours
			if err := e.Foreign(c.absent); errors.Is(err, fault.ErrConfig) != c.refused {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
}

func TestATrialRunIsRefusedByThePlan(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, prefix, rules, says string }{
		{"names that start as those of the snapshot", "ord", "", "another --trial-prefix"},
		{"rules that move documents elsewhere", "rfsd-trial-", "[[document]]\nmatch = \"orders\"\nindex = \"archive\"\n", "move documents of orders to archive"},
		{"rules that move documents to another index of the run", "rfsd-trial-", "[[document]]\nmatch = \"orders\"\nindex = \"weblogs\"\n", ""},
		{"nothing", "rfsd-trial-", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto, Trial: &plan.Trial{Documents: 5, Prefix: c.prefix}}
			if c.rules != "" {
				set, err := rules.Parse("test", []byte(c.rules))
				if err != nil {
					t.Fatal(err)
				}
				req.Rules = set
			}
			plan, err := plan.New(t.Context(), blobs, req)
			if c.says != "" {
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range plan.Indices {
				err := shards.Read(t.Context(), blobs, x.Entry, 0, func(index string) shards.DocumentEditor {
					if e := req.Rules.Documents(index); e != nil {
						return e
					}
					return nil
				}, shards.Documents{
					Send: func(d *doc.Document) error {
						if !strings.HasPrefix(string(d.Index), c.prefix) {
							return fmt.Errorf("a document of %s goes to %s", x.Name, d.Index)
						}
						return nil
					},
					Filter: func(*doc.Document) error { return nil }, Fail: func(*doc.Failure) error { return nil },
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestATrialRunHasNoDataStreamAndNoAlias reads a snapshot with data streams.
func TestATrialRunHasNoDataStreamAndNoAlias(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "os2.19.4-data-stream"))
	if err != nil {
		t.Fatal(err)
	}
	include, err := pattern.Parse("*")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto, IncludeSystem: true,
		Indices: pattern.Selection{Include: []pattern.Pattern{include}}, Trial: &plan.Trial{Documents: 5, Prefix: "rfsd-trial-"}})
	if err != nil || len(plan.Indices) == 0 {
		t.Fatalf("%+v, %v", plan, err)
	}
	for _, x := range plan.Indices {
		if x.Entry.Stream != nil || x.Entry.Create || !strings.HasPrefix(x.Entry.Naming.Index, "rfsd-trial-") {
			t.Errorf("%s: %+v", x.Name, x.Entry)
		}
	}
}
