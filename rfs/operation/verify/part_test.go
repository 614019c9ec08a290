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
		x := &tallied{index: "logs", table: newTable(), documents: int64(n) + 12, filtered: 3, failed: Tally{Documents: 2, Bytes: 9, Exact: Sum{1, 2}}, unsent: map[string]int64{"no_source": 7}}
		for _, r := range records(n) {
			d := &Document{ID: []byte(r.id), Source: []byte(r.source)}
			x.table.add(hashID(d.ID), h.digest(d), len(d.Source))
		}
		found := tallies{"logs": x, "other": {index: "other", table: newTable(), unsent: map[string]int64{}}}
		among := map[string]*comparison{"logs": {}, "other": {}}
		b := encodeTallied(found, "damage")
		got, problem, err := decodeTallied(b, among)
		if err != nil || !reflect.DeepEqual(got, found) || problem != "damage" {
			t.Fatalf("%d documents: %v", n, err)
		}
		for i := 0; i < len(b); i += 1 + len(b)/50 {
			damaged := bytes.Clone(b)
			damaged[i] ^= 1
			if _, _, err := decodeTallied(damaged, among); err == nil {
				t.Errorf("%d documents: byte %d is another and it is read", n, i)
			}
			if _, _, err := decodeTallied(b[:i], among); err == nil {
				t.Errorf("%d documents: %d bytes are read", n, i)
			}
		}
		if _, _, err := decodeTallied(b, map[string]*comparison{"logs": {}}); err == nil {
			t.Errorf("%d documents: of an index that is not compared", n)
		}
	}
}

// FuzzKept: bytes with a digest that fits are refused or read, whatever they state.
func FuzzKept(f *testing.F) {
	f.Add(encodeTallied(tallies{"a": {index: "a", table: newTable(), unsent: map[string]int64{"r": 1}}}, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha256.Sum256(b)
		_, _, _ = decodeTallied(append(bytes.Clone(b), sum[:]...), map[string]*comparison{"a": {}})
		_, _, _ = decodeTallied(b, map[string]*comparison{"a": {}})
	})
}
