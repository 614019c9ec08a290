package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

// unpaid is a store that does not take back leases of the index a.
type unpaid struct {
	cms.Store
	fails    error
	mends    atomic.Bool
	released atomic.Int64 // leases of other indices
}

func (s *unpaid) Apply(ctx context.Context, id string, tr cms.Transition) (cms.Item, cms.Result, error) {
	if _, is := tr.(cms.Release); is && !s.mends.Load() {
		if parsed, err := cms.ParseID(id); err == nil && parsed.Index == "a" {
			return cms.Item{}, 0, s.fails
		}
		s.released.Add(1)
	}
	return s.Store.Apply(ctx, id, tr)
}

// TestMigration_PausedIndexBesideStoreThatIsAway: that the lease of a paused index cannot be given back ends nothing while the
// store is unavailable. After another error no lease stays behind.
func TestMigration_PausedIndexBesideStoreThatIsAway(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails error
		begun int
	}{
		{"unavailable", fmt.Errorf("no route to host: %w", fault.ErrUnavailable), 2},
		{"another error", errors.New("out of order"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				file, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "state.db"), time.Now)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close() //nolint:errcheck // it is thrown away
				store := &unpaid{Store: file, fails: c.fails}
				coordinator := cms.New(cms.Config{Store: store, Creator: "test", InitialLease: 10 * time.Minute})
				if _, err := coordinator.SeedItems(t.Context(), slices.Values([]cms.ItemID{{Index: "a"}, {Index: "b"}, {Index: "c"}})); err != nil {
					t.Fatal(err)
				}
				m := &Migration{Session: &phase.Session{Coordinator: coordinator, Log: slog.New(slog.DiscardHandler), Transfer: phase.Transfer{Solo: &engine.Solo{}}}, paused: map[string]string{"a": "blocked"}}
				acquire := func(holder string) (*cms.Group, []*cms.Lease) {
					group := coordinator.Group(holder, cms.GroupLimits{Items: 8, Bytes: 1 << 20, More: func() bool { return true }, Size: func(cms.Item) int64 { return 1 }})
					leases, err := group.Acquire(t.Context(), nil)
					if err != nil || len(leases) != 3 {
						t.Fatalf("%d leases, %v", len(leases), err)
					}
					return group, leases
				}
				begun, paused, err := func() ([]*cms.Lease, bool, error) {
					group, leases := acquire("first")
					return m.startable(t.Context(), group, leases)
				}()
				if !paused || len(begun) != c.begun || errors.Is(err, c.fails) == (c.begun > 0) {
					t.Fatalf("%d leases started, paused %v, %v", len(begun), paused, err)
				}
				if alone := m.Solo.Enter(true); alone == (c.begun > 0) || int(store.released.Load()) != 2-c.begun {
					t.Errorf("no lease is worked on: %v, %d were released", alone, store.released.Load())
				}
				store.mends.Store(true)
				for _, lease := range begun {
					if err := lease.Release(t.Context(), cms.CausePause); err != nil {
						t.Error(err)
					}
				}
				acquire("second") // that of the paused index too: the coordinator owes it
			})
		})
	}
}
