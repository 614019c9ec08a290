package difference

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/testing/truth"
)

// sources reads every live root document of a commit by its id.
func sources(t *testing.T, c *lucene.Commit) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, records(t.Context(), c.Reader(lucene.ReadOptions{}), func(rec *lucene.Record) error {
		if rec.IDKind != lucene.IDNone { // a nested one
			all[string(idBytes(rec))] = string(rec.Source)
		}
		return nil
	}))
	return all
}

// documents reads the documents of a difference, each as its kind with id and source, in ascending order.
func documents(t *testing.T, r *Reader) (all []string, n Totals) {
	t.Helper()
	d, err := r.Documents(t.Context())
	must(t, err)
	of := func(kind func(id digest) string, c *lucene.Commit, only Ordinals) {
		must(t, records(t.Context(), c.Reader(lucene.ReadOptions{Only: only.Any}), func(rec *lucene.Record) error {
			all = append(all, fmt.Sprintf("%s %x %s", kind(idOf(rec)), idBytes(rec), rec.Source))
			return nil
		}))
	}
	was := map[digest]bool{}
	must(t, records(t.Context(), r.from.Reader(lucene.ReadOptions{Only: d.Gone.Any}), func(rec *lucene.Record) error {
		was[idOf(rec)] = true
		return nil
	}))
	of(func(id digest) string {
		if was[id] {
			return "updated"
		}
		return "inserted"
	}, r.to, d.Changed)
	of(func(digest) string { return "deleted" }, r.from, d.Deleted)
	slices.Sort(all)
	return all, d.Totals
}

// differing returns what documents has to return for two commits, of whose documents versions are known: by their source, and where
// they have some, by their numbers.
func differing(from, to map[string]string, rewritten func(id string) bool) (all []string, n Totals) {
	for id, source := range to {
		was, there := from[id]
		switch {
		case !there:
			n.Inserted++
			all = append(all, fmt.Sprintf("inserted %x %s", id, source))
		case was != source || rewritten(id):
			n.Updated++
			all = append(all, fmt.Sprintf("updated %x %s", id, source))
		default:
			n.Unchanged++
		}
	}
	for id, source := range from {
		if _, there := to[id]; !there {
			n.Deleted++
			all = append(all, fmt.Sprintf("deleted %x %s", id, source))
		}
	}
	slices.Sort(all)
	return all, n
}

