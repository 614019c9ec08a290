package columns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// memData is a .dvd file in memory.
type memData []byte

func (d memData) Size() int64 { return int64(len(d)) }

func (d memData) ReadAt(_ context.Context, off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off+n > int64(len(d)) {
		return nil, fmt.Errorf("%d bytes at %d of %d: %w", n, off, len(d), fault.ErrCorrupt)
	}
	return slices.Clone(d[off : off+n]), nil
}

// appendDirect writes values as DirectWriter does, with its padding.
func appendDirect(b []byte, values []uint64, width int, le bool) []byte {
	out := make([]byte, (len(values)*width+7)/8+3)
	for i, v := range values {
		for k := range width {
			at := i*width + k
			bit := v >> k & 1
			if !le {
				bit = v >> (width - 1 - k) & 1
				out[at/8] |= byte(bit << (7 - at%8))
				continue
			}
			out[at/8] |= byte(bit << (at % 8))
		}
	}
	return append(b, out...)
}

// metaOf makes monotonic metadata of one block, as .dvm holds it, and its data.
func metaOf(t testing.TB, values []int64) (codec.Monotonic, []byte) {
	t.Helper()
	var b []byte
	low := slices.Min(values)
	b = binary.LittleEndian.AppendUint64(b, uint64(low))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = append(b, 24)
	deltas := make([]uint64, len(values))
	for i, v := range values {
		deltas[i] = uint64(v - low)
	}
	in := codec.NewInput(b)
	in.SetLittleEndian(true)
	m := in.Monotonic(int64(len(values)), 20)
	if in.Err() != nil {
		t.Fatal(in.Err())
	}
	return m, appendDirect(nil, deltas, 24, true)
}

func readNumbers(t *testing.T, e *Entry, data memData, maxDoc int32) (map[int32][]int64, error) {
	t.Helper()
	r, err := e.NewReader(data, maxDoc)
	if err != nil {
		return nil, err
	}
	out := map[int32][]int64{}
	for d := range maxDoc {
		n, err := r.Advance(t.Context(), d)
		if err != nil {
			return nil, err
		}
		for i := range n {
			v, err := r.Number(t.Context(), i)
			if err != nil {
				return nil, err
			}
			out[d] = append(out[d], v)
		}
	}
	return out, nil
}

func TestNumbersOfLuceneAreReadInEveryForm(t *testing.T) {
	packed := []uint64{3, 0, 1, 7, 2}
	blocks := func(le bool) []byte {
		order := binary.AppendByteOrder(binary.BigEndian)
		if le {
			order = binary.LittleEndian
		}
		b := order.AppendUint64([]byte{4}, 100)
		body := appendDirect(nil, []uint64{1, 2, 3, 4}, 4, le)
		b = append(order.AppendUint32(b, uint32(len(body))), body...)
		b = order.AppendUint64(append(b, 0), 7) // four times the same
		b = order.AppendUint64(append(b, 1), 50)
		body = appendDirect(nil, []uint64{1}, 1, le)
		return append(order.AppendUint32(b, uint32(len(body))), body...)
	}
	for _, le := range []bool{false, true} {
		for _, c := range []struct {
			name string
			n    numbers
			data []byte
			want []int64
		}{
			{"constant", numbers{min: -5, factor: 1}, nil, []int64{-5, -5, -5, -5, -5}},
			{"minimum and factor", numbers{bits: 4, min: -10, factor: 100}, appendDirect(nil, packed, 4, le), []int64{290, -10, 90, 690, 190}},
			{"12 bits", numbers{bits: 12, factor: 1}, appendDirect(nil, packed, 12, le), []int64{3, 0, 1, 7, 2}},
			{"64 bits", numbers{bits: 64, factor: 1}, appendDirect(nil, packed, 64, le), []int64{3, 0, 1, 7, 2}},
			{"table", numbers{bits: 4, table: []int64{9, 8, -7, 1 << 60, 0, 0, 0, 5}}, appendDirect(nil, packed, 4, le), []int64{1 << 60, 9, 8, 5, -7}},
			{"blocks", numbers{form: formBlocks, shift: 2, factor: 2}, blocks(le), []int64{102, 104, 106, 108, 7, 7, 7, 7, 52}},
		} {
			const before = 10 // bytes of other columns
			c.n.off, c.n.size, c.n.values = before, int64(len(c.data)), int64(len(c.want))
			maxDoc := int32(len(c.want))
			e := &Entry{Docs: c.n.values, Values: c.n.values, le: le, set: docSet{off: setAll}, numbers: c.n}
			data := memData(append(make([]byte, before), c.data...))
			got, err := readNumbers(t, e, data, maxDoc)
			for d, want := range c.want {
				if err != nil || !slices.Equal(got[int32(d)], []int64{want}) {
					t.Errorf("%s, little-endian %v: document %d has %v, want %d, %v", c.name, le, d, got[int32(d)], want, err)
				}
			}
			if len(c.data) == 0 {
				continue
			}
			cut := data[:len(data)-len(c.data)+1]
			if _, err := readNumbers(t, e, cut, maxDoc); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: a file that is too short gives %v", c.name, err)
			}
		}
	}
}

