package difference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// deletions are the snapshots s1 and s2 of a real cluster (testdata): 40 documents, every fourth with two nested ones, in one segment that
// s2 has as well, and a second segment. In between, 5 documents were deleted, 3 updated and 1 inserted.
func deletions(t *testing.T, version string) [2]lucene.Directory {
	t.Helper()
	return directories(t, filepath.Join("testdata", version), "docs", "s1", "s2")
}

// TestReader_DeletionsInASegmentThatStays reads a difference of which most is the deletions of a segment that both commits have.
func TestReader_DeletionsInASegmentThatStays(t *testing.T) {
	for _, c := range []struct {
		version  string
		contents bool
		merged   bool
		counts   Counts
		totals   Totals
	}{
		{"7.10.2", false, false, Counts{New: 4, Gone: 8, Unchanged: 32}, Totals{Inserted: 1, Updated: 3, Deleted: 5, Unchanged: 32}},
		{"7.10.2", false, true, Counts{New: 4, Gone: 8, Unchanged: 32}, Totals{Inserted: 1, Updated: 3, Deleted: 5, Unchanged: 32}},
		{"7.10.2", true, false, Counts{New: 4, Gone: 8, Unchanged: 32}, Totals{Inserted: 1, Updated: 3, Deleted: 5, Unchanged: 32}},
		// 14 nested documents stay and 6 are gone.
		{"2.4.6", true, false, Counts{New: 4, Gone: 14, Unchanged: 46}, Totals{Inserted: 1, Updated: 3, Deleted: 5, Unchanged: 46}},
		{"2.4.6", true, true, Counts{New: 4, Gone: 8, Unchanged: 32}, Totals{Inserted: 1, Updated: 3, Deleted: 5, Unchanged: 32}},
		{"7.10.2", true, true, Counts{New: 4, Gone: 8, Unchanged: 32}, Totals{Inserted: 1, Updated: 3, Deleted: 5, Unchanged: 32}},
	} {
		t.Run(fmt.Sprintf("%s, contents %t, merged %t", c.version, c.contents, c.merged), func(t *testing.T) {
			r, err := open(t.Context(), deletions(t, c.version), how{c.merged, c.contents})
			must(t, err)
			if !c.merged && len(r.same) != 1 {
				t.Fatalf("%d segments are in both", len(r.same))
			}
			added, gone, n := read(t, r)
			if n != c.counts || int64(len(added)) != c.counts.New || int64(len(gone)) != c.counts.Gone {
				t.Errorf("%+v, %d new, %d gone", n, len(added), len(gone))
			}
			var deleted []string
			d, err := r.Documents(t.Context())
			must(t, err)
			must(t, records(t.Context(), r.from.Reader(lucene.ReadOptions{Only: d.Deleted.Any}), func(rec *lucene.Record) error {
				deleted = append(deleted, string(rec.Source))
				return nil
			}))
			slices.Sort(deleted)
			want := []string{`{"n":20,"part":[{"q":1},{"q":2}]}`, `{"n":21}`, `{"n":3}`, `{"n":4,"part":[{"q":1},{"q":2}]}`, `{"n":5}`}
			if d.Totals != c.totals || !slices.Equal(deleted, want) {
				t.Errorf("%+v, deleted %q", d.Totals, deleted)
			}
		})
	}
}

// failing is a directory whose reads fail from one on.
type failing struct {
	lucene.Directory
	reads *atomic.Int64
	from  int64
}

var errFails = fmt.Errorf("the repository does not answer: %w", fault.ErrUnavailable)

func (d failing) fails() error {
	if d.reads.Add(1) >= d.from {
		return errFails
	}
	return nil
}

func (d failing) Open(name string) (lucene.File, error) {
	f, err := d.Directory.Open(name)
	return failingFile{f, d}, err
}

type failingFile struct {
	lucene.File
	of failing
}

func (f failingFile) ReadAt(ctx context.Context, p []byte, off int64) error {
	if err := f.of.fails(); err != nil {
		return err
	}
	return f.File.ReadAt(ctx, p, off)
}

func (f failingFile) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := f.of.fails(); err != nil {
		return nil, err
	}
	return f.File.Stream(ctx, off, n)
}

