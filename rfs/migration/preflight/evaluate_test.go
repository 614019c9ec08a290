package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// questioned is a target that is asked, whose answers begin by method and path; what it lacks is not found. It may fail.
type questioned struct {
	life  *life
	says  map[string]string // "METHOD /path" → body; three digits are a status
	asked *[]string
}

func (q questioned) Do(_ context.Context, method, path string, _ url.Values, body []byte) (status int, answer []byte, err error) {
	err = q.life.call(func() {
		*q.asked = append(*q.asked, method+" "+path)
		answer, status = []byte(q.says[method+" "+path]), http.StatusOK
		switch {
		case len(answer) == 3:
			_, _ = fmt.Sscan(string(answer), &status)
			answer = []byte(`{"error":{"type":"refused","reason":"not so"},"status":` + string(answer) + `}`)
		case len(answer) == 0:
			answer, status = []byte(`{"error":"no such thing"}`), http.StatusNotFound
		}
		if refuse := q.says["refuse"]; refuse != "" && strings.Contains(string(body), refuse) {
			answer, status = []byte(`{"error":{"type":"mapper_parsing_exception","reason":"no `+refuse+`"},"status":400}`), http.StatusBadRequest
		}
	})
	if err != nil {
		return 0, nil, err
	}
	return status, answer, nil
}

func (q questioned) IndexExists(_ context.Context, name string) (there bool, err error) {
	err = q.life.call(func() { _, there = q.says["HEAD /"+name] })
	return there && err == nil, err
}

func (questioned) UnfitAliases(context.Context, []string) (map[string]string, error) { return nil, nil }

func (questioned) PipelineEffects(context.Context, string) ([]string, error) {
	return []string{"drop drops documents"}, nil
}
func (q questioned) FinalPipelines(_ context.Context, names []string) (map[string]string, error) {
	found := map[string]string{}
	err := q.life.call(func() {
		for _, n := range names {
			if p := q.says["final "+n]; p != "" {
				found[n] = p
			}
		}
	})
	return found, err
}

// failingRepo is a repository that fails with its process.
type failingRepo struct {
	snapshot.Repository
	life *life
}

func (r failingRepo) Open(ctx context.Context, name string, off, n int64) (rc io.ReadCloser, err error) {
	if derr := r.life.call(func() { rc, err = r.Repository.Open(ctx, name, off, n) }); derr != nil {
		return nil, derr
	}
	return rc, err
}

func (r failingRepo) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return func(yield func(repo.Blob, error) bool) {
		if err := r.life.call(func() {}); err != nil {
			yield(repo.Blob{}, err)
			return
		}
		r.Repository.List(ctx, prefix)(yield)
	}
}

const simulates = "POST /_index_template/_simulate"

