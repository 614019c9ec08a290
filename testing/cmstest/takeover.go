package cmstest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Foreign is a worker of the Java tool, as it names itself.
const Foreign = "host-7_0b2f6c1e-9a37-4d52-8f0e-5c1f0a9be3d4"

// foreign is an item as the other engine leaves it: held by one of its workers until end,
// completed when done is not 0, handed off to the shard's items at the cursors.
func foreign(index string, number int, cursor, end, done int64, next ...int64) cms.Item {
	it := cms.NewItem(ID(index, number, cursor), Foreign, 1)
	if cursor == 0 {
		it.IndexName = index
	}
	it.Expiration, it.CompletedAt = end, done
	if end != 0 {
		it.Holder = Foreign
	}
	for i, n := range next {
		if i > 0 {
			it.Successors += ","
		}
		it.Successors += ID(index, number, n)
	}
	return it
}

// ForeignQueue is what the other engine left when it stopped an hour ago, on six shards.
func ForeignQueue(now int64) []cms.Item {
	past, done := now-3600, now-4000
	setup := cms.NewItem(cms.SetupID, Foreign, 1)
	setup.Holder, setup.Expiration, setup.CompletedAt = Foreign, past, done
	return []cms.Item{
		setup,
		foreign("a", 0, 0, past, done),                                        // done in one go
		foreign("a", 1, 0, past, done, 500), foreign("a", 1, 500, past, done), // done in two
		foreign("a", 2, 0, 0, 0),                                         // never begun
		foreign("a", 3, 0, past, done, 40), foreign("a", 3, 40, past, 0), // stopped in the middle
		foreign("a", 4, 0, past, 0, 70),                                                                    // handed off, not created
		foreign("a", 5, 0, past, done, 40), foreign("a", 5, 40, past, done, 60), foreign("a", 5, 60, 0, 0), // released
	}
}

// Join seeds six shards of index a, as the first of our workers does.
func Join(ctx context.Context, c *cms.Coordinator) error {
	return c.SeedOnce(ctx, "ours", func(ctx context.Context) error {
		if _, err := c.CreateIndexEntry(ctx, cms.IndexEntry{Name: "a", State: cms.PhaseCompleted, Shards: 6, Body: json.RawMessage(`{}`)}); err != nil {
			return err
		}
		_, err := c.SeedItems(ctx, func(yield func(cms.ItemID) bool) {
			for n := range 6 {
				if !yield(cms.ItemID{Index: "a", Shard: n}) {
					return
				}
			}
		})
		return err
	}, nil)
}

