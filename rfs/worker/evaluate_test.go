package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
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

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/metadata"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/snapshot"
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
	return failsFirst(r.life, r.Repository.List(ctx, prefix))
}

const simulates = "POST /_index_template/_simulate"

// evaluation previews the migration of a snapshot with templates against a target.
func evaluation(t *testing.T, says map[string]string, l *life, change func(*Evaluator, *Plan)) (*Evaluation, []string, error) {
	t.Helper()
	blobs, err := repo.NewDir(filepath.Join("..", "..", "testing", "fixtures", "7.17.29-templates"))
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(t.Context(), blobs)
	if err != nil {
		t.Fatal(err)
	}
	on := failingRepo{blobs, &life{}}
	plan, err := NewPlan(t.Context(), on, Request{SnapshotName: catalog.Snapshots[len(catalog.Snapshots)-1].Name, MultiType: SplitTypes, EmitType: EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	*on.life = life{dies: l.dies, fails: l.fails} // from here on
	var asked []string
	target := questioned{on.life, says, &asked}
	dry := DryRunCluster{Target: target}
	e := &Evaluator{Target: target, Version: opensearch2, Log: quiet(), Repo: on,
		Indices: &TargetIndices{Cluster: dry, Version: opensearch2, Requester: target, Log: quiet()},
		Globals: &TargetGlobals{Cluster: dry, Version: opensearch2, Log: quiet(), Wanted: metadata.Selection{Pipelines: true, Scripts: true}},
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
	names := func(r *Evaluation, action string) (all []string) {
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
		bytes += x.Bytes
	}
	if s := whole.Size; bytes == 0 || s.Repository != bytes || s.Target != bytes || s.Read == 0 || s.Read > s.Repository || s.Requests < int64(2*len(whole.Indices)) {
		t.Errorf("%+v, indices have %d bytes", whole.Size, bytes)
	}
	index := whole.Indices[0].Targets[0].Name
	for _, c := range []struct {
		name   string
		says   map[string]string
		change func(*Evaluator, *Plan)
		check  func(r *Evaluation) bool
	}{
		{"an index that is there stays", map[string]string{"HEAD /" + index: "1", "final " + index: "p"}, nil, func(r *Evaluation) bool {
			return slices.Equal(names(r, WouldKeep), []string{"index " + index}) && r.Indices[0].Targets[0].FinalPipeline == "p"
		}},
		{"what the target refuses stops the run", map[string]string{"refuse": "number_of_shards"}, nil, func(r *Evaluation) bool {
			return len(names(r, WouldRefuse)) > 0 && len(r.Stops) >= len(names(r, WouldRefuse)) && strings.Contains(strings.Join(r.Stops, "\n"), "no number_of_shards")
		}},
		{"an old target is asked when it happens", map[string]string{simulates: "405", "POST /_ingest/pipeline/_simulate": `{}`}, nil, func(r *Evaluation) bool {
			return len(r.Stops) == 0 && len(names(r, WouldCreate)) == len(names(whole, WouldCreate))
		}},
		{"without the phase of cluster metadata", nil, func(e *Evaluator, _ *Plan) { e.Globals = nil }, func(r *Evaluation) bool {
			return len(r.Globals) == 0 && len(r.Indices) == len(whole.Indices) && r.Size == whole.Size
		}},
		{"a snapshot without the state of its cluster", nil, func(_ *Evaluator, p *Plan) { p.Source.IncludeGlobalState = false }, func(r *Evaluation) bool {
			return len(r.Globals) == 0 && strings.Contains(r.GlobalsWarning, "without the cluster's state")
		}},
		{"an index whose metadata is damaged", nil, func(_ *Evaluator, p *Plan) { p.Unread = []UnreadIndex{{Name: "x", Reason: "torn"}} }, func(r *Evaluation) bool {
			return slices.Equal(r.Stops, []string{"index x fails: its metadata is damaged: torn"})
		}},
		{"a plan that cannot be carried out", nil, func(_ *Evaluator, p *Plan) { p.Indices[0].Entry.Naming.Emit = true }, func(r *Evaluation) bool {
			return len(r.Stops) > 0 && strings.Contains(r.Stops[0], "takes no mapping types")
		}},
		{"an index with replicas", nil, func(_ *Evaluator, p *Plan) { p.Indices[0].Source.Settings["index.number_of_replicas"] = "2" }, func(r *Evaluation) bool {
			return r.Size.Target == whole.Size.Target+2*whole.Indices[0].Bytes && r.Size.Repository == whole.Size.Repository
		}},
		{"replicas that are no number", nil, func(_ *Evaluator, p *Plan) { p.Indices[0].Source.Settings["index.number_of_replicas"] = "x" }, func(r *Evaluation) bool { return r.Size == whole.Size }},
		{"shards that the snapshot lacks", nil, func(_ *Evaluator, p *Plan) { p.Indices[0].Entry.Locator.IndexID = "gone" }, func(r *Evaluation) bool {
			return r.Indices[0].Bytes == 0 && r.Size.Repository == whole.Size.Repository-whole.Indices[0].Bytes && r.Size.Requests > 0
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

func TestADryRunWritesNothing(t *testing.T) {
	for _, c := range []struct {
		name, method, path, body string
		says                     map[string]string
		asks                     string // what the target is asked; "": nothing
		status                   int
		fails                    bool
	}{
		{"a question", "GET", "/_template/t", "", map[string]string{"GET /_template/t": `{"t":{}}`}, "GET /_template/t", 200, false},
		{"whether something is there", "HEAD", "/_template/t", "", map[string]string{}, "HEAD /_template/t", 404, false},
		{"a legacy template", "PUT", "/_template/t", `{"order":1,"settings":{"a":1}}`, took(nil), simulates, 200, false},
		{"a legacy template that is no object", "PUT", "/_template/t", `[`, took(nil), "", 0, true},
		{"an index template", "PUT", "/_index_template/t", `{"template":{"settings":{"a":1}}}`, took(nil), simulates, 200, false},
		{"an index template without a part to take over", "PUT", "/_index_template/t", `{"index_patterns":["a"]}`, took(map[string]string{"refuse": `"template":null`}), simulates, 200, false},
		{"a component template", "PUT", "/_component_template/t", `{"template":{"mappings":{}}}`, took(nil), simulates, 200, false},
		{"one that is refused", "PUT", "/_component_template/t", `{"template":{"mappings":{"odd":1}}}`, took(map[string]string{"refuse": "odd"}), simulates, 400, false},
		{"one that is no object", "PUT", "/_component_template/t", `[`, took(nil), "", 0, true},
		{"a pipeline", "PUT", "/_ingest/pipeline/p", `{"processors":[]}`, took(nil), "POST /_ingest/pipeline/_simulate", 200, false},
		{"a pipeline that is refused", "PUT", "/_ingest/pipeline/p", `{"processors":[{"odd":{}}]}`, took(map[string]string{"refuse": "odd"}), "POST /_ingest/pipeline/_simulate", 400, false},
		{"a pipeline that is no object", "PUT", "/_ingest/pipeline/p", `[`, took(nil), "", 0, true},
		{"all else", "PUT", "/_plugins/_ism/policies/p", `{}`, took(nil), "", 200, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			status, answer, err := (DryRunCluster{Target: questioned{&life{}, c.says, &asked}}).Do(t.Context(), c.method, c.path, nil, []byte(c.body))
			if status != c.status || (err != nil) != c.fails || strings.Join(asked, ", ") != c.asks {
				t.Errorf("status %d, %v; the target was asked %q", status, err, asked)
			}
			if c.status == 400 && !strings.Contains(string(answer), "mapper_parsing_exception") {
				t.Errorf("the target's words are lost: %s", answer)
			}
		})
	}
	for name, taken := range map[string]bool{
		"a": true, "a.b-c_d+e": true, strings.Repeat("a", 255): true, "": false, ".": false, "..": false, strings.Repeat("a", 256): false, "A": false, "_a": false, "-a": false, "+a": false, "a b": false, "a#b": false, `a"b`: false, "a:b": false,
	} {
		var asked []string
		err := DryRunCluster{Target: questioned{&life{}, took(nil), &asked}}.CreateIndex(t.Context(), name, nil)
		if errors.Is(err, fault.ErrRejected) == taken || (err == nil) != taken || taken != slices.Equal(asked, []string{simulates}) {
			t.Errorf("%q: %v, asked %q", name, err, asked)
		}
	}
}

func TestWhatWillDifferIsToldOnceAndBriefly(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	r := &Evaluation{Globals: []EvaluatedObject{{Name: "template t", Action: WouldCreate, Changes: []Differs{{Rule: "r1", Path: "a", Detail: "gone"}, {Rule: "r2", Path: "b", Detail: "other", Loses: true}}}}}
	for n := range maxPreviewed + 3 {
		r.Globals = append(r.Globals, EvaluatedObject{Name: fmt.Sprint("policy ", n), Action: WouldLeave, Reason: "unknown"})
	}
	var changes []Differs
	for n := range maxExamples + 2 {
		changes = append(changes, Differs{Rule: "r1", Path: fmt.Sprint("p", n), Detail: "gone"})
	}
	r.Indices = []EvaluatedIndex{{Targets: []EvaluatedObject{{Name: "i", Action: WouldCreate, Changes: changes}, {Name: "j", Action: WouldRefuse, Reason: "no"}, {Name: "k", Action: WouldKeep}}}}
	said := &reported{seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
	logPreview(t.Context(), log, r, said)
	for text, times := range map[string]int{
		"will_be_created=2 exist_and_stay=1 will_be_refused=1 not_migrated=23":                                                                                         1,
		"level=INFO msg=\"will differ from the snapshot\" rule=r1 changes=8 objects=2 examples=\"template t a: gone; i p0: gone; i p1: gone; i p2: gone; i p3: gone\"": 1,
		"level=WARN msg=\"will differ from the snapshot\" rule=r2 changes=1 objects=1":                                                                                 1,
		"level=WARN msg=\"will not be migrated\" object=\"policy ":                                                                                                     maxPreviewed,
		"more=3 details=\"rfsd evaluate\"":                                                                                                                             1,
		"level=WARN msg=\"will be refused by the target\" object=j reason=no":                                                                                          1,
	} {
		if got := strings.Count(out.String(), text); got != times {
			t.Errorf("%q stands there %d times, want %d, in:\n%s", text, got, times, out.String())
		}
	}
	before, news := metadata.Change{Index: "i", Rule: "r1", Path: "p6", Detail: "gone"}, metadata.Change{Index: "i", Rule: "r1", Path: "p6", Detail: "other"}
	if got := said.unreported([]metadata.Change{before, news}); len(got) != 1 || got[0].Detail != "other" {
		t.Errorf("%+v", got)
	}
	if !said.has("policy 22", "", "", "unknown") || said.has("policy 22", "", "", "known") {
		t.Error("what is left out is not remembered")
	}
	if got := (*reported)(nil).unreported([]metadata.Change{before}); len(got) != 1 {
		t.Errorf("who has told nothing has news: %+v", got)
	}
}

func TestPreviewAsksOnceAndForThePhasesOfTheRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		says   map[string]string
		fails  error // of the first question
		phases Phases
		ends   error
		words  []string // of the log; after "!" not in it
	}{
		{"all", took(nil), nil, Phases{PhaseMetadata, PhaseIndices}, nil, []string{"will_be_created=", "object=\"", "!simulated"}},
		{"indices only", took(nil), nil, Phases{PhaseIndices}, nil, []string{"not_migrated=0"}},
		{"cluster metadata only", took(nil), nil, Phases{PhaseMetadata}, nil, []string{"will_be_created="}},
		{"neither", took(nil), nil, Phases{PhaseDocuments}, nil, []string{"will_be_created=0"}},
		{"templates may not be simulated", took(map[string]string{simulates: "403"}), nil, Phases{PhaseIndices}, nil, []string{"template simulation is not permitted", "!will_be_created=0"}},
		{"no answer", took(nil), fault.ErrUnavailable, Phases{PhaseIndices}, fault.ErrUnavailable, []string{"!nothing is written yet"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			blobs, err := repo.NewDir(filepath.Join("..", "..", "testing", "fixtures", "7.17.29-templates"))
			if err != nil {
				t.Fatal(err)
			}
			catalog, err := snapshot.OpenCatalog(t.Context(), blobs)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := NewPlan(t.Context(), blobs, Request{SnapshotName: catalog.Snapshots[0].Name, MultiType: SplitTypes, EmitType: EmitAuto})
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
			x := &TargetIndices{Cluster: DryRunCluster{Target: on}, Version: opensearch2, Requester: on, Log: log}
			g := &TargetGlobals{Cluster: DryRunCluster{Target: on}, Version: opensearch2, Log: log, Wanted: metadata.Selection{Pipelines: true}}
			s := &Session{Preview: Preview(on, x, g), Phases: c.phases, Log: log}
			if err := s.preview(t.Context(), plan); !errors.Is(err, c.ends) || (err != nil) != (c.ends != nil) {
				t.Fatalf("%v", err)
			}
			for _, w := range c.words {
				word, not := strings.CutPrefix(w, "!")
				if strings.Contains(out.String(), word) == not {
					t.Errorf("want %q in:\n%s", w, out.String())
				}
			}
			if n := len(asked); c.ends == nil {
				if err := s.preview(t.Context(), plan); err != nil || len(asked) != n {
					t.Errorf("told again: %v", err)
				}
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
			if c.ends == nil && c.phases.Has(PhaseIndices) && (settings != 1 || !x.asked) {
				t.Errorf("the settings of the cluster were read %d times for preview and creation", settings)
			}
		})
	}
}

// slow is a target that takes a time for each answer.
type slow struct{ Requester }

const slowAnswer = 10 * time.Millisecond

func (s slow) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	time.Sleep(slowAnswer)
	return s.Requester.Do(ctx, method, path, query, body)
}

func (s slow) IndexExists(ctx context.Context, name string) (bool, error) {
	time.Sleep(slowAnswer)
	return s.Requester.IndexExists(ctx, name)
}

func (s slow) FinalPipelines(ctx context.Context, indices []string) (map[string]string, error) {
	time.Sleep(slowAnswer)
	return s.Requester.FinalPipelines(ctx, indices)
}

// TestAnEvaluationAsksAboutSeveralIndicesAtTheSameTime: thousands of them wait for the target otherwise.
func TestAnEvaluationAsksAboutSeveralIndicesAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const copies = 20
		indices, began := 0, time.Now()
		r, _, err := evaluation(t, took(nil), &life{}, func(e *Evaluator, p *Plan) {
			p.Indices = slices.Repeat(p.Indices, copies)
			e.Target, e.Globals, indices = slow{e.Target}, nil, len(p.Indices)
			e.Indices.Cluster = DryRunCluster{Target: e.Target}
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
			t.Errorf("%v for %d indices, one after the other %v", took, indices, one)
		}
	})
}
