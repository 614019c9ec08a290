package cmstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// taskKind is the kind of items of these tests.
const taskKind = "copy"

func ofKind(t *testing.T, s cms.Store, kind string) cms.Store {
	t.Helper()
	of, err := s.OfKind(t.Context(), kind)
	if err != nil {
		t.Fatalf("items of kind %q: %v", kind, err)
	}
	return of
}

func taskCoordinator(t *testing.T, s cms.Store) *cms.Coordinator {
	t.Helper()
	c := cms.New(cms.Config{Store: ofKind(t, s, taskKind), Kind: taskKind, Creator: "suite", InitialLease: 10 * time.Minute, SetupTask: `{"s":1}`})
	return c
}

// kindStore runs the tests of a store that apply to items of every kind.
func kindStore(t *testing.T, s cms.Store) {
	for _, tc := range []struct {
		name string
		run  func(*testing.T, cms.Store)
	}{
		{"ApplyOnNothingIsNotFound", applyMissing},
		{"CreateLeavesWhatExistsUntouched", createTwice},
		{"TransitionsAreThoseOfThePureFunctions", func(t *testing.T, s cms.Store) { differentialOf(t, s, 60, 12) }}, // the scripts are the same
		{"ClockIsThatOfTheStore", clock},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, ofKind(t, s, taskKind)) })
	}
}

// tasks runs two chains of items with tasks, handing each off, loses one item, and audits them. The first lease of one root is longer.
func tasks(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := taskCoordinator(t, s)
	roots := []cms.Root{{ID: cms.ItemID{Index: "a/ö.gz", Shard: 0, Cursor: 0}, Task: `{"n":1}`, Exponent: 2}, {ID: cms.ItemID{Index: "a/ö.gz", Shard: 1, Cursor: 50}, Task: `{"n":2}`}}
	seed := func(ctx context.Context) error {
		_, err := c.SeedRoots(ctx, slices.Values(roots))
		return err
	}
	if err := c.SeedOnce(ctx, "seeder", seed, nil); err != nil {
		t.Fatal(err)
	}
	if done, err := c.Seeded(ctx); err != nil || !done {
		t.Fatalf("seeded: %v %v", done, err)
	}
	late := cms.New(cms.Config{Store: ofKind(t, s, taskKind), Kind: taskKind, Creator: "late", SetupTask: `{"s":2}`})
	if err := late.SeedOnce(ctx, "late", seed, nil); err != nil {
		t.Fatal(err)
	}
	if task, err := late.SetupTask(ctx); err != nil || task != `{"s":1}` {
		t.Errorf("the task of the setup is %q: %v", task, err)
	}
	for range 4 {
		l, err := c.AcquireNext(ctx, "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := roots[l.ID.Shard].Task; l.Item.Task != want || l.Item.Kind != taskKind || l.ID.Kind != taskKind {
			t.Fatalf("leased %+v, want the task %s", l.Item, want)
		}
		if l.Start() == 0 && l.Length != 40*time.Minute || l.Start() == 50 && l.Length != 10*time.Minute {
			t.Errorf("the first lease of %s is %v", l.ID.Name(), l.Length)
		}
		w := cms.Work{Counts: cms.Counts{Ordinals: 20, Live: 20, Indexed: 20}}
		if l.Start() == roots[l.ID.Shard].ID.Cursor {
			err = l.Handoff(ctx, l.Start()+20, w)
		} else {
			err = l.Complete(ctx, w)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AcquireNext(ctx, "h", nil); !errors.Is(err, cms.ErrAllDone) {
		t.Fatalf("after the last item: %v", err)
	}
	sum, err := Sum(ctx, c)
	if err != nil || sum.Total.Counts.Indexed != 80 || sum.Total.Items != 4 || !sum.SetupDone {
		t.Errorf("%+v %v", sum, err)
	}
	rep, err := c.AuditTasks(ctx, slices.Values(roots))
	if err != nil || !rep.Clean() || rep.Chains != 2 || rep.Items != 4 || len(rep.Stray) != 0 {
		t.Errorf("%+v %v", rep, err)
	}
	lost := append(roots, cms.Root{ID: cms.ItemID{Index: "b", Cursor: 7}, Task: `{"n":3}`})
	rep, err = c.AuditTasks(ctx, slices.Values(lost))
	if err != nil || rep.Clean() || !slices.Equal(rep.Repaired, []string{taskKind + ":" + ID("b", 0, 7)}) {
		t.Errorf("%+v %v", rep, err)
	}
	if l, err := c.AcquireNext(ctx, "h", nil); err != nil || l.Item.Task != `{"n":3}` || l.Start() != 7 {
		t.Errorf("the item that was lost: %+v %v", l, err)
	}
}

// kindsApart checks that neither items of shards nor items of another kind are visible.
func kindsApart(t *testing.T, s cms.Store) {
	ctx := t.Context()
	shards, copies := Coordinator(t, s, 10*time.Minute), taskCoordinator(t, s)
	Seed(t, shards, "logs", 2)
	if err := copies.SeedOnce(ctx, "seeder", func(ctx context.Context) error {
		_, err := copies.SeedRoots(ctx, slices.Values([]cms.Root{{ID: cms.ItemID{Index: "f"}, Task: "{}"}}))
		return err
	}, nil); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		kind string
		ids  []string
		open int64
	}{
		{"", []string{ID("logs", 0, 0), ID("logs", 1, 0), cms.SetupID}, 2},
		{taskKind, []string{taskKind + ":" + ID("f", 0, 0), cms.SetupOf(taskKind)}, 1},
		{"other", nil, 0},
	} {
		of := ofKind(t, s, tc.kind)
		var got []string
		for it, err := range of.Scan(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, it.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, tc.ids) {
			t.Errorf("items of kind %q: %v, want %v", tc.kind, got, tc.ids)
		}
		open, err := of.Open(ctx)
		found, cerr := of.Candidates(ctx, 0, 10)
		if err != nil || cerr != nil || open.Items != tc.open || len(found) != int(tc.open) {
			t.Errorf("kind %q: %+v open, %d candidates, want %d; %v %v", tc.kind, open, len(found), tc.open, err, cerr)
		}
	}
	if r, err := ofKind(t, s, taskKind).Record(ctx, fmt.Sprintf("index:%s", "bG9ncw")); err != nil || r.Kind != "index" {
		t.Errorf("records are not the same: %+v %v", r, err)
	}
}
