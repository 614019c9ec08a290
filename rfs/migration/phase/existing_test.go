package phase_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// holding returns a process that migrates the indices a and b, of which the target has a with 5 documents.
func holding(t *testing.T, m *migrationtest.Memory) *phase.Session {
	t.Helper()
	x := migrationtest.NewOutside()
	x.UUIDs["a"] = "u1"
	s := process(t, m, x, 1, &migrationtest.Life{})
	s.Counts = &migrationtest.Countable{Docs: map[string]int64{"a": 5}, Refreshed: map[string]bool{"a": true, "b": true}}
	s.Snapshot, s.Phases = phase.SnapshotOptions{Name: "rfs-s"}, phase.Phases{phase.PhaseMetadata, phase.PhaseIndices, phase.PhaseDocuments}
	p := threeIndices()
	p.Indices = p.Indices[:2]
	plans(s, p)
	return s
}

// TestPreview_DocumentsOfFormerRounds: a later round sends to indices with the documents of former ones.
func TestPreview_DocumentsOfFormerRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := holding(t, migrationtest.NewMemory())
		s.Root = s.Coordinator
		if _, err := session.EntriesOf(s.Root).ClaimTarget(t.Context(), "a", "u1"); err != nil {
			t.Fatal(err)
		}
		if err := toItems(t.Context(), s); err != nil {
			t.Error(err)
		}
	})
}

// TestDocumentsThatTargetsHeld plans the indices a and b, of which the target has a with 5 documents unless a case says otherwise.
func TestDocumentsThatTargetsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		phases   phase.Phases
		planned  bool // by a process that did not count
		existing bulk.Existing
		change   func(s *phase.Session, h *migrationtest.Countable, p *plan.Plan)
		refused  bool
		fails    error            // of the counting
		held     map[string]int64 // as the entries record it
	}{
		"nothing was chosen":       {refused: true},
		"overwrite was chosen":     {existing: bulk.Overwrite, held: map[string]int64{"a": 5}},
		"keep was chosen":          {existing: bulk.Keep, held: map[string]int64{"a": 5}},
		"newer was chosen":         {existing: bulk.Newer, held: map[string]int64{"a": 5}},
		"no documents are sent":    {phases: phase.Phases{phase.PhaseMetadata, phase.PhaseIndices}, held: map[string]int64{"a": 5}},
		"the indices are empty":    {change: func(_ *phase.Session, h *migrationtest.Countable, _ *plan.Plan) { h.Docs["a"] = 0 }},
		"searches do not see them": {refused: true, change: func(_ *phase.Session, h *migrationtest.Countable, _ *plan.Plan) { delete(h.Refreshed, "a") }},
		"there is no cluster":      {change: func(s *phase.Session, _ *migrationtest.Countable, _ *plan.Plan) { s.Counts = nil }},
		"there is no such index": {change: func(_ *phase.Session, h *migrationtest.Countable, _ *plan.Plan) {
			h.Denied, h.Refreshed = &fault.StatusError{Status: 404}, map[string]bool{}
		}},
		"documents may not be counted": {change: func(_ *phase.Session, h *migrationtest.Countable, _ *plan.Plan) {
			h.Denied, h.Refreshed = fault.ErrConfig, map[string]bool{}
		}},
		"the target does not answer": {fails: fault.ErrUnavailable, change: func(_ *phase.Session, h *migrationtest.Countable, _ *plan.Plan) {
			h.Denied, h.Refreshed = fault.CheckStatus("POST /a/_refresh", 503, nil), map[string]bool{}
		}},
		"documents go to a data stream": {change: func(_ *phase.Session, _ *migrationtest.Countable, p *plan.Plan) {
			p.Indices[0].Entry.Create, p.Indices[0].Entry.Stream = true, &metadata.StreamPart{Stream: "a"}
		}},
		"a later round meets documents of others": {refused: true, change: func(s *phase.Session, _ *migrationtest.Countable, _ *plan.Plan) { s.Root = s.Coordinator }},
		"the index was planned before":            {planned: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := migrationtest.NewMemory()
				if c.planned {
					before := holding(t, m)
					before.Counts, before.Phases = nil, phase.Phases{phase.PhaseIndices}
					if err := toItems(t.Context(), before); err != nil {
						t.Fatal(err)
					}
				}
				s := holding(t, m)
				s.Existing = c.existing
				if c.phases != nil {
					s.Phases = c.phases
				}
				p, err := s.Plan(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				h := s.Counts.(*migrationtest.Countable)
				if c.change != nil {
					c.change(s, h, p)
				}
				var log bytes.Buffer
				s.Log = slog.New(slog.NewTextHandler(&log, nil))
				err = toItems(t.Context(), s)
				if c.fails != nil {
					if !errors.Is(err, c.fails) {
						t.Fatalf("%v, want %v", err, c.fails)
					}
					return
				}
				if warned := strings.Contains(log.String(), "version numbers are compared"); warned != (c.existing == bulk.Newer) {
					t.Errorf("a warning of version numbers: %v\n%s", warned, &log)
				}
				if c.refused {
					if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "a (5)") || !strings.Contains(err.Error(), "--existing-documents overwrite") {
						t.Fatalf("%v, want a refusal that names index, number and choices", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				entries, err := s.Entries(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					entry, err := plan.DecodeEntry(e.Name, e.Body)
					if err != nil {
						t.Fatal(err)
					}
					if entry.Held[e.Name] != c.held[e.Name] || entry.HeldChosen != (len(entry.Held) > 0 && c.existing != "") {
						t.Errorf("the entry of %s records %v, chosen %v; want %v", e.Name, entry.Held, entry.HeldChosen, c.held)
					}
				}
				// A run that resumes asks nothing, although documents are there by now, except for what a run without documents found.
				again := holding(t, m)
				again.Counts = &migrationtest.Countable{Docs: map[string]int64{"a": 5, "b": 7}, Refreshed: h.Refreshed}
				err = toItems(t.Context(), again)
				if asks := len(c.held) > 0 && c.existing == ""; errors.Is(err, fault.ErrConfig) != asks || !asks && err != nil {
					t.Errorf("resumed: %v", err)
				}
			})
		})
	}
}

