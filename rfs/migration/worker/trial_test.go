package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// ordinalsOf reads all that r returns.
func ordinalsOf(t *testing.T, r recordReader) (all []int64) {
	t.Helper()
	defer r.Close()
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec.Ordinal)
	}
}

// TestASampleIsEvenAndTheSameForEveryHolder reads samples of real shards, whole and from every place on.
func TestASampleIsEvenAndTheSameForEveryHolder(t *testing.T) {
	for _, fixture := range []string{"7.10.2-many-chunks", "1.7.6-updates-deletes", "6.0.1-nested"} {
		blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", fixture))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.UnionTypes, EmitType: plan.EmitAuto})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range plan.Indices {
			shard, err := snapshot.OpenShard(t.Context(), blobs, x.Entry.Locator, 0)
			if err != nil {
				t.Fatal(err)
			}
			commit, err := lucene.Open(t.Context(), nearby{shard.Directory()}, lucene.Options{})
			if err != nil {
				t.Fatal(err)
			}
			read := lucene.ReadOptions{To: commit.MaxOrdinal, NestedTerms: x.Entry.Locator.NestedTerms()}
			live := ordinalsOf(t, commit.Reader(read))
			for _, documents := range []int64{1, 7, samplePlaces, samplePlaces + 1, 300, commit.MaxOrdinal, 1 << 20} {
				name := fmt.Sprintf("%s %s, %d of %d", fixture, x.Name, documents, len(live))
				whole := newSample(commit, read, documents)
				got := ordinalsOf(t, whole)
				if int64(len(got)) > documents || !slices.IsSorted(got) || slices.ContainsFunc(got, func(n int64) bool { return !slices.Contains(live, n) }) {
					t.Fatalf("%s: %v", name, got)
				}
				if documents >= commit.MaxOrdinal && len(got) != len(live) {
					t.Errorf("%s: %d documents", name, len(got))
				}
				for place := range whole.places {
					from, to, wanted := whole.bounds(place)
					within := func(all []int64) (n int64) {
						for _, ordinal := range all {
							if ordinal >= from && ordinal < to {
								n++
							}
						}
						return n
					}
					if want := min(wanted, within(live)); within(got) != want {
						t.Errorf("%s: %d documents of [%d, %d), want %d", name, within(got), from, to, want)
					}
				}
				for _, begin := range []int64{1, commit.MaxOrdinal / 3, commit.MaxOrdinal - 1, commit.MaxOrdinal} {
					o := read
					o.From = begin
					rest := newSample(commit, o, documents)
					want := slices.DeleteFunc(slices.Clone(got), func(n int64) bool { return n < begin })
					if is := ordinalsOf(t, rest); !slices.Equal(is, want) {
						t.Errorf("%s, from %d: %v, want %v", name, begin, is, want)
					}
					if a, b := whole.looked(begin)+rest.looked(commit.MaxOrdinal), whole.looked(commit.MaxOrdinal); a != b {
						t.Errorf("%s: %d ordinals were looked at in two parts, %d in one", name, a, b)
					}
				}
			}
		}
	}
}

// noted records how often failures were kept.
type noted struct{ failures map[string]int64 }

func (n noted) Record(_ context.Context, failures []doc.Failure) error {
	for _, f := range failures {
		n.failures[string(f.Reason)]++
	}
	return nil
}
func (noted) Sync(context.Context) error { return nil }

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
func (w *world) trial(t *testing.T, n int, l *life) (*Summary, error) {
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
	m := &Migration{Slots: 1, Unavailable: time.Minute, Session: &Session{
		Coordinator: c, Holder: fmt.Sprint("process", n), Settings: w.req.Settings(""), Log: log, Phases: Phases{PhaseIndices, PhaseDocuments},
		Indices: on, Targets: on, Counts: on,
		Plan:   func(ctx context.Context, _ string) (*plan.Plan, error) { return plan.New(ctx, w.blobs, w.req) },
		Shards: ShardReader{Repo: w.blobs}, Runner: &engine.Runner{Destination: to, Failed: noted{map[string]int64{}}, Meter: engine.NewMeter(), Clock: cms.SystemClock(), Log: log,
			Bulk: bulk.Options{MaxDocs: 4, MaxInFlight: 1, MaxAge: time.Hour}},
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
		sum, err := w.trial(t, 1, &life{})
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		shards, live := 0, int64(0)
		for _, x := range sum.Indices {
			shards += x.Shards
			plan, err := plan.New(t.Context(), w.blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range plan.Indices {
				for shard := range p.Entry.Shards {
					n, err := CountShard(t.Context(), w.blobs, p.Entry, shard)
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
		if sum.Totals.Live != int64(tried*shards) || sum.Totals.Indexed != sum.Totals.Live {
			t.Errorf("%+v of %d shards", sum.Totals, shards)
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
	calls, want, counts := &life{}, "", cms.Counts{}
	synctest.Test(t, func(t *testing.T) {
		w := newTrialWorld(t)
		sum, err := w.trial(t, 1, calls)
		if err != nil {
			t.Fatal(err)
		}
		want, counts = w.sent(), sum.Totals
	})
	for call := 1; call <= calls.calls && !t.Failed(); call++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newTrialWorld(t)
				w.trial(t, 1, &life{dies: call, after: after}) //nolint:errcheck // it dies
				sum, err := w.trial(t, 2, &life{})
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
		sum, err := w.trial(t, 1, &life{})
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
		w.on.uuids[name] = "of another session"
		sum, err := w.trial(t, 1, &life{})
		if !errors.Is(err, fault.ErrConfig) || !strings.Contains(fmt.Sprint(err), name) || !strings.Contains(fmt.Sprint(err), "--trial-prefix") {
			t.Errorf("%v", err)
		}
		if len(w.docs) > 0 || sum != nil && sum.Totals.Live > 0 || len(w.on.created) > 0 {
			t.Errorf("sent %v, created %v", w.sent(), w.on.created)
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
		{"names that begin as those of the snapshot", "ord", "", "another --trial-prefix"},
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
				err := ReadShard(t.Context(), blobs, x.Entry, 0, func(index string) DocumentEditor {
					if e := req.Rules.Documents(index); e != nil {
						return e
					}
					return nil
				}, Documents{
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
