package lucene

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// asked is a Memory that notes what it was asked.
type asked struct {
	max            int64
	raw, source    []int64
	held, releases int
}

func (a *asked) MaxSource(context.Context) (int64, error) { return a.max, nil }

func (a *asked) Hold(_ context.Context, raw, source int64) (func(), error) {
	a.raw, a.source = append(a.raw, raw), append(a.source, source)
	a.held++
	return func() { a.held--; a.releases++ }, nil
}

// readAll returns copies of all records of a segment.
func readAll(t *testing.T, dir mapDir, memory Memory) []Record {
	t.Helper()
	c, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Reader(ReadOptions{Memory: memory})
	defer r.Close()
	var all []Record
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		x := *rec
		x.Segment = nil
		x.ID, x.Routing, x.Source = bytes.Clone(x.ID), bytes.Clone(x.Routing), bytes.Clone(x.Source)
		all = append(all, x)
	}
}

// longDocs are short documents around one whose source has about size bytes, with numbers and a long field next to it.
func longDocs(s segmentSpec, size int) []testDoc {
	docs := mixedDocs(s, 30)
	text := someJSON(rand.New(rand.NewPCG(1, 2)), 4000)
	source := append(bytes.Repeat(text[:len(text)-2], size/len(text)), text...)
	docs[20] = testDoc{
		{numID, 1, []byte("long")}, {numRouting, 0, []byte("r")}, docs[0][0], {numOther, 1, bytes.Repeat([]byte("x"), 3<<20)},
		{numSource, 1, source}, {numOther, 0, bytes.Repeat([]byte("y"), 1<<20)}, docs[0][0],
	}
	return docs
}

// TestLongDocuments_AreReadSliceBySlice: in each format, one that is read slice by slice is what it is when it is read whole.
func TestLongDocuments_AreReadSliceBySlice(t *testing.T) {
	for _, s := range layouts() {
		if s.packed > 0 || s.fdt == "Lucene40StoredFieldsData" {
			continue
		}
		t.Run(s.name(), func(t *testing.T) {
			s.chunkSize = 60_000
			s.docs = longDocs(s, 1<<20)
			dir := encodeSegment(t, s)
			want := readAll(t, dir, nil)
			a := &asked{max: 100 << 20}
			got := readAll(t, dir, a)
			if len(got) != len(want) || len(a.raw) != 1 || a.held != 0 || a.releases != 1 {
				t.Fatalf("%d of %d documents; asked for %v, %d held", len(got), len(want), a.raw, a.held)
			}
			giants := 0
			for i := range got {
				if got[i].Giant {
					giants++
				}
				got[i].Giant = false
				if a, b := got[i], want[i]; a.Ordinal != b.Ordinal || a.IDKind != b.IDKind || !bytes.Equal(a.ID, b.ID) || !bytes.Equal(a.Routing, b.Routing) || !bytes.Equal(a.Source, b.Source) || a.HasSource != b.HasSource {
					t.Errorf("document %d is another one: id %q and %q", i, a.ID, b.ID)
				}
			}
			if giants != 1 {
				t.Errorf("%d are marked as long", giants)
			}
		})
	}
}

// TestASourceBeyondTheLimitIsNotHeld: it is named by its id and length, its bytes are neither kept nor decompressed, and
// what follows is read.
func TestASourceBeyondTheLimitIsNotHeld(t *testing.T) {
	s := segmentSpec{fdt: "Lucene90StoredFieldsHighData", version: 1, chunkSize: 60_000, chunkDocs: 140}
	s.docs = longDocs(s, 17<<20)
	dir := encodeSegment(t, s)
	a := &asked{max: 1 << 20}
	var all []Record
	took := testing.AllocsPerRun(1, func() { all = readAll(t, dir, a) })
	var long *Record
	for i := range all {
		if string(all[i].ID) == "long" {
			long = &all[i]
		}
	}
	if long == nil || long.Beyond != int64(len(valueOf(s.docs[20], numSource))) || long.HasSource || string(long.Routing) != "r" || all[len(all)-1].Ordinal != 29 {
		t.Fatalf("%+v of %d records (%v allocations)", long, len(all), took)
	}
	c, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := c.Reader(ReadOptions{Memory: a})
	defer r.Close()
	for {
		rec, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rec.Giant {
			if n := cap(r.raw) + cap(r.giant.raw) + cap(r.slice); n > 4<<20 {
				t.Errorf("%d bytes are held for it", n)
			}
			return
		}
	}
}

// TestHostileLongDocuments are refused by name, without much memory.
func TestHostileLongDocuments(t *testing.T) {
	good := func(d testDoc) testDoc { return append(testDoc{{numID, 1, []byte("long")}}, d...) }
	filler := storedField{numOther, 1, bytes.Repeat([]byte("x"), 5<<20)}
	for _, c := range []struct {
		name string
		doc  testDoc
	}{
		{"a field that is unknown", good(testDoc{filler, {99, 1, []byte("x")}})},
		{"an end within a field", good(testDoc{filler, {numOther, 2, nil}})},
		{"an unknown type", good(testDoc{filler, {numOther, 6, nil}})},
		{"ids of many bytes", testDoc{{numRouting, 1, bytes.Repeat([]byte("x"), 17<<20)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := segmentSpec{fdt: "ZstdStoredFields814", version: 1, chunkSize: 60_000, chunkDocs: 140, docs: []testDoc{c.doc}}
			commit, err := Open(t.Context(), encodeSegment(t, s), Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := commit.Reader(ReadOptions{Memory: &asked{}})
			defer r.Close()
			if _, err := r.Next(t.Context()); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%v", err)
			}
		})
	}
	endless := &Reader{stored: &storedFields{}} // slices of 0 bytes
	if err := endless.unpackGiant(t.Context(), &window{}, 0, 10, 0, true); err == nil {
		t.Error("slices without bytes are read")
	}
}