// TestReader_EachFailedReadIsAnError lets every read of either commit fail in turn, with all that follow.
func TestReader_EachFailedReadIsAnError(t *testing.T) {
	for _, how := range []how{{}, {merged: true}, {contents: true}, {merged: true, contents: true}} {
		for commit := range 2 {
			t.Run(fmt.Sprintf("%+v, commit %d", how, commit), func(t *testing.T) {
				dirs := deletions(t, "7.10.2")
				whole := dirs[commit]
				for from := int64(1); ; from++ {
					reads := &atomic.Int64{}
					dirs[commit] = failing{whole, reads, from}
					var n Totals
					r, err := open(t.Context(), dirs, how)
					if err == nil {
						n, err = totals(r.Documents(t.Context()))
					}
					failed := reads.Load() >= from
					if failed != (err != nil) || failed && !errors.Is(err, fault.ErrUnavailable) {
						t.Fatalf("read %d of %d failed %t: %+v, %v", from, reads.Load(), failed, n, err)
					}
					if !failed {
						if from < 5 || n != (Totals{Inserted: 1, Updated: 3, Deleted: 5, Unchanged: 32}) {
							t.Errorf("%d reads, %+v", from, n)
						}
						return
					}
				}
			})
		}
	}
}

// TestReader_StopsWhereItsCallerDoes returns the error of each call of visit and passed.
func TestReader_StopsWhereItsCallerDoes(t *testing.T) {
	full := errors.New("full")
	for _, contents := range []bool{false, true} {
		for _, merged := range []bool{false, true} {
			for at := 1; ; at++ {
				r, err := open(t.Context(), deletions(t, "7.10.2"), how{merged, contents})
				must(t, err)
				calls := 0
				call := func() error {
					if calls++; calls == at {
						return full
					}
					return nil
				}
				_, err = r.Read(t.Context(), Start, func(Change) error { return call() }, func(int64) error { return call() })
				if errors.Is(err, full) != (calls >= at) || calls > at {
					t.Fatalf("contents %t, merged %t: call %d of %d: %v", contents, merged, at, calls, err)
				}
				if err == nil {
					if at < 14 { // 12 changes and two passes at least
						t.Errorf("contents %t, merged %t: %d calls", contents, merged, at)
					}
					break
				}
			}
		}
	}
}

// TestReader_NumbersMakeSourcesUnnecessary: filtered sources do not matter where documents have numbers.
func TestReader_NumbersMakeSourcesUnnecessary(t *testing.T) {
	r, err := open(t.Context(), deletions(t, "7.10.2"), how{contents: true})
	must(t, err)
	r.filtered = true
	if n, err := totals(r.Documents(t.Context())); err != nil || n.Updated != 3 {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestPass_Terms: a pass has a byte for each of 253 terms.
func TestPass_Terms(t *testing.T) {
	p := &pass{terms: map[int64]byte{}}
	seen := map[byte]bool{0: true, both: true, second: true}
	for term := range int64(253) {
		b, err := p.term(term)
		again, _ := p.term(term)
		if err != nil || seen[b] || again != b {
			t.Fatalf("term %d: %d, then %d, %v", term, b, again, err)
		}
		seen[b] = true
	}
	if _, err := p.term(253); err == nil || err.Error() != (&Whole{ManyTerms}).Error() {
		t.Error(err)
	}
}

func TestReader_Passes(t *testing.T) {
	for _, c := range []struct {
		contents bool
		memory   int64
		want     int64
	}{
		{false, 20, 3}, // the numbers 0 to 48
		{false, 48, 2},
		{false, 49, 1},
		{true, digestMemory, 61}, // 40 documents with 20 nested ones
		{true, 60 * digestMemory, 2},
		{true, 61 * digestMemory, 1},
	} {
		r, err := open(t.Context(), deletions(t, "7.10.2"), how{true, c.contents})
		must(t, err)
		if r.memory = c.memory; r.Passes() != c.want {
			t.Errorf("contents %t, %d bytes: %d passes, want %d", c.contents, c.memory, r.Passes(), c.want)
		}
	}
}

func TestSnapshots_DamagedMetadataIsNamed(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join(fixtures, "7.10.2-history"))))
	metas, err := filepath.Glob(filepath.Join(dir, "indices", "*", "meta-*.dat"))
	must(t, err)
	for _, meta := range metas {
		must(t, os.Truncate(meta, 10))
	}
	seen := 0
	for _, x := range between(t, dir, numbers(every)) {
		if x.State == Compared {
			seen++
			if !errors.Is(x.Err, fault.ErrCorrupt) {
				t.Errorf("%+v", x)
			}
		}
	}
	if seen == 0 {
		t.Error("no index is in both snapshots")
	}
}
