package shards

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/difference"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// TestReadChanged_FromEveryOrdinal: a holder that continues the round of another one sends exactly what is left of it, deletions included.
func TestReadChanged_FromEveryOrdinal(t *testing.T) {
	for _, fixture := range []string{"7.10.2-history", "2.4.6-history", "os2.19.4-history"} {
		t.Run(fixture, func(t *testing.T) {
			r, err := repo.Open(t.Context(), "../../../testing/fixtures/"+fixture, repo.Options{})
			must(t, err)
			p, err := plan.New(t.Context(), r, plan.Request{SnapshotName: "snap-3", Follow: &plan.Follow{Since: "snap-1"}})
			must(t, err)
			deleted := 0
			for _, x := range p.Indices {
				if x.Entry.Since == nil {
					continue
				}
				for shard := range x.Entry.Shards {
					operations := func(from int64) (all []string, ordinals []int64) {
						note := func(d *doc.Document) error {
							all = append(all, fmt.Sprintf("%d %s delete %t version %d %s", d.Ordinal, d.ID, d.Delete, d.Version, d.Source))
							ordinals = append(ordinals, d.Ordinal)
							return nil
						}
						must(t, ReadChanged(t.Context(), r, x.Entry, shard, nil, slog.New(slog.DiscardHandler), Documents{From: from, Send: note, Filter: note, Fail: func(f *doc.Failure) error { return fmt.Errorf("%+v", f) }}))
						return all, ordinals
					}
					whole, ordinals := operations(0)
					deleted += strings.Count(strings.Join(whole, "\n"), "delete true")
					for n, ordinal := range ordinals {
						if rest, _ := operations(ordinal + 1); !slices.Equal(rest, whole[n+1:]) {
							t.Fatalf("%s/%d from %d: %q, want %q", x.Name, shard, ordinal+1, rest, whole[n+1:])
						}
					}
				}
			}
			if deleted == 0 {
				t.Error("nothing is deleted")
			}
		})
	}
}

// TestChangedReading_TotalsAreKnownAfterTheChangedDocuments: the checks of an item state them only then, and the same for every holder.
func TestChangedReading_TotalsAreKnownAfterTheChangedDocuments(t *testing.T) {
	r, err := repo.Open(t.Context(), "../../../testing/fixtures/7.10.2-history", repo.Options{})
	must(t, err)
	p, err := plan.New(t.Context(), r, plan.Request{SnapshotName: "snap-3", Follow: &plan.Follow{Since: "snap-1"}})
	must(t, err)
	at := slices.IndexFunc(p.Indices, func(x plan.Index) bool { return x.Name == "grows" })
	e := p.Indices[at].Entry
	var sums [2]difference.Totals
	for shard := range e.Shards {
		for i, from := range []int64{0, 1} {
			reader := &Reader{Repo: r, Log: slog.New(slog.DiscardHandler)}
			opened, err := reader.Source(e, 0, nil, nil).Open(t.Context(), cms.ItemID{Index: "grows", Shard: shard}, &bulk.Options{From: from})
			must(t, err)
			x := opened.(*changedReading)
			if b, err := x.Checks(0, 0, 0); b != nil || err != nil {
				t.Errorf("before anything was read: %s, %v", b, err)
			}
			for _, part := range x.parts {
				must(t, part.deliver(t.Context(), part.reader, part.memory, Documents{Send: func(*doc.Document) error { return nil }}))
			}
			b, err := x.Checks(0, 0, 0)
			must(t, err)
			var v Checks
			must(t, json.Unmarshal(b, &v))
			if v.Changes == nil {
				t.Fatalf("%s", b)
			}
			sums[i] = sums[i].Add(*v.Changes)
			must(t, x.Close())
		}
	}
	if sums[0] != sums[1] || sums[0].Updated != 12 || sums[0].Deleted != 9 {
		t.Errorf("%+v, and for the next holder %+v", sums[0], sums[1])
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
