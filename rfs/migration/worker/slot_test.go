package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// pausedShard is the item of the shard that is leased when its index is paused already.
var pausedShard = cms.ItemID{Index: "stored0", Shard: 1}.String()

// unpaid is a store that does not take a lease of the second shard of the index stored0 back until it is mended.
type unpaid struct {
	cms.Store
	fails  error
	mends  func() bool
	failed atomic.Int64
}

func (s *unpaid) Apply(ctx context.Context, id string, tr cms.Transition) (cms.Item, cms.Result, error) {
	if _, is := tr.(cms.Release); is && id == pausedShard && !s.mends() {
		s.failed.Add(1)
		return cms.Item{}, 0, s.fails
	}
	return s.Store.Apply(ctx, id, tr)
}

// TestMigration_PausedIndexBesideStoreThatIsAway: a paused index is leased together with the last shards of others, and the store does not
// take its leases back. While the store is unavailable, the work on the others continues; another error ends the run, which leaves no other
// lease behind.
func TestMigration_PausedIndexBesideStoreThatIsAway(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails error
		ends  bool // the run, with that error
		done  int
	}{
		{"unavailable", fmt.Errorf("no route to host: %w", fault.ErrUnavailable), false, 10},
		{"another error", errors.New("out of order"), true, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.plan = func(p *plan.Plan) { multiply(p, 6) } // 12 shards, of which a slot leases 8 at a time
				begin := time.Now()
				store := &unpaid{Store: w.store, fails: c.fails, mends: func() bool { return time.Since(begin) > 20*time.Second }}
				w.store = store
				w.wrap = func(d engine.Destination) engine.Destination {
					return unready{d, func(id cms.ItemID) error {
						if id.Index == "stored0" {
							return fmt.Errorf("index stored0: %w", bulk.ErrIndexBlocked)
						}
						return nil
					}}
				}
				var solo engine.Solo
				w.with = func(m *worker.Migration) {
					m.Solo, m.Order = &solo, func(items []cms.Item) {
						byIndex(1)(items)
						if i := slices.IndexFunc(items, func(it cms.Item) bool { return it.ID == pausedShard }); i >= 0 {
							last := items[i]
							copy(items[i:], items[i+1:])
							items[len(items)-1] = last
						}
					}
				}
				sum, err := w.run(t, 1, &migrationtest.Life{})
				var paused *worker.PausedError
				if errors.Is(err, c.fails) != c.ends || errors.As(err, &paused) == c.ends || store.failed.Load() == 0 {
					t.Fatalf("%v; %d releases failed", err, store.failed.Load())
				}
				if !solo.Enter(true) {
					t.Error("the process still works on a lease")
				}
				done := 0
				for _, x := range sum.Indices {
					done += x.Done
				}
				if done != c.done {
					t.Errorf("%d shards are done", done)
				}
				for it, err := range cms.New(cms.Config{Store: w.store}).Items(t.Context()) {
					if err != nil || it.Open() && it.Expiration > time.Now().Unix() && it.ID != pausedShard {
						t.Errorf("left behind: %+v, %v", it, err)
					}
				}
				w.wrap, w.with = nil, nil
				if sum, err = w.run(t, 2, &migrationtest.Life{}); err != nil || !sum.Complete {
					t.Errorf("the next run: %+v, %v", sum, err)
				}
			})
		})
	}
}