// TestReader_Documents compares the documents of each difference of two snapshots of a shard with all of their documents, by
// numbers and by contents, with the segments as they are and as if every segment had been merged, in one pass and in many.
func TestReader_Documents(t *testing.T) {
	for fixture, numbered := range map[string]bool{"2.4.6-history": false, "7.10.2-history": true, "8.19.21-history": true, "os2.19.4-history": true} {
		t.Run(fixture, func(t *testing.T) {
			changed := 0
			for shard, all := range commits(t, fixture) {
				for i, from := range all {
					for _, to := range all[i:] {
						rewritten := func(string) bool { return false }
						if numbered {
							a := versions(t, from)
							b := versions(t, to)
							again := map[string]bool{}
							for _, v := range slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b))) {
								_, before := a[v]
								_, after := b[v]
								var id []byte
								if _, err := fmt.Sscanf(v, "%x", &id); err != nil {
									t.Fatal(err)
								}
								again[string(id)] = again[string(id)] || before != after
							}
							rewritten = func(id string) bool { return again[id] }
						}
						want, counts := differing(sources(t, from), sources(t, to), rewritten)
						for _, memory := range []int64{500, 1 << 20} {
							readers := map[string]*Reader{"contents": NewByContents(from, to, memory, false), "merged contents": NewByContents(from, to, memory, false)}
							clear(readers["merged contents"].same)
							for _, name := range []string{"numbers", "merged numbers"} {
								if !numbered {
									continue
								}
								var err error
								readers[name], err = New(from, to, memory)
								must(t, err)
							}
							if numbered {
								clear(readers["merged numbers"].same)
							}
							for how, r := range readers {
								got, n := documents(t, r)
								if !slices.Equal(got, want) || n != counts {
									t.Errorf("%s, %s to %s, %s in %d passes: %+v %.200q, want %+v %.200q", shard, from.Name, to.Name, how, r.Passes(), n, got, counts, want)
								}
								changed += len(got)
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

// sourceless reports whether a document of a commit has no source.
func sourceless(t *testing.T, c *lucene.Commit) (found bool) {
	t.Helper()
	must(t, records(t.Context(), c.Reader(lucene.ReadOptions{}), func(rec *lucene.Record) error {
		found = found || !rec.HasSource && rec.IDKind != lucene.IDNone
		return nil
	}))
	return found
}

// part returns a commit without some of its segments.
func part(c *lucene.Commit, segments []*lucene.Segment) *lucene.Commit {
	return &lucene.Commit{Name: c.Name, UserData: c.UserData, Segments: segments, MaxOrdinal: c.MaxOrdinal, LiveDocs: c.LiveDocs}
}

// TestReader_ContentsOfEveryVersion compares commits of every version, shrunk indices among them, with themselves, and with a commit that
// lacks their last segment.
func TestReader_ContentsOfEveryVersion(t *testing.T) {
	for _, fixture := range []string{"1.7.6-updates-deletes", "2.4.6-basic", "5.6.16-multi-type", "6.0.1-nested", "7.6.2-shrunk-routing", "9.5.3-basic", "os3.8.0-basic"} {
		t.Run(fixture, func(t *testing.T) {
			inserted := 0
			for shard, all := range commits(t, fixture) {
				for _, c := range all {
					if len(c.Segments) == 0 || sourceless(t, c) {
						continue
					}
					r := NewByContents(c, c, 1000, false)
					clear(r.same)
					everything := sources(t, c)
					if got, n := documents(t, r); len(got) > 0 || n.Unchanged != int64(len(everything)) {
						t.Errorf("%s is not equal to itself: %+v, %.200q", shard, n, got)
					}
					less := part(c, c.Segments[:len(c.Segments)-1])
					want, _ := differing(sources(t, less), everything, func(string) bool { return false })
					if got, n := documents(t, NewByContents(less, c, 1000, false)); !slices.Equal(got, want) || n.Inserted != int64(len(want)) {
						t.Errorf("%s with one more segment: %+v, %.200q, want %.200q", shard, n, got, want)
					}
					inserted += len(want)
				}
			}
			if inserted == 0 {
				t.Error("no segment has documents")
			}
		})
	}
}

// TestReader_WhatIsNotCompared: without whole sources or numbers, versions of a document cannot be distinguished, nor can documents that
// occur twice.
func TestReader_WhatIsNotCompared(t *testing.T) {
	old := commits(t, "2.4.6-history")
	var plain *lucene.Commit
	for _, all := range old {
		if all[0].LiveDocs > 0 {
			plain = all[0]
		}
	}
	var without *lucene.Commit
	for _, all := range commits(t, "2.4.6-basic") {
		if sourceless(t, all[0]) {
			without = all[0]
		}
	}
	twice := part(plain, slices.Concat(plain.Segments, plain.Segments))
	for name, c := range map[string]struct {
		from, to *lucene.Commit
		filtered bool
		want     Reason
	}{
		"no sources":          {without, without, false, NoSources},
		"parts of sources":    {plain, plain, true, NoSources},
		"a document is twice": {twice, plain, false, NotUnique},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewByContents(c.from, c.to, 1<<20, c.filtered)
			clear(r.same)
			_, err := r.Documents(t.Context())
			if whole := (*Whole)(nil); !errors.As(err, &whole) || whole.Reason != c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestSnapshots_DocumentsAreThoseOfTheCluster compares two snapshots with what their clusters answered.
func TestSnapshots_DocumentsAreThoseOfTheCluster(t *testing.T) {
	for _, fixture := range []string{"2.4.6-history", "7.10.2-history", "8.19.21-history", "os2.19.4-history"} {
		t.Run(fixture, func(t *testing.T) {
			var held [2]map[string]string
			for i, name := range []string{"snap-1", "snap-3"} {
				all, err := truth.Load(false, filepath.Join(fixtures, fixture+"."+name+".ndjson.gz"))
				must(t, err)
				held[i] = map[string]string{}
				for key, source := range all {
					if key.Index == "grows" {
						held[i][key.ID] = string(bytes.TrimSpace(source))
					}
				}
			}
			_, want := differing(held[0], held[1], func(string) bool { return false })
			for _, x := range between(t, filepath.Join(fixtures, fixture), Options{Selected: every, Memory: 1 << 20, Documents: true}) {
				for n, s := range x.Shards {
					if s.Totals != want || s.Whole != "" || s.Err != nil {
						t.Errorf("%s/%d: %+v, want %+v", x.Name, n, s, want)
					}
				}
			}
		})
	}
}

// TestReader_ADocumentWithAnotherRoutingIsAnother: it is deleted and inserted, because an index with other shards has them apart.
func TestReader_ADocumentWithAnotherRoutingIsAnother(t *testing.T) {
	id, all := []byte("a"), map[digest]bool{}
	for _, rec := range []lucene.Record{
		{IDKind: lucene.IDBinary, ID: id},
		{IDKind: lucene.IDBinary, ID: id, Routing: []byte("r")},
		{IDKind: lucene.IDBinary, ID: id, Routing: []byte("s")},
		{IDKind: lucene.IDUID, ID: id, Parent: []byte("p#1")},
		{IDKind: lucene.IDSeries, ID: id, Timestamp: 1},
		{IDKind: lucene.IDSeries, ID: id, Timestamp: 2},
	} {
		all[idOf(&rec)] = true
	}
	if len(all) != 6 {
		t.Errorf("%d of 6 documents are distinct", len(all))
	}
}
