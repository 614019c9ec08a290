package migrationtest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// OneShard runs leases of the only item of a store: the shard of the fixture many-chunks.
type OneShard struct {
	Reader      *shards.Reader
	store       cms.Store
	Coordinator *cms.Coordinator
	Runner      *engine.Runner
	Entry       plan.Entry
	ID          cms.ItemID
}

// NewShard returns a OneShard over a store with the given initial lease, whose runner sends bodies of maxDocs documents to d.
func NewShard(t *testing.T, store cms.Store, d engine.Destination, lease time.Duration, maxDocs int) *OneShard {
	t.Helper()
	clock := cmstest.Clock{Start: time.Now()}
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-many-chunks"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	c := cms.New(cms.Config{Store: store, Creator: "test", Clock: clock, InitialLease: lease})
	id := cms.ItemID{Index: plan.Indices[0].Entry.Locator.IndexName}
	if _, err := c.SeedItems(t.Context(), slices.Values([]cms.ItemID{id})); err != nil {
		t.Fatal(err)
	}
	return &OneShard{store: store, Coordinator: c, Entry: plan.Indices[0].Entry, ID: id, Reader: &shards.Reader{Repo: blobs, Log: slog.New(slog.DiscardHandler)}, Runner: &engine.Runner{
		Destination: d, Failed: NoFailures{}, Meter: engine.NewMeter(), Clock: clock,
		Log: slog.New(slog.DiscardHandler), Bulk: bulk.Options{MaxDocs: maxDocs, MaxInFlight: 1},
	}}
}

// Lease leases the item.
func (s *OneShard) Lease(t *testing.T) *cms.Lease {
	t.Helper()
	l, err := s.Coordinator.AcquireOneOf(t.Context(), "worker", []string{s.ID.String()})
	if err != nil || l == nil {
		t.Fatalf("lease %v, %v", l, err)
	}
	return l
}

// Run runs a lease to its end.
func (s *OneShard) Run(ctx context.Context, l *cms.Lease) (engine.Outcome, error) {
	return s.Runner.Run(ctx, l, s.Reader.Source(s.Entry, 0, nil, nil), func(context.Context, time.Duration) error { return nil })
}

// Live returns the number of live documents below an ordinal of the shard.
func (s *OneShard) Live(t *testing.T, to int64) (n int64) {
	t.Helper()
	shard, err := snapshot.OpenShard(t.Context(), s.Reader.Repo, s.Entry.Locator, s.ID.Shard)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := lucene.Open(t.Context(), shard.Directory(), lucene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := commit.Reader(lucene.ReadOptions{To: to})
	defer r.Close()
	for {
		switch _, err := r.Next(t.Context()); {
		case errors.Is(err, io.EOF):
			return n
		case err != nil:
			t.Fatal(err)
		}
		n++
	}
}

// Item returns the stored item.
func (s *OneShard) Item(t *testing.T) cms.Item {
	t.Helper()
	it, err := s.store.Get(context.WithoutCancel(t.Context()), s.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// Lives runs the item's lease once, in a worker that may die.
func (s *OneShard) Lives(t *testing.T) (outcome engine.Outcome, died bool) {
	t.Helper()
	l := s.Lease(t)
	died = true
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		outcome, _ = s.Run(t.Context(), l)
		died = false
	}()
	<-ended
	synctest.Wait()
	if died {
		if _, _, err := s.store.Apply(t.Context(), s.ID.String(), cms.Reclaim{}); err != nil {
			t.Fatal(err)
		}
	}
	return outcome, died
}
