package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// runOnce runs the migration of a snapshot, interrupted after some bodies when after > 0.
func runOnce(t *testing.T, dir, repository, state string, s *migrationtest.Sink, after int) (*summary.Summary, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.End, s.After, s.Sends = cancel, after, 0
	return runTo(ctx, t, dir, repository, state, s, s.Edit)
}

// runTo runs the migration of a snapshot into a destination.
func runTo(ctx context.Context, t *testing.T, dir, repository, state string, to engine.Destination, edit func(string) shards.DocumentEditor) (*summary.Summary, error) {
	t.Helper()
	blobs, err := repo.NewDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	return runFrom(ctx, t, blobs, nil, filepath.Join(dir, state), to, edit)
}

// runFrom is runTo from a repository, with the state in a file. It keeps manifests if they are not nil.
func runFrom(ctx context.Context, t *testing.T, blobs snapshot.Repository, kept *plan.Manifests, state string, to engine.Destination, edit func(string) shards.DocumentEditor) (*summary.Summary, error) {
	t.Helper()
	req := plan.Request{SnapshotName: "snap1", IncludeSystem: true, MultiType: plan.SplitTypes, EmitType: plan.EmitAuto, Sizes: kept != nil, Manifests: kept}
	p, err := plan.New(ctx, blobs, req)
	if err != nil {
		t.Fatal(err)
	}
	store, err := boltcms.Open(state, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	coordinator := cms.New(cms.Config{Store: store, Creator: "test"})
	recorder, err := failed.Open(filepath.Join(filepath.Dir(state), "failed"), "test", failed.Full)
	if err != nil {
		t.Fatal(err)
	}
	defer recorder.Close()
	m := &worker.Migration{
		Slots: 2, Unavailable: time.Minute,
		Session: &phase.Session{
			Coordinator: coordinator, Holder: fmt.Sprintf("test_%d", rand.Int()), Settings: req.Settings(""), Log: slog.New(slog.DiscardHandler), Phases: phase.Phases{phase.PhaseDocuments},
			Source: phase.Source{Plan: func(context.Context, string) (*plan.Plan, error) { return p, nil }},
			Transfer: phase.Transfer{Shards: shards.Reader{Repo: blobs, Manifests: kept, Edit: edit, Log: slog.New(slog.DiscardHandler)}, Runner: &engine.Runner{
				Destination: to, Failed: recorder, Meter: engine.NewMeter(), Clock: timing.SystemClock(),
				Log: slog.New(slog.DiscardHandler), Bulk: bulk.Options{MaxDocs: 7, MaxInFlight: 3},
			}},
		},
	}
	return m.Run(ctx)
}

// TestInterruptedMigrationAddsUp interrupts a migration again and again in the middle
// of its shards; the pieces hold every document, the counts of all items add up to one
// uninterrupted run, and the checksums of pieces combine to those of whole files.
func TestInterruptedMigrationAddsUp(t *testing.T) {
	repository := filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo")
	dir := t.TempDir()
	whole := &migrationtest.Sink{Docs: map[string][32]byte{}}
	want, err := runOnce(t, dir, repository, "whole.db", whole, 0)
	if err != nil || !want.Complete || want.Totals.Live == 0 {
		t.Fatalf("%+v, %v", want, err)
	}
	pieces := &migrationtest.Sink{Docs: map[string][32]byte{}}
	interrupted := 0
	for range 40 {
		if sum, err := runOnce(t, dir, repository, "pieces.db", pieces, 1+rand.IntN(5)); err == nil && sum.Complete {
			break
		}
		interrupted++
	}
	got, err := runOnce(t, dir, repository, "pieces.db", pieces, 0)
	if err != nil || !got.Complete {
		t.Fatalf("%+v, %v", got, err)
	}
	if !maps.Equal(whole.Docs, pieces.Docs) {
		t.Errorf("%d documents in one run, %d in pieces", len(whole.Docs), len(pieces.Docs))
	}
	if got.Totals != want.Totals {
		t.Errorf("counts %+v, in one run %+v", got.Totals, want.Totals)
	}
	if len(got.Problems) > 0 || len(got.NotVerified) != len(want.NotVerified) {
		t.Errorf("problems %v; not verified %q, in one run %q", got.Problems, got.NotVerified, want.NotVerified)
	}
	if interrupted == 0 {
		t.Error("no run was interrupted")
	}
	t.Logf("%d interrupted runs, %d documents", interrupted, got.Totals.Live)
}

// TestARunReadsTheListOfAShardOnce: what the plan has read is not read again by the lease.
func TestARunReadsTheListOfAShardOnce(t *testing.T) {
	dir, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	var log []repo.Request
	blobs := repo.NewCounting(dir)
	blobs.Log(&log)
	sum, err := runFrom(t.Context(), t, blobs, &plan.Manifests{}, filepath.Join(t.TempDir(), "state.db"), engine.ToNowhere(), nil)
	if err != nil || !sum.Complete {
		t.Fatalf("%+v, %v", sum, err)
	}
	reads := map[string]int{}
	for _, r := range log {
		if name := filepath.Base(r.Name); r.Verb == "open" && strings.HasPrefix(r.Name, "indices/") && strings.HasPrefix(name, "snap-") {
			reads[r.Name]++
		}
	}
	if len(reads) < 2 {
		t.Fatalf("the lists of %d shards were read", len(reads))
	}
	for name, n := range reads {
		if n != 1 {
			t.Errorf("%s was read %d times", name, n)
		}
	}
}