func TestSparseColumnsCountTheDocumentsBefore(t *testing.T) {
	var docs []int32
	var values []uint64
	for d := int32(0); d < 200000; d++ {
		if d%7 == 3 || d > 70000 && d < 140000 {
			docs = append(docs, d)
			values = append(values, uint64(d)*3)
		}
	}
	set := writeSet(true, 9, docs)
	body := appendDirect(nil, values, 32, true)
	n := int64(len(docs))
	e := &Entry{Docs: n, Values: n, le: true, set: docSet{off: 0, size: int64(len(set)), rankPower: 9},
		numbers: numbers{values: n, bits: 32, factor: 1, off: int64(len(set)), size: int64(len(body))}}
	data := memData(append(slices.Clone(set), body...))
	got, err := readNumbers(t, e, data, 200000)
	if err != nil || len(got) != len(docs) {
		t.Fatalf("%d documents, want %d, %v", len(got), len(docs), err)
	}
	for _, d := range docs {
		if !slices.Equal(got[d], []int64{int64(d) * 3}) {
			t.Fatalf("document %d has %v", d, got[d])
		}
	}
	r, err := e.NewReader(data, 200000)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []int32{199993, 3, 100000, 99999, 70001, 64} { // in any order, too
		n, err := r.Advance(t.Context(), d)
		if err != nil || (n == 1) != slices.Contains(docs, d) {
			t.Fatalf("document %d has %d values, %v", d, n, err)
		}
		if n == 0 {
			continue
		}
		if v, err := r.Number(t.Context(), 0); err != nil || v != int64(d)*3 {
			t.Errorf("document %d has %d, %v", d, v, err)
		}
	}
}

func TestSeveralValuesLieBetweenAddresses(t *testing.T) {
	meta, addresses := metaOf(t, []int64{0, 2, 3, 3, 6})
	body := appendDirect(nil, []uint64{5, 6, 7, 1, 2, 3}, 8, true)
	data := memData(append(slices.Clone(body), addresses...))
	e := &Entry{Kind: SortedNumeric, Docs: 4, Values: 6, le: true, set: docSet{off: setAll},
		numbers:   numbers{values: 6, bits: 8, factor: 1, size: int64(len(body))},
		addresses: &sequence{meta: meta, off: int64(len(body)), size: int64(len(addresses)), le: true}}
	got, err := readNumbers(t, e, data, 4)
	if want := map[int32][]int64{0: {5, 6}, 1: {7}, 3: {1, 2, 3}}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
	e.addresses.meta, _ = metaOf(t, []int64{0, 2, 1, 3, 6})
	_, wrong := metaOf(t, []int64{0, 2, 1, 3, 6})
	copy(data[len(body):], wrong)
	if _, err := readNumbers(t, e, data, 4); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("addresses that fall give %v", err)
	}
}

