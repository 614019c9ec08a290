package lucene

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// helped are Helpers that decompress stretches of some bytes only, so that short segments have many of them.
func helped(n int, stretch int64) *Helpers {
	h := NewHelpers(n)
	h.stretch = stretch
	return h
}

// trace returns what a reader of a shard returns: documents, the checksums that were known at each of them, and the error.
func trace(ctx context.Context, c *Commit, opt ReadOptions) (lines []string) {
	r := c.Reader(opt)
	defer r.Close()
	last := opt.From
	for n := 0; ; n++ {
		rec, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			last = c.MaxOrdinal
			if opt.To > 0 {
				last = min(opt.To, last)
			}
		}
		if err != nil {
			return append(lines, fmt.Sprintf("%v %+v", err, r.Checks(last)))
		}
		last = rec.Ordinal + 1
		line := fmt.Sprintf("%s giant %t beyond %d", describe(rec), rec.Giant, rec.Beyond)
		if n%17 == 0 {
			line += fmt.Sprintf(" %+v", r.Checks(rec.Ordinal))
		}
		lines = append(lines, line)
	}
}

// compareHelped compares a reader that has helpers with one that has none.
func compareHelped(t *testing.T, c *Commit, opt ReadOptions) (differs bool) {
	t.Helper()
	want := trace(t.Context(), c, opt)
	for _, h := range []*Helpers{helped(1, 1), helped(3, 2000)} {
		opt.Helpers = h
		got := trace(t.Context(), c, opt)
		if !slices.Equal(got, want) {
			n := 0
			for n < min(len(got), len(want)) && got[n] == want[n] {
				n++
			}
			t.Errorf("stretches of %d, from %d to %d: step %d of %d and %d is\n%s\nwant\n%s", h.stretch, opt.From, opt.To, n, len(got), len(want),
				slices.Concat(got, []string{""})[n], slices.Concat(want, []string{""})[n])
			return true
		}
		if len(h.tokens) != 0 {
			t.Errorf("%d goroutines run after Close", len(h.tokens))
		}
	}
	return false
}

// TestHelpersChangeNothingOfWhatIsRead: order, checksums at every document, dead and nested documents, ranges.
func TestHelpersChangeNothingOfWhatIsRead(t *testing.T) {
	rnd := rand.New(rand.NewPCG(31, 32))
	docs := int64(600)
	if testing.Short() {
		docs = 200
	}
	for _, s := range layouts() {
		s.docs = mixedDocs(s, int(docs))
		c, err := Open(t.Context(), encodeSegment(t, s), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.fdt)%2 == 0 { // some are dead, whole chunks among them
			c.Segments[0].live = make(bitset, 11)
			for i := range c.Segments[0].live {
				c.Segments[0].live[i] = []uint64{0, rnd.Uint64(), 1 << 63}[rnd.IntN(3)]
			}
		}
		for range 2 {
			from := rnd.Int64N(docs)
			if compareHelped(t, c, ReadOptions{From: from, To: from + rnd.Int64N(docs)}) {
				t.Fatal(s.name())
			}
		}
		if compareHelped(t, c, ReadOptions{}) {
			t.Fatal(s.name())
		}
	}
	for name, dir := range testShards(t) {
		for _, held := range []int64{0, 1} { // marks are read next to the documents
			c, err := Open(t.Context(), dir.without(documentsFile), Options{Values: true, Held: held})
			if err != nil {
				t.Fatal(err)
			}
			if compareHelped(t, c, ReadOptions{Values: true}) || compareHelped(t, c, ReadOptions{From: c.MaxOrdinal / 3}) {
				t.Fatal(name)
			}
		}
	}
}

// TestHelpersFindDamageWhereItWasFoundWithoutThem: the same documents come before the same error, which names blob, file and
// offset.
func TestHelpersFindDamageWhereItWasFoundWithoutThem(t *testing.T) {
	rnd := rand.New(rand.NewPCG(33, 34))
	rounds, docs := 12, 300
	if testing.Short() {
		rounds, docs = 3, 100
	}
	for _, s := range layouts() {
		s.docs = mixedDocs(s, docs)
		clean := encodeSegment(t, s)
		for round := range rounds {
			dir := mapDir{}
			for k, v := range clean {
				dir[k] = slices.Clone(v)
			}
			fdt := dir["_0.fdt"]
			if fdt[len(fdt)-1-rnd.IntN(len(fdt)*4/5)] ^= 1 << rnd.IntN(8); round%10 == 0 { // two of them
				fdt[len(fdt)-1-rnd.IntN(len(fdt)/2)] ^= 1 << rnd.IntN(8)
			}
			c, err := Open(t.Context(), dir, Options{})
			if err != nil {
				continue
			}
			if compareHelped(t, c, ReadOptions{}) {
				t.Fatal(s.name(), round)
			}
		}
	}
}

// failingDir returns an error for what lies behind a place of .fdt.
type failingDir struct {
	mapDir
	behind int64
}

func (d failingDir) Open(name string) (File, error) {
	f, err := d.mapDir.Open(name)
	if name == "_0.fdt" && err == nil {
		return failingFile{f, d.behind}, nil
	}
	return f, err
}

