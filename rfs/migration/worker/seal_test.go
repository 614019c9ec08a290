package worker_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// written is a target with one index, of which it reports the highest sequence number.
type written struct {
	seq  int64
	body []byte // that it was created with
}

func (w *written) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (int, []byte, error) {
	switch {
	case strings.HasPrefix(path, "/orders/_stats"):
		return 200, fmt.Appendf(nil, `{"_shards":{"failed":0},"indices":{"orders":{"shards":{"0":[{"routing":{"primary":true},"seq_no":{"max_seq_no":%d}}]}}}}`, w.seq), nil
	case path == "/orders":
		return 200, fmt.Appendf(nil, `{"orders":{"aliases":{},"settings":{"index.uuid":"u1"},%s}`, w.body[1:]), nil
	}
	return 404, []byte(`{}`), nil
}

// TestMigration_ARunWithNothingToDoKeepsTheSeal: documents that an application wrote after the migration are not taken for the
// migration's own, however often the same command runs again.
func TestMigration_ARunWithNothingToDoKeepsTheSeal(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	req := plan.Request{SnapshotName: "snap1", IncludeSystem: true, MultiType: plan.SplitTypes, EmitType: plan.EmitAuto}
	p, err := plan.New(t.Context(), blobs, req)
	if err != nil {
		t.Fatal(err)
	}
	store := boltstore.Open(t)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	target := &written{seq: 100}
	ledger := rollback.NewLedger(target, c, "", slog.New(slog.DiscardHandler))
	mark, err := ledger.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if target.body, err = mark.Put(objects.IndexMark, "orders", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(context.Context, string, string) error{ledger.Intend, ledger.Confirm} {
		if err := step(t.Context(), rollback.Index, "orders"); err != nil {
			t.Fatal(err)
		}
	}
	run := func() {
		t.Helper()
		m := &worker.Migration{Slots: 1, Unavailable: time.Minute, Session: &phase.Session{
			Coordinator: c, Holder: fmt.Sprintf("test_%d", rand.Int()), Settings: req.Settings(""), Log: slog.New(slog.DiscardHandler), Phases: phase.Phases{phase.PhaseDocuments},
			Source: phase.Source{Plan: func(context.Context, string) (*plan.Plan, error) { return p, nil }},
			Transfer: phase.Transfer{Shards: shards.Reader{Repo: blobs}, Runner: &engine.Runner{Destination: engine.ToNowhere(), Failed: migrationtest.NoFailures{}, Meter: engine.NewMeter(), Clock: timing.SystemClock(),
				Log: slog.New(slog.DiscardHandler), Bulk: bulk.Options{MaxInFlight: 2}}},
			Cluster: phase.Cluster{Ledger: ledger},
		}}
		if sum, err := m.Run(t.Context()); err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
	}
	listed := func() rollback.Entry {
		t.Helper()
		u := &rollback.Undo{API: target, Records: session.CreatedOf(c), Phases: session.PhasesOf(c), Mark: mark, Tuned: func(context.Context) iter.Seq2[session.Tuned, error] { return func(func(session.Tuned, error) bool) {} }}
		all, err := u.List(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	run()
	if e := listed(); e.State != rollback.Created {
		t.Fatalf("after the migration: %+v", e)
	}
	target.seq = 150 // an application writes 50 documents
	for n := range 3 {
		if e := listed(); e.State != rollback.Refused || !strings.Contains(e.Reason, "50 operations") {
			t.Errorf("after %d more runs: %+v", n, e)
		}
		marks, err := rollback.ReadMarks(t.Context(), target, session.CreatedOf(c))
		if mark, known := marks.Of("orders", 0); err != nil || !known || mark != 100 {
			t.Errorf("mark after %d more runs: %d, %t, %v", n, mark, known, err)
		}
		run()
	}
}
