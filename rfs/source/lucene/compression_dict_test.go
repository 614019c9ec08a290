package lucene

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestDictPieces puts the dictionary before every block, also where block and dictionary overlap.
func TestDictPieces(t *testing.T) {
	var text []byte
	for _, d := range logDocs(40) {
		text = append(text, d[1].value...)
	}
	for _, c := range []struct {
		name              string
		dict, blockLen, n int
		broken            bool
	}{
		{"as Lucene writes", 480, 2500, 25480, false},
		{"no dictionary", 0, 2500, 25000, false},
		{"nothing but a dictionary", 500, 0, 500, false},
		{"last block short", 480, 2500, 2981, false},
		{"block shorter than the dictionary", 1000, 300, 5100, false},
		{"blocks of one byte", 64, 1, 200, false},
		{"dictionary of very many blocks", 128, 1, 200, true},
		{"dictionary longer than all", 201, 10, 200, true},
		{"blocks of no bytes", 10, 0, 200, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, press := range map[string]func(testing.TB, []byte) func([]byte) []byte{"Lucene90StoredFieldsHighData": deflater, "CustomStoredFieldsZstd": zstdFramer} {
				raw := text[:c.n]
				dict := raw[:min(c.dict, len(raw))]
				var o out
				o.vint(c.dict)
				o.vint(c.blockLen)
				piece := func(p, dict []byte) {
					b := press(t, dict)(p)
					o.vint(len(b))
					o.bytes(b)
				}
				if c.dict > 0 {
					piece(dict, nil)
				} else {
					o.vint(0)
				}
				for d := c.dict; d < c.n && c.blockLen > 0; d += c.blockLen {
					piece(raw[d:min(d+c.blockLen, c.n)], dict)
				}
				got, took, err := storedFormats[name].compression().unit([]byte("kept"), o.b, c.n, nil, true)
				switch {
				case c.broken && !errors.Is(err, fault.ErrCorrupt):
					t.Fatalf("%s: error %v", name, err)
				case c.broken:
				case err != nil || took != len(o.b) || !bytes.Equal(got, append([]byte("kept"), raw...)):
					t.Fatalf("%s: error %v, %d of %d bytes taken, or other content", name, err, took, len(o.b))
				default:
					for at := 0; at < c.n; at += 1 + c.n/10 { // one part after the other
						part := chunk{needed: []span{{int64(at), int64(at + 1)}, {int64(c.dict) / 2, int64(c.dict)}}}
						got, _, err := storedFormats[name].compression().unit(nil, o.b, c.n, part.need(0), true)
						if err != nil || got[at] != raw[at] || !bytes.Equal(got[c.dict/2:c.dict], raw[c.dict/2:c.dict]) {
							t.Fatalf("%s: byte %d or the dictionary differs: %v", name, at, err)
						}
					}
				}
			}
		})
	}
}
