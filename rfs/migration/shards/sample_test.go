package shards

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// ordinalsOf reads all that r returns.
func ordinalsOf(t *testing.T, r recordReader) (all []int64) {
	t.Helper()
	defer r.Close()
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec.Ordinal)
	}
}

// TestASampleIsEvenAndTheSameForEveryHolder reads samples of real shards, whole and from every place on.
func TestASampleIsEvenAndTheSameForEveryHolder(t *testing.T) {
	for _, fixture := range []string{"7.10.2-many-chunks", "1.7.6-updates-deletes", "6.0.1-nested"} {
		blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", fixture))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.UnionTypes, EmitType: plan.EmitAuto})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range plan.Indices {
			shard, err := snapshot.OpenShard(t.Context(), blobs, x.Entry.Locator, 0)
			if err != nil {
				t.Fatal(err)
			}
			commit, err := lucene.Open(t.Context(), nearby{shard.Directory()}, lucene.Options{})
			if err != nil {
				t.Fatal(err)
			}
			read := lucene.ReadOptions{To: commit.MaxOrdinal, NestedTerms: x.Entry.Locator.NestedTerms()}
			live := ordinalsOf(t, commit.Reader(read))
			for _, documents := range []int64{1, 7, samplePlaces, samplePlaces + 1, 300, commit.MaxOrdinal, 1 << 20} {
				name := fmt.Sprintf("%s %s, %d of %d", fixture, x.Name, documents, len(live))
				whole := newSample(commit, read, documents)
				got := ordinalsOf(t, whole)
				if int64(len(got)) > documents || !slices.IsSorted(got) || slices.ContainsFunc(got, func(n int64) bool { return !slices.Contains(live, n) }) {
					t.Fatalf("%s: %v", name, got)
				}
				if documents >= commit.MaxOrdinal && len(got) != len(live) {
					t.Errorf("%s: %d documents", name, len(got))
				}
				for place := range whole.places {
					from, to, wanted := whole.bounds(place)
					within := func(all []int64) (n int64) {
						for _, ordinal := range all {
							if ordinal >= from && ordinal < to {
								n++
							}
						}
						return n
					}
					if want := min(wanted, within(live)); within(got) != want {
						t.Errorf("%s: %d documents of [%d, %d), want %d", name, within(got), from, to, want)
					}
				}
				for _, begin := range []int64{1, commit.MaxOrdinal / 3, commit.MaxOrdinal - 1, commit.MaxOrdinal} {
					o := read
					o.From = begin
					rest := newSample(commit, o, documents)
					want := slices.DeleteFunc(slices.Clone(got), func(n int64) bool { return n < begin })
					if is := ordinalsOf(t, rest); !slices.Equal(is, want) {
						t.Errorf("%s, from %d: %v, want %v", name, begin, is, want)
					}
					if a, b := whole.looked(begin)+rest.looked(commit.MaxOrdinal), whole.looked(commit.MaxOrdinal); a != b {
						t.Errorf("%s: %d ordinals were looked at in two parts, %d in one", name, a, b)
					}
				}
			}
		}
	}
}
