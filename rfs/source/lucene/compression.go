package lucene

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	plz4 "github.com/pierrec/lz4/v4"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/inflate"
	"github.com/rfsd/rfsd/rfs/source/lucene/lz4"
)

// compression decompresses units: a unit is a chunk, or a slice of a sliced chunk. Implementations keep buffers and belong to one reader.
type compression interface {
	// unit appends the n > 0 raw bytes of the unit at the start of src to dst. It returns dst and the number of bytes of src that it
	// consumed. If exact is set, the unit is all of src. Raw bytes outside need may have any content.
	unit(dst, src []byte, n int, need needed, exact bool) ([]byte, int, error)
}

// needed reports whether a raw byte of a unit in [from, to) is needed. A nil needed means all.
type needed func(from, to int) bool

func (f needed) in(from, to int) bool { return f == nil || f(from, to) }

const (
	// maxUnit bounds the raw length of a unit. Writers cut at 600 KiB; only units of plain
	// LZ4 can be longer, because Lucene 4.1 did not slice.
	maxUnit = 16 << 20
	// maxPlainUnit bounds the raw length of a unit of plain LZ4: a document of a hundred megabytes, and copies of its fields.
	maxPlainUnit = 256 << 20
)

// unitBound returns the maximum number of bytes of .fdt that a slice of n raw bytes occupies. No compression expands incompressible data by
// more than a small fraction.
func unitBound(n int64) int64 { return 2*n + 1024 }

// slack is the number of bytes after its output that a decoder may overwrite, so that it can copy 16 bytes at a time up to the end.
const slack = 16

// extend returns dst extended by n bytes of undefined content, with spare capacity of slack bytes.
func extend(dst []byte, n int) []byte {
	return slices.Grow(dst, n+slack)[:len(dst)+n]
}

func checkUnit(n int) error {
	if n > maxUnit {
		return codec.Errorf(0, "unit of %d raw bytes; at most %d are possible", n, maxUnit)
	}
	return nil
}

// piece reads a VInt length and returns that many bytes.
func piece(in *codec.Input) []byte { return in.Take(int(in.VInt())) }

// onePiece decodes a unit of n raw bytes that consists of one piece, and appends it to dst. It also returns the number of bytes of src that
// it consumed.
func onePiece(dst, src []byte, n int, decode func(buf, src []byte) error) ([]byte, int, error) {
	if err := checkUnit(n); err != nil {
		return dst, 0, err
	}
	in := codec.NewInput(src)
	p := piece(in)
	if in.Err() != nil {
		return dst, 0, in.Err()
	}
	at := len(dst)
	dst = extend(dst, n)
	return dst, in.Pos(), decode(dst[at:], p)
}

// readFull fills p from r and checks that r ends there.
func readFull(r io.Reader, p []byte) error {
	if _, err := io.ReadFull(r, p); err != nil {
		return broken(err)
	}
	var one [1]byte
	switch n, err := r.Read(one[:]); {
	case n > 0:
		return fmt.Errorf("more than %d raw bytes: %w", len(p), fault.ErrCorrupt)
	case err != nil && !errors.Is(err, io.EOF):
		return broken(err)
	}
	return nil
}

// broken marks an error of a decompressor, which only its input can cause, as fault.ErrCorrupt.
func broken(err error) error {
	if errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
}

// plainDeflate is the high compression of Lucene 5.0–8.6: VInt compressed length, stream.
type plainDeflate struct{ inflate.Decoder }

func newDeflate() compression { return &plainDeflate{} }

func (z *plainDeflate) unit(dst, src []byte, n int, _ needed, _ bool) ([]byte, int, error) {
	return onePiece(dst, src, n, func(buf, src []byte) error { return z.Decode(buf, 0, src) })
}

// dictDeflate is the high compression of Lucene 8.7 and later: pieces are DEFLATE streams, and the dictionary primes the window of the
// blocks. An empty dictionary has length 0 and no bytes.
type dictDeflate struct {
	inflate.Decoder
	dictPieces
}

func newDeflateDict() compression { return &dictDeflate{} }

func (z *dictDeflate) unit(dst, src []byte, n int, need needed, _ bool) ([]byte, int, error) {
	return z.pieces(dst, src, n, need, func(buf []byte, start int, src []byte, _ bool) error { return z.Decode(buf, start, src) })
}