func TestOrdinalsOfASortedSegmentAreRanges(t *testing.T) {
	meta, starts := metaOf(t, []int64{0, 3, 4, 900, 1000})
	e := &Entry{Kind: Sorted, Docs: 1000, Values: 1000, le: true, set: docSet{off: setAll}, terms: &terms{n: 4},
		numbers: numbers{form: formRanges, values: 1000, ordinals: true, ranges: &sequence{meta: meta, size: int64(len(starts)), le: true}}}
	got, err := readNumbers(t, e, memData(starts), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for d := range int32(1000) {
		want := int64(3)
		switch {
		case d < 3:
			want = 0
		case d < 4:
			want = 1
		case d < 900:
			want = 2
		}
		if !slices.Equal(got[d], []int64{want}) {
			t.Fatalf("document %d has ordinal %v, want %d", d, got[d], want)
		}
	}
	r, err := e.NewReader(memData(starts), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct {
		doc  int32
		want int64
	}{{999, 3}, {0, 0}, {3, 1}, {2, 0}, {500, 2}} {
		if _, err := r.Advance(t.Context(), d.doc); err != nil {
			t.Fatal(err)
		}
		if v, err := r.Number(t.Context(), 0); err != nil || v != d.want {
			t.Errorf("document %d has ordinal %d, want %d, %v", d.doc, v, d.want, err)
		}
	}
	e.terms.n = 5
	if _, err := e.NewReader(memData(starts), 1000); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("four ranges of five ordinals give %v", err)
	}
}

// pack128 writes 128 values as unpack128 describes it, bit by bit.
func pack128(values []uint64, width int) []uint64 {
	if width > 24 {
		width = 32
	}
	lane := 32
	if width <= 8 {
		lane = 8
	} else if width <= 16 {
		lane = 16
	}
	words := make([]uint64, 2*width)
	perLane := 2 * lane
	for l := range 64 / lane {
		up := 64 - lane*(l+1) // where the lane starts in a word
		mine := values[l*perLane : (l+1)*perLane]
		whole := lane / width
		for i, v := range mine[:whole*len(words)] {
			words[i%len(words)] |= v << (lane - width*(i/len(words)+1)) << up
		}
		left, at := lane%width, 0
		for _, v := range mine[whole*len(words):] {
			for bit := width - 1; bit >= 0; bit-- {
				words[at/left] |= v >> bit & 1 << (left - 1 - at%left) << up
				at++
			}
		}
	}
	return words
}

func TestPartsOf128ValuesAreUnpackedInEveryWidth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for width := 1; width <= 32; width++ {
		values := make([]uint64, 128)
		for i := range values {
			values[i] = rnd.Uint64() >> (64 - width)
		}
		var in [64]uint64
		copy(in[:], pack128(values, width))
		var got [128]int64
		unpack128(&got, &in, width)
		for i, v := range values {
			if got[i] != int64(v) {
				t.Fatalf("%d bits: value %d is %x, want %x", width, i, got[i], v)
			}
		}
	}
}

// block writes a block of values of Elasticsearch's formats.
type block struct{ b []byte }

func (b *block) vlong(v uint64) *block { b.b = binary.AppendUvarint(b.b, v); return b }
func (b *block) zlong(v int64) *block  { return b.vlong(uint64(v<<1 ^ v>>63)) }
func (b *block) raw(p ...byte) *block  { b.b = append(b.b, p...); return b }
func (b *block) packed(values []int64, width int) *block {
	if width > 32 {
		for _, v := range values {
			b.b = append(b.b, binary.LittleEndian.AppendUint64(nil, uint64(v))[:width/8]...)
		}
		return b
	}
	for at := 0; at < len(values); at += 128 {
		part := make([]uint64, 128)
		for i, v := range values[at : at+128] {
			part[i] = uint64(v)
		}
		for _, w := range pack128(part, width) {
			b.b = binary.LittleEndian.AppendUint64(b.b, w)
		}
	}
	return b
}

