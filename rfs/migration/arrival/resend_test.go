package arrival_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// keeping is a target with one index that keeps the documents it is sent, until it loses some.
type keeping struct {
	mu      sync.Mutex
	docs    map[string]int64 // versions by id
	seq     int64            // operations that it has executed
	deletes int64
	aliases string
	hidden  bool     // how many operations it has executed
	refuses []string // the ids of documents that it takes no more
	sent    int      // documents in requests
}

func (k *keeping) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return keptOutput{k}, nil
}

// keptOutput sends to the target.
type keptOutput struct{ *keeping }

func (keptOutput) Commit(context.Context) error { return nil }
func (keptOutput) Abort() error                 { return nil }

func (k *keeping) Durable() bool                                      { return true }
func (k *keeping) IndexUUID(context.Context, string) (string, error)  { return "u", nil }
func (k *keeping) Refresh(context.Context, string) error              { return nil }
func (k *keeping) CountLucene(context.Context, string) (int64, error) { return 0, fault.ErrConfig }
func (k *keeping) Count(context.Context, string) (int64, error)       { return int64(len(k.docs)), nil }
func (k *keeping) GetIndex(_ context.Context, n string) ([]target.Index, error) {
	return []target.Index{{Name: n, Aliases: json.RawMessage(k.aliases)}}, nil
}
func (k *keeping) Operations(context.Context, string) (target.Operations, error) {
	if k.hidden {
		return target.Operations{}, fault.ErrConfig
	}
	return target.Operations{Executed: k.seq, Deletes: k.deletes}, nil
}

func (k *keeping) Send(_ context.Context, body []byte, n int) (res bulk.Result, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sent += n
	lines := bytes.Split(body, []byte{'\n'})
	for pos := range n {
		var line map[string]bulk.Key
		if err := json.Unmarshal(lines[2*pos], &line); err != nil {
			return res, err
		}
		for op, key := range line {
			was := k.docs[key.ID]
			switch {
			case slices.Contains(k.refuses, key.ID):
				res.Refused = append(res.Refused, bulk.Refusal{Pos: pos, Status: 400, Type: "mapper_parsing_exception", Reason: "no"})
				continue
			case op == "create" && was > 0:
				res.Refused = append(res.Refused, conflictAt(pos))
				continue
			case was > 0:
				res.Replaced = append(res.Replaced, bulk.Replacement{Pos: pos, Copies: was})
			}
			k.docs[key.ID], k.seq = was+1, k.seq+1
		}
	}
	return res, nil
}

func conflictAt(pos int) bulk.Refusal {
	return bulk.Refusal{Pos: pos, Status: 409, Type: "version_conflict_engine_exception", Reason: "document already exists"}
}

// lose forgets documents, and as many of the latest operations as it says.
func (k *keeping) lose(operations int64, ids ...string) {
	for _, id := range ids {
		delete(k.docs, id)
	}
	k.seq -= operations
}

