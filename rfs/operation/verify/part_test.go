package verify

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"testing"
)

func TestWhatIsKeptIsReadAsItWasWritten(t *testing.T) {
	h := newHasher()
	for _, n := range []int{1, 255, 5000, 100_000} {
		x := &tallied{Table: newTable(), Documents: int64(n) + 12, Filtered: 3, Failed: Tally{Documents: 2, Bytes: 9, Exact: Sum{1, 2}}, Unsent: map[string]int64{"no_source": 7}}
		for _, r := range records(n) {
			d := &Document{ID: []byte(r.id), Source: []byte(r.source)}
			x.Table.add(place(d.ID), h.digest(d), len(d.Source))
		}
		k, among := kept{tallies{"logs": x, "other": {}}, "damage"}, map[string]*comparison{"logs": {}, "other": {}}
		b, err := k.encode()
		if err != nil || len(b) > 350_000 {
			t.Fatalf("%d documents: %d bytes, %v", n, len(b), err)
		}
		if got, err := decodeKept(b, among); err != nil || !reflect.DeepEqual(got, k) {
			t.Fatalf("%d documents: %v", n, err)
		}
		for i := 0; i < len(b); i += 1 + len(b)/50 {
			damaged := bytes.Clone(b)
			damaged[i] ^= 1
			if _, err := decodeKept(damaged, among); err == nil {
				t.Errorf("%d documents: byte %d is another and it is read", n, i)
			}
			if _, err := decodeKept(b[:i], among); err == nil {
				t.Errorf("%d documents: %d bytes are read", n, i)
			}
		}
		if _, err := decodeKept(b, map[string]*comparison{"logs": {}}); err == nil {
			t.Errorf("%d documents: of an index that is not compared", n)
		}
	}
}

// FuzzKept: bytes with a digest that fits are refused or read, whatever they state.
func FuzzKept(f *testing.F) {
	b, err := kept{tallies{"a": {Table: newTable(), Unsent: map[string]int64{"r": 1}}}, ""}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-sha256.Size])
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha256.Sum256(b)
		_, _ = decodeKept(append(bytes.Clone(b), sum[:]...), map[string]*comparison{"a": {}})
		_, _ = decodeKept(b, map[string]*comparison{"a": {}})
	})
}
