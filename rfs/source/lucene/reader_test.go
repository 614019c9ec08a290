package lucene

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// layouts returns all stored-field formats and versions, with the least chunks that show them.
func layouts() []segmentSpec {
	var out []segmentSpec
	for name, f := range storedFormats {
		for v := f.minV; v <= f.maxV; v++ {
			for packed := range 3 {
				out = append(out, segmentSpec{fdt: name, version: int(v), chunkSize: 2000, chunkDocs: 140, packed: packed})
				if _, ok := f.layout.(g90); ok || strings.Contains(name, "High") {
					break // g90 has no packed integers, and one compression shows them as well as another
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b segmentSpec) int { return strings.Compare(a.name(), b.name()) })
	return out
}

func (s segmentSpec) name() string { return fmt.Sprintf("%s_v%d_p%d", s.fdt, s.version, s.packed) }

// mixedDocs are documents of all kinds of fields and sizes: nested children without fields,
// numbers of all types, sources longer than several slices.
func mixedDocs(s segmentSpec, n int) []testDoc {
	r := rand.New(rand.NewPCG(3, 4))
	fixed := storedFormats[s.fdt].plain
	numbers := []storedField{
		{numOther, 2, []byte{0x96, 0x01}}, {numOther, 3, []byte{0xFF, 1, 2, 3, 4}}, {numOther, 3, []byte{0x85}}, {numOther, 3, []byte{0x01, 2, 3, 4}},
		{numOther, 4, []byte{0x45}}, {numOther, 4, []byte{0x65, 0x80, 0x01}}, {numOther, 5, []byte{0xFF, 1, 2, 3, 4, 5, 6, 7, 8}},
		{numOther, 5, []byte{0xFE, 1, 2, 3, 4}}, {numOther, 5, []byte{0x90}}, {numOther, 5, []byte{0x01, 2, 3, 4, 5, 6, 7, 8}},
	}
	if fixed {
		numbers = []storedField{
			{numOther, 2, []byte{1, 2, 3, 4}}, {numOther, 3, []byte{1, 2, 3, 4}},
			{numOther, 4, []byte{1, 2, 3, 4, 5, 6, 7, 8}}, {numOther, 5, []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		}
	}
	docs := make([]testDoc, n)
	for i := range docs {
		if i%7 == 3 || i > 200 && i < 500 {
			continue
		}
		size := r.IntN(60)
		if i%50 == 10 {
			size = 3000 + r.IntN(6000)
		}
		d := testDoc{numbers[r.IntN(len(numbers))], {numSource, 1, someJSON(r, size)}}
		if i%5 == 0 {
			d = append(d, storedField{numRouting, 0, []byte(fmt.Sprint("r", i))}, storedField{numParent, 0, []byte(fmt.Sprint("p#", i))})
		}
		if i%2 == 0 {
			d = append(d, storedField{numID, 1, fmt.Appendf(nil, "id%d", i)})
		} else {
			d = slices.Insert(d, 0, storedField{numUID, 0, fmt.Appendf(nil, "t#%d", i)})
		}
		docs[i] = d
	}
	return docs
}

func someJSON(r *rand.Rand, n int) []byte {
	b := []byte(`{"text":"`)
	for len(b) < n {
		b = append(b, [...]string{"alpha ", "beta ", "gamma ", fmt.Sprint(r.IntN(1e9))}[r.IntN(4)]...)
	}
	return append(b, `"}`...)
}

// valueOf returns the first value of a field, nil when there is none.
func valueOf(d testDoc, number int) []byte {
	for _, f := range d {
		if f.number == number {
			return f.value
		}
	}
	return nil
}

func checkRecord(t *testing.T, rec *Record, d testDoc) {
	t.Helper()
	kind, id := IDBinary, valueOf(d, numID)
	if id == nil {
		kind, id = IDUID, valueOf(d, numUID)
	}
	if rec.IDKind != kind || !bytes.Equal(rec.ID, id) {
		t.Fatalf("document %d has id %q of kind %d, not %q of %d", rec.DocID, rec.ID, rec.IDKind, id, kind)
	}
	if !rec.HasSource || !bytes.Equal(rec.Source, valueOf(d, numSource)) {
		t.Fatalf("document %d has source %.80q, not %.80q", rec.DocID, rec.Source, valueOf(d, numSource))
	}
	if !bytes.Equal(rec.Routing, valueOf(d, numRouting)) {
		t.Fatalf("document %d has routing %q, not %q", rec.DocID, rec.Routing, valueOf(d, numRouting))
	}
	if !bytes.Equal(rec.Parent, valueOf(d, numParent)) {
		t.Fatalf("document %d has the parent %q, not %q", rec.DocID, rec.Parent, valueOf(d, numParent))
	}
}

func TestEveryStoredFormatGivesBackItsDocuments(t *testing.T) {
	for _, s := range layouts() {
		t.Run(s.name(), func(t *testing.T) {
			s.docs = mixedDocs(s, 700)
			c, err := Open(t.Context(), encodeSegment(t, s), Options{VerifyAll: true})
			if err != nil {
				t.Fatal(err)
			}
			r := c.Reader(ReadOptions{})
			defer r.Close()
			for i, d := range s.docs {
				if len(d) == 0 {
					continue
				}
				rec, err := r.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if int(rec.DocID) != i {
					t.Fatalf("document %d after %d", rec.DocID, i-1)
				}
				checkRecord(t, rec, d)
			}
			if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
				t.Fatalf("at the end: %v", err)
			}
			footed := !storedFormats[s.fdt].plain || s.version >= 2
			if v := CombineChecks(r.Checks(c.MaxOrdinal)); len(v) != 1 || v[0].Verified != footed || v[0].Err != nil {
				t.Errorf("result %+v", v)
			}
		})
	}
}

// drain reads a range and returns the ordinals of its documents and the checks up to a watermark.
func drain(t *testing.T, c *Commit, from, to int64) ([]int64, *Reader) {
	t.Helper()
	r := c.Reader(ReadOptions{From: from, To: to})
	defer r.Close()
	var got []int64
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return got, r
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rec.Ordinal)
	}
}

