package codec_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestByteOrderFollowsFromTheCodecName(t *testing.T) {
	for name, le := range map[string]bool{
		"Lucene40StoredFieldsData": false, "Lucene410DocValues": false, "Lucene50LiveDocs": false, "Lucene87StoredFieldsFastData": false,
		"Lucene90SegmentInfo": true, "Lucene94FieldInfos": true, "Lucene104X": true, "ZstdStoredFields814": true,
		"CustomStoredFieldsZstdNoDict": true, "ES87TSDBDocValuesMetadata": true, "QatStoredFieldsLz4": true, "segments": false, "BitVector": false, "": false, "Lucene": false,
	} {
		if got := codec.LittleEndian(name); got != le {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestHeadersAndFootersAreChecked(t *testing.T) {
	var b []byte
	b = binary.BigEndian.AppendUint32(b, codec.HeaderMagic)
	b = append(b, 4)
	b = append(b, "Some"...)
	b = binary.BigEndian.AppendUint32(b, 3)
	b = append(b, "0123456789abcdef"...)
	b = append(b, 2, '1', 'z')
	n := len(b)
	b = append(b, "content"...)
	b = binary.BigEndian.AppendUint32(b, codec.FooterMagic)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(crc32.ChecksumIEEE(b)))
	in := codec.NewInput(b)
	if h := in.IndexHeader(); in.Err() != nil || h != (codec.Header{"Some", 3, "0123456789abcdef", "1z", n}) {
		t.Errorf("header %+v, %v", h, in.Err())
	}
	if _, err := codec.Footer(b); err != nil {
		t.Error(err)
	}
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if _, err := codec.Footer(b); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("bit %d of byte %d flipped gives %v", bit, i, err)
			}
			b[i] ^= 1 << bit
		}
	}
	for i := range n {
		in := codec.NewInput(b[:i])
		if in.IndexHeader(); !errors.Is(in.Err(), fault.ErrCorrupt) {
			t.Errorf("a header of %d bytes gives %v", i, in.Err())
		}
	}
}

func TestVariableLengthIntegersAreReadAndBounded(t *testing.T) {
	for _, v := range []int64{0, 1, 127, 128, 300, math.MaxInt32, math.MinInt32, -1} {
		in := codec.NewInput(binary.AppendUvarint(nil, uint64(uint32(v))))
		if got := in.VInt(); int64(got) != v || in.Err() != nil || in.Left() != 0 {
			t.Errorf("VInt %d: %d, %v", v, got, in.Err())
		}
		in = codec.NewInput(binary.AppendUvarint(nil, uint64(v)))
		if got := in.VLong(); got != v || in.Err() != nil {
			t.Errorf("VLong %d: %d, %v", v, got, in.Err())
		}
		if codec.ZigZag64(int64(uint64(v<<1)^uint64(v>>63))) != v {
			t.Errorf("zig-zag %d", v)
		}
	}
	long := slices.Repeat([]byte{0xFF}, 20)
	in := codec.NewInput(long)
	if in.VInt(); !errors.Is(in.Err(), fault.ErrCorrupt) {
		t.Error("a VInt without an end is accepted")
	}
	in = codec.NewInput(long)
	if in.VLong(); !errors.Is(in.Err(), fault.ErrCorrupt) {
		t.Error("a VLong without an end is accepted")
	}
}

func TestCountsThatCannotFitAreErrors(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<31-1)
	for name, read := range map[string]func(*codec.Input){
		"string": func(in *codec.Input) { _ = in.String() }, "set": func(in *codec.Input) { in.Strings(false) },
		"map": func(in *codec.Input) { in.Map(false) }, "count": func(in *codec.Input) { in.Count(4) },
	} {
		in := codec.NewInput(huge)
		if read(in); !errors.Is(in.Err(), fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, in.Err())
		}
	}
}