// TestDocumentsThatAreMissingAreSentAgain migrates an index to a target that loses documents before or after they are counted.
func TestDocumentsThatAreMissingAreSentAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(k *keeping) // the documents are counted for the first time
		after  func(k *keeping) // they were complete, and the same command runs again
		again  bool             // they are sent again
		lacks  int              // documents that are not there at the end
		note   string
		says   string // a problem
	}{
		{name: "lost writes", before: func(k *keeping) { k.lose(2, "1000001", "1000003") }, again: true, note: `2 documents were sent again: "1000001", "1000003"`},
		{name: "lost documents whose operations stay", before: func(k *keeping) { k.lose(0, "1000001") }, again: true, note: `1 documents were sent again: "1000001"`},
		{name: "many", before: func(k *keeping) {
			for id := range k.docs {
				if !strings.HasSuffix(id, "7") {
					k.lose(1, id)
				}
			}
		}, again: true, note: ", …"},
		{name: "an alias leads to it", before: func(k *keeping) { k.aliases = `{"all":{}}`; k.lose(1, "1000001") }, again: true, note: "1 documents were sent again"},
		{name: "another client has deleted some", before: func(k *keeping) { k.lose(-1, "1000001"); k.deletes++ }, lacks: 1, says: "1 are missing"},
		{name: "operations are unknown", before: func(k *keeping) { k.hidden = true; k.lose(0, "1000001") }, again: true, note: "1 documents were sent again"},
		{name: "operations are unknown, and an alias leads to it", before: func(k *keeping) {
			k.hidden, k.aliases = true, `{"all":{}}`
			k.lose(0, "1000001")
		}, lacks: 1, says: "1 are missing"},
		{name: "one that is refused now", before: func(k *keeping) { k.refuses = []string{"1000001"}; k.lose(2, "1000001", "1000003") }, again: true, lacks: 1,
			says: `1 are missing; the snapshot was read again, 1 documents were sent again: "1000003"; the target refuses "1000001" (mapper_parsing_exception)`},
		{name: "lost after they were complete", after: func(k *keeping) { k.lose(3, "1000001", "1000003", "1000005") }, again: true, note: `"1000005"`},
		{name: "deleted after they were complete", after: func(k *keeping) { k.lose(-1, "1000001"); k.deletes++ }, lacks: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &keeping{docs: map[string]int64{}, aliases: "{}"}
			s := ordersTo(t, k)
			whole := len(k.docs)
			if c.before != nil {
				c.before(k)
			}
			k.sent = 0
			if _, _, err := s.EndDocuments(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			if c.after != nil {
				c.after(k)
				if _, _, err := s.EndDocuments(t.Context(), true); err != nil {
					t.Fatal(err)
				}
			}
			sum, err := summary.Of(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			is := sum.Indices[0].Arrival
			if len(k.docs) != whole-c.lacks || (k.sent > 0) != c.again || !strings.Contains(is.Note, c.note) || !strings.Contains(is.Problem, c.says) || (is.Problem == "") != (c.says == "") {
				t.Fatalf("%d of %d documents, %d were sent, %+v", len(k.docs), whole, k.sent, is)
			}
			if n := is.Foreign(); c.again && n != 0 {
				t.Errorf("%d operations of others", n)
			}
			k.sent = 0
			if _, _, err := s.EndDocuments(t.Context(), true); err != nil || k.sent != 0 {
				t.Errorf("the same process has sent %d documents once more, %v", k.sent, err)
			}
		})
	}
}

// ordersTo returns a session that has sent the index orders of a snapshot to a target, before its documents are counted.
func ordersTo(t *testing.T, k *keeping) *phase.Session {
	t.Helper()
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	p.Indices = slices.DeleteFunc(p.Indices, func(x plan.Index) bool { return x.Entry.Locator.IndexName != "orders" })
	store := boltstore.Open(t)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	s := &phase.Session{
		Coordinator: c, Holder: "test", Log: slog.New(slog.DiscardHandler), Phases: phase.Phases{phase.PhaseDocuments},
		Source:   phase.Source{Plan: func(context.Context, string) (*plan.Plan, error) { return p, nil }},
		Transfer: phase.Transfer{Shards: shards.Reader{Repo: blobs}, Runner: &engine.Runner{Destination: k, Failed: migrationtest.NoFailures{}, Meter: engine.NewMeter(), Clock: timing.SystemClock(), Log: slog.New(slog.DiscardHandler)}},
		Cluster:  phase.Cluster{Targets: k, Counts: k},
	}
	if err := s.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := p.Indices[0].Entry
	e.Ours = e.Naming.Targets()
	body, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.EntriesOf(c).ClaimTarget(t.Context(), "orders", "u"); err != nil {
		t.Fatal(err)
	}
	if _, err := session.EntriesOf(c).Create(t.Context(), session.IndexEntry{Name: "orders", State: session.PhaseCompleted, Shards: e.Shards, Body: body}); err != nil {
		t.Fatal(err)
	}
	if err := s.SeedOnce(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	for {
		lease, err := c.AcquireNext(t.Context(), "test", nil)
		if err != nil {
			break
		}
		if outcome, err := s.Run(t.Context(), lease, nil, nil); outcome != engine.Completed {
			t.Fatalf("%v, %v", outcome, err)
		}
	}
	if len(k.docs) == 0 {
		t.Fatal("nothing was sent")
	}
	return s
}
