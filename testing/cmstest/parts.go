package cmstest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// parts works on a shard in three parts: the first decision is final, each item has the end of its part, no other end is accepted, and the
// audit recreates a part that the store lost.
func parts(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	ends := map[int][]int64{1: {40, 70, 100}}
	err := c.SeedOnce(ctx, "seeder", func(ctx context.Context) error {
		if _, err := session.EntriesOf(c).Create(ctx, session.IndexEntry{Name: "a", State: session.PhaseCompleted, Shards: 2, Body: []byte(`{}`)}); err != nil {
			return err
		}
		for _, of := range []map[int][]int64{ends, {1: {50, 100}}, {1: nil}} {
			e, err := session.EntriesOf(c).Split(ctx, "a", of)
			if err != nil || !slices.Equal(e.Ends[1], ends[1]) || len(e.Ends) != 1 {
				t.Fatalf("decided %v, stored %v: %v", of, e.Ends, err)
			}
		}
		e, err := session.EntriesOf(c).Read(ctx, "a")
		if err != nil {
			return err
		}
		lost := ID("a", 1, 70)
		_, err = c.SeedRoots(ctx, func(yield func(cms.Root) bool) {
			for r := range e.Roots() {
				if r.ID.String() != lost && !yield(r) {
					return
				}
			}
		})
		return err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.EntriesOf(c).Split(ctx, "a", map[int][]int64{0: {5, 5}}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a part without ordinals: %v", err)
	}
	rep, done, err := session.AuditsOf(c).Finish(ctx)
	if err != nil || done || rep.Chains != 2 || !slices.Equal(rep.Repaired, []string{ID("a", 1, 70)}) {
		t.Fatalf("%+v %v %v", rep, done, err)
	}
	for range 4 + 3 { // three parts are handed off
		l, err := c.AcquireNext(ctx, "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		end, half := int64(100), l.Start()+10
		if l.ID.Shard == 1 {
			if end = ends[1][slices.IndexFunc(ends[1], func(e int64) bool { return e > l.ID.Cursor })]; l.Item.End != end {
				t.Fatalf("%s ends at %d, want %d", l.Item.ID, l.Item.End, end)
			}
			for name, err := range map[string]error{
				"completion before the end": l.Complete(ctx, work(l.Start(), end-1)),
				"completion beyond the end": l.Complete(ctx, work(l.Start(), end+1)),
				"hand-off at the end":       l.Handoff(ctx, end, work(l.Start(), end)),
			} {
				if !errors.Is(err, cms.ErrShort) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if root := l.ID.Cursor == 0 || slices.Contains(ends[1], l.ID.Cursor); l.ID.Shard == 1 && root {
			err = l.Handoff(ctx, half, work(l.Start(), half))
		} else {
			err = l.Complete(ctx, work(l.Start(), end))
		}
		if err != nil {
			t.Fatalf("%s: %v", l.Item.ID, err)
		}
	}
	if rep, done, err = session.AuditsOf(c).Finish(ctx); err != nil || !done || rep.Items != 7 || len(rep.Stray) != 0 {
		t.Errorf("%+v %v %v", rep, done, err)
	}
	sum, err := Sum(ctx, c)
	if err != nil || sum.Total.Counts.Ordinals != 200 {
		t.Errorf("%+v %v", sum, err)
	}
}

// work returns the work between two ordinals.
func work(from, to int64) cms.Work { return cms.Work{Counts: cms.Counts{Ordinals: to - from}} }
