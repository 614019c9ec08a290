package cms_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// stale finds items that others have leased meanwhile, and counts the attempts.
type stale struct {
	cms.Store
	found           []cms.Item
	searches, tries int
}

func (s *stale) Candidates(context.Context, time.Duration, int) ([]cms.Item, error) {
	s.searches++
	return append([]cms.Item{}, s.found...), nil
}

func (s *stale) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	s.tries++
	return s.Store.Apply(ctx, id, t)
}

// TestOneOfACrowdGivesUpSoon: if many workers find the same items, each tries few and waits; a lone worker searches repeatedly.
func TestOneOfACrowdGivesUpSoon(t *testing.T) {
	for _, c := range []struct{ tries, most, searches int }{{2, 2, 1}, {0, 80, 8}} {
		bolt := boltstore.Open(t)
		s := &stale{Store: bolt}
		coordinator := cms.New(cms.Config{Store: s, Creator: "test", Tries: c.tries})
		_, err := coordinator.SeedItems(t.Context(), func(yield func(cms.ItemID) bool) {
			for n := range 11 {
				if !yield(cms.ItemID{Index: "logs", Shard: n}) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 10 { // the last one stays free, so that there is work
			id := cms.ItemID{Index: "logs", Shard: n}.String()
			l, err := coordinator.AcquireOneOf(t.Context(), "other", []string{id})
			if err != nil || l == nil {
				t.Fatalf("%v, %v", l, err)
			}
			s.found = append(s.found, l.Item)
		}
		s.searches, s.tries = 0, 0
		var none *cms.NoneAvailable
		if l, err := coordinator.AcquireNext(t.Context(), "w", nil); !errors.As(err, &none) || l != nil {
			t.Fatalf("%v, %v", l, err)
		}
		if s.tries != c.most || s.searches != c.searches {
			t.Errorf("%d tries in %d searches, want %d in %d", s.tries, s.searches, c.most, c.searches)
		}
	}
}