// TestAChoiceIsTheSessions begins a session without a choice, which is refused, and then makes one.
func TestAChoiceIsTheSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := migrationtest.NewMemory()
		join := func(existing bulk.Existing) (*phase.Session, error) {
			s := holding(t, m)
			s.Existing, s.Identity = existing, map[string]string{phase.ExistingKey: string(existing)}
			s.Counts = &migrationtest.Countable{Refreshed: map[string]bool{}}
			return s, s.Join(t.Context())
		}
		if _, err := join(""); err != nil {
			t.Fatalf("without a choice: %v", err)
		}
		s, err := join(bulk.Keep)
		if err != nil {
			t.Fatalf("a choice after a run that was refused: %v", err)
		}
		if err := toItems(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if s, err := join(""); err != nil || s.Existing != bulk.Keep || s.Runner.Bulk.Existing != bulk.Keep {
			t.Errorf("a later run without a choice: %v, %q, documents %q", err, s.Existing, s.Runner.Bulk.Existing)
		}
		for _, other := range []bulk.Existing{bulk.Overwrite, bulk.Newer} {
			if _, err := join(other); !errors.Is(err, fault.ErrConfig) {
				t.Errorf("another choice %s: %v", other, err)
			}
		}
		m = migrationtest.NewMemory()
		s, err = join("")
		if err == nil {
			err = toItems(t.Context(), s)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := join(bulk.Keep); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("a choice after documents were sent by the default: %v", err)
		}
	})
}

// keeper is a target with op create. It dies for its clients after some requests: what it was sent arrives, the answer does not.
type keeper struct {
	mu    sync.Mutex
	docs  map[string][]byte // by id
	left  int               // requests before it dies; negative: it does not
	die   func()
	finds int
}

func (k *keeper) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return k, nil
}
func (k *keeper) Durable() bool                { return true }
func (k *keeper) Commit(context.Context) error { return nil }
func (k *keeper) Abort() error                 { return nil }