// evaluation previews the migration of a snapshot with templates against a target.
func evaluation(t *testing.T, says map[string]string, l *life, change func(*Evaluator, *plan.Plan)) (*Report, []string, error) {
	t.Helper()
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.17.29-templates"))
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(t.Context(), blobs)
	if err != nil {
		t.Fatal(err)
	}
	on := failingRepo{blobs, &life{}}
	plan, err := plan.New(t.Context(), on, plan.Request{SnapshotName: catalog.Snapshots[len(catalog.Snapshots)-1].Name, MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	on.life.calls, on.life.dies, on.life.fails = 0, l.dies, l.fails // from here on
	var asked []string
	target := questioned{on.life, says, &asked}
	dry := objects.DryRunCluster{Target: target}
	e := &Evaluator{Target: target, Version: opensearch2, Repo: on, Only: Sections{Changes, Sizes},
		Indices: &creation.Indices{Cluster: dry, Version: opensearch2, Requester: target, Log: quiet()},
		Globals: &creation.Globals{Cluster: dry, Version: opensearch2, Log: quiet(), Wanted: metadata.Selection{Pipelines: true, Scripts: true}},
	}
	if change != nil {
		change(e, plan)
	}
	r, err := e.Evaluate(t.Context(), plan)
	l.calls = on.life.calls
	return r, asked, err
}

// took is what every target of the tests takes.
func took(more map[string]string) map[string]string {
	says := map[string]string{"GET /_cluster/settings": `{}`, simulates: `{}`, "POST /_ingest/pipeline/_simulate": `{}`}
	for k, v := range more {
		says[k] = v
	}
	return says
}

func TestAnEvaluationNamesWhatWillBe(t *testing.T) {
	names := func(r *Report, action string) (all []string) {
		for _, o := range r.Globals {
			if o.Action == action {
				all = append(all, o.Name)
			}
		}
		for _, x := range r.Indices {
			for _, o := range x.Targets {
				if o.Action == action {
					all = append(all, "index "+o.Name)
				}
			}
		}
		return all
	}
	whole, asked, err := evaluation(t, took(nil), &life{}, nil)
	if err != nil || len(whole.Stops) > 0 || len(whole.Globals) < 3 || len(whole.Indices) == 0 || len(names(whole, WouldCreate)) == 0 || len(names(whole, WouldKeep)) > 0 || len(names(whole, WouldRefuse)) > 0 {
		t.Fatalf("%+v, %v", whole, err)
	}
	for _, a := range asked {
		if method, path, _ := strings.Cut(a, " "); method != http.MethodGet && method != http.MethodHead && !strings.HasSuffix(path, "_simulate") {
			t.Errorf("%s was asked for", a)
		}
	}
	var bytes int64
	for _, x := range whole.Indices {
		bytes += x.Size.Repository
	}
	if s := whole.Size; s == nil || bytes == 0 || s.Repository != bytes || s.Target != bytes || s.Read == 0 || s.Read > s.Repository || s.Requests < int64(2*len(whole.Indices)) {
		t.Errorf("%+v, indices have %d bytes", whole.Size, bytes)
	}
	index := whole.Indices[0].Targets[0].Name
	for _, c := range []struct {
		name   string
		says   map[string]string
		change func(*Evaluator, *plan.Plan)
		check  func(r *Report) bool
	}{
		{"an index that is there stays", map[string]string{"HEAD /" + index: "1", "final " + index: "p"}, nil, func(r *Report) bool {
			return slices.Equal(names(r, WouldKeep), []string{"index " + index}) && r.Indices[0].Targets[0].FinalPipeline == "p" && len(r.Indices[0].Targets[0].PipelineEffects) == 1
		}},
		{"what the target refuses stops the run", map[string]string{"refuse": "number_of_shards"}, nil, func(r *Report) bool {
			return len(names(r, WouldRefuse)) > 0 && len(r.Stops) >= len(names(r, WouldRefuse)) && strings.Contains(strings.Join(r.Stops, "\n"), "no number_of_shards")
		}},
		{"an old target is asked when it happens", map[string]string{simulates: "405", "POST /_ingest/pipeline/_simulate": `{}`}, nil, func(r *Report) bool {
			return len(r.Stops) == 0 && len(names(r, WouldCreate)) == len(names(whole, WouldCreate))
		}},
		{"without the phase of cluster metadata", nil, func(e *Evaluator, _ *plan.Plan) { e.Globals = nil }, func(r *Report) bool {
			return len(r.Globals) == 0 && len(r.Indices) == len(whole.Indices) && *r.Size == *whole.Size
		}},
		{"a snapshot without the state of its cluster", nil, func(_ *Evaluator, p *plan.Plan) { p.Source.IncludeGlobalState = false }, func(r *Report) bool {
			return len(r.Globals) == 0 && strings.Contains(r.GlobalsWarning, "without the cluster's state")
		}},
		{"more damaged indices than a report names", nil, func(_ *Evaluator, p *plan.Plan) {
			for i := range 1500 {
				p.Unread = append(p.Unread, plan.UnreadIndex{Name: fmt.Sprint("x", i), Reason: "torn"})
			}
		}, func(r *Report) bool {
			return len(r.Stops) == 1001 && strings.HasPrefix(r.Stops[999], "index x999 fails") && strings.HasPrefix(r.Stops[1000], "500 more indices fail")
		}},
		{"an index whose metadata is damaged", nil, func(_ *Evaluator, p *plan.Plan) { p.Unread = []plan.UnreadIndex{{Name: "x", Reason: "torn"}} }, func(r *Report) bool {
			return slices.Equal(r.Stops, []string{"index x fails: its metadata is damaged: torn"})
		}},
		{"a plan that cannot be carried out", nil, func(_ *Evaluator, p *plan.Plan) { p.Indices[0].Entry.Naming.Emit = true }, func(r *Report) bool {
			return len(r.Stops) > 0 && strings.Contains(r.Stops[0], "takes no mapping types")
		}},
		{"an index with replicas", nil, func(_ *Evaluator, p *plan.Plan) { p.Indices[0].Source.Settings["index.number_of_replicas"] = "2" }, func(r *Report) bool {
			return r.Size.Target == whole.Size.Target+2*whole.Indices[0].Size.Repository && r.Size.Repository == whole.Size.Repository
		}},
		{"replicas that are no number", nil, func(_ *Evaluator, p *plan.Plan) { p.Indices[0].Source.Settings["index.number_of_replicas"] = "x" }, func(r *Report) bool { return *r.Size == *whole.Size }},
		{"shards that the snapshot lacks", nil, func(_ *Evaluator, p *plan.Plan) { p.Indices[0].Entry.Locator.IndexID = "gone" }, func(r *Report) bool {
			return strings.Contains(strings.Join(r.Stops, "\n"), "shard "+r.Indices[0].Index+"/0 cannot be read") && r.Indices[0].Size.Repository == 0 && r.Size.Repository == whole.Size.Repository-whole.Indices[0].Size.Repository && r.Size.Requests > 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _, err := evaluation(t, took(c.says), &life{}, c.change)
			if err != nil || !c.check(r) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestNoErrorOfAnEvaluationIsOverlooked lets each call to target and repository fail once.
func TestNoErrorOfAnEvaluationIsOverlooked(t *testing.T) {
	calls := &life{}
	whole, _, err := evaluation(t, took(nil), calls, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	away := fmt.Errorf("no route to host: %w", fault.ErrUnavailable)
	for n := 1; n <= calls.calls; n++ {
		r, asked, err := evaluation(t, took(nil), &life{dies: n, fails: away}, nil)
		if err != nil {
			if !errors.Is(err, away) {
				t.Errorf("call %d: %v", n, err)
			}
			continue
		}
		if got, merr := json.Marshal(r); merr != nil || !bytes.Equal(got, want) {
			t.Errorf("call %d, after %d questions, was overlooked: %s, without: %s, %v", n, len(asked), got, want, merr)
		}
	}
	t.Logf("%d calls", calls.calls)
}

func TestWhatWillDifferIsToldOnceAndBriefly(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	r := &Report{Globals: []Object{{Name: "template t", Action: WouldCreate, Changes: []Differs{{Rule: "r1", Path: "a", Detail: "gone"}, {Rule: "r2", Path: "b", Detail: "other", Loses: true}}}}}
	for n := range maxPreviewed + 3 {
		r.Globals = append(r.Globals, Object{Name: fmt.Sprint("policy ", n), Action: WouldLeave, Reason: "unknown"})
	}
	var changes []Differs
	for n := range maxExamples + 2 {
		changes = append(changes, Differs{Rule: "r1", Path: fmt.Sprint("p", n), Detail: "gone"})
	}
	r.Indices = []Index{{Targets: []Object{{Name: "i", Action: WouldCreate, Changes: changes}, {Name: "j", Action: WouldRefuse, Reason: "no"}, {Name: "k", Action: WouldKeep}}}}
	said := creation.NewReported()
	logPreview(t.Context(), log, r, said)
	for text, times := range map[string]int{
		"will_be_created=2 exist_and_stay=1 will_be_refused=1 not_migrated=23":                                                                                         1,
		"level=INFO msg=\"will differ from the snapshot\" rule=r1 changes=8 objects=2 examples=\"template t a: gone; i p0: gone; i p1: gone; i p2: gone; i p3: gone\"": 1,
		"level=WARN msg=\"will differ from the snapshot\" rule=r2 changes=1 objects=1":                                                                                 1,
		"level=WARN msg=\"will not be migrated\" object=\"policy ":                                                                                                     maxPreviewed,
		"more=3 details=\"rfsd plan\"":                                        1,
		"level=WARN msg=\"will be refused by the target\" object=j reason=no": 1,
	} {
		if got := strings.Count(out.String(), text); got != times {
			t.Errorf("%q stands there %d times, want %d, in:\n%s", text, got, times, out.String())
		}
	}
	before, news := metadata.Change{Index: "i", Rule: "r1", Path: "p6", Detail: "gone"}, metadata.Change{Index: "i", Rule: "r1", Path: "p6", Detail: "other"}
	if got := said.New([]metadata.Change{before, news}); len(got) != 1 || got[0].Detail != "other" {
		t.Errorf("%+v", got)
	}
	if !said.Has("policy 22", "", "", "unknown") || said.Has("policy 22", "", "", "known") {
		t.Error("what is left out is not remembered")
	}
	if got := (*creation.Reported)(nil).New([]metadata.Change{before}); len(got) != 1 {
		t.Errorf("who has told nothing has news: %+v", got)
	}
}

func TestPreviewAsksOnceAndForThePhasesOfTheRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		says   map[string]string
		fails  error // of the first question
		phases phase.Phases
		ends   error
		words  []string // of the log; after "!" not in it
	}{
		{"all", took(nil), nil, phase.Phases{phase.PhaseMetadata, phase.PhaseIndices}, nil, []string{"will_be_created=", "object=\"", "!simulated"}},
		{"indices only", took(nil), nil, phase.Phases{phase.PhaseIndices}, nil, []string{"not_migrated=0"}},
		{"cluster metadata only", took(nil), nil, phase.Phases{phase.PhaseMetadata}, nil, []string{"will_be_created="}},
		{"neither", took(nil), nil, phase.Phases{phase.PhaseDocuments}, nil, []string{"will_be_created=0"}},
		{"templates may not be simulated", took(map[string]string{simulates: "403"}), nil, phase.Phases{phase.PhaseIndices}, nil, []string{"template simulation is not permitted", "!will_be_created=0"}},
		{"no answer", took(nil), fault.ErrUnavailable, phase.Phases{phase.PhaseIndices}, fault.ErrUnavailable, []string{"!nothing is written yet"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.17.29-templates"))
			if err != nil {
				t.Fatal(err)
			}
			catalog, err := snapshot.OpenCatalog(t.Context(), blobs)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: catalog.Snapshots[0].Name, MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			var asked []string
			log := slog.New(slog.NewTextHandler(&out, nil))
			l := &life{}
			if c.fails != nil {
				l.dies, l.fails = 1, c.fails
			}
			on := questioned{l, c.says, &asked}
			x := &creation.Indices{Cluster: objects.DryRunCluster{Target: on}, Version: opensearch2, Requester: on, Log: log}
			g := &creation.Globals{Cluster: objects.DryRunCluster{Target: on}, Version: opensearch2, Log: log, Wanted: metadata.Selection{Pipelines: true}}
			preview := Preview(on, x, g)
			if err := preview(t.Context(), plan, c.phases); !errors.Is(err, c.ends) || (err != nil) != (c.ends != nil) {
				t.Fatalf("%v", err)
			}
			for _, w := range c.words {
				word, not := strings.CutPrefix(w, "!")
				if strings.Contains(out.String(), word) == not {
					t.Errorf("want %q in:\n%s", w, out.String())
				}
			}
			if _, err := x.Wanted(t.Context(), plan.Indices[0]); err != nil && c.ends == nil { // creation does not ask again
				t.Error(err)
			}
			simulated, settings := 0, 0
			for _, a := range asked {
				if a == simulates {
					simulated++
				}
				if a == "GET /_cluster/settings" {
					settings++
				}
				if !strings.HasPrefix(a, "GET ") && !strings.HasPrefix(a, "HEAD ") && !strings.HasSuffix(a, "_simulate") {
					t.Errorf("%s was asked for", a)
				}
			}
			if c.says[simulates] == "403" && simulated != 1 {
				t.Errorf("simulated %d times although that is refused", simulated)
			}
			if c.ends == nil && c.phases.Has(phase.PhaseIndices) && settings != 1 {
				t.Errorf("the settings of the cluster were read %d times for preview and creation", settings)
			}
		})
	}
}

// slow is a target that takes a time for each answer.
type slow struct{ objects.DryRunTarget }

const slowAnswer = 10 * time.Millisecond

func (s slow) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	time.Sleep(slowAnswer)
	return s.DryRunTarget.Do(ctx, method, path, query, body)
}

func (s slow) IndexExists(ctx context.Context, name string) (bool, error) {
	time.Sleep(slowAnswer)
	return s.DryRunTarget.IndexExists(ctx, name)
}

func (s slow) FinalPipelines(ctx context.Context, indices []string) (map[string]string, error) {
	time.Sleep(slowAnswer)
	return s.DryRunTarget.FinalPipelines(ctx, indices)
}

// TestAnEvaluationAsksAboutSeveralIndicesAtTheSameTime: thousands of them wait for the target otherwise.
func TestAnEvaluationAsksAboutSeveralIndicesAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const copies = 20
		indices, began := 0, time.Now()
		r, _, err := evaluation(t, took(nil), &life{}, func(e *Evaluator, p *plan.Plan) {
			p.Indices = slices.Repeat(p.Indices, copies)
			e.Target, e.Globals, indices = slow{e.Target}, nil, len(p.Indices)
			e.Indices.Cluster = objects.DryRunCluster{Target: e.Target}
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Indices) != indices || r.Indices[0].Index != r.Indices[indices-len(r.Indices)/copies].Index {
			t.Errorf("%d indices of %d, or not in their order", len(r.Indices), indices)
		}
		// What exists already is compared one after the other.
		const each = 3 // questions about an index: does it exist, would it be created, has it a pipeline
		if took, one := time.Since(began), time.Duration(indices*each)*slowAnswer; took > one/2 {
			t.Errorf("%v for %d indices, in sequence %v", took, indices, one)
		}
	})
}