type failingFile struct {
	File
	behind int64
}

var errBroken = errors.New("connection lost")

func (f failingFile) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	s, err := f.File.Stream(ctx, off, n)
	if err != nil {
		return nil, err
	}
	return &failingStream{ReadCloser: s, left: f.behind - off}, nil
}

type failingStream struct {
	io.ReadCloser
	left int64
}

func (s *failingStream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, errBroken
	}
	n, err := s.ReadCloser.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

// TestHelpersReturnAnErrorOfTheRepositoryBehindWhatWasRead: documents that were read come before it.
func TestHelpersReturnAnErrorOfTheRepositoryBehindWhatWasRead(t *testing.T) {
	s := segmentSpec{fdt: "Lucene90StoredFieldsHighData", version: 1, chunkSize: 3000, chunkDocs: 40}
	s.docs = mixedDocs(s, 700)
	dir := encodeSegment(t, s)
	for behind := int64(100); behind < int64(len(dir["_0.fdt"])); behind += 4999 {
		c, err := Open(t.Context(), failingDir{dir, behind}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if compareHelped(t, c, ReadOptions{}) {
			t.Fatal(behind)
		}
	}
}

// TestHelpersLeaveLongDocumentsToTheReader: their memory is asked for as without helpers, also where a chunk is short in the
// file, and what is decompressed ahead is bounded.
func TestHelpersLeaveLongDocumentsToTheReader(t *testing.T) {
	s := segmentSpec{fdt: "ZstdStoredFields814", version: 1, chunkSize: 60_000, chunkDocs: 140}
	for i := range 60 {
		n := 1000
		if i%7 == 3 {
			n = 3 << 20 // ten of them are more than is decompressed ahead
		}
		if i%20 == 5 {
			n = 6 << 20
		}
		source := append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), n)...), `"}`...)
		s.docs = append(s.docs, testDoc{{numID, 1, fmt.Appendf(nil, "%d", i)}, {numSource, 1, source}})
	}
	c, err := Open(t.Context(), encodeSegment(t, s), Options{})
	if err != nil {
		t.Fatal(err)
	}
	plain := &asked{}
	want := trace(t.Context(), c, ReadOptions{Memory: plain})
	with := &asked{}
	h := helped(3, 1)
	r := c.Reader(ReadOptions{Memory: with, Helpers: h})
	defer r.Close()
	for n := range len(s.docs) {
		rec, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(rec); want[n][:len(got)] != got {
			t.Fatalf("document %d: %s, want %s", n, got, want[n])
		}
		if held := r.chunks.raw.Load(); held > maxAheadRaw+3*giantChunk {
			t.Fatalf("%d bytes are decompressed ahead", held)
		}
	}
	if fmt.Sprint(with) != fmt.Sprint(plain) {
		t.Errorf("memory was asked for as %v, want %v", with, plain)
	}
}

// TestHelpersLeaveTheirCoresToReaders: one that is open takes the place of a helper.
func TestHelpersLeaveTheirCoresToReaders(t *testing.T) {
	s := segmentSpec{fdt: "Lucene87StoredFieldsHighData", version: 3, chunkSize: 2000, chunkDocs: 40}
	s.docs = mixedDocs(s, 700)
	c, err := Open(t.Context(), encodeSegment(t, s), Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := helped(1, 1500)
	begin := func(name string, ahead bool) *Reader {
		r := c.Reader(ReadOptions{Helpers: h})
		if _, err := r.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(r.chunks.queue) > 0; got != ahead {
			t.Errorf("%s reads ahead: %t", name, got)
		}
		return r
	}
	first := begin("the only reader", true)
	second := begin("a second one", false)
	for err == nil {
		_, err = first.Next(t.Context())
		if n := len(first.chunks.queue); err == nil && first.chunks.next == first.stored.index.chunks() && n > 0 {
			t.Fatalf("%d stretches are read ahead to the end beside a second reader", n)
		}
	}
	for range 2 {
		if err := errors.Join(first.Close(), second.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if third := begin("the only one that is open", true); third.Close() != nil || h.readers.Load() != 0 {
		t.Errorf("%d readers are open after Close", h.readers.Load())
	}
}

// TestHelpersServeManyReaders: readers that come and go beside helpers, of which some are closed early.
func TestHelpersServeManyReaders(t *testing.T) {
	s := segmentSpec{fdt: "Lucene87StoredFieldsHighData", version: 3, chunkSize: 2000, chunkDocs: 40}
	s.docs = mixedDocs(s, 700)
	c, err := Open(t.Context(), encodeSegment(t, s), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := trace(t.Context(), c, ReadOptions{})
	h := helped(6, 1500)
	done := make(chan error)
	for i := range 8 {
		go func() {
			if i%4 == 3 {
				r := c.Reader(ReadOptions{Helpers: h})
				_, err := r.Next(t.Context())
				done <- errors.Join(err, r.Close())
				return
			}
			if got := trace(t.Context(), c, ReadOptions{Helpers: h}); !slices.Equal(got, want) {
				done <- errors.New("another result")
				return
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(h.tokens) != 0 {
		t.Errorf("%d goroutines run after Close", len(h.tokens))
	}
}
