package lucene

import (
	"errors"
	"io"
	"slices"
	"testing"
)

// TestPartsBetweenBordersAreTheWholeShard reads every test shard in parts and as a whole: the documents are the same, and the
// checksums of the parts add up to those of the files.
func TestPartsBetweenBordersAreTheWholeShard(t *testing.T) {
	divided := 0
	for name, dir := range testShards(t) {
		commit, err := Open(t.Context(), dir, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read := func(from, to int64) (docs []string, checks []Check) {
			r := commit.Reader(ReadOptions{From: from, To: to})
			for {
				rec, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s from %d to %d: %v", name, from, to, err)
				}
				docs = append(docs, describe(rec))
			}
			checks = r.Checks(to)
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			return docs, checks
		}
		whole, sums := read(0, commit.MaxOrdinal)
		for _, parts := range []int{1, 2, 5, 1000} {
			borders, err := commit.Borders(t.Context(), parts)
			if err != nil || len(borders) >= parts || !slices.IsSorted(borders) {
				t.Fatalf("%s: %d parts with the borders %v: %v", name, parts, borders, err)
			}
			divided += len(borders)
			var docs []string
			var checks []Check
			from := int64(0)
			for _, to := range append(borders, commit.MaxOrdinal) {
				if to <= from {
					if commit.MaxOrdinal > 0 {
						t.Errorf("%s: a part from %d to %d", name, from, to)
					}
					continue
				}
				d, c := read(from, to)
				docs, checks, from = append(docs, d...), append(checks, c...), to
			}
			if !slices.Equal(docs, whole) {
				t.Errorf("%s in %d parts %v: %d documents, the whole has %d", name, parts, borders, len(docs), len(whole))
			}
			if got, want := CombineChecks(checks), CombineChecks(sums); !slices.Equal(got, want) {
				t.Errorf("%s in %d parts %v: checksums %+v, of the whole %+v", name, parts, borders, got, want)
			}
		}
	}
	if divided < 20 {
		t.Errorf("only %d borders: nothing is proven", divided)
	}
}
