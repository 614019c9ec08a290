package cms_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// breaks ends lists with err after their first entry, a given number of times.
type breaks struct {
	cms.Store
	err  error
	left int
}

func (b *breaks) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	return broken(b, b.Store.Scan(ctx))
}

func (b *breaks) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return broken(b, b.Store.List(ctx, kind))
}

func broken[T any](b *breaks, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for x, err := range all {
			if !yield(x, err) {
				return
			}
			if b.left > 0 {
				b.left--
				var none T
				yield(none, b.err)
				return
			}
		}
	}
}

// TestAListSurvivesAnOutage: a search refused by a busy store at the end of a migration used to end the whole run.
func TestAListSurvivesAnOutage(t *testing.T) {
	busy := fmt.Errorf("HTTP 429: %w", fault.ErrUnavailable)
	for _, c := range []struct {
		name   string
		err    error
		breaks int
		want   error
	}{
		{"refused three times", busy, 3, nil},
		{"refused permanently", busy, 1000, fault.ErrUnavailable},
		{"damage is reported immediately", fmt.Errorf("no JSON: %w", fault.ErrCorrupt), 1, fault.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				bolt, err := boltcms.Open(filepath.Join(dir, "c.db"), time.Now)
				if err != nil {
					t.Fatal(err)
				}
				defer bolt.Close()
				store := &breaks{Store: bolt, err: c.err}
				coordinator := cms.New(cms.Config{Store: store, Creator: "test"})
				var want []string
				for n := range 3 {
					if err := coordinator.CreateFailedItems(t.Context(), slices.Values([]cms.FailedIndex{{Name: fmt.Sprintf("index%d", n), Shards: 1, Reason: "none"}})); err != nil {
						t.Fatal(err)
					}
					want = append(want, fmt.Sprintf("event:%d", n))
					if _, err := coordinator.Event(t.Context(), fmt.Sprint(n), "test", ""); err != nil {
						t.Fatal(err)
					}
				}
				store.left = c.breaks
				items := ids(t, coordinator.Items(t.Context()), c.want, func(it cms.Item) string { return it.ID })
				store.left = c.breaks
				events := ids(t, session.List(t.Context(), coordinator, "event"), c.want, func(r cms.Record) string { return r.ID })
				if c.want == nil && (len(items) != len(want) || len(events) != len(want)) {
					t.Errorf("items %q, events %q", items, events)
				}
			})
		})
	}
}

// ids returns the ids of a list that ends with an error of the category want, each at most once.
func ids[T any](t *testing.T, all iter.Seq2[T, error], want error, id func(T) string) (out []string) {
	t.Helper()
	var last error
	for x, err := range all {
		if last = err; err == nil {
			out = append(out, id(x))
		}
	}
	if !errors.Is(last, want) || (last == nil) != (want == nil) {
		t.Errorf("ended with %v, want %v", last, want)
	}
	slices.Sort(out)
	if len(slices.Compact(slices.Clone(out))) != len(out) {
		t.Errorf("twice: %q", out)
	}
	return out
}
