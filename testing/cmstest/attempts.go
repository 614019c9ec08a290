package cmstest

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// dies simulates a crash of the holder of the only free item at an ordinal. It reports whether the item was leased to be worked on alone.
func dies(t *testing.T, c *cms.Coordinator, s cms.Store, began bool, watermark, reached int64) (alone bool) {
	t.Helper()
	ctx := t.Context()
	l, err := c.AcquireNext(ctx, "h", nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := l.Condemned(); d != nil {
		t.Fatalf("given up: %v", d)
	}
	switch w := (cms.Work{Counts: cms.Counts{Ordinals: watermark - l.Start()}}); {
	case !began:
	case l.Alone():
		if err = l.RecordPosition(ctx, l.Start(), l.Start(), cms.Work{}); err == nil {
			err = l.RecordPosition(ctx, watermark, reached, w)
		}
	case watermark > l.Start():
		err = l.Progress(ctx, watermark, w)
	default:
		err = l.Reach(ctx, reached)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, v, err := s.Apply(ctx, l.Item.ID, cms.Reclaim{}); err != nil || v != cms.Applied {
		t.Fatal(v, err)
	}
	return l.Alone()
}

// randomDeaths simulates crashes of the holders of two items: one with durable output, and one without.
func randomDeaths(t *testing.T, s cms.Store) {
	c := Coordinator(t, s, 10*time.Minute)
	Seed(t, c, "a", 1)
	for range 7 { // each at the same ordinal, as far as it is recorded
		dies(t, c, s, true, 0, 500)
	}
	alone := 0
	for i := range int64(20) { // each at a random ordinal, at most that of the first
		if dies(t, c, s, true, 0, 490-20*(i%7)) {
			alone++
		}
	}
	if alone < 15 {
		t.Errorf("%d of 20 alone", alone)
	}
	for i := range int64(10) {
		dies(t, c, s, true, i+1, 0)
	}
	it := get(t, s, ID("a", 0, 0))
	if it.Watermark != 10 || it.Counts.Ordinals != 10 {
		t.Errorf("%+v", it)
	}
}

// neverBegan acquires an item repeatedly for holders that crash before they start.
func neverBegan(t *testing.T, s cms.Store) {
	c := Coordinator(t, s, 10*time.Minute)
	Seed(t, c, "a", 1)
	for i := range 3 * timing.DefaultMaxAttempts {
		if alone := dies(t, c, s, false, 0, 0); alone != (i >= timing.DefaultMaxAttempts) {
			t.Errorf("acquisition %d: alone %v", i, alone)
		}
	}
}