// Drain does all work that is left, 40 ordinals per lease of 100 per shard, and gives the
// ranges by shard.
func Drain(t *testing.T, c *cms.Coordinator) map[int][]int64 {
	t.Helper()
	did := map[int][]int64{}
	for range 100 {
		l, err := c.AcquireNext(t.Context(), "ours", nil)
		if errors.Is(err, cms.ErrAllDone) {
			return did
		}
		if err != nil {
			t.Fatal(err)
		}
		did[l.ID.Shard] = append(did[l.ID.Shard], l.Start())
		n := min(40, 100-l.Start())
		if w := (cms.Work{Counts: cms.Counts{Ordinals: n}}); l.Start()+n == 100 {
			err = l.Complete(t.Context(), w)
		} else {
			err = l.Handoff(t.Context(), l.Start()+n, w)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the work does not end")
	return nil
}

// inherited: what the other engine completed stays, everything else is done from the root,
// also where its items have the very cursors that ours get.
func inherited(t *testing.T, s cms.Store) {
	c := Coordinator(t, s, 10*time.Minute)
	create(t, s, ForeignQueue(storeNow(t, s).Unix())...)
	for range 2 { // by every process that joins
		if err := Join(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if fresh, err := c.Event(t.Context(), cms.SetupID, "taken_over", "again"); err != nil || fresh {
		t.Errorf("it was not told: %v", err)
	}
	for _, id := range []string{ID("a", 3, 40), ID("a", 5, 60)} {
		if it := get(t, s, id); it.Open() || it.Status != cms.StatusReplaced || it.Holder != "" {
			t.Errorf("%s: %+v", id, it)
		}
	}
	did := Drain(t, c)
	for n := range 6 {
		var want []int64
		if n >= 2 {
			want = []int64{0, 40, 80}
		}
		if !slices.Equal(did[n], want) {
			t.Errorf("shard %d was done from %v, want %v", n, did[n], want)
		}
	}
	rep, done, err := c.Finish(t.Context())
	if err != nil || !done || len(rep.Repaired) != 0 || len(rep.Failed) != 0 {
		t.Errorf("%+v done=%v %v", rep, done, err)
	}
	if kept := get(t, s, ID("a", 1, 0)); kept.Successors != ID("a", 1, 500) || kept.Open() {
		t.Errorf("a completed chain was touched: %+v", kept)
	}
}

func inheritedTooEarly(t *testing.T, s cms.Store) {
	c := Coordinator(t, s, 10*time.Minute)
	now := storeNow(t, s).Unix()
	queue := ForeignQueue(now)
	working := foreign("a", 2, 0, now+600, 0)
	create(t, s, working)
	create(t, s, queue...)
	err := Join(t.Context(), c)
	var busy *cms.ForeignWorker
	if !errors.As(err, &busy) || busy.Holder != Foreign || busy.Item != working.ID || busy.Until.Unix() < now+600 || busy.Until.Unix() > now+610 {
		t.Fatalf("got %v", err)
	}
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), Foreign) || !strings.Contains(err.Error(), busy.Until.UTC().Format(time.RFC3339)) {
		t.Errorf("the refusal does not say who and until when: %v", err)
	}
	for _, it := range append(queue, working) {
		if it.ID == working.ID {
			it = working
		}
		if got := get(t, s, it.ID); got != it {
			t.Errorf("%s was touched: %+v", it.ID, got)
		}
	}
}

// comesBack: a worker of the other engine wakes up after the takeover. Whatever it holds it
// has lost; what it creates in mid-shard is ended, never worked on.
func comesBack(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	now := storeNow(t, s).Unix()
	create(t, s, ForeignQueue(now)...)
	if err := Join(ctx, c); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{ID("a", 3, 40), ID("a", 4, 0)} {
		if _, v, err := s.Apply(ctx, id, cms.Complete{Holder: Foreign}); err != nil || v != cms.Lost {
			t.Errorf("%s was completed by who lost it: %v %v", id, v, err)
		}
	}
	// The bulk request of its hand-off arrives late; and another of its workers has done a
	// range of ours and handed it off, after ours had died in it.
	if _, err := s.Create(ctx, []cms.Item{foreign("a", 4, 70, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(ctx); err != nil { // searches see the roots that are open again
		t.Fatal(err)
	}
	l, err := c.AcquireNext(ctx, "ours", func(items []cms.Item) {
		slices.SortFunc(items, func(a, b cms.Item) int { return -strings.Compare(a.ID, b.ID) })
	})
	if err != nil || l.ID.Shard != 5 {
		t.Fatalf("%+v %v", l, err)
	}
	if err := l.Progress(ctx, 30, cms.Work{Counts: cms.Counts{Ordinals: 30}}); err != nil {
		t.Fatal(err)
	}
	if _, v, err := s.Apply(ctx, l.Item.ID, cms.SetSuccessors{Holder: l.Holder, Successors: ID("a", 5, 90), Watermark: 30}); err != nil || v != cms.Applied {
		t.Fatal(v, err)
	}
	if _, v, err := s.Apply(ctx, l.Item.ID, cms.Complete{Holder: l.Holder, Successors: ID("a", 5, 90)}); err != nil || v != cms.Applied {
		t.Fatal(v, err)
	}
	if _, err := s.Create(ctx, []cms.Item{foreign("a", 5, 90, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	did := Drain(t, c)
	if !slices.Equal(did[4], []int64{0, 40, 80}) || !slices.Equal(did[5], []int64{30, 70}) {
		t.Errorf("done from %v", did)
	}
	if rep, done, err := c.Finish(ctx); err != nil || !done {
		t.Errorf("%+v done=%v %v", rep, done, err)
	}
	for _, id := range []string{ID("a", 4, 70), ID("a", 5, 90)} {
		if it := get(t, s, id); it.Status != cms.StatusReplaced {
			t.Errorf("%s: %+v", id, it)
		}
	}
}