// qat is the compression of OpenSearch's qat_lz4, qat_deflate and qat_zstd: blocks as in blocksZstd, each in the frame format that the
// library chose: gzip (1F 8B), an LZ4 frame (04 22 4D 18) or zstd (28 B5 2F FD).
type qat struct {
	zstdDecoder
	src  bytes.Reader
	gzip *gzip.Reader
	lz4  *plz4.Reader
}

func newQAT() compression { return &qat{} }

func (z *qat) unit(dst, src []byte, n int, need needed, _ bool) ([]byte, int, error) {
	return blockPieces(dst, src, n, need, z.block)
}

func (z *qat) block(dst, src []byte) error {
	var magic uint32
	if len(src) >= 4 {
		magic = binary.BigEndian.Uint32(src)
	}
	switch {
	case magic == 0x28B52FFD:
		return z.decode(dst, src)
	case magic == 0x04224D18:
		return z.lz4Frame(dst, src)
	case magic>>16 == 0x1F8B:
		return z.gunzip(dst, src)
	}
	return fmt.Errorf("QAT block starts with %08x, which is neither gzip nor LZ4 nor zstd: %w", magic, fault.ErrCorrupt)
}

func (z *qat) gunzip(dst, src []byte) error {
	z.src.Reset(src)
	var err error
	if z.gzip == nil {
		z.gzip, err = gzip.NewReader(&z.src)
	} else {
		err = z.gzip.Reset(&z.src)
	}
	if err != nil {
		return broken(err)
	}
	return readFull(z.gzip, dst)
}

func (z *qat) lz4Frame(dst, src []byte) error {
	z.src.Reset(src)
	if z.lz4 == nil {
		z.lz4 = plz4.NewReader(&z.src)
	} else {
		z.lz4.Reset(&z.src)
	}
	return readFull(z.lz4, dst)
}

// maxDictBlocks bounds the length of a dictionary as a multiple of the block length. The dictionary is copied for each block, so a small
// file could otherwise take minutes. Lucene writes blocks six times as long as the dictionary.
const maxDictBlocks = 64

// maxBlocks bounds the number of blocks after a dictionary. Lucene and OpenSearch write ten.
const maxBlocks = 1 << 16

// dictHead reads the head of a unit with a dictionary: the first dictLen raw bytes are the dictionary, the rest follows in blocks of
// blockLen that may refer to it.
func dictHead(in *codec.Input, n int) (dictLen, blockLen int) {
	dictLen, blockLen = int(in.VInt()), int(in.VInt())
	if dictLen < 0 || dictLen > n || blockLen < 0 || blockLen == 0 && dictLen < n {
		in.Fail("dictionary of %d and blocks of %d bytes for %d", dictLen, blockLen, n)
	}
	return dictLen, blockLen
}

// dictDecode fills buf[start:] from src; buf[:start] is the dictionary. fresh reports that the dictionary differs from the previous call's.
type dictDecode func(buf []byte, start int, src []byte, fresh bool) error

// dictPieces decodes units that consist of a dictionary and blocks: VInt dictLen, VInt blockLen, then the dictionary and each block as VInt
// compressed length and bytes.
//
// Decoders need the dictionary directly before their output. Blocks are decoded from the last to the first, so that the dictionary can be
// copied to the space before a block, which is not filled yet. Bytes that a decoder overwrites after its output are restored.
type dictPieces struct {
	prefix []byte // the dictionary
	blocks [][]byte
}

