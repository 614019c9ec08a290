package verify

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"testing"
)

func TestWhatIsKeptIsReadAsItWasWritten(t *testing.T) {
	h := newHasher()
	for _, n := range []int{0, 1, 255, 5000} {
		x := &tallied{index: "logs", table: newTable(256), documents: int64(n) + 12, filtered: 3, failed: Tally{Documents: 2, Bytes: 9, Exact: Sum{1, 2}}, unsent: map[string]int64{"no_source": 7}}
		for _, r := range records(n) {
			d := &Document{ID: []byte(r.id), Source: []byte(r.source)}
			x.table.add(place(d.ID), h.digest(d), len(d.Source))
		}
		found := tallies{"logs": x, "other": {index: "other", table: newTable(512), unsent: map[string]int64{}}}
		size := func(index string) int { return map[string]int{"logs": 256, "other": 512}[index] }
		b := encodeTallied(found, "damage")
		got, problem, err := decodeTallied(b, size)
		if err != nil || !reflect.DeepEqual(got, found) || problem != "damage" {
			t.Fatalf("%d documents: %v", n, err)
		}
		for i := 0; i < len(b); i += 1 + len(b)/50 {
			damaged := bytes.Clone(b)
			damaged[i] ^= 1
			if _, _, err := decodeTallied(damaged, size); err == nil {
				t.Errorf("%d documents: byte %d is another and it is read", n, i)
			}
			if _, _, err := decodeTallied(b[:i], size); err == nil {
				t.Errorf("%d documents: %d bytes are read", n, i)
			}
		}
		if _, _, err := decodeTallied(b, func(string) int { return 1024 }); err == nil {
			t.Errorf("%d documents: with another number of buckets", n)
		}
	}
}

// FuzzKept: bytes with a digest that fits are refused or read, whatever they state.
func FuzzKept(f *testing.F) {
	f.Add(encodeTallied(tallies{"a": {index: "a", table: newTable(256), unsent: map[string]int64{"r": 1}}}, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha256.Sum256(b)
		_, _, _ = decodeTallied(append(bytes.Clone(b), sum[:]...), func(string) int { return 256 })
		_, _, _ = decodeTallied(b, func(string) int { return 256 })
	})
}
