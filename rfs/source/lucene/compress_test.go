package lucene

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	plz4 "github.com/pierrec/lz4/v4"
)

// lz4Block compresses p alone or, with a dictionary, after it.
func lz4Block(p []byte) []byte {
	dst := make([]byte, plz4.CompressBlockBound(len(p)))
	var c plz4.Compressor
	n, err := c.CompressBlock(p, dst)
	if err != nil {
		panic(err)
	}
	if n > 0 {
		return dst[:n]
	}
	// Not compressible: one sequence of literals.
	var o out
	if len(p) < 15 {
		o.u8(len(p) << 4)
	} else {
		o.u8(0xF0)
		n := len(p) - 15
		for ; n >= 255; n -= 255 {
			o.u8(255)
		}
		o.u8(n)
	}
	o.bytes(p)
	return o.b
}

// deflater returns an encoder of DEFLATE with a dictionary. It keeps its memory: a new one for each block is what these
// tests would spend their time with.
func deflater(t testing.TB, dict []byte) func(p []byte) []byte {
	w, err := flate.NewWriterDict(io.Discard, 6, dict)
	if err != nil {
		t.Fatal(err)
	}
	return func(p []byte) []byte {
		var b bytes.Buffer
		w.Reset(&b)
		_, _ = w.Write(p)
		_ = w.Close()
		return b.Bytes()
	}
}

// zstdFramer returns an encoder of zstd frames with a dictionary.
func zstdFramer(t testing.TB, dict []byte) func(p []byte) []byte {
	opts := []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1 << 18)}
	if len(dict) > 0 {
		opts = append(opts, zstd.WithEncoderDictRaw(0, dict))
	}
	w, err := zstd.NewWriter(nil, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return func(p []byte) []byte { return w.EncodeAll(p, nil) }
}

// compressUnit writes one unit in the way of a stored-fields codec.
func compressUnit(t testing.TB, fdt string, p []byte) []byte {
	var o out
	blocks := func(dictLen, blockLen int, each func(p []byte)) {
		for d := dictLen; d < len(p); d += blockLen {
			each(p[d:min(d+blockLen, len(p))])
		}
	}
	tenth := func(n int) int { return (n + 9) / 10 }
	switch fdt {
	case "Lucene41StoredFieldsData", "Lucene50StoredFieldsFastData":
		return lz4Block(p)
	case "Lucene50StoredFieldsHighData":
		c := deflater(t, nil)(p)
		o.vint(len(c))
		o.bytes(c)
	case "Lucene87StoredFieldsFastData", "Lucene90StoredFieldsFastData":
		dictLen := min(65535, len(p)/20)
		blockLen := tenth(len(p) - dictLen)
		o.vint(dictLen)
		o.vint(blockLen)
		data := [][]byte{lz4Block(p[:dictLen])}
		blocks(dictLen, blockLen, func(b []byte) { data = append(data, lz4WithDict(b, p[:dictLen])) })
		for _, d := range data {
			o.vint(len(d))
		}
		o.bytes(bytes.Join(data, nil))
	case "Lucene87StoredFieldsHighData", "Lucene90StoredFieldsHighData", "CustomStoredFieldsZstd":
		press := deflater
		if fdt == "CustomStoredFieldsZstd" {
			press = zstdFramer
		}
		dictLen := len(p) / 60
		blockLen := tenth(len(p) - dictLen)
		o.vint(dictLen)
		o.vint(blockLen)
		var c []byte
		if dictLen > 0 {
			c = press(t, nil)(p[:dictLen])
		}
		o.vint(len(c))
		o.bytes(c)
		each := press(t, p[:dictLen])
		blocks(dictLen, blockLen, func(p []byte) {
			c := each(p)
			o.vint(len(c))
			o.bytes(c)
		})
	case "ZstdStoredFields814":
		c := zstdFramer(t, nil)(p)
		o.vint(len(c))
		o.bytes(c)
	default:
		o.vint(tenth(len(p)))
		each := qatBlocks(t, fdt)
		blocks(0, tenth(len(p)), func(p []byte) {
			c := each(p)
			o.vint(len(c))
			o.bytes(c)
		})
	}
	return o.b
}

// qatBlocks returns an encoder of the blocks of a codec of QAT.
func qatBlocks(t testing.TB, fdt string) func(p []byte) []byte {
	var b bytes.Buffer
	var w interface {
		io.WriteCloser
		Reset(w io.Writer)
	}
	switch fdt {
	case "QatStoredFieldsLz4":
		w = plz4.NewWriter(&b)
	case "QatStoredFieldsDeflate":
		w = gzip.NewWriter(&b)
	default:
		return zstdFramer(t, nil)
	}
	return func(p []byte) []byte {
		b.Reset()
		w.Reset(&b)
		_, _ = w.Write(p)
		_ = w.Close()
		return bytes.Clone(b.Bytes())
	}
}

// lz4WithDict returns a greedy LZ4 encoder whose matches may reach into a dictionary.
func lz4WithDict(p, dict []byte) []byte {
	all := append(slices.Clone(dict), p...)
	at := map[uint32]int{}
	for i := 0; i+4 <= len(dict); i++ {
		at[binary.LittleEndian.Uint32(all[i:])] = i
	}
	var o out
	more := func(n int) {
		for ; n >= 255; n -= 255 {
			o.u8(255)
		}
		o.u8(n)
	}
	sequence := func(lits []byte, match, off int) {
		l, m := min(len(lits), 15), 0
		if match > 0 {
			m = min(match-4, 15)
		}
		o.u8(l<<4 | m)
		if l == 15 {
			more(len(lits) - 15)
		}
		o.bytes(lits)
		if match == 0 {
			return
		}
		o.bytes([]byte{byte(off), byte(off >> 8)})
		if m == 15 {
			more(match - 4 - 15)
		}
	}
	i, lit := len(dict), len(dict)
	for i+12 < len(all) {
		key := binary.LittleEndian.Uint32(all[i:])
		from, ok := at[key]
		at[key] = i
		if !ok || i-from > 65535 {
			i++
			continue
		}
		n := 4
		for i+n < len(all)-5 && all[from+n] == all[i+n] {
			n++
		}
		sequence(all[lit:i], n, i-from)
		i += n
		lit = i
	}
	sequence(all[lit:], 0, 0)
	return o.b
}
