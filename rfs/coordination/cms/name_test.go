package cms_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

func TestItemsAreNamedByIndexAndShard(t *testing.T) {
	for _, c := range []struct{ id, want string }{
		{cms.ItemID{Index: "logs"}.String(), "index logs shard 0"},
		{cms.ItemID{Index: "日志", Shard: 3, Cursor: 9}.String(), "index 日志 shard 3 from document number 9"},
		{cms.SetupID, "item shard_setup"},
		{"no__id", "item no__id"},
	} {
		if got := cms.ItemName(c.id); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestCheckSession(t *testing.T) {
	for name, good := range map[string]bool{
		"": true, "live-2": true, "-": true, strings.Repeat("a", 64): true,
		strings.Repeat("a", 65): false, "Live": false, "a_b": false, "a/b": false, "é": false, "a\n": false,
	} {
		if err := cms.CheckSession(name); (err == nil) != good || err != nil && !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestErrorsAboutItemsNameIndexAndShard: operators read them in logs, where an encoded id is meaningless.
func TestErrorsAboutItemsNameIndexAndShard(t *testing.T) {
	steal := func(t *testing.T, b *bench) {
		if _, v, err := b.store.Apply(t.Context(), b.id, cms.Reclaim{}); err != nil || v != cms.Applied {
			t.Fatal(v, err)
		}
		b.clock.at = b.clock.at.Add(time.Second)
		if _, err := b.AcquireNext(t.Context(), "thief", nil); err != nil {
			t.Fatal(err)
		}
	}
	silent := func(_ *testing.T, b *bench) { b.store.before = func(cms.Transition) error { return errLost } }
	for _, c := range []struct {
		name   string
		spoil  func(t *testing.T, b *bench)
		action func(ctx context.Context, b *bench, l *cms.Lease) error
		id     bool // the error has the id too: a command takes it
	}{
		{"stolen, looked at", steal, func(ctx context.Context, _ *bench, l *cms.Lease) error { return l.Validate(ctx) }, false},
		{"stolen, completed", steal, func(ctx context.Context, _ *bench, l *cms.Lease) error { return l.Complete(ctx, cms.Work{}) }, false},
		{"stolen, progress", steal, func(ctx context.Context, _ *bench, l *cms.Lease) error { return l.Progress(ctx, 5, cms.Work{}) }, false},
		{"stolen, handed off", steal, func(ctx context.Context, _ *bench, l *cms.Lease) error {
			return l.Handoff(ctx, 5, cms.Work{})
		}, false},
		{"silent, completed", silent, func(ctx context.Context, _ *bench, l *cms.Lease) error { return l.Complete(ctx, cms.Work{}) }, false},
		{"silent, released", silent, func(ctx context.Context, b *bench, l *cms.Lease) error {
			return b.ReleaseHolder(ctx, b.id, l.Item.Holder, cms.CauseNone)
		}, false},
		{"over", func(_ *testing.T, b *bench) { b.clock.at = b.clock.at.Add(24 * time.Hour) }, func(_ context.Context, _ *bench, l *cms.Lease) error { return l.Check() }, false},
		{"not FAILED", func(*testing.T, *bench) {}, func(ctx context.Context, b *bench, _ *cms.Lease) error {
			return b.Reopen(ctx, cms.ItemID{Index: "a"}, "alice")
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 0)
			l := b.lease(t)
			c.spoil(t, b)
			err := c.action(t.Context(), b, l)
			if err == nil || !strings.Contains(err.Error(), "index a shard 0") || strings.Contains(err.Error(), b.id) != c.id {
				t.Errorf("%v", err)
			}
		})
	}
}
