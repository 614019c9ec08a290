package status_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// TestBusy_OfEachKind leases an item of a session of each kind, and ends the lease.
func TestBusy_OfEachKind(t *testing.T) {
	for kind, start := range map[string]func(t *testing.T, c *cms.Coordinator){
		"": func(*testing.T, *cms.Coordinator) {},
		importer.Kind: func(t *testing.T, c *cms.Coordinator) {
			if _, err := session.IdentityOf(c).Init(t.Context(), session.Meta{Settings: map[string]string{"task": importer.Kind}}); err != nil {
				t.Fatal(err)
			}
		},
		consume.Kind: func(t *testing.T, c *cms.Coordinator) {
			if _, err := c.Store().Put(t.Context(), cms.Record{ID: "consume:state", Kind: consume.Kind, Body: []byte(`{"v":1,"topic":"orders","group":"g","begins":[0]}`)}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run("kind "+kind, func(t *testing.T) {
			store := boltstore.Open(t)
			c := cms.New(cms.Config{Store: store, Creator: "test"})
			start(t, c)
			items := c
			if kind != "" {
				var err error
				if items, err = c.OfKind(t.Context(), kind); err != nil {
					t.Fatal(err)
				}
			}
			seed, err := items.AcquireSetup(t.Context(), "seeder")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := items.SeedItems(t.Context(), slices.Values([]cms.ItemID{{Kind: kind, Index: "orders"}})); err != nil {
				t.Fatal(err)
			}
			if err := seed.Complete(t.Context(), cms.Work{}); err != nil {
				t.Fatal(err)
			}
			if err := status.Busy(t.Context(), c); err != nil {
				t.Errorf("before the lease: %v", err)
			}
			lease, err := items.AcquireNext(t.Context(), "worker", nil)
			if err != nil {
				t.Fatal(err)
			}
			var busy *cms.NoneAvailable
			if err := status.Busy(t.Context(), c); !errors.As(err, &busy) || busy.Holder != lease.Item.Holder || busy.Holder == "" {
				t.Errorf("during the lease of %q: %v", lease.Item.Holder, err)
			}
			if err := lease.Complete(t.Context(), cms.Work{}); err != nil {
				t.Fatal(err)
			}
			if err := status.Busy(t.Context(), c); err != nil {
				t.Errorf("after the lease: %v", err)
			}
		})
	}
}
