package columns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// literals writes an LZ4 block without matches.
func literals(p []byte) []byte {
	if len(p) < 15 {
		return append([]byte{byte(len(p) << 4)}, p...)
	}
	b := []byte{15 << 4}
	n := len(p) - 15
	for ; n >= 255; n -= 255 {
		b = append(b, 255)
	}
	return append(append(b, byte(n)), p...)
}

// writeTerms writes a dictionary and where its blocks start.
func writeTerms(list []string, shift int32, compressed bool) (data []byte, starts []int64) {
	for at := 0; at < len(list); at += 1 << shift {
		part := list[at:min(at+1<<shift, len(list))]
		starts = append(starts, int64(len(data)))
		data = append(binary.AppendUvarint(data, uint64(len(part[0]))), part[0]...)
		var rest []byte
		for i, term := range part[1:] {
			p := 0
			for p < len(part[i]) && p < len(term) && part[i][p] == term[p] {
				p++
			}
			s := len(term) - p
			rest = append(rest, byte(min(p, 15)|min(s-1, 15)<<4))
			if p >= 15 {
				rest = binary.AppendUvarint(rest, uint64(p-15))
			}
			if s >= 16 {
				rest = binary.AppendUvarint(rest, uint64(s-16))
			}
			rest = append(rest, term[p:]...)
		}
		if compressed && len(rest) > 0 {
			data = binary.AppendUvarint(data, uint64(len(rest)))
			rest = literals(rest)
		}
		data = append(data, rest...)
	}
	return data, starts
}

func newTerms(t *testing.T, list []string, shift int32, compressed bool) (*terms, memData) {
	t.Helper()
	data, starts := writeTerms(list, shift, compressed)
	meta, addresses := metaOf(t, starts)
	e := &terms{n: int64(len(list)), shift: shift, compressed: compressed, size: int64(len(data)), longest: int32(len(slices.MaxFunc(list, func(a, b string) int { return len(a) - len(b) })))}
	e.addresses = sequence{meta: meta, off: e.size, size: int64(len(addresses)), le: true}
	return e, append(slices.Clone(data), addresses...)
}

func someTerms(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%05d%s", i/3, strings.Repeat("x", i%3*(i%40))))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func TestTermsAreFoundByTheirOrdinals(t *testing.T) {
	list := someTerms(500)
	for name, c := range map[string]struct {
		list       []string
		shift      int32
		compressed bool
	}{
		"Lucene 7 and 8": {list, 4, false}, "Lucene 9": {list, 6, true}, "one term": {list[:1], 6, true},
		"one term in the last block": {list[:65], 6, true}, "the empty term": {append([]string{""}, list...), 6, true},
	} {
		e, data := newTerms(t, c.list, c.shift, c.compressed)
		r := newTermReader(e, data)
		order := make([]int64, 0, 3*len(c.list))
		for i := range c.list {
			order = append(order, int64(i))
		}
		for i := range c.list {
			order = append(order, int64(len(c.list)-1-i), int64(i*7%len(c.list)))
		}
		for _, o := range order {
			got, err := r.at(t.Context(), o)
			if err != nil || string(got) != c.list[o] {
				t.Fatalf("%s: term %d is %q, want %q, %v", name, o, got, c.list[o], err)
			}
		}
		for _, o := range []int64{-1, e.n} {
			if _, err := r.at(t.Context(), o); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: term %d gives %v", name, o, err)
			}
		}
	}
}

func TestDamagedTermsAreRefused(t *testing.T) {
	list := someTerms(100)
	for name, damage := range map[string]func(e *terms, data memData){
		"first term longer than any":  func(e *terms, _ memData) { e.longest = 2 },
		"longest term beyond reason":  func(e *terms, _ memData) { e.longest = maxTerm + 1 },
		"negative longest term":       func(e *terms, _ memData) { e.longest = -1 },
		"prefix longer than the term": func(_ *terms, data memData) { data[6] = 15 },
		"terms are cut":               func(e *terms, _ memData) { e.size = 30 },
	} {
		e, data := newTerms(t, list, 4, false)
		damage(e, data)
		r := newTermReader(e, data)
		var err error
		for o := int64(0); o < e.n && err == nil; o++ {
			_, err = r.at(t.Context(), o)
		}
		if !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e, data := newTerms(t, list, 6, true)
	data[6], data[7] = 0xFF, 0x7F // raw bytes that the block does not give
	if _, err := newTermReader(e, data).at(t.Context(), 1); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a length that is not true gives %v", err)
	}
}

func TestBinaryValues(t *testing.T) {
	meta, addresses := metaOf(t, []int64{0, 3, 3, 7})
	data := memData(append([]byte("abcdefg"), addresses...))
	for name, c := range map[string]struct {
		b    blobs
		want []string
	}{
		"equally long": {blobs{size: 6, shortest: 2, longest: 2}, []string{"ab", "cd", "ef"}},
		"of any length": {blobs{size: 7, shortest: 0, longest: 4,
			addresses: &sequence{meta: meta, off: 7, size: int64(len(addresses)), le: true}}, []string{"abc", "", "defg"}},
		"empty": {blobs{}, []string{"", "", ""}},
	} {
		e := &Entry{Kind: Binary, Docs: 3, Values: 3, le: true, set: docSet{off: setAll}, blobs: &c.b}
		r, err := e.NewReader(data, 3)
		if err != nil {
			t.Fatal(err)
		}
		for d, want := range c.want {
			if n, err := r.Advance(t.Context(), int32(d)); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			if got, err := r.Bytes(t.Context(), 0); err != nil || string(got) != want {
				t.Errorf("%s: document %d has %q, want %q, %v", name, d, got, want, err)
			}
			if _, err := r.Number(t.Context(), 0); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: a number of bytes: %v", name, err)
			}
		}
	}
	e := &Entry{Kind: Binary, Docs: 3, Values: 3, le: true, set: docSet{off: setAll}, blobs: &blobs{size: 3, shortest: 2, longest: 2}}
	r, err := e.NewReader(data, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Advance(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Bytes(t.Context(), 0); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("bytes beyond the column give %v", err)
	}
}
