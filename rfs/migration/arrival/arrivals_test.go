package arrival_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// ended is a process of a migration whose documents have been sent.
func ended(t *testing.T, store cms.Store, n int) *phase.Session {
	t.Helper()
	c := cms.New(cms.Config{Store: store, Creator: "test", InitialLease: time.Minute})
	log := slog.New(slog.DiscardHandler)
	return &phase.Session{
		Coordinator: c, Holder: fmt.Sprint("process", n), Log: log, Phases: phase.Phases{phase.PhaseDocuments},
		Transfer: phase.Transfer{Runner: &engine.Runner{Clock: timing.SystemClock(), Log: log}},
		Cluster:  phase.Cluster{Indices: migrationtest.Seen{Outside: migrationtest.NewOutside(), Life: &migrationtest.Life{}}},
	}
}

// redirects are rules that send documents of an index to another.
func redirects(from, to string) func(string) []string {
	return func(name string) []string {
		if name == from {
			return []string{to}
		}
		return nil
	}
}

func TestArrivals(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(h *migrationtest.Countable, s *phase.Session, all map[string]*plan.Entry, sent map[string]cms.Counts)
		problem string // "": none
		gone    bool
		note    string
		roots   string // as the summary shows them; "": 5
		lucene  string // likewise; "": 9
		foreign int64
		// problems are how many indices have it; 0: one
		problems int
	}{
		{name: "all are there"},
		{name: "Lucene documents are not stated", lucene: "-", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Hidden = fault.ErrConfig
		}},
		{name: "more are there", roots: "7", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"] = 7
		}},
		{name: "operations of this session only", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Did.Executed, sent["a"] = 7, cms.Counts{Live: 5, Indexed: 5, Rewrites: 2}
		}},
		{name: "operations of others", note: "2 operations on it are not of this session", foreign: 2, change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Did.Executed, sent["a"] = 7, cms.Counts{Live: 5, Indexed: 5}
		}},
		{name: "operations that are not stated", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Untold, sent["a"] = fault.ErrConfig, cms.Counts{Live: 5, Indexed: 5}
		}},
		{name: "operations on an index that was there before", note: "was there before", change: func(h *migrationtest.Countable, _ *phase.Session, all map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Did.Executed, sent["a"], all["a"].Ours = 7, cms.Counts{Live: 5, Indexed: 5}, nil
		}},
		{name: "operations with versions of the source", change: func(h *migrationtest.Countable, s *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Did.Executed, sent["a"], s.Existing = 7, cms.Counts{Live: 5, Indexed: 5}, bulk.Newer
		}},
		{name: "an index that is gone", roots: "-", lucene: "-", problem: "a does not exist", gone: true, change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			delete(h.UUIDs, "a")
		}},
		{name: "an index of another UUID", roots: "-", lucene: "-", problem: "has the UUID other", gone: true, change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.UUIDs["a"] = "other"
		}},
		{name: "an index of another UUID that was there before", roots: "-", lucene: "-", problem: "has the UUID other", gone: true, change: func(h *migrationtest.Countable, _ *phase.Session, all map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.UUIDs["a"], all["a"].Ours = "other", nil
		}},
		{name: "an index that goes a moment later", problems: 2, roots: "-", lucene: "-", problem: "5 documents were sent", gone: true, change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Denied = &fault.StatusError{Status: 404}
		}},
		{name: "fewer", roots: "3", problem: "has 3 documents in a, 5 were indexed: 2 are missing", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"] = 3
		}},
		{name: "fewer, in one that was there before", roots: "3", note: "was there before", change: func(h *migrationtest.Countable, _ *phase.Session, all map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], all["a"].Ours = 3, nil
		}},
		{name: "fewer in one that was there before and empty", roots: "3", problem: "2 are missing", change: func(h *migrationtest.Countable, _ *phase.Session, all map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], all["a"].Ours, all["a"].Empty = 3, nil, []string{"a"}
		}},
		{name: "fewer of several sources", roots: "8", problem: "8 documents in a, 10 were indexed: 2 are missing", problems: 2, change: func(h *migrationtest.Countable, _ *phase.Session, all map[string]*plan.Entry, _ map[string]cms.Counts) {
			all["b"].Naming.Index, all["b"].Ours = "a", nil
			h.Docs["a"] = 8
		}},
		{name: "an alias, a routing and a pipeline excuse nothing", roots: "3", problem: "2 are missing", change: func(h *migrationtest.Countable, s *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Docs["a"], h.Aliases, s.Identity = 3, `{"all":{}}`, map[string]string{phase.PipelinesKey: "true"}
			h.Set["index.number_of_shards"], h.Set["index.default_pipeline"], h.Set["index.final_pipeline"] = "1", "p", "p"
			h.Did.Executed = 5
		}},
		{name: "deletions of other clients", roots: "3", note: "2 documents fewer than were indexed: other clients have deleted", foreign: 2, change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], h.Did, h.Aliases = 3, target.Operations{Executed: 7, Deletes: 2}, `{"all":{}}`
		}},
		{name: "deletions in an index that no alias leads to", roots: "3", problem: "2 are missing, at most 2 of them deleted by other clients", foreign: 2, change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], h.Did = 3, target.Operations{Executed: 7, Deletes: 2}
		}},
		{name: "fewer deletions than documents are missing", roots: "2", problem: "3 are missing, at most 2 of them deleted by other clients", foreign: 2, change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], h.Did, h.Aliases = 2, target.Operations{Executed: 7, Deletes: 2}, `{"all":{}}`
		}},
		{name: "deletions whose sequence numbers were lost", roots: "3", problem: "2 are missing", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], h.Did = 3, target.Operations{Executed: 5, Deletes: 2}
		}},
		{name: "operations of others that are no deletions", roots: "3", problem: "2 are missing", foreign: 2, change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], h.Did = 3, target.Operations{Executed: 7}
		}},
		{name: "lost writes behind those of others", problem: "has lost writes of a", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Did.Executed, sent["a"] = 6, cms.Counts{Live: 5, Indexed: 5, Rewrites: 2}
		}},
		{name: "documents that a pipeline of the user moved", roots: "3", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Docs["a"], h.Did.Executed, sent["a"] = 3, 3, cms.Counts{Live: 5, Indexed: 5, Moved: 2}
		}},
		{name: "documents kept that others wrote", roots: "5", note: "2 operations on it", foreign: 2, change: func(h *migrationtest.Countable, s *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Did.Executed, sent["a"], s.Existing = 5, cms.Counts{Live: 5, Indexed: 3, Kept: 2}, bulk.Keep
		}},
		{name: "documents kept that nobody else wrote", roots: "3", problem: "2 documents were not written to a", change: func(h *migrationtest.Countable, s *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Docs["a"], h.Did.Executed, sent["a"], s.Existing = 3, 3, cms.Counts{Live: 5, Indexed: 3, Kept: 2}, bulk.Keep
		}},
		{name: "ids that a data stream had before", roots: "3", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, sent map[string]cms.Counts) {
			h.Docs["a"], h.Untold, sent["a"] = 3, fault.ErrConfig, cms.Counts{Live: 5, Indexed: 3, Kept: 2}
		}},
		{name: "rules that move documents", roots: "10", lucene: "18", change: func(h *migrationtest.Countable, s *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], h.Docs["b"], s.Redirects = 1, 9, redirects("a", "b")
		}},
		{name: "rules that move documents, of which one is missing", roots: "9", lucene: "18", problem: "9 documents in a, b, 10 were indexed: 1 are missing", problems: 2, change: func(h *migrationtest.Countable, s *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], h.Docs["b"], s.Redirects = 1, 8, redirects("b", "a")
		}},
		{name: "rules that move documents to an index that is not of this session", roots: "1", note: "a was there before", change: func(h *migrationtest.Countable, s *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Docs["a"], s.Redirects = 1, redirects("a", "c")
		}},
		{name: "no permission to count", roots: "-", lucene: "-", note: "not counted", change: func(h *migrationtest.Countable, _ *phase.Session, _ map[string]*plan.Entry, _ map[string]cms.Counts) {
			h.Denied = fault.ErrConfig
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := migrationtest.NewMemory()
				h := &migrationtest.Countable{
					Did:   target.Operations{Executed: 5},
					UUIDs: map[string]string{"a": "uuid of a", "b": "uuid of b"}, Docs: map[string]int64{"a": 5, "b": 5},
					Set: map[string]string{"index.number_of_shards": "2"}, Refreshed: map[string]bool{}, Lucene: 9,
				}
				s := ended(t, m, 1)
				s.Targets, s.Counts = h, h
				entries, sent := map[string]*plan.Entry{}, map[string]cms.Counts{}
				for _, name := range []string{"a", "b"} {
					entries[name] = &plan.Entry{Naming: plan.Naming{Index: name}, Shards: 2, Ours: []string{name}, Late: map[string]json.RawMessage{name: json.RawMessage(`{"late":{}}`)}}
					sent[name] = cms.Counts{Live: 5, Indexed: 5}
				}
				if c.change != nil {
					c.change(h, s, entries, sent)
				}
				for name, e := range entries {
					migrationtest.HaveIndex(t, s.Coordinator, name, "uuid of "+name, *e)
					it := cms.NewItem(cms.ItemID{Index: name}.String(), "test", 0)
					it.Engine, it.CompletedAt, it.Counts = "go", 1, sent[name]
					m.Items[it.ID] = it
				}
				if _, _, err := s.EndDocuments(t.Context(), true); err != nil {
					t.Fatal(err)
				}
				sum, err := summary.Of(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				x := sum.Indices[0]
				if x.Arrival == nil || (c.problem == "") != (len(sum.Problems) == 0) || x.Arrival.Gone != c.gone || !strings.Contains(x.Arrival.Note, c.note) || c.note == "" && x.Arrival.Note != "" {
					t.Fatalf("%+v, problems %+v", x.Arrival, sum.Problems)
				}
				if n := x.Arrival.Foreign(); n != c.foreign {
					t.Errorf("%d foreign operations, want %d", n, c.foreign)
				}
				if roots, lucene := x.Arrival.Texts(); roots != cmp.Or(c.roots, "5") || lucene != cmp.Or(c.lucene, "9") {
					t.Errorf("%s root and %s Lucene documents", roots, lucene)
				}
				r, err := progress.ReadStore(t.Context(), s.Coordinator)
				if err != nil {
					t.Fatal(err)
				}
				if m, _ := r.Sum(); *m.Indices[0].OnTarget != *x.Arrival {
					t.Errorf("recorded: %+v", m)
				}
				if c.gone == (x.Done == 1) {
					t.Errorf("%d of %d shards done", x.Done, x.Shards)
				}
				if c.problem == "" {
					if x.AliasesWait {
						t.Error("aliases wait")
					}
					counted := h.Counted
					if _, _, err := s.EndDocuments(t.Context(), true); err != nil || h.Counted != counted && h.Denied == nil {
						t.Errorf("a second run counted again: %v", err)
					}
					id := cms.ItemID{Index: "a"}.String() // more was sent since
					it := m.Items[id]
					it.Counts.Indexed++
					m.Items[id] = it
					if _, _, err := s.EndDocuments(t.Context(), true); err != nil || h.Counted == counted && h.Denied == nil {
						t.Errorf("what was sent since is not counted: %v", err)
					}
					return
				}
				if p := sum.Problems[0]; p.Index != "a" || p.Shard != -1 || !strings.Contains(p.Reason, c.problem) || !x.AliasesWait {
					t.Errorf("%+v, aliases wait: %v", p, x.AliasesWait)
				}
				if len(sum.Problems) != max(1, c.problems) || len(sum.Events) != len(sum.Problems) || sum.Events[0].Subject != "index a" || sum.Events[0].Detail != sum.Problems[0].Reason {
					t.Errorf("events %+v", sum.Events)
				}
			})
		})
	}
}

