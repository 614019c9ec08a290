package lucene

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestCompression_NeededBytesAreRight decompresses units of every format of which only some ranges are needed, with one decompressor per
// format, so that what a former unit left behind would show.
func TestCompression_NeededBytesAreRight(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 60_000)
	for i := range text {
		text[i] = "abcdefgh \n"[dice.IntN(10)]
	}
	copy(text[30_000:], text[:20_000]) // what the dictionary holds
	formats := map[string]bool{}
	for _, s := range layouts() {
		formats[s.fdt] = storedFormats[s.fdt].compression != nil
	}
	for name, compressed := range formats {
		if !compressed {
			continue
		}
		t.Run(name, func(t *testing.T) {
			unit := storedFormats[name].compression()
			for range 40 {
				n := 1 + dice.IntN(len(text))
				raw := text[:n]
				b := compressUnit(t, name, raw)
				var c chunk
				c.needed = []span{}
				for at := dice.IntN(n); at < n; at += 1 + dice.IntN(n) {
					end := min(n, at+dice.IntN(2000))
					c.needed = append(c.needed, span{int64(at), int64(end)})
				}
				got, took, err := unit.unit([]byte("kept"), b, n, c.need(0), true)
				if err != nil || took != len(b) || len(got) != 4+n || string(got[:4]) != "kept" {
					t.Fatalf("%d bytes for %d, %d of %d taken: %v", len(got), n, took, len(b), err)
				}
				for _, x := range c.needed {
					if !bytes.Equal(got[4+x.from:4+x.to], raw[x.from:x.to]) {
						t.Fatalf("bytes %d to %d of %d differ", x.from, x.to, n)
					}
				}
			}
		})
	}
}