func (z *dictPieces) pieces(dst, src []byte, n int, need needed, decode dictDecode) ([]byte, int, error) {
	if err := checkUnit(n); err != nil {
		return dst, 0, err
	}
	in := codec.NewInput(src)
	dictLen, blockLen := dictHead(in, n)
	if dictLen < n && dictLen/maxDictBlocks > blockLen {
		in.Fail("dictionary of %d bytes for blocks of %d", dictLen, blockLen)
	}
	p := piece(in)
	if in.Err() != nil {
		return dst, 0, in.Err()
	}
	at := len(dst)
	dst = extend(dst, n)
	out := dst[at:]
	if dictLen > 0 {
		if err := decode(out[:dictLen], 0, p, true); err != nil {
			return dst, 0, err
		}
	}
	z.prefix, z.blocks = append(z.prefix[:0], out[:dictLen]...), z.blocks[:0]
	defer func() { clear(z.blocks) }()
	for done := dictLen; done < n; done += blockLen {
		if len(z.blocks) == maxBlocks {
			in.Fail("more than %d blocks", maxBlocks)
		}
		z.blocks = append(z.blocks, piece(in))
		if in.Err() != nil {
			return dst, 0, in.Err()
		}
	}
	fresh := true
	for i, p := range slices.Backward(z.blocks) {
		begin := dictLen + i*blockLen
		end := min(begin+blockLen, n)
		if !need.in(begin, end) {
			continue
		}
		buf := out[begin-dictLen : end]
		copy(buf, z.prefix)
		var behind [slack]byte
		kept := copy(behind[:], out[end:])
		if err := decode(buf, dictLen, p, fresh); err != nil {
			return dst, 0, err
		}
		fresh = false
		copy(out[end:], behind[:kept])
	}
	if need != nil {
		copy(out, z.prefix) // overwritten before a block, if the first one is not decoded
	}
	return dst, in.Pos(), nil
}

// plainLZ4 is the compression of Lucene 4.1–8.6: one bare LZ4 block without lengths.
type plainLZ4 struct{}

func newLZ4() compression { return plainLZ4{} }

func (plainLZ4) unit(dst, src []byte, n int, _ needed, exact bool) ([]byte, int, error) {
	if n > maxUnit {
		// Check a length of that size before allocating memory for it.
		if n > maxPlainUnit {
			return dst, 0, codec.Errorf(0, "unit of %d raw bytes", n)
		}
		if _, err := lz4.Measure(src, 0, n); err != nil {
			return dst, 0, err
		}
	}
	at := len(dst)
	dst = extend(dst, n)
	if exact {
		if err := uncompress(src, dst[at:], nil); err != nil {
			return dst, 0, err
		}
		return dst, len(src), nil
	}
	took, err := lz4.Decode(dst[at:], 0, src)
	return dst, took, err
}

// uncompress decodes a block of known compressed length that may refer to dict.
func uncompress(src, dst, dict []byte) error {
	n, err := plz4.UncompressBlockWithDict(src, dst, dict)
	if err != nil {
		return broken(err)
	}
	if n != len(dst) {
		return codec.Errorf(0, "LZ4 block of %d raw bytes where %d are expected", n, len(dst))
	}
	return nil
}

/*
dictLZ4 is the fast compression of Lucene 8.7 and later:

	VInt dictLen | VInt blockLen | VInt compressed length of the dictionary |
	VInt compressed length of each block | data

Matches of a block reach into the dictionary, never into other blocks.
*/
type dictLZ4 struct{ lengths []int }

func newLZ4Dict() compression { return &dictLZ4{} }

func (z *dictLZ4) unit(dst, src []byte, n int, need needed, _ bool) ([]byte, int, error) {
	if err := checkUnit(n); err != nil {
		return dst, 0, err
	}
	in := codec.NewInput(src)
	dictLen, blockLen := dictHead(in, n)
	dictSize := int(in.VInt())
	z.lengths = z.lengths[:0]
	for t := dictLen; t < n && in.Err() == nil; t += blockLen {
		z.lengths = append(z.lengths, int(in.VInt()))
	}
	p := in.Take(dictSize)
	if in.Err() != nil {
		return dst, 0, in.Err()
	}
	at := len(dst)
	dst = extend(dst, n)
	out := dst[at:]
	dict := out[:dictLen]
	if dictLen > 0 {
		if err := uncompress(p, dict, nil); err != nil {
			return dst, 0, err
		}
	}
	done := dictLen
	for _, size := range z.lengths {
		p := in.Take(size)
		if in.Err() != nil {
			return dst, 0, in.Err()
		}
		to := min(done+blockLen, n)
		if need.in(done, to) {
			if err := uncompress(p, out[done:to], dict); err != nil {
				return dst, 0, err
			}
		}
		done = to
	}
	return dst, in.Pos(), nil
}
