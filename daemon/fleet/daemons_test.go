package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// TestTheStatusOutlivesTheLeader has three daemons of a fleet with Raft. After the leader's death the others show a recent state of the
// store.
func TestTheStatusOutlivesTheLeader(t *testing.T) {
	f := newTestFleet(t)
	c := cms.New(cms.Config{Store: f.store, Creator: "test", InitialLease: time.Minute})
	if _, err := c.SeedItems(t.Context(), func(yield func(cms.ItemID) bool) {
		for n := range 500 {
			if !yield(cms.ItemID{Index: "logs", Shard: n}) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	daemons, ends := map[string]*daemon.Daemon{}, map[string]func(){}
	for i := range 3 {
		name := fmt.Sprint("n", i)
		n := f.start(name)
		d := daemon.New(daemon.Config{
			Name: name, Workers: -1, Log: slog.New(slog.DiscardHandler), Fleet: n.Fleet, Mirror: n.Fleet, Position: n.sched.Position, Scheduler: n.sched,
			ReadInterval: 500 * time.Millisecond, Open: func(context.Context) (*cms.Coordinator, error) { return c, nil },
		})
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		daemons[name] = d
		ends[name] = func() {
			end()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() {
		for _, end := range ends {
			end()
		}
	})
	f.agree()
	text := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	// shown waits until all show what the store has, and returns how many do it by the reading of another.
	shown := func() (mirrored int) {
		t.Helper()
		if _, err := c.AcquireNext(t.Context(), "w", nil); err != nil {
			t.Fatal(err)
		}
		m, items, err := status.Read(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for name, d := range daemons {
			eventually(t, name+" shows what the store has", func() bool {
				r := d.Status(t.Context())
				l, err := d.Items(t.Context(), status.ItemFilter{})
				if err != nil || r.Migration == nil || r.Stale > 20 {
					return false
				}
				is, want := *r.Migration, status.NewItemList(m, items, status.ItemFilter{})
				is.ReadAt, l.ReadAt = m.ReadAt, m.ReadAt
				return text(is) == text(m) && text(l) == text(want)
			})
			if own := d.Migration(); own.Totals != d.Status(t.Context()).Migration.Totals {
				mirrored++
			}
		}
		return mirrored
	}
	eventually(t, "two nodes show the leader's reading", func() bool { return shown() == 2 })
	leader := ""
	eventually(t, "one leads", func() bool {
		for name, n := range f.nodes {
			if n.IsLeader() {
				leader = name
			}
		}
		return leader != ""
	})
	ends[leader]()
	f.stop(leader)
	delete(daemons, leader)
	delete(ends, leader)
	eventually(t, "one node shows the next leader's reading", func() bool { return shown() == 1 })
}
