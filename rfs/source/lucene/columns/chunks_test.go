package columns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// chunkForm is one of the ways in which binary values are compressed.
type chunkForm struct {
	lz4, grouped, raw bool
}

var chunkForms = map[string]chunkForm{
	"Lucene80":                     {lz4: true},
	"ES819TSDB, groups":            {grouped: true},
	"ES819TSDB, not compressed":    {grouped: true, raw: true},
	"ES8193TSDB, packed":           {},
	"ES8193TSDB, kept as they are": {raw: true},
}

// writeChunks writes values as the writers of a form do and the metadata of their column.
func writeChunks(t testing.TB, form chunkForm, values [][]byte, sizes []int) (*Entry, memData) {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	var starts, first []int64
	longest, most, at := 0, 0, 0
	for _, n := range sizes {
		part := values[at:min(at+n, len(values))]
		all := bytes.Join(part, nil)
		starts, first = append(starts, int64(len(data))), append(first, int64(at))
		longest, most, at = max(longest, len(all)), max(most, len(part)), at+len(part)
		if form.lz4 {
			data = append(lengthsOf(data, part, n), literals(all)...)
			continue
		}
		data = append(data, map[bool]byte{true: 0, false: 1}[form.raw])
		if data = binary.AppendUvarint(data, uint64(len(all))); len(all) == 0 {
			continue
		}
		if form.grouped {
			data = groupsOf(data, part)
		} else {
			data = packedOffsets(data, part)
		}
		if !form.raw {
			all = z.EncodeAll(all, nil)
			data = binary.AppendUvarint(data, uint64(len(all)))
		}
		data = append(data, all...)
	}
	b := &blobs{size: int64(len(data)), chunks: &chunks{longest: int32(longest), most: int32(most), grouped: form.grouped}}
	sequenceOf := func(v []int64) *sequence {
		m, p := metaOf(t, v)
		s := &sequence{meta: m, off: int64(len(data)), size: int64(len(p)), le: true}
		data = append(data, p...)
		return s
	}
	if form.lz4 {
		b.chunks.addresses, b.chunks.shift = sequenceOf(starts), 2
	} else {
		b.chunks.addresses = sequenceOf(append(starts, b.size))
		b.chunks.first = sequenceOf(append(first, int64(len(values))))
	}
	n := int64(len(values))
	return &Entry{Kind: Binary, Docs: n, Values: n, set: docSet{off: setAll}, blobs: b, le: true}, data
}

func lengthsOf(b []byte, part [][]byte, n int) []byte {
	lengths := make([]int, n)
	same := 1
	for i, v := range part {
		lengths[i] = len(v)
	}
	for _, l := range lengths {
		if l != lengths[0] {
			same = 0
		}
	}
	b = binary.AppendUvarint(b, uint64(lengths[0]<<1|same))
	for _, l := range lengths[1:] {
		if same == 0 {
			b = binary.AppendUvarint(b, uint64(l))
		}
	}
	return b
}

func groupsOf(b []byte, part [][]byte) []byte {
	v := []uint32{0}
	for _, p := range part {
		v = append(v, uint32(len(p)))
	}
	for ; len(v) >= 4; v = v[4:] {
		flag := len(b)
		b = append(b, 0)
		for k, x := range v[:4] {
			p := binary.LittleEndian.AppendUint32(nil, x)
			n := 4
			for n > 1 && p[n-1] == 0 {
				n--
			}
			b[flag] |= byte(n-1) << (6 - 2*k)
			b = append(b, p[:n]...)
		}
	}
	for _, x := range v {
		b = binary.AppendUvarint(b, uint64(x))
	}
	return b
}

func packedOffsets(b []byte, part [][]byte) []byte {
	v := []uint64{0}
	for _, p := range part {
		v = append(v, uint64(len(p)))
	}
	const width = 11
	p := appendDirect(nil, v, width, false)
	return append(append(b, width), p[:(len(v)*width+7)/8]...)
}

func someValues(n int) (values [][]byte, sizes []int) {
	for i := range n {
		values = append(values, bytes.Repeat(fmt.Appendf(nil, "v%d.", i), i*7%23*(i%5)))
		if i%4 == 0 {
			sizes = append(sizes, 4)
		}
	}
	values[n-2] = bytes.Repeat([]byte("long"), 400)
	return values, sizes
}

func TestCompressedBinaryValuesAreReadInEveryForm(t *testing.T) {
	for name, form := range chunkForms {
		t.Run(name, func(t *testing.T) {
			values, sizes := someValues(26)
			e, data := writeChunks(t, form, values, sizes)
			r, err := e.NewReader(data, 26)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []int32{0, 1, 2, 3, 4, 9, 22, 23, 24, 25, 0, 7, 8, 3} { // onward, with jumps, and back
				n, err := r.Advance(t.Context(), d)
				if err != nil || n != 1 {
					t.Fatalf("document %d has %d values, %v", d, n, err)
				}
				if got, err := r.Bytes(t.Context(), 0); err != nil || !bytes.Equal(got, values[d]) {
					t.Fatalf("document %d: %q, %v, want %q", d, got, err, values[d])
				}
			}
		})
	}
}

