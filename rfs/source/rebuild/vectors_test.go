package rebuild

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// TestRankVectors reads vectors as RankVectorsFieldMapper of Elasticsearch 8.18 and later writes them: the numbers of one after those of
// the other, little-endian. No published part of Elasticsearch has the type, so no fixture does.
func TestRankVectors(t *testing.T) {
	floats := func(all ...float32) (b []byte) {
		for _, v := range all {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b
	}
	for _, c := range []struct {
		name, mapping string
		b             []byte
		want          string // "" when it is damaged
	}{
		{"two vectors", `"dims":2`, floats(0.5, -1.25, 1e10, 3), `[0.5,-1.25],[1.0E10,3.0]`},
		{"one vector", `"dims":3`, floats(1, 2, 3), `[1.0,2.0,3.0]`},
		{"none", `"dims":3`, nil, ``},
		{"bytes", `"dims":2,"element_type":"byte"`, []byte{1, 0xFF, 0x80, 0x7F}, `[1,-1],[-128,127]`},
		{"bits", `"dims":16,"element_type":"bit"`, []byte{1, 0xFF, 0x80, 0x7F}, `[1,-1],[-128,127]`},
		{"bfloat16", `"dims":2,"element_type":"bfloat16"`, []byte{0x00, 0x3F, 0xA0, 0xBF}, `[0.5,-1.25]`},
		{"a part of a vector", `"dims":2`, floats(1, 2, 3), "damaged"},
		{"a length behind it", `"dims":2`, floats(1, 2, 2.236), "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, err := parseMapping([]byte(`{"properties":{"v":{"type":"rank_vectors",` + c.mapping + `}}}`))
			if err != nil {
				t.Fatal(err)
			}
			l := &vector{order: binary.LittleEndian, rows: true}
			l.dims, l.width = root.children[0].params.elements()
			var out values
			err = l.all(c.b, 0, &out)
			if _, damaged := errors.AsType[*codec.Error](err); damaged != (c.want == "damaged") || !damaged && (err != nil || string(out.b) != c.want || !out.array) {
				t.Errorf("%s, %v, want %s", out.b, err, c.want)
			}
		})
	}
	l := &vector{order: binary.LittleEndian, rows: true, dims: 2, width: 4}
	if err := l.all(floats(make([]float32, 100)...), 0, &values{most: 50}); !errors.Is(err, ErrTooLong) {
		t.Errorf("vectors that become too long: %v", err)
	}
}