func series(n int, f func(i int) int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func TestBlocksOfElasticsearchAreDecodedInEveryForm(t *testing.T) {
	same := func(v int64) func(int) int64 { return func(int) int64 { return v } }
	pipeline := []byte{stageDecimal, stageSplitDelta, stageDelta, stageOffset, stageFactor, stageBits}
	for _, c := range []struct {
		name     string
		shift    int32
		ordinals int64 // 0: numbers
		stages   []byte
		data     *block
		want     []int64 // nil: damage
	}{
		{"one ordinal", 7, 50, nil, new(block).vlong(33 << 1), series(128, same(33))},
		{"two runs", 7, 50, nil, new(block).vlong(33<<2 | 1).vlong(100).zlong(-30), series(128, func(i int) int64 {
			if i < 100 {
				return 33
			}
			return 3
		})},
		{"packed ordinals, 512", 9, 1000, nil, new(block).vlong(3).packed(series(512, func(i int) int64 { return int64(i * 7 % 1000) }), 10),
			series(512, func(i int) int64 { return int64(i * 7 % 1000) })},
		{"cycle", 7, 50, nil, new(block).vlong(3<<4 | 7).vlong(9).vlong(1).vlong(5), series(128, func(i int) int64 { return []int64{9, 1, 5}[i%3] })},
		{"run that is too long", 7, 50, nil, new(block).vlong(1).vlong(129).zlong(0), nil},
		{"cycle of nothing", 7, 50, nil, new(block).vlong(7), nil},
		{"cycle that is too long", 7, 50, nil, new(block).vlong(129<<4 | 7), nil},
		{"unknown form of ordinals", 7, 50, nil, new(block).vlong(15), nil},
		{"bytes left", 7, 50, nil, new(block).vlong(2).raw(0), nil},
		{"zeros", 7, 0, nil, new(block).vlong(0), series(128, same(0))},
		{"bits only", 7, 0, nil, new(block).vlong(5<<3).packed(series(128, func(i int) int64 { return int64(i % 32) }), 5), series(128, func(i int) int64 { return int64(i % 32) })},
		{"factor, offset and deltas", 7, 0, nil, new(block).vlong(1<<3|7).packed(series(128, func(i int) int64 { return int64(i & 1) }), 1).vlong(1000 - 2).zlong(500).zlong(-70),
			series(128, func(i int) int64 { return int64(-70 + 500*(i+1) + 1000*((i+1)/2)) })},
		{"40 bits", 7, 0, nil, new(block).vlong(40<<3).packed(series(128, func(i int) int64 { return int64(i) << 32 }), 40), series(128, func(i int) int64 { return int64(i) << 32 })},
		{"56 bits", 7, 0, nil, new(block).vlong(56<<3).packed(series(128, func(i int) int64 { return int64(i) << 48 }), 56), series(128, func(i int) int64 { return int64(i) << 48 })},
		{"64 bits", 7, 0, nil, new(block).vlong(64<<3).packed(series(128, func(i int) int64 { return int64(-i) }), 64), series(128, func(i int) int64 { return int64(-i) })},
		{"33 bits", 7, 0, nil, new(block).vlong(33 << 3).raw(make([]byte, 2000)...), nil},
		{"packed values are cut", 7, 0, nil, new(block).vlong(5 << 3).raw(make([]byte, 79)...), nil},
		{"pipeline, no stage applies", 7, 0, pipeline, new(block).raw(1<<5).vlong(2).packed(series(128, func(i int) int64 { return int64(i % 4) }), 2), series(128, func(i int) int64 { return int64(i % 4) })},
		{"pipeline, deltas", 7, 0, pipeline, new(block).raw(1<<5 | 1<<4 | 1<<3 | 1<<2).vlong(0).vlong(0).zlong(3).zlong(10), series(128, func(i int) int64 { return int64(10 + 3*(i+1)) })},
		{"pipeline, deltas that start anew", 7, 0, pipeline, new(block).raw(1<<5 | 1<<3 | 1<<1).vlong(0).zlong(-2).vlong(2).vlong(10).vlong(50).zlong(100).zlong(200).zlong(300),
			series(128, func(i int) int64 {
				switch {
				case i < 10:
					return int64(100 - 2*(i+1))
				case i < 50:
					return int64(200 - 2*(i-9))
				}
				return int64(300 - 2*(i-49))
			})},
		{"pipeline, decimals", 7, 0, pipeline, new(block).raw(1<<5|1<<3|1).vlong(0).zlong(-225).raw(1, 0, 1).vlong(5).raw(binary.LittleEndian.AppendUint64(nil, 77)...),
			series(128, func(i int) int64 {
				if i == 5 {
					return 77
				}
				return sortable(-22.5)
			})},
		{"places that fall", 7, 0, pipeline, new(block).raw(1<<5 | 1<<1).vlong(0).vlong(2).vlong(10).vlong(10).zlong(1).zlong(1).zlong(1), nil},
		{"a place beyond the end", 7, 0, pipeline, new(block).raw(1<<5 | 1<<1).vlong(0).vlong(1).vlong(128).zlong(1).zlong(1), nil},
		{"decimals of a power that is too large", 7, 0, pipeline, new(block).raw(1<<5|1).vlong(0).raw(23, 0, 0), nil},
		{"a decimal beyond the end", 7, 0, pipeline, new(block).raw(1<<5|1).vlong(0).raw(0, 0, 1).vlong(128).raw(make([]byte, 8)...), nil},
		{"a mask without the last stage", 7, 0, pipeline, new(block).raw(1).vlong(0), nil},
		{"a mask of more stages", 7, 0, pipeline, new(block).raw(1<<6 | 1<<5).vlong(0), nil},
	} {
		n := numbers{form: formTSDB, shift: c.shift, ordinals: c.ordinals > 0, stages: c.stages}
		d := newTSDBDecoder(&n, c.ordinals)
		fill(d.out, -1)
		switch err := d.decode(c.data.b); {
		case c.want == nil:
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: %v, want damage", c.name, err)
			}
		case err != nil || !slices.Equal(d.out, c.want):
			t.Errorf("%s: %v, want %v, %v", c.name, d.out, c.want, err)
		}
	}
}

