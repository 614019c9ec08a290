package lucene

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// documentsFile lists the documents of a test shard as an independent reader found them:
// ordinal, kind of id, id, routing, SHA-256 of the source; "-" for what is not stored.
const documentsFile = "documents.txt"

// testShards are small shards of real snapshots, which together show every format of which
// there are real files: testdata/shards/*.zip.
func testShards(t testing.TB) map[string]mapDir {
	t.Helper()
	names, err := filepath.Glob("testdata/shards/*.zip")
	if err != nil || len(names) < 15 {
		t.Fatalf("%d shards in testdata: %v", len(names), err)
	}
	out := map[string]mapDir{}
	for _, name := range names {
		z, err := zip.OpenReader(name)
		if err != nil {
			t.Fatal(err)
		}
		dir := mapDir{}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if dir[f.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(name), ".zip")] = dir
	}
	return out
}

// without returns a copy of a directory that lacks a file.
func (d mapDir) without(name string) mapDir {
	c := mapDir{}
	for k, v := range d {
		if k != name {
			c[k] = v
		}
	}
	return c
}

func describe(r *Record) string {
	orDash := func(ok bool, format string, v any) string {
		if !ok {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	id := r.ID
	if r.IDKind == IDSeries { // the bytes of the id that the cluster answers
		hash := binary.LittleEndian.Uint32(r.RoutingHash[len(r.RoutingHash)-4:])
		id = binary.BigEndian.AppendUint64(bytes.Clone(id), uint64(math.MaxInt64-r.Timestamp))
		id = binary.BigEndian.AppendUint32(id, hash)
	}
	return fmt.Sprintf("%d %s %s %s %s", r.Ordinal, [...]string{"none", "string", "binary", "uid", "series"}[r.IDKind],
		orDash(len(id) > 0, "%x", id), orDash(r.Routing != nil, "%x", r.Routing),
		orDash(r.HasSource, "%x", sha256.Sum256(r.Source)))
}

func TestRealShardsGiveTheDocumentsThatAnIndependentReaderFound(t *testing.T) {
	for name, dir := range testShards(t) {
		t.Run(name, func(t *testing.T) {
			want := strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(dir[documentsFile])), " ", "_"))
			c, err := Open(t.Context(), dir.without(documentsFile), Options{VerifyAll: true})
			if err != nil {
				t.Fatal(err)
			}
			r := c.Reader(ReadOptions{})
			defer r.Close()
			n := 0
			for ; ; n++ {
				rec, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.ReplaceAll(describe(rec), " ", "_"); n >= len(want) || got != want[n] {
					t.Fatalf("document %d: read %s, want %v", n, got, want[min(n, len(want)):min(n+1, len(want))])
				}
			}
			if n != len(want) {
				t.Errorf("%d documents, want %d", n, len(want))
			}
			for _, v := range CombineChecks(r.Checks(c.MaxOrdinal)) {
				if !v.Verified || v.Err != nil {
					t.Errorf("%+v", v)
				}
			}
		})
	}
}

// TestNoFlippedBitLosesADocument flips bits all over small real shards: what is
// read must be the same, or there must be an error that states where.
func TestNoFlippedBitLosesADocument(t *testing.T) {
	for name, dir := range testShards(t) {
		size := 0
		for _, b := range dir {
			size += len(b)
		}
		if size > 6000 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stride := 3
			if testing.Short() {
				stride = 11
			}
			dir := dir.without(documentsFile)
			clean, err := documents(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			silent, n := 0, 0
			for _, file := range dir.List() {
				orig := dir[file]
				for i := n % stride; i < len(orig); i += stride {
					b := bytes.Clone(orig)
					b[i] ^= 1 << (i % 8)
					dir[file] = b
					got, err := documents(t, dir)
					n++
					switch {
					case err == nil && got != clean:
						t.Fatalf("byte %d of %s: other documents without an error", i, file)
					case err == nil:
						silent++
					case !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported):
						t.Fatalf("byte %d of %s: %v has no category", i, file, err)
					}
				}
				dir[file] = orig
			}
			t.Logf("%d of %d bytes are not read and not covered", silent, n)
		})
	}
}

// documents describes all documents of a commit, one per line.
func documents(t *testing.T, dir Directory) (string, error) {
	c, err := Open(t.Context(), dir, Options{})
	if err != nil {
		return "", err
	}
	r := c.Reader(ReadOptions{})
	defer r.Close()
	var b strings.Builder
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
		b.WriteString(describe(rec) + "\n")
	}
}

// TestHandOffsOfRealShardsReadEveryByteOnce divides shards of many segments, with dead
// documents, dead chunks and dead segments, at random ordinals.
func TestHandOffsOfRealShardsReadEveryByteOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 11))
	for name, dir := range testShards(t) {
		c, err := Open(t.Context(), dir.without(documentsFile), Options{})
		if err != nil {
			t.Fatal(err)
		}
		all, _ := drain(t, c, 0, 0)
		alive := 0
		for _, s := range c.Segments {
			if s.LiveCount > 0 {
				alive++
			}
		}
		for round := range 12 {
			var checks []Check
			var got []int64
			for from := int64(0); from < c.MaxOrdinal; {
				w := min(c.MaxOrdinal, from+1+rnd.Int64N(1+c.MaxOrdinal/int64(1+round)))
				docs, r := drain(t, c, from, min(c.MaxOrdinal, w+rnd.Int64N(30)))
				for _, o := range docs {
					if o < w {
						got = append(got, o)
					}
				}
				checks = append(checks, r.Checks(w)...)
				from = w
			}
			results := CombineChecks(checks)
			if !slices.Equal(got, all) || len(results) != alive {
				t.Fatalf("%s: %d documents of %d, %d files of %d", name, len(got), len(all), len(results), alive)
			}
			for _, v := range results {
				if !v.Verified || v.Err != nil {
					t.Errorf("%s round %d: %+v of %+v", name, round, v, checks)
				}
			}
		}
	}
}
