package lucene

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// vectorShards are shards that real clusters wrote, with a field that has indexed vectors.
var vectorShards = []struct {
	name, field, ext string // ext is that of the metadata
	segment          int    // whose files are damaged
	documents        int
	vector           func(n int) []float32
}{
	{"8.6.2-hnsw", "options", ".vem", 1, 30, sampleVector},
	{"8.11.4-hnsw", "options", ".vem", 1, 30, sampleVector},
	{"8.19.21-flat", "indexed", ".vemf", 0, 1, func(int) []float32 { return []float32{0.5, -0.25} }},
	{"9.5.3-flat", "indexed", ".vemf", 0, 1, func(int) []float32 { return []float32{0.5, -0.25} }},
	{"9.5.3-hnsw", "h", ".vemf", 0, 20, func(n int) []float32 { return []float32{1, float32(n), 2.5, 0.1} }},
}

// sampleVector is what testing/snapgen sends; the first document was written again, behind the others.
func sampleVector(n int) []float32 {
	seed, v := (n+1)%30, make([]float32, 5)
	for i := range v {
		v[i] = float32((seed*7+i*13)%29-11)/7 + 0.001*float32(i)
	}
	return v
}

// vectorFile returns the name of the files of a field without their ends.
func vectorFile(t testing.TB, s *Segment, field string) string {
	t.Helper()
	attrs := fieldsOf(t, s).byName[field].attrs
	return "_" + attrs[attrVectors] + "_" + attrs[attrVectorsSuffix]
}

func vectorDir(t testing.TB, name string) mapDir {
	t.Helper()
	return zipDir(t, filepath.Join("testdata", "vectors", name+".zip"))
}

// TestVectors reads the vectors of real clusters; those of the similarity cosine have the length 1.
func TestVectors(t *testing.T) {
	for _, c := range vectorShards {
		t.Run(c.name, func(t *testing.T) {
			commit, err := Open(t.Context(), vectorDir(t, c.name), Options{Values: true})
			if err != nil {
				t.Fatal(err)
			}
			r := commit.Reader(ReadOptions{To: commit.MaxOrdinal, Values: true})
			defer r.Close()
			for n := range c.documents + 1 {
				rec, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) && n == c.documents {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				column, err := rec.Values.Vector(t.Context(), c.field)
				if err != nil || column == nil {
					t.Fatalf("%v, %v", column, err)
				}
				if has, err := column.Advance(t.Context(), rec.DocID); has != 1 || err != nil {
					t.Fatalf("document %d: %d, %v", n, has, err)
				}
				b, err := column.Bytes(t.Context(), 0)
				want, length := c.vector(n), 1.0
				if err != nil || len(b) != 4*len(want) {
					t.Fatalf("document %d: %x, %v", n, b, err)
				}
				if c.field == "h" {
					length = 0
					for _, v := range want {
						length += float64(v) * float64(v)
					}
				}
				for i, v := range want {
					if got := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])); math.Abs(float64(got)-float64(v)/math.Sqrt(length)) > 1e-6 {
						t.Errorf("document %d: number %d is %v, want %v of %v", n, i, got, v, math.Sqrt(length))
					}
				}
				if none, err := rec.Values.Vector(t.Context(), "_id"); none != nil || err != nil {
					t.Errorf("a field without vectors: %v, %v", none, err)
				}
			}
			t.Error("more documents than expected")
		})
	}
}

// TestEveryFlippedByteOfVectorsIsAnError flips bytes of the files of vectors: each must be an error that names blob, file and offset
// before any vector is read.
func TestEveryFlippedByteOfVectorsIsAnError(t *testing.T) {
	for _, c := range vectorShards {
		t.Run(c.name, func(t *testing.T) {
			commit, err := Open(t.Context(), vectorDir(t, c.name), Options{Values: true})
			if err != nil {
				t.Fatal(err)
			}
			s, flips := commit.Segments[c.segment], 0
			fi := fieldsOf(t, s)
			read := func() error {
				_, err := (&Values{storedDoc: storedDoc{seg: s, infos: fi}}).Vector(t.Context(), c.field)
				return err
			}
			if err := read(); err != nil {
				t.Fatal(err)
			}
			for _, ext := range []string{c.ext, ".vec"} {
				src, err := s.files.core(vectorFile(t, s, c.field) + ext)
				if err != nil {
					t.Fatal(err)
				}
				flips += flipBytes(t, src, src.file.(memFile), read)
			}
			if flips < 150 {
				t.Errorf("only %d bytes were flipped", flips)
			}
		})
	}
}

// TestVectorsOfOtherFormatsAreRefused reads a field whose vectors lie in a file that is unknown.
func TestVectorsOfOtherFormatsAreRefused(t *testing.T) {
	commit, err := Open(t.Context(), vectorDir(t, "9.5.3-flat"), Options{Values: true})
	if err != nil {
		t.Fatal(err)
	}
	fi := fieldsOf(t, commit.Segments[0])
	fi.byName["indexed"].attrs[attrVectors] = "Lucene92HnswVectorsFormat"
	_, err = (&Values{storedDoc: storedDoc{seg: commit.Segments[0], infos: fi}}).Vector(t.Context(), "indexed")
	if !errors.Is(err, fault.ErrUnsupported) {
		t.Error(err)
	}
}

// FuzzVectors damages the vectors of real segments, or gives others to their metadata.
func FuzzVectors(f *testing.F) {
	for _, c := range vectorShards {
		commit, err := Open(f.Context(), vectorDir(f, c.name), Options{Values: true})
		if err != nil {
			f.Fatal(err)
		}
		s := commit.Segments[c.segment]
		v, file := fieldsOf(f, s).byName[c.field].vector, vectorFile(f, s, c.field)
		f.Add(wholeFile(f, s, file+c.ext), wholeFile(f, s, file+".vec"), int32(s.MaxDoc), v.Dimension, v.Floats)
	}
	f.Fuzz(func(t *testing.T, vemf, vec []byte, maxDoc, dimension int32, floats bool) {
		if maxDoc < 0 || int(maxDoc) > 1024*len(vec) {
			t.Skip("the caller has bounded the documents")
		}
		var entries map[int32]*columns.Entry
		wellBehaved(t, len(vemf), func() (err error) {
			entries, err = columns.ParseVectors(vemf, "", codec.NewInput(vemf).IndexHeader().Suffix, func(number int32) (columns.Vector, bool) {
				return columns.Vector{Dimension: dimension, Floats: floats}, number >= 0 && number < 64
			})
			return err
		})
		data := &columnData{data: &source{name: "_0.vec", file: memFile{"_0.vec", vec}, size: int64(len(vec))}, whole: vec}
		for _, e := range entries {
			wellBehaved(t, len(vemf)+len(vec), func() error { return readColumn(t, e, data, maxDoc) })
		}
	})
}