func TestBlocksThatDoNotFollowEachOtherAreRefused(t *testing.T) {
	data := new(block).vlong(1).b // bits 0, factor… of an empty block: one byte
	for name, starts := range map[string][]int64{"falling": {1, 0}, "beyond the end": {0, 1 << 20}} {
		meta, index := metaOf(t, starts)
		e := &Entry{Docs: 200, Values: 200, le: true, set: docSet{off: setAll}, numbers: numbers{form: formTSDB, values: 200, shift: 7,
			size: int64(len(data)), index: &sequence{meta: meta, off: int64(len(data)), size: int64(len(index)), le: true}}}
		_, err := readNumbers(t, e, append(slices.Clone(data), index...), 200)
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "block 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOrdinalsTakeAsManyBitsAsTheLastOne(t *testing.T) {
	for ordinals, want := range map[int64]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 1 << 20: 20, 1<<20 + 1: 21} {
		if d := newTSDBDecoder(&numbers{shift: 7}, ordinals); d.bits != want {
			t.Errorf("%d ordinals take %d bits, want %d", ordinals, d.bits, want)
		}
	}
}

// BenchmarkReader reads a million values in order of documents; the figures are bytes of 8 a value.
func BenchmarkReader(b *testing.B) {
	const docs, size = 1 << 20, 512
	blocks := func(one []byte) (numbers, memData) {
		var data []byte
		starts := make([]int64, 0, docs/size)
		for range docs / size {
			starts = append(starts, int64(len(data)))
			data = append(data, one...)
		}
		meta, index := metaOf(b, starts)
		at := int64(len(data))
		return numbers{form: formTSDB, values: docs, shift: 9, size: at, index: &sequence{meta: meta, off: at, size: int64(len(index)), le: true}}, append(data, index...)
	}
	packed, data := numbers{values: docs, bits: 16, factor: 3, size: 2*docs + 3}, appendDirect(nil, make([]uint64, docs), 16, true)
	times, timeData := blocks(new(block).raw(0b11101).vlong(16).packed(make([]int64, size), 16).vlong(998).zlong(5).vlong(1).vlong(100).zlong(1).zlong(2).b)
	times.stages = []byte{stageSplitDelta, stageDelta, stageOffset, stageFactor, stageBits}
	ordinals, ordinalData := blocks(new(block).vlong(3).packed(make([]int64, size), 12).b)
	ordinals.ordinals = true
	for _, c := range []struct {
		name string
		e    Entry
		data memData
	}{
		{"Lucene90 16 bits", Entry{numbers: packed}, data},
		{"ES95 timestamps", Entry{numbers: times}, timeData},
		{"ES95 ordinals", Entry{numbers: ordinals, terms: &terms{n: 4096}}, ordinalData},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.e.Docs, c.e.Values, c.e.le, c.e.set = docs, docs, true, docSet{off: setAll}
			b.SetBytes(8 * docs)
			for b.Loop() {
				r, err := c.e.NewReader(c.data, docs)
				if err != nil {
					b.Fatal(err)
				}
				for d := range int32(docs) {
					if _, err := r.Advance(b.Context(), d); err != nil {
						b.Fatal(err)
					}
					if _, err := r.Number(b.Context(), 0); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/docs, "ns/value")
		})
	}
}
