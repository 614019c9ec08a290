package cms_test

import (
	"context"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// lateStore answers an acquisition only after its caller was cancelled.
type lateStore struct {
	cms.Store
	stop context.CancelFunc
}

func (s lateStore) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if _, ok := t.(cms.Acquire); ok {
		s.stop()
		if err := ctx.Err(); err != nil { // the request would be cut off, with an unknown outcome
			return cms.Item{}, 0, err
		}
	}
	return s.Store.Apply(ctx, id, t)
}

func TestALeaseThatIsGrantedWhileItsCallerIsStoppedIsKnownOf(t *testing.T) {
	bolt := boltstore.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := cms.New(cms.Config{Store: lateStore{bolt, cancel}, Creator: "test"})
	if _, err := c.SeedItems(ctx, func(yield func(cms.ItemID) bool) { yield(cms.ItemID{Index: "logs"}) }); err != nil {
		t.Fatal(err)
	}
	l, err := c.AcquireNext(ctx, "w", nil)
	if err != nil || l == nil || ctx.Err() == nil {
		t.Fatalf("%v, %v: the caller cannot give back what it does not know of", l, err)
	}
	if err := l.Release(context.WithoutCancel(ctx), cms.CauseDrain); err != nil {
		t.Error(err)
	}
}