func (k *keeper) Send(_ context.Context, body []byte, _ int) (bulk.Result, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var r bulk.Result
	for pos := 0; len(body) > 0; pos++ {
		action, rest, _ := bytes.Cut(body, []byte("\n"))
		source, next, _ := bytes.Cut(rest, []byte("\n"))
		body = next
		var a struct{ Create bulk.Key }
		if err := json.Unmarshal(action, &a); err != nil || a.Create.ID == "" {
			return r, errors.New("not op create: " + string(action))
		}
		if k.docs[a.Create.ID] != nil {
			r.Refused = append(r.Refused, bulk.Refusal{Pos: pos, Status: 409, Type: "version_conflict_engine_exception"})
		} else {
			k.docs[a.Create.ID] = bytes.Clone(source)
		}
	}
	if k.left--; k.left == 0 {
		k.die()
		return bulk.Result{}, fault.ErrUnavailable
	}
	return r, nil
}

func (k *keeper) Find(_ context.Context, keys []bulk.Key) (out []bulk.Found, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finds += len(keys)
	for _, key := range keys {
		out = append(out, bulk.Found{Source: k.docs[key.ID]})
	}
	return out, nil
}

// TestKeptDocumentsAddUpAfterADeath migrates a shard with keep onto a target that has a tenth of its documents, the half of
// these with equal content. The process dies after each number of requests, without a word to the store.
func TestKeptDocumentsAddUpAfterADeath(t *testing.T) {
	const batch = 40
	run := func(t *testing.T, k *keeper, store cms.Store, died func(context.Context, *migrationtest.OneShard) bool) cms.Counts {
		s := migrationtest.NewShard(t, store, k, time.Minute, batch)
		s.Runner.Bulk.Existing, s.Runner.Bulk.Finder = bulk.Keep, k
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		k.die = cancel
		l := s.Lease(t)
		outcome, err := s.Run(ctx, l)
		if died != nil && died(ctx, s) {
			return cms.Counts{}
		}
		if err != nil || outcome != engine.Completed {
			t.Fatalf("%v, %v", outcome, err)
		}
		return s.Item(t).Counts
	}
	all := &keeper{docs: map[string][]byte{}, left: -1}
	synctest.Test(t, func(t *testing.T) { run(t, all, migrationtest.NewMemory(), nil) })
	foreign, n, equal := map[string][]byte{}, 0, 0
	for id, source := range all.docs {
		if n++; n%10 == 0 {
			foreign[id] = []byte(`{"foreign":true}`)
			if n%20 == 0 {
				foreign[id], equal = source, equal+1
			}
		}
	}
	requests := (len(all.docs) + batch - 1) / batch
	deaths := 7
	if testing.Short() {
		deaths = 3
	}
	for death := 0; death <= requests; death += 1 + requests/deaths {
		synctest.Test(t, func(t *testing.T) {
			k := &keeper{docs: map[string][]byte{}, left: -1}
			for id, source := range foreign {
				k.docs[id] = source
			}
			store := migrationtest.NewMemory()
			if death > 0 {
				k.left = death
				run(t, k, &lastWrites{Memory: store}, func(ctx context.Context, _ *migrationtest.OneShard) bool { return ctx.Err() != nil })
				time.Sleep(2 * time.Minute) // its lease ends
			}
			k.left = -1
			c := run(t, k, store, nil)
			if c.Live != int64(len(all.docs)) || c.Live != c.Indexed+c.Kept+c.Failed+c.Filtered || c.Failed != 0 {
				t.Errorf("died after %d of %d requests: %+v of %d documents", death, requests, c, len(all.docs))
			}
			// After a death an equal document may be of any client; all others are told apart.
			if most, least := int64(len(foreign)), int64(len(foreign)-equal); c.Kept > most || c.Kept < least || death == 0 && c.Kept != most {
				t.Errorf("died after %d of %d requests: %d kept of %d foreign documents, %d of which are equal to ours", death, requests, c.Kept, most, equal)
			}
			if death == 0 && k.finds > 0 {
				t.Errorf("%d documents were compared although nothing can have been sent before", k.finds)
			}
			for id, source := range foreign {
				if !bytes.Equal(k.docs[id], source) {
					t.Fatalf("document %s was overwritten", id)
				}
			}
		})
	}
}

// lastWrites is the store as a process that is killed leaves it: its releases and hand-offs do not arrive.
type lastWrites struct{ *migrationtest.Memory }

func (s *lastWrites) Apply(ctx context.Context, id string, tr cms.Transition) (cms.Item, cms.Result, error) {
	switch tr.Name() {
	case "acquire", "progress":
		return s.Memory.Apply(ctx, id, tr)
	}
	it, err := s.Memory.Get(ctx, id)
	return it, cms.Applied, err
}
