package cmstest

import (
	"errors"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// otherTool is a worker of another tool, as it names itself.
const otherTool = "host-7_0b2f6c1e-9a37-4d52-8f0e-5c1f0a9be3d4"

// foreign returns an item of index a as left by another tool: leased by its worker an hour ago, completed if done is not 0, and handed off
// to items at the cursors.
func foreign(now int64, shard int, cursor, done int64, next ...int64) cms.Item {
	it := cms.NewItem(ID("a", shard, cursor), otherTool, 1)
	it.Holder, it.Expiration, it.CompletedAt = otherTool, now-3600, done
	for i, n := range next {
		if i > 0 {
			it.Successors += ","
		}
		it.Successors += ID("a", shard, n)
	}
	return it
}

func refusedAsForeign(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, cms.ErrForeign) || !errors.Is(err, fault.ErrConfig) {
		t.Errorf("%s: %v", what, err)
	}
}

// foreignSetup checks that a queue seeded by another tool is rejected before anything is written.
func foreignSetup(t *testing.T, s cms.Store) {
	now := storeNow(t, s).Unix()
	setup := cms.NewItem(cms.SetupID, otherTool, 1)
	setup.Holder, setup.Expiration, setup.CompletedAt = otherTool, now-3600, now-4000
	queue := []cms.Item{setup, foreign(now, 0, 0, now-4000), foreign(now, 1, 0, 0), cms.NewItem(ID("a", 2, 0), otherTool, 0)}
	create(t, s, queue...)
	c := Coordinator(t, s, 10*time.Minute)
	for range 2 {
		_, err := session.IdentityOf(c).Init(t.Context(), session.Meta{})
		refusedAsForeign(t, "the session", err)
		_, err = c.AcquireSetup(t.Context(), "ours")
		refusedAsForeign(t, "the right to seed", err)
	}
	for _, it := range queue {
		if got := get(t, s, it.ID); got != it {
			t.Errorf("%s was changed: %+v", it.ID, got)
		}
	}
}

// foreignHandoff checks items of this program that another tool has leased, and handed off in the middle or completed.
func foreignHandoff(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	Seed(t, c, "other", 0)
	now := storeNow(t, s).Unix()
	it := foreign(now, 0, 0, 0, 40)
	create(t, s, it)
	l, err := c.AcquireOneOf(ctx, "h", []string{it.ID})
	if l != nil {
		t.Errorf("leased %+v", l.Item)
	}
	refusedAsForeign(t, "a proposed item", err)
	if is := get(t, s, it.ID); !is.Open() || is.Holder != "" || is.Successors != it.Successors {
		t.Errorf("the hand-off was changed: %+v", is)
	}
	_, err = c.AcquireNext(ctx, "h", nil)
	refusedAsForeign(t, "the next item", err)
	_, err = c.Group("h", cms.GroupLimits{Items: 8, Bytes: 8, More: func() bool { return true }, Size: func(cms.Item) int64 { return 1 }}).Acquire(ctx, nil)
	refusedAsForeign(t, "a group", err)
	_, err = session.AuditsOf(c).Run(ctx)
	refusedAsForeign(t, "the audit", err)
}

// foreignEnd checks a shard seeded by this program and completed by another tool.
func foreignEnd(t *testing.T, s cms.Store) {
	c := Coordinator(t, s, 10*time.Minute)
	Seed(t, c, "other", 0)
	now := storeNow(t, s).Unix()
	create(t, s, foreign(now, 0, 0, now-10))
	_, _, err := session.AuditsOf(c).Finish(t.Context())
	refusedAsForeign(t, "the audit", err)
}

// foreignSuccessor checks a hand-off whose successor another tool has already created.
func foreignSuccessor(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	Seed(t, c, "a", 1)
	l, err := c.AcquireNext(ctx, "h", nil)
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, foreign(storeNow(t, s).Unix(), 0, 40, 0))
	refusedAsForeign(t, "the hand-off", l.Handoff(ctx, 40, cms.Work{Counts: cms.Counts{Ordinals: 40}}))
	if is := get(t, s, l.Item.ID); !is.Open() {
		t.Errorf("the range was given away: %+v", is)
	}
	l, err = c.AcquireOneOf(ctx, "h", []string{ID("a", 0, 40)})
	if l != nil || err != nil {
		t.Errorf("the item of another tool was leased: %+v, %v", l, err)
	}
}