// TestItemsOfAShardReadEveryByteOnce hands a shard over at random watermarks, which lie
// behind what the first reader has read, and combines what each one checked.
func TestItemsOfAShardReadEveryByteOnce(t *testing.T) {
	s := segmentSpec{fdt: "Lucene90StoredFieldsFastData", version: 1, chunkSize: 600, chunkDocs: 40}
	s.docs = mixedDocs(s, 700)
	c, err := Open(t.Context(), encodeSegment(t, s), Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, _ := drain(t, c, 0, 0)
	rnd := rand.New(rand.NewPCG(5, 6))
	for round := range 200 {
		var checks []Check
		var got []int64
		for from := int64(0); from < c.MaxOrdinal; {
			w := min(c.MaxOrdinal, from+rnd.Int64N(1+c.MaxOrdinal/int64(1+round%5)))
			ahead := min(c.MaxOrdinal, w+rnd.Int64N(50))
			docs, r := drain(t, c, from, ahead)
			for _, o := range docs {
				if o < w {
					got = append(got, o)
				}
			}
			checks = append(checks, r.Checks(w)...)
			from = w
		}
		if !slices.Equal(got, all) {
			t.Fatalf("round %d: %d documents, not %d", round, len(got), len(all))
		}
		rnd.Shuffle(len(checks), func(i, j int) { checks[i], checks[j] = checks[j], checks[i] })
		if v := CombineChecks(checks); len(v) != 1 || !v[0].Verified {
			t.Fatalf("round %d: %+v of %+v", round, v, checks)
		}
		if len(checks) > 1 {
			if v := CombineChecks(checks[1:]); len(v) != 1 || v[0].Verified || v[0].Err != nil {
				t.Fatalf("round %d: a gap gives %+v", round, v)
			}
			checks[0].CRC ^= 1
			v := CombineChecks(checks)
			var d *fault.Damage
			if len(v) != 1 || v[0].Verified || !errors.As(v[0].Err, &d) || d.File != "_0.fdt" || d.Blob != "___0.fdt" {
				t.Fatalf("round %d: a wrong checksum gives %+v", round, v)
			}
		}
	}
}

// TestBoundariesThatAreNotKnown: an ordinal of which the boundary may have been dropped has none; the next one would own bytes of
// documents after it.
func TestBoundariesThatAreNotKnown(t *testing.T) {
	tracked := func(n int) *crcTracker {
		c := &crcTracker{}
		for file := range 2 {
			c.file(nil, nil, 0, true)
			for i := range n {
				c.boundary(int64(100*file*n+10*i), int64(i), 0)
			}
		}
		return c
	}
	all, most := tracked(5), tracked(maxBoundaries+1)
	for _, c := range []struct {
		name    string
		in      *crcTracker
		file    int
		ordinal int64
		want    int64 // ordinal of the boundary; -1: none
	}{
		{"the first", all, 0, 0, 0},
		{"before the first", all, 0, -5, 0},
		{"between two", all, 0, 11, 20},
		{"behind the last of a file", all, 0, 41, -1},
		{"behind the last", all, 1, 541, -1},
		{"dropped", most, 0, 10, -1},
		{"before the first that is left, others were dropped", most, 0, most.boundaries[0].ordinal - 1, -1},
		{"the first that is left", most, 0, most.boundaries[0].ordinal, most.boundaries[0].ordinal},
		{"between two that are left", most, 1, 100*(maxBoundaries+1) + 1, 100*(maxBoundaries+1) + 10},
		{"of a file without dropped ones", most, 1, 100 * (maxBoundaries + 1), 100 * (maxBoundaries + 1)},
	} {
		b, found := c.in.find(c.file, c.ordinal)
		if found != (c.want >= 0) || found && (b.file != c.file || b.ordinal != c.want) {
			t.Errorf("%s: %+v, %v; want %d", c.name, b, found, c.want)
		}
	}
}

func TestAWrongByteIsFoundAtTheLatestAtTheEndOfItsFile(t *testing.T) {
	for _, s := range layouts() {
		if storedFormats[s.fdt].plain && s.version < 2 || s.packed > 0 {
			continue
		}
		s.docs = mixedDocs(s, 120)
		clean := encodeSegment(t, s)
		rnd := rand.New(rand.NewPCG(7, uint64(len(s.fdt))))
		for range 40 {
			dir := mapDir{}
			for k, v := range clean {
				dir[k] = slices.Clone(v)
			}
			name := []string{"_0.fdt", "_0.fdx", "_0.si", "segments_1"}[rnd.IntN(4)]
			if storedFormats[s.fdt].plain && name != "_0.fdt" && name != "_0.fdx" {
				continue
			}
			at := rnd.IntN(len(dir[name]))
			dir[name][at] ^= 1 << rnd.IntN(8)
			err := readAllOf(t, dir)
			if err == nil {
				t.Fatalf("%s: a flipped bit at %d of %s is not found", s.name(), at, name)
			}
			var d *fault.Damage
			if !errors.Is(err, fault.ErrUnsupported) && (!errors.As(err, &d) || d.Blob == "") {
				t.Errorf("%s: a flipped bit at %d of %s gives %v, which names no blob", s.name(), at, name, err)
			}
		}
	}
}

func readAllOf(t *testing.T, dir Directory) error {
	t.Helper()
	c, err := Open(t.Context(), dir, Options{})
	if err != nil {
		return err
	}
	r := c.Reader(ReadOptions{})
	defer r.Close()
	for {
		if _, err := r.Next(t.Context()); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestDocumentsOfManyMegabytesAreRead reads documents that are longer than any buffer, as
// one unit (Lucene 4.1) and in slices.
func TestDocumentsOfManyMegabytesAreRead(t *testing.T) {
	if testing.Short() {
		t.Skip("long: compresses 50 MB")
	}
	big := someJSON(rand.New(rand.NewPCG(8, 9)), 17<<20)
	for _, s := range []segmentSpec{
		{fdt: "Lucene41StoredFieldsData", version: 0, chunkSize: 16 << 10, chunkDocs: 128},
		{fdt: "Lucene41StoredFieldsData", version: 2, chunkSize: 16 << 10, chunkDocs: 128},
		{fdt: "Lucene87StoredFieldsFastData", version: 3, chunkSize: 600 << 10, chunkDocs: 1024},
	} {
		s.docs = []testDoc{
			{{numID, 1, []byte("a")}, {numSource, 1, []byte(`{}`)}},
			{{numID, 1, []byte("b")}, {numSource, 1, big}},
			{{numID, 1, []byte("c")}, {numSource, 1, []byte(`{}`)}},
		}
		c, err := Open(t.Context(), encodeSegment(t, s), Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := c.Reader(ReadOptions{})
		for _, d := range s.docs {
			rec, err := r.Next(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", s.name(), err)
			}
			checkRecord(t, rec, d)
		}
		if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("%s ends with %v", s.name(), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestACancelledReaderStops gives up between two chunks and says why.
func TestACancelledReaderStops(t *testing.T) {
	s := segmentSpec{fdt: "Lucene90StoredFieldsFastData", version: 1, chunkSize: 600, chunkDocs: 5}
	s.docs = mixedDocs(s, 100)
	c, err := Open(t.Context(), encodeSegment(t, s), Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Reader(ReadOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := r.Next(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	read := 1
	for ; err == nil; read++ {
		_, err = r.Next(ctx)
	}
	if !errors.Is(err, context.Canceled) || read > 20 {
		t.Errorf("%v after %d documents", err, read)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestADocumentWithoutAnIDIsReturnedWhenItIsARoot: time series of Elasticsearch 9.5 store no
// id; such a document is told from a nested child by its value in _primary_term.
func TestADocumentWithoutAnIDIsReturnedWhenItIsARoot(t *testing.T) {
	s := segmentSpec{fdt: "Lucene90StoredFieldsFastData", version: 1, chunkSize: 600, chunkDocs: 5}
	s.docs = []testDoc{{}, {}, {{numID, 1, []byte("a")}}, {}}
	c, err := Open(t.Context(), encodeSegment(t, s), Options{})
	if err != nil {
		t.Fatal(err)
	}
	some := bitset{1<<1 | 1<<2}
	for _, test := range []struct {
		name  string
		roots rootTest
		want  []int64
	}{
		{"no column", rootTest{}, []int64{2}},
		{"some have a value", rootTest{known: true, docs: some}, []int64{1, 2}},
		{"all have a value", rootTest{known: true}, []int64{0, 1, 2, 3}},
	} {
		c.Segments[0].roots = test.roots
		if got, _ := drain(t, c, 0, 0); !slices.Equal(got, test.want) {
			t.Errorf("%s: documents %v, not %v", test.name, got, test.want)
		}
		r := c.Reader(ReadOptions{NestedTerms: true})
		rec, err := r.Next(t.Context())
		if err != nil || rec.Ordinal != 2 {
			t.Errorf("%s, nested documents have terms: %v, %v; want the document with an id", test.name, rec, err)
		}
		if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("%s, nested documents have terms: %v after the only root", test.name, err)
		}
	}
}
