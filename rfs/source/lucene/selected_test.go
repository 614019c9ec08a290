package lucene

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
)

// TestReader_SelectedDocuments reads documents of every shard by chance, alone and in runs, with everything held and with almost nothing
// held, and compares them with the same documents of a reader of all.
func TestReader_SelectedDocuments(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for name, dir := range testShards(t) {
		t.Run(name, func(t *testing.T) { selectByChance(t, dice, dir) })
	}
}

// TestReader_SelectedDocumentsOfSlicedChunks does the same in each format, where each chunk ends with a long document.
func TestReader_SelectedDocumentsOfSlicedChunks(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for _, s := range layouts() {
		t.Run(s.name(), func(t *testing.T) {
			s.chunkSize = 8000
			s.docs = mixedDocs(s, 100)
			for i := 9; i < len(s.docs); i += 10 {
				s.docs[i] = testDoc{{numID, 1, fmt.Appendf(nil, "long%d", i)}, {numSource, 1, someJSON(dice, 30_000)}}
			}
			selectByChance(t, dice, encodeSegment(t, s))
		})
	}
}

// selectByChance compares documents that are read by chance with a reader of all.
func selectByChance(t *testing.T, dice *rand.Rand, dir Directory) {
	t.Helper()
	for _, held := range []int64{0, 1} {
		c, err := Open(t.Context(), dir, Options{Held: held})
		must(t, err)
		all := recordsOf(t, c, nil)
		for _, share := range []float64{0, 0.02, 0.3, 1} {
			wanted := map[int64]bool{}
			for ordinal := range c.MaxOrdinal {
				wanted[ordinal] = dice.Float64() < share
			}
			got := recordsOf(t, c, func(from, to int64) bool {
				for o := from; o < to; o++ {
					if wanted[o] {
						return true
					}
				}
				return false
			})
			want := maps.Clone(all)
			maps.DeleteFunc(want, func(ordinal int64, _ string) bool { return !wanted[ordinal] })
			if !maps.Equal(got, want) {
				t.Errorf("held %d, share %g: %d documents, want %d", held, share, len(got), len(want))
			}
		}
	}
}

// recordsOf returns the documents of a commit by ordinal, all or the wanted ones.
func recordsOf(t *testing.T, c *Commit, only func(from, to int64) bool) map[int64]string {
	t.Helper()
	r := c.Reader(ReadOptions{Only: only})
	defer r.Close()
	all, last := map[int64]string{}, int64(-1)
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			if checks := r.Checks(c.MaxOrdinal); only != nil && len(checks) > 0 {
				t.Errorf("it states checksums of what it has not read whole: %+v", checks)
			}
			return all
		}
		must(t, err)
		if rec.Ordinal <= last {
			t.Fatalf("document %d after %d", rec.Ordinal, last)
		}
		last = rec.Ordinal
		all[last] = fmt.Sprintf("%d %x %s %s", rec.IDKind, rec.ID, rec.Routing, rec.Source)
	}
}

// counting counts the bytes that are streamed of a directory's files, and the streams.
type counting struct {
	Directory
	bytes, streams *atomic.Int64
}

func (d counting) Open(name string) (File, error) {
	f, err := d.Directory.Open(name)
	return countingFile{f, d}, err
}

type countingFile struct {
	File
	to counting
}

func (f countingFile) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	f.to.streams.Add(1)
	f.to.bytes.Add(n)
	return f.File.Stream(ctx, off, n)
}

// TestReader_SelectedDocumentsCostTheirChunks: one request for each run of chunks, of the length of these chunks.
func TestReader_SelectedDocumentsCostTheirChunks(t *testing.T) {
	shards := testShards(t)
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		d := counting{shards[name], &atomic.Int64{}, &atomic.Int64{}}
		c, err := Open(t.Context(), d, Options{})
		must(t, err)
		for _, s := range c.Segments {
			if s.LiveCount == 0 {
				continue
			}
			stored, err := openStored(t.Context(), s)
			must(t, err)
			x := &stored.index
			for _, run := range [][]int{{0}, {x.chunks() - 1}, {0, 1}, {0, x.chunks() - 1}} {
				wanted, want, requests := map[int]place{}, int64(0), int64(0)
				for _, k := range run {
					at, err := x.place(t.Context(), min(k, x.chunks()-1))
					must(t, err)
					wanted[min(k, x.chunks()-1)] = at
				}
				living, err := s.marks(t.Context())
				must(t, err)
				for _, k := range slices.Sorted(maps.Keys(wanted)) {
					at := wanted[k]
					if !living.anyLive(at.first, at.end) {
						want = -1
						break
					}
					want += at.stop - at.start
					if _, next := wanted[k-1]; !next {
						requests++
					}
				}
				if want < 0 {
					continue
				}
				d.bytes.Store(0)
				d.streams.Store(0)
				r := c.Reader(ReadOptions{Only: func(from, to int64) bool {
					for _, at := range wanted {
						if s.Base+int64(at.first) < to && from < s.Base+int64(at.end) {
							return true
						}
					}
					return false
				}})
				for err == nil {
					_, err = r.Next(t.Context())
				}
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				must(t, r.Close())
				if d.bytes.Load() != want || d.streams.Load() != requests {
					t.Errorf("%s, segment %s, chunks %v of %d: %d bytes by %d requests, want %d by %d", name, s.Name, run, x.chunks(), d.bytes.Load(), d.streams.Load(), want, requests)
				}
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
