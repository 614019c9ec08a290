package cms_test

import (
	"context"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// quickStore lets another worker acquire and release an item before an acquisition that read the item as never leased.
type quickStore struct {
	cms.Store
	other *cms.Coordinator
	done  bool
}

func (s *quickStore) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if _, ok := t.(cms.Acquire); ok && !s.done {
		s.done = true
		l, err := s.other.AcquireNext(ctx, "other", nil)
		if err == nil {
			err = s.other.ReleaseHolder(ctx, id, l.Holder, cms.CauseKilled)
		}
		if err != nil {
			return cms.Item{}, 0, err
		}
	}
	return s.Store.Apply(ctx, id, t)
}

// TestALeaseFollowsOneThatItsWorkerHasNotSeen: a document on the target may then be the migration's own copy, not one from before it.
func TestALeaseFollowsOneThatItsWorkerHasNotSeen(t *testing.T) {
	for _, between := range []bool{false, true} {
		bolt := boltstore.Open(t)
		other := cms.New(cms.Config{Store: bolt, Creator: "other"})
		c := cms.New(cms.Config{Store: &quickStore{Store: bolt, other: other, done: !between}, Creator: "test"})
		if _, err := c.SeedItems(t.Context(), func(yield func(cms.ItemID) bool) { yield(cms.ItemID{Index: "logs"}) }); err != nil {
			t.Fatal(err)
		}
		l, err := c.AcquireNext(t.Context(), "w", nil)
		if err != nil || l == nil || l.Item.Attempts != 1 || l.Start() != 0 {
			t.Fatalf("%+v, %v", l, err)
		}
		if l.Follows() != between {
			t.Errorf("follows %v, another lease in between %v", l.Follows(), between)
		}
	}
}
