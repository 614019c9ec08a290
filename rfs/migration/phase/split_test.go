package phase_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestAPartIsReadUpToItsEnd holds that the item of a part ends where it says, and is not begun when shard and parts do not agree.
func TestAPartIsReadUpToItsEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		ends []int64
		want engine.Outcome
	}{
		{"the parts are those of the shard", []int64{500, 800, 1320}, engine.Completed},
		{"the shard is longer than its parts", []int64{500, 800, 1319}, engine.Failed},
		{"the part is none of them", []int64{500, 801, 1320}, engine.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := migrationtest.NewShard(t, migrationtest.NewMemory(), &migrationtest.SlowSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}}, time.Minute, 50)
				s.ID.Cursor, s.Entry.Ends = 500, map[int][]int64{0: c.ends}
				if _, err := s.Coordinator.SeedRoots(t.Context(), slices.Values([]cms.Root{{ID: s.ID, End: 800}})); err != nil {
					t.Fatal(err)
				}
				lease := s.Lease(t)
				outcome, err := s.Runner.Run(t.Context(), lease, s.Reader.Source(s.Entry, lease.Item.End, nil, nil), func(context.Context, time.Duration) error { return nil })
				it := s.Item(t)
				switch {
				case outcome != c.want:
					t.Errorf("%v: %v", outcome, err)
				case c.want == engine.Failed && !errors.Is(err, fault.ErrCorrupt):
					t.Error(err)
				case c.want == engine.Completed && (it.Watermark != 800 || it.Counts.Ordinals != 300 || it.Counts.Indexed != s.Live(t, 800)-s.Live(t, 500)):
					t.Errorf("%+v", it)
				}
			})
		})
	}
}

// shardsOfTarget is a target whose indices have so many shards.
type shardsOfTarget struct {
	arrival.Counts
	n int
}

func (s shardsOfTarget) GetIndex(_ context.Context, name string) ([]target.Index, error) {
	return []target.Index{{Name: name, Settings: map[string]string{"index.number_of_shards": strconv.Itoa(s.n)}}}, nil
}

// TestAShardIsSplitByItsSizeAndItsTarget: 528,492 bytes, once and for all, unless the work on it has begun.
func TestAShardIsSplitByItsSizeAndItsTarget(t *testing.T) {
	const small = 64 << 10
	for _, c := range []struct {
		name  string
		over  int64
		shape func(*phase.Session, *plan.Entry, *migrationtest.OneShard)
		parts int
	}{
		{"by its size", 200_000, nil, 3},
		{"not over the limit", 528_492, nil, 0},
		{"off", 0, nil, 0},
		{"as many as one shard of the target takes", small, nil, 8},
		{"the target has two shards", small, func(s *phase.Session, _ *plan.Entry, _ *migrationtest.OneShard) { s.Counts = shardsOfTarget{n: 2} }, 9},
		{"four shards of the source go to one of the target", small, func(_ *phase.Session, e *plan.Entry, _ *migrationtest.OneShard) { e.Shards = 4 }, 2},
		{"its size is unknown", small, func(_ *phase.Session, e *plan.Entry, _ *migrationtest.OneShard) { e.Bytes = nil }, 0},
		{"a trial run", small, func(_ *phase.Session, e *plan.Entry, _ *migrationtest.OneShard) { e.Trial = &plan.Trial{Documents: 1} }, 0},
		{"it cannot be read", small, func(_ *phase.Session, e *plan.Entry, _ *migrationtest.OneShard) { e.Locator.IndexID = "none" }, 0},
		{"it has an item", small, func(_ *phase.Session, _ *plan.Entry, s *migrationtest.OneShard) { s.ID.Index = "" }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			m := migrationtest.NewMemory()
			one := migrationtest.NewShard(t, m, &migrationtest.SlowSink{}, time.Minute, 50)
			s := &phase.Session{Coordinator: one.Coordinator, Phases: phase.Phases{phase.PhaseIndices, phase.PhaseDocuments}, Log: slog.New(slog.DiscardHandler), Transfer: phase.Transfer{Runner: one.Runner, Shards: *one.Reader, SplitOver: c.over}, Cluster: phase.Cluster{Counts: shardsOfTarget{n: 1}}}
			entry := one.Entry
			entry.Bytes = []int64{528_492}
			if c.shape != nil {
				c.shape(s, &entry, one)
			}
			name := "split"
			if one.ID.Index == "" { // seeded by newShard
				name = entry.Locator.IndexName
			}
			body, err := entry.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := session.EntriesOf(one.Coordinator).Create(ctx, session.IndexEntry{Name: name, State: session.PhaseCompleted, Shards: entry.Shards, Body: body}); err != nil {
				t.Fatal(err)
			}
			if err := s.Join(ctx); err != nil {
				t.Fatal(err)
			}
			seed := func() ([]int64, int) {
				if err := s.SeedOnce(ctx, "worker"); err != nil {
					t.Fatal(err)
				}
				e, err := session.EntriesOf(one.Coordinator).Read(ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				items := 0
				for id, it := range m.Items {
					if r, err := it.Range(); err == nil && r.Index == name {
						items++
						delete(m.Items, id)
					}
				}
				return e.Ends[0], items
			}
			ends, items := seed()
			if len(ends) != c.parts || c.parts > 0 && ends[c.parts-1] != 1320 || items != max(1, c.parts)+entry.Shards-1 {
				t.Fatalf("%d parts, want %d: %+v, %d items", len(ends), c.parts, ends, items)
			}
			s.SplitOver = 100_000 // decides otherwise, after the store has lost the items
			delete(m.Items, cms.SetupID)
			if again, items := seed(); c.parts > 0 && (!slices.Equal(again, ends) || items != c.parts+entry.Shards-1) {
				t.Errorf("decided again: %v with %d items, was %v", again, items, ends)
			}
		})
	}
}
