package phase

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
		shape func(*Session, *plan.Entry, *migrationtest.OneShard)
		parts int
	}{
		{"by its size", 200_000, nil, 3},
		{"not over the limit", 528_492, nil, 0},
		{"off", 0, nil, 0},
		{"as many as one shard of the target takes", small, nil, 8},
		{"the target has two shards", small, func(s *Session, _ *plan.Entry, _ *migrationtest.OneShard) { s.Counts = shardsOfTarget{n: 2} }, 9},
		{"four shards of the source go to one of the target", small, func(_ *Session, e *plan.Entry, _ *migrationtest.OneShard) { e.Shards = 4 }, 2},
		{"its size is unknown", small, func(_ *Session, e *plan.Entry, _ *migrationtest.OneShard) { e.Bytes = nil }, 0},
		{"a trial run", small, func(_ *Session, e *plan.Entry, _ *migrationtest.OneShard) { e.Trial = &plan.Trial{Documents: 1} }, 0},
		{"it cannot be read", small, func(_ *Session, e *plan.Entry, _ *migrationtest.OneShard) { e.Locator.IndexID = "none" }, 0},
		{"it has an item", small, func(_ *Session, _ *plan.Entry, s *migrationtest.OneShard) { s.ID.Index = "" }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			one := migrationtest.NewShard(t, migrationtest.NewMemory(), &migrationtest.SlowSink{}, time.Minute, 50)
			s := &Session{Coordinator: one.Coordinator, Log: slog.New(slog.DiscardHandler), Transfer: Transfer{Runner: one.Runner, Shards: *one.Reader, SplitOver: c.over}, Cluster: Cluster{Counts: shardsOfTarget{n: 1}}}
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
			e, err := session.EntriesOf(one.Coordinator).Read(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			first, err := s.split(ctx, e)
			ends := first.Ends[0]
			if err != nil || len(ends) != c.parts || c.parts > 0 && ends[c.parts-1] != 1320 || len(slices.Collect(first.Roots())) != max(1, c.parts)+entry.Shards-1 {
				t.Fatalf("%d parts, want %d: %+v: %v", len(ends), c.parts, ends, err)
			}
			s.SplitOver = 100_000 // who read the entry before it was decided, and decides otherwise
			if again, err := s.split(ctx, e); err != nil || c.parts > 0 && !slices.Equal(again.Ends[0], ends) {
				t.Errorf("decided again: %v, was %v: %v", again.Ends[0], ends, err)
			}
		})
	}
}
