package difference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const fixtures = "../../../testing/fixtures"

// commits opens the commits of every shard of a repository's snapshots, by index, shard and history, in the order of the snapshots.
func commits(t *testing.T, fixture string) map[string][]*lucene.Commit {
	t.Helper()
	r, err := repo.Open(t.Context(), filepath.Join(fixtures, fixture), repo.Options{})
	must(t, err)
	catalog, err := snapshot.OpenCatalog(t.Context(), r)
	must(t, err)
	var snapshots []*snapshot.Snapshot
	for _, ref := range catalog.Snapshots {
		s, err := catalog.Snapshot(t.Context(), ref.Name)
		must(t, err)
		snapshots = append(snapshots, s)
	}
	slices.SortFunc(snapshots, func(a, b *snapshot.Snapshot) int { return cmp.Compare(a.StartMillis, b.StartMillis) })
	all := map[string][]*lucene.Commit{}
	for _, s := range snapshots {
		for _, x := range s.Indices {
			index, err := s.Index(t.Context(), x.Name)
			must(t, err)
			for n := range index.NumShards {
				shard, err := snapshot.OpenShard(t.Context(), r, index.Locator, n)
				if errors.Is(err, snapshot.ErrShardMissing) {
					continue
				}
				must(t, err)
				c, err := lucene.Open(t.Context(), shard.Directory(), lucene.Options{Values: true})
				must(t, err)
				key := fmt.Sprintf("%s/%d %s", x.Name, n, c.UserData["history_uuid"]) // an index may be another one of the same name
				all[key] = append(all[key], c)
			}
		}
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// versions reads every live root document of a commit whole, by id, number, term and source.
func versions(t *testing.T, c *lucene.Commit) map[string]int64 {
	t.Helper()
	r := c.Reader(lucene.ReadOptions{Values: true})
	defer r.Close()
	all := map[string]int64{}
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		var numbers [2]int64
		for i, name := range []string{"_seq_no", "_primary_term"} {
			column, err := rec.Values.Column(t.Context(), name)
			must(t, err)
			if n, err := column.Advance(t.Context(), rec.DocID); err != nil || n != 1 {
				t.Fatalf("document %d: %d values of %s, %v", rec.Ordinal, n, name, err)
			}
			numbers[i], err = column.Number(t.Context(), 0)
			must(t, err)
		}
		all[fmt.Sprintf("%x %d %d %s", rec.ID, numbers[0], numbers[1], rec.Source)] = rec.Ordinal
	}
}

// only returns the ordinals of the versions in a that b lacks, in ascending order.
func only(a, b map[string]int64) (all []int64) {
	for key, ordinal := range a {
		if _, ok := b[key]; !ok {
			all = append(all, ordinal)
		}
	}
	slices.Sort(all)
	return all
}

// read reads a difference with passes of so many numbers, and begins anew wherever it has passed.
func read(t *testing.T, r *Reader) (added, gone []int64, n Counts) {
	t.Helper()
	stop := errors.New("stop")
	for begin := int64(Start); ; {
		at := begin
		part, err := r.Read(t.Context(), begin, func(c Change) error {
			if c.Gone {
				gone = append(gone, c.Ordinal)
			} else {
				added = append(added, c.Ordinal)
			}
			return nil
		}, func(next int64) error {
			if next <= at {
				t.Fatalf("passed %d after %d", next, at)
			}
			begin = next
			return stop
		})
		n = Counts{n.New + part.New, n.Gone + part.Gone, n.Unchanged + part.Unchanged}
		if err == nil {
			slices.Sort(added)
			slices.Sort(gone)
			return added, gone, n
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
}

// TestReader_EveryPairOfSnapshots compares the difference of each two snapshots of a shard with that of all their documents, read
// whole: with the segments as they are, and as if every segment had been merged in between.
func TestReader_EveryPairOfSnapshots(t *testing.T) {
	for _, fixture := range []string{"7.10.2-history", "8.19.21-history", "os2.19.4-history"} {
		t.Run(fixture, func(t *testing.T) {
			changed := 0
			for shard, all := range commits(t, fixture) {
				for i, from := range all {
					for _, to := range all[i:] {
						a, b := versions(t, from), versions(t, to)
						wantNew, wantGone := only(b, a), only(a, b)
						for _, width := range []int64{1, 7, 1 << 20} {
							for _, merged := range []bool{false, true} {
								r, err := New(from, to, width)
								must(t, err)
								if merged {
									clear(r.same)
								}
								added, gone, n := read(t, r)
								want := Counts{int64(len(wantNew)), int64(len(wantGone)), int64(len(b) - len(wantNew))}
								if !slices.Equal(added, wantNew) || !slices.Equal(gone, wantGone) || n != want {
									t.Errorf("%s, %s to %s, width %d, merged %t: new %v, gone %v, %+v; want %v, %v", shard, from.Name, to.Name, width, merged, added, gone, n, wantNew, wantGone)
								}
								changed += len(added) + len(gone)
							}
						}
					}
				}
			}
			if changed == 0 {
				t.Error("no pair differs: nothing was compared")
			}
		})
	}
}

// TestReader_ACommitEqualsItself reads the numbers of every segment of every shard, nested documents and updates among them.
func TestReader_ACommitEqualsItself(t *testing.T) {
	for _, fixture := range []string{"6.8.23-basic", "7.10.2-basic", "7.10.2-multi-index", "8.19.21-basic", "9.5.3-basic", "os1.3.14-basic", "os2.19.4-basic", "os3.8.0-basic"} {
		t.Run(fixture, func(t *testing.T) {
			for shard, all := range commits(t, fixture) {
				for _, c := range all {
					r, err := New(c, c, 100)
					must(t, err)
					clear(r.same)
					added, gone, n := read(t, r)
					if want := int64(len(versions(t, c))); len(added)+len(gone) > 0 || n.Unchanged != want {
						t.Errorf("%s: new %v, gone %v, %d unchanged of %d", shard, added, gone, n.Unchanged, want)
					}
				}
			}
		})
	}
}

func TestReader_WhereNumbersDoNotDetermineIt(t *testing.T) {
	one := func(t *testing.T, fixture, index string) *lucene.Commit {
		t.Helper()
		all := commits(t, fixture)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if c := all[key][0]; key >= index && c.LiveDocs > 0 {
				return c
			}
		}
		t.Fatalf("%s has no such index", fixture)
		return nil
	}
	history := func(t *testing.T) []*lucene.Commit {
		t.Helper()
		for _, all := range commits(t, "7.10.2-history") {
			if len(all) > 1 && all[0].UserData["max_seq_no"] != all[len(all)-1].UserData["max_seq_no"] {
				return all
			}
		}
		t.Fatal("nothing was written between the snapshots")
		return nil
	}
	stated := func(c *lucene.Commit, key, value string) *lucene.Commit {
		d := lucene.Commit{Name: c.Name, UserData: maps.Clone(c.UserData), Segments: c.Segments, MaxOrdinal: c.MaxOrdinal, LiveDocs: c.LiveDocs}
		d.UserData[key] = value
		return &d
	}
	for name, c := range map[string]struct {
		pair func(t *testing.T) (from, to *lucene.Commit)
		want error // a *Whole by its reason
	}{
		"Elasticsearch 2.4": {func(t *testing.T) (_, _ *lucene.Commit) {
			c := one(t, "2.4.6-history", "")
			return c, c
		}, &Whole{NoNumbers}},
		"a shrunk index": {func(t *testing.T) (_, _ *lucene.Commit) {
			c := one(t, "7.6.2-shrunk-routing", "srfalse-shrunk/0")
			return c, c
		}, &Whole{NotUnique}},
		"documents from before Elasticsearch 6": {func(t *testing.T) (_, _ *lucene.Commit) {
			c := one(t, "in-place-5-6", "")
			return c, c
		}, &Whole{NoNumbers}},
		"sources only": {func(t *testing.T) (_, _ *lucene.Commit) {
			c := one(t, "8.19.21-source-only", "")
			return c, c
		}, &Whole{NoNumbers}},
		"a number twice in one commit": {func(t *testing.T) (_, _ *lucene.Commit) {
			c := history(t)[0]
			return part(c, slices.Concat(c.Segments, c.Segments)), c
		}, &Whole{NotUnique}},
		"a number twice in the second commit": {func(t *testing.T) (_, _ *lucene.Commit) {
			c := history(t)[0]
			return c, part(c, slices.Concat(c.Segments, c.Segments))
		}, &Whole{NotUnique}},
		"a number below all": {func(t *testing.T) (_, _ *lucene.Commit) {
			all := history(t)
			return all[0], stated(all[0], "max_seq_no", "-5")
		}, fault.ErrCorrupt},
		"another shard": {func(t *testing.T) (_, _ *lucene.Commit) {
			return one(t, "7.10.2-basic", ""), one(t, "os2.19.4-basic", "")
		}, &Whole{OtherHistory}},
		"the second is older": {func(t *testing.T) (_, _ *lucene.Commit) {
			all := history(t)
			return all[len(all)-1], all[0]
		}, &Whole{Older}},
		"a number that is none": {func(t *testing.T) (_, _ *lucene.Commit) {
			all := history(t)
			return all[0], stated(all[0], "max_seq_no", "many")
		}, fault.ErrCorrupt},
		"documents beyond the last number": {func(t *testing.T) (_, _ *lucene.Commit) {
			all := history(t)
			return stated(all[0], "max_seq_no", "0"), stated(all[0], "max_seq_no", "0")
		}, &Whole{Beyond}},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := c.pair(t)
			err := func() error {
				r, err := New(from, to, 1<<20)
				if err != nil {
					return err
				}
				clear(r.same)
				_, err = r.Read(t.Context(), Start, func(Change) error { return nil }, func(int64) error { return nil })
				return err
			}()
			var whole, want *Whole
			if errors.As(c.want, &want) {
				if !errors.As(err, &whole) || *whole != *want {
					t.Errorf("%v, want %v", err, c.want)
				}
			} else if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestReader_EndsWithItsCaller: an error of a visit, and the end of the context, are returned.
func TestReader_EndsWithItsCaller(t *testing.T) {
	full := errors.New("full")
	seen := false
	for _, all := range commits(t, "os2.19.4-history") {
		r, err := New(all[0], all[len(all)-1], 1<<20)
		must(t, err)
		n, err := r.Read(t.Context(), Start, func(Change) error { return full }, func(int64) error { return nil })
		if changed := n.New+n.Gone > 0; changed != errors.Is(err, full) || !changed && err != nil {
			t.Errorf("%+v, %v", n, err)
		}
		seen = seen || err != nil
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		clear(r.same)
		if n, err := r.Read(ctx, Start, func(Change) error { return nil }, func(int64) error { return nil }); err == nil && n.Unchanged > 0 {
			t.Errorf("the context had ended, %+v", n)
		}
	}
	if !seen {
		t.Error("no shard has changed")
	}
}