// pack writes values as a stream of bits.
func pack(v []uint64, bits int, le bool) []byte {
	out := make([]byte, (len(v)*bits+7)/8+3)
	for k, x := range v {
		for i := range bits {
			at := k*bits + i
			if le {
				out[at/8] |= byte(x>>i&1) << (at % 8)
			} else {
				out[at/8] |= byte(x>>(bits-1-i)&1) << (7 - at%8)
			}
		}
	}
	return out
}

func TestPackedIntegersOfEveryWidthAreRead(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for bits := 1; bits <= 64; bits++ {
		for _, n := range []int{1, 7, 130} {
			v := make([]uint64, n)
			for i := range v {
				v[i] = r.Uint64() >> (64 - bits)
			}
			be := pack(v, bits, false)
			for _, le := range []bool{false, true} {
				data := pack(v, bits, le)
				for k := range v {
					off, length := codec.DirectSpan(bits, int64(k))
					if got := codec.DirectIn(data[off:off+length], bits, int64(k), le); got != v[k] {
						t.Fatalf("%d bits, le %v: value %d is %x, not %x", bits, le, k, got, v[k])
					}
				}
			}
			if bits > 31 {
				continue
			}
			for version := range int32(3) {
				size := codec.PackedLen(n, bits, version)
				src := append(be, make([]byte, 16)...)[:size]
				dst := make([]int32, n)
				codec.Unpack32(dst, src, bits)
				for k := range v {
					if uint64(dst[k]) != v[k] {
						t.Fatalf("%d bits, version %d: value %d is %x, not %x", bits, version, k, dst[k], v[k])
					}
				}
			}
		}
	}
}

func TestMonotonicSequencesRoundTheirProductToFloat32(t *testing.T) {
	// Large enough that float64 gives another product.
	avg := float32(16777.217)
	const n, shift = 3000, 10
	for _, le := range []bool{false, true} {
		var order binary.AppendByteOrder = binary.BigEndian
		if le {
			order = binary.LittleEndian
		}
		want := make([]int64, n)
		var meta, data []byte
		for first := 0; first < n; first += 1 << shift {
			num := min(n-first, 1<<shift)
			deltas := make([]uint64, num)
			for k := range deltas {
				deltas[k] = uint64((k * 7) % 16)
				want[first+k] = int64(first)*1000 + int64(avg*float32(k)) + int64(deltas[k])
			}
			meta = order.AppendUint64(meta, uint64(first*1000))
			meta = order.AppendUint32(meta, math.Float32bits(avg))
			meta = order.AppendUint64(meta, uint64(len(data)))
			meta = append(meta, 4)
			data = append(data, pack(deltas, 4, le)...)
		}
		in := codec.NewInput(meta)
		in.SetLittleEndian(le)
		m := in.Monotonic(n, shift)
		if in.Err() != nil || in.Left() != 0 {
			t.Fatal(in.Err(), in.Left())
		}
		for i := range m.Len() {
			off, length := m.Span(i)
			if v := m.At(i, data[off:off+length], le); v != want[i] {
				t.Errorf("value %d is %d, not %d", i, v, want[i])
			}
		}
	}
}

func FuzzInput(f *testing.F) {
	f.Add([]byte{0x3F, 0xD7, 0x6C, 0x17, 1, 'x', 0, 0, 0, 0}, int64(3), int32(2))
	f.Fuzz(func(t *testing.T, b []byte, n int64, shift int32) {
		defer fuzzing.Bounded(t, len(b))()
		in := codec.NewInput(b)
		in.IndexHeader()
		in.Map(false)
		in.Strings(true)
		m := in.Monotonic(n, shift)
		if in.Err() != nil && !errors.Is(in.Err(), fault.ErrCorrupt) {
			t.Fatalf("error without a category: %v", in.Err())
		}
		if in.Err() != nil {
			return
		}
		for i := range min(m.Len(), 1<<16) {
			if off, length := m.Span(i); off >= 0 && length > 0 && off <= int64(len(b))-length {
				m.At(i, b[off:off+length], true)
			}
		}
	})
}
