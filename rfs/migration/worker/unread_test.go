package worker_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// TestOneDamagedMetadataBlobFailsItsIndexAlone flips a bit in the metadata of one index, and mends it again.
func TestOneDamagedMetadataBlobFailsItsIndexAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "repository")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))); err != nil {
		t.Fatal(err)
	}
	blobs, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	req := plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto}
	whole, err := plan.New(t.Context(), blobs, req)
	if err != nil {
		t.Fatal(err)
	}
	bad := whole.Indices[0]
	blob := filepath.Join(dir, filepath.FromSlash(bad.Entry.Locator.MetaBlob))
	was, err := os.ReadFile(blob)
	if err != nil {
		t.Fatal(err)
	}
	broken := append([]byte(nil), was...)
	broken[len(broken)/2] ^= 1
	if err := os.WriteFile(blob, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	run := func() *summary.Summary {
		store, err := boltcms.Open(filepath.Join(state, "state.db"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		coordinator := cms.New(cms.Config{Store: store, Creator: "test"})
		recorder, err := failed.Open(filepath.Join(state, "failed"), "test", failed.Full)
		if err != nil {
			t.Fatal(err)
		}
		defer recorder.Close()
		log := slog.New(slog.DiscardHandler)
		m := &worker.Migration{Slots: 1, Unavailable: time.Minute, Session: &phase.Session{
			Coordinator: coordinator, Holder: "test", Settings: req.Settings(""), Log: log, Phases: phase.Phases{phase.PhaseDocuments},
			Source:   phase.Source{Plan: func(ctx context.Context, _ string) (*plan.Plan, error) { return plan.New(ctx, blobs, req) }},
			Transfer: phase.Transfer{Shards: shards.Reader{Repo: blobs}, Runner: &engine.Runner{Destination: engine.ToNowhere(), Failed: recorder, Meter: engine.NewMeter(), Clock: timing.SystemClock(), Log: log}},
		}}
		sum, err := m.Run(t.Context())
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		return sum
	}
	for range 2 { // again: it is still damaged
		sum := run()
		if len(sum.Problems) != 1 || sum.Problems[0].Index != bad.Name || !strings.Contains(sum.Problems[0].Reason, bad.Entry.Locator.MetaBlob) {
			t.Errorf("problems %+v", sum.Problems)
		}
		if len(sum.Events) != 1 || sum.Events[0].Subject != "index "+bad.Name {
			t.Errorf("events %+v", sum.Events)
		}
		if len(sum.Indices) != len(whole.Indices) {
			t.Errorf("%d indices", len(sum.Indices))
		}
		for _, x := range sum.Indices {
			if (x.State == session.PhaseFailed) != (x.Index == bad.Name) || x.Index != bad.Name && (x.Done != x.Shards || x.Indexed == 0) {
				t.Errorf("%+v", x)
			}
		}
	}
	if err := os.WriteFile(blob, was, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := run()
	if len(sum.Problems) != 0 {
		t.Errorf("after the repair: problems %+v", sum.Problems)
	}
	for _, x := range sum.Indices {
		if x.State != session.PhaseCompleted || x.Done != x.Shards || x.Indexed == 0 {
			t.Errorf("after the repair: %+v", x)
		}
	}
}
