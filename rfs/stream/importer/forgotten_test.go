package importer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// forgetful acknowledges the creation of an item that it then does not have, once.
type forgetful struct {
	cms.Store
	cursor string // the end of the id of that item
	forgot string
}

func (f *forgetful) OfKind(ctx context.Context, kind string) (cms.Store, error) {
	of, err := f.Store.OfKind(ctx, kind)
	f.Store = of
	return f, err
}

func (f *forgetful) Create(ctx context.Context, items []cms.Item) (int, error) {
	for i, it := range items {
		if f.forgot == "" && strings.HasSuffix(it.ID, f.cursor) {
			f.forgot = it.ID
			rest := append(append([]cms.Item{}, items[:i]...), items[i+1:]...)
			n, err := f.Store.Create(ctx, rest)
			return n + 1, err
		}
	}
	return f.Store.Create(ctx, items)
}

// TestAnItemThatTheStoreForgotIsMadeAgain: the store loses an acknowledged write, as in a failover.
func TestAnItemThatTheStoreForgotIsMadeAgain(t *testing.T) {
	for name, cursor := range map[string]string{"the start of a file": "__0__0", "a part in its midst": "__2__2000"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				want, counts := w.corpus()
				f := &forgetful{Store: w.store, cursor: cursor}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				s, err := w.node(func(i *importer.Import) { i.Store = f }).Run(ctx)
				if err != nil || !s.Complete || once(s.Counts) != counts {
					t.Errorf("complete %v, %+v, want %+v: %v", s.Complete, s.Counts, counts, err)
				}
				w.arrived(want)
				if f.forgot == "" {
					t.Error("nothing was forgotten")
				}
			})
		})
	}
}