// TestDamagedCompressedValuesAreErrors: what does not fit is an error with its place; the checksum is for the rest.
func TestDamagedCompressedValuesAreErrors(t *testing.T) {
	values, sizes := someValues(26)
	for name, c := range map[string]struct {
		form   string
		damage func(e *Entry, d memData)
		says   string
	}{
		"length of a value":       {"Lucene80", func(_ *Entry, d memData) { copy(d, "\xfe\x7f") }, "at most"},
		"raw length":              {"ES8193TSDB, packed", func(e *Entry, d memData) { d[2] |= 0x7f }, "raw bytes"},
		"width of offsets":        {"ES8193TSDB, packed", func(_ *Entry, d memData) { d[3] = 33 }, "33 bits"},
		"an offset":               {"ES819TSDB, groups", func(_ *Entry, d memData) { d[4]++ }, "bytes of values"},
		"most values of a chunk":  {"ES819TSDB, groups", func(e *Entry, _ memData) { e.blobs.chunks.most = 3 }, "at most 3"},
		"longest chunk":           {"ES819TSDB, groups", func(e *Entry, _ memData) { e.blobs.chunks.longest = 1 }, "raw"},
		"longest chunk, negative": {"Lucene80", func(e *Entry, _ memData) { e.blobs.chunks.longest = -1 }, "of at most -1"},
		"chunks end early":        {"ES8193TSDB, packed", func(e *Entry, _ memData) { e.blobs.size = 20 }, "bytes wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			e, data := writeChunks(t, chunkForms[c.form], values, sizes)
			c.damage(e, data)
			r, err := e.NewReader(data, 26)
			for d := int32(0); d < 26 && err == nil; d++ {
				if _, err = r.Advance(t.Context(), d); err == nil {
					_, err = r.Bytes(t.Context(), 0)
				}
			}
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}

// heldData bounds what its readers hold.
type heldData struct {
	memData
	held, most int64
}

func (d *heldData) Hold(n int64) error {
	if n > 0 && d.held+n > d.most {
		return ErrLong
	}
	d.held += n
	return nil
}

func (d *heldData) Page() int64 { return 4 << 10 }

// TestLongValuesAreHeldWithinABound: those of all columns together; Shrink gives them back, and they are read again.
func TestLongValuesAreHeldWithinABound(t *testing.T) {
	for _, name := range []string{"Lucene80", "ES819TSDB, groups", "ES819TSDB, not compressed"} {
		t.Run(name, func(t *testing.T) {
			form := chunkForms[name]
			values, sizes := someValues(26)
			values[5], values[21] = bytes.Repeat([]byte("a"), 600<<10), bytes.Repeat([]byte("b"), 600<<10)
			e, data := writeChunks(t, form, values, sizes)
			held := &heldData{memData: data, most: 1300 << 10} // one chunk, and it compressed
			one, err := e.NewReader(held, 26)
			if err != nil {
				t.Fatal(err)
			}
			two, err := e.NewReader(held, 26)
			if err != nil {
				t.Fatal(err)
			}
			read := func(r *Reader, doc int32) error {
				if _, err := r.Advance(t.Context(), doc); err != nil {
					return err
				}
				b, err := r.Bytes(t.Context(), 0)
				if err == nil && !bytes.Equal(b, values[doc]) {
					t.Errorf("document %d: %d bytes", doc, len(b))
				}
				return err
			}
			if err := read(one, 5); err != nil || held.held == 0 {
				t.Fatalf("%d held, %v", held.held, err)
			}
			held.most = held.held
			if err := read(two, 21); !errors.Is(err, ErrLong) {
				t.Errorf("a second column beside it: %v", err)
			}
			one.Shrink()
			two.Shrink()
			if held.held != 0 {
				t.Errorf("%d held", held.held)
			}
			for _, r := range []*Reader{two, one} {
				for _, doc := range []int32{21, 2, 5} {
					if err := read(r, doc); err != nil {
						t.Errorf("document %d after that: %v", doc, err)
					}
				}
				r.Shrink()
			}
		})
	}
}

// FuzzChunks damages compressed values of every form.
func FuzzChunks(f *testing.F) {
	values, sizes := someValues(26)
	for _, form := range chunkForms {
		_, data := writeChunks(f, form, values, sizes)
		f.Add([]byte(data), form.lz4, form.grouped, uint8(0))
	}
	f.Fuzz(func(t *testing.T, b []byte, lz4, grouped bool, shift uint8) {
		e, whole := writeChunks(t, chunkForm{lz4: lz4, grouped: grouped}, values, sizes)
		n := copy(whole[:e.blobs.size], b)
		whole[n%len(whole)] ^= shift
		r, err := e.NewReader(whole, 26)
		for d := int32(0); d < 26 && err == nil; d++ {
			if _, err = r.Advance(t.Context(), d); err == nil {
				_, err = r.Bytes(t.Context(), 0)
			}
		}
		if err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("error without a category: %v", err)
		}
	})
}

// BenchmarkCompressedBinary reads values of 100 bytes, which share chunks of 1,024, in order of documents.
func BenchmarkCompressedBinary(b *testing.B) {
	const docs = 1 << 14
	values, sizes := make([][]byte, docs), make([]int, docs/1024)
	for i := range values {
		values[i] = fmt.Appendf(nil, "%0100d", i)
	}
	for i := range sizes {
		sizes[i] = 1024
	}
	e, data := writeChunks(b, chunkForm{}, values, sizes)
	b.SetBytes(100 * docs)
	for b.Loop() {
		r, err := e.NewReader(data, docs)
		if err != nil {
			b.Fatal(err)
		}
		for d := range int32(docs) {
			if _, err := r.Advance(b.Context(), d); err != nil {
				b.Fatal(err)
			}
			if _, err := r.Bytes(b.Context(), 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/docs, "ns/value")
}
