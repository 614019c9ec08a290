package difference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

// TestPass_Terms compares the numbers of two commits, whose blocks have one term or several, with maps of them.
func TestPass_Terms(t *testing.T) {
	const most = 3 * blockNumbers
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		term func(n int64) int64
	}{
		{"one term", func(int64) int64 { return 3 }},
		{"terms that rise", func(n int64) int64 { return n / 1500 }},
		{"any terms", func(n int64) int64 { return n * 7919 % mostTerms }},
	} {
		t.Run(c.name, func(t *testing.T) {
			reader := &Reader{memory: most, top: [2]int64{most, most}}
			var p *pass
			for range 3 { // with the memory of the one before
				p = reader.newPass(0, p)
				in := [2]map[int64]bool{{}, {}}
				for n := range int64(most) {
					in[0][n], in[1][n] = r.IntN(3) > 0, r.IntN(3) > 0
					if in[1][n] {
						must(t, p.add(lucene.Number{Seq: n, Term: c.term(n)}))
					}
				}
				for n := range int64(most) {
					if !in[0][n] {
						continue
					}
					if both, err := p.take(lucene.Number{Seq: n, Term: c.term(n)}); both != in[1][n] || err != nil {
						t.Fatalf("number %d, in both: %v, found %v, %v", n, in[1][n], both, err)
					}
				}
				for n := range int64(most) {
					if p.second.has(n) != (in[1][n] && !in[0][n]) {
						t.Fatalf("number %d remains: %v", n, p.second.has(n))
					}
				}
			}
		})
	}
}

// TestPass_RefusesWhatItCannotDistinguish: numbers that occur twice in a commit, or under two terms, and too many terms.
func TestPass_RefusesWhatItCannotDistinguish(t *testing.T) {
	number := func(seq, term int64) lucene.Number { return lucene.Number{Seq: seq, Term: term} }
	take := func(p *pass, n lucene.Number) error {
		_, err := p.take(n)
		return err
	}
	for _, c := range []struct {
		name string
		do   func(p *pass) error
		want Reason
	}{
		{"twice in the second commit", func(p *pass) error { return errors.Join(p.add(number(5, 1)), p.add(number(5, 1))) }, NotUnique},
		{"twice in the first commit", func(p *pass) error { return errors.Join(take(p, number(5, 1)), take(p, number(5, 1))) }, NotUnique},
		{"twice in the first commit, once in the second", func(p *pass) error {
			return errors.Join(p.add(number(5, 1)), take(p, number(5, 1)), take(p, number(5, 1)))
		}, NotUnique},
		{"under two terms", func(p *pass) error {
			return errors.Join(p.add(number(5, 1)), p.add(number(6, 2)), take(p, number(5, 2)))
		}, NotUnique},
		{"under a term that the second commit lacks", func(p *pass) error { return errors.Join(p.add(number(5, 1)), take(p, number(5, 9))) }, NotUnique},
		{"too many terms", func(p *pass) (err error) {
			for n := range int64(mostTerms + 1) {
				err = errors.Join(err, p.add(number(n, n)))
			}
			return err
		}, ManyTerms},
		{"several terms in too many blocks", func(p *pass) (err error) {
			p.room = 0
			return errors.Join(p.add(number(5, 1)), p.add(number(6, 2)))
		}, ManyTerms},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := (*Whole)(nil)
			if err := c.do((&Reader{memory: blockNumbers, top: [2]int64{blockNumbers, blockNumbers}}).newPass(0, nil)); !errors.As(err, &whole) || whole.Reason != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func TestReader_Passes(t *testing.T) {
	for _, c := range []struct {
		contents bool
		memory   int64
		want     int64
	}{
		{false, 5, 3}, // the first commit has the numbers 0 to 39
		{false, 13, 2},
		{false, 14, 1},
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