// TestIndicesAreCountedAtTheSameTime counts 80 target indices that take 3 s each, in a tenth of the time that one after the other takes.
func TestIndicesAreCountedAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &migrationtest.Countable{UUIDs: map[string]string{}, Docs: map[string]int64{}, Refreshed: map[string]bool{}, Takes: 3 * time.Second}
		s := ended(t, migrationtest.NewMemory(), 0)
		s.Targets, s.Counts = h, h
		for n := range 80 {
			name := fmt.Sprint("index-", n)
			h.UUIDs[name] = "uuid"
			migrationtest.HaveIndex(t, s.Coordinator, name, "uuid", plan.Entry{Naming: plan.Naming{Index: name}, Shards: 1, Ours: []string{name}})
		}
		begin := time.Now()
		if _, _, err := s.EndDocuments(t.Context(), true); err != nil || h.Counted != 80 {
			t.Fatalf("%d counted, %v", h.Counted, err)
		}
		if took := time.Since(begin); took > 40*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestOneOfManyProcessesAudits ends the documents of a session by 20 processes at the same time, of which one dies in the audit:
// the target indices are counted by it and by one other, and every process learns that the documents are complete.
func TestOneOfManyProcessesAudits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := migrationtest.NewMemory()
		h := &migrationtest.Countable{UUIDs: map[string]string{"a": "uuid of a"}, Docs: map[string]int64{"a": 5}, Refreshed: map[string]bool{}, Lucene: 9, Takes: 3 * time.Second}
		first := ended(t, m, 0)
		if _, err := session.IdentityOf(first.Coordinator).Init(t.Context(), session.Meta{Settings: first.Settings}); err != nil {
			t.Fatal(err)
		}
		migrationtest.HaveIndex(t, first.Coordinator, "a", "uuid of a", plan.Entry{Naming: plan.Naming{Index: "a"}, Shards: 1, Ours: []string{"a"}})
		if err := first.Coordinator.SeedOnce(t.Context(), "test", func(ctx context.Context) error {
			_, err := first.Coordinator.SeedRoots(ctx, slices.Values([]cms.Root{{ID: cms.ItemID{Index: "a"}}}))
			return err
		}, func(*cms.NoneAvailable) {}); err != nil {
			t.Fatal(err)
		}
		it := m.Items[cms.ItemID{Index: "a"}.String()]
		it.Engine, it.CompletedAt, it.Counts = "go", 1, cms.Counts{Live: 5, Indexed: 5}
		m.Items[it.ID] = it
		if _, err := session.PhasesOf(first.Coordinator).Move(t.Context(), session.DocsPhase, "", session.PhaseInProgress, nil); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		complete := make([]bool, 20)
		for n := range complete {
			s := ended(t, m, n)
			s.Targets, s.Counts = h, h
			ctx, cancel := context.WithCancel(t.Context())
			all.Go(func() {
				defer cancel()
				if n == 0 {
					time.AfterFunc(time.Second, cancel)
				} else {
					time.Sleep(100 * time.Millisecond)
				}
				for !complete[n] && ctx.Err() == nil {
					_, clean, err := s.EndDocuments(ctx, false)
					var busy *cms.NoneAvailable
					switch {
					case errors.As(err, &busy):
						time.Sleep(time.Second)
					case err != nil && ctx.Err() == nil:
						t.Errorf("process %d: %v", n, err)
						return
					}
					complete[n] = clean
				}
			})
		}
		all.Wait()
		if h.Counted > 2 || slices.Contains(complete[1:], false) {
			t.Errorf("counted %d times, complete: %v", h.Counted, complete)
		}
	})
}
