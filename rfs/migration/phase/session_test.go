package phase_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// TestWorkerReadsNothingButItsShard seeds the work in one session and lets others do it,
// item by item: none of them reads the catalog of the repository or another shard.
func TestWorkerReadsNothingButItsShard(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, err := boltcms.Open(filepath.Join(dir, "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	recorder, err := failed.Open(filepath.Join(dir, "failed"), "test", failed.Full)
	if err != nil {
		t.Fatal(err)
	}
	defer recorder.Close()
	req := plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto}
	session := func(holder string, r *repo.Counting, plan func(context.Context, string) (*plan.Plan, error)) *phase.Session {
		coordinator := cms.New(cms.Config{Store: store, Creator: holder})
		log := slog.New(slog.DiscardHandler)
		return &phase.Session{
			Coordinator: coordinator, Holder: holder, Settings: req.Settings(""), Log: log, Phases: phase.Phases{phase.PhaseDocuments},
			Source:   phase.Source{Plan: plan},
			Transfer: phase.Transfer{Shards: shards.Reader{Repo: r}, Runner: &engine.Runner{Destination: engine.ToNowhere(), Failed: recorder, Meter: engine.NewMeter(), Clock: timing.SystemClock(), Log: log}},
		}
	}
	seeder := session("seeder", repo.NewCounting(blobs), func(ctx context.Context, _ string) (*plan.Plan, error) { return plan.New(ctx, blobs, req) })
	if err := toItems(t.Context(), seeder); err != nil {
		t.Fatal(err)
	}
	workers := 0
	for ; ; workers++ {
		counted := repo.NewCounting(blobs)
		var log []repo.Request
		counted.Log(&log)
		w := session(fmt.Sprint("worker", workers), counted, func(context.Context, string) (*plan.Plan, error) {
			return nil, errors.New("the work is seeded already")
		})
		var id cms.ItemID
		outcome, _, err := w.RunOne(t.Context(), func(l *cms.Lease) { id = l.ID })
		if errors.Is(err, cms.ErrAllDone) {
			if len(log) > 0 {
				t.Errorf("a worker without work read %+v", log)
			}
			break
		}
		if err != nil || outcome != engine.Completed {
			t.Fatalf("%v, %v", outcome, err)
		}
		if len(log) == 0 {
			t.Errorf("%v was done without reading anything", id)
		}
		shards := map[string]bool{}
		for _, r := range log {
			shards[shardOf(r.Name)] = true
		}
		if len(shards) != 1 || shards[""] {
			t.Errorf("%v read of %v: %+v", id, shards, log)
		}
	}
	if workers < 4 {
		t.Errorf("only %d items", workers)
	}
}

// TestWhoDidNotPlanReadsTheMetadataOfAnIndexAlone: in a fleet each worker that makes indices would read the catalog otherwise.
func TestWhoDidNotPlanReadsTheMetadataOfAnIndexAlone(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto, Sizes: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range plan.Indices {
		counted := repo.NewCounting(blobs)
		var log []repo.Request
		counted.Log(&log)
		s := &phase.Session{Transfer: phase.Transfer{Shards: shards.Reader{Repo: counted}}}
		source, err := s.SourceIndex(t.Context(), x.Entry.Locator)
		if err != nil || !reflect.DeepEqual(source.Settings, x.Source.Settings) || !reflect.DeepEqual(source.Mappings, x.Source.Mappings) || source.NumShards != x.Source.NumShards {
			t.Errorf("%s: %v", x.Name, err)
		}
		if len(log) != 1 || log[0].Name != x.Entry.Locator.MetaBlob {
			t.Errorf("%s: %+v", x.Name, log)
		}
		if sums := x.Entry.Locator.ShardSums; len(sums) != x.Entry.Shards || slices.Contains(sums, "") {
			t.Errorf("%s: %q", x.Name, sums)
		}
	}
}

// shardOf is indices/<index>/<shard> of a blob; "" when it belongs to none.
func shardOf(name string) string {
	parts := strings.Split(name, "/")
	if len(parts) < 4 || parts[0] != "indices" {
		return ""
	}
	return strings.Join(parts[:3], "/")
}
