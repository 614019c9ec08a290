package lucene

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// zstdDecoder reuses one zstd decoder. It decodes in the goroutine of the caller.
type zstdDecoder struct{ d *zstd.Decoder }

// decode fills dst from the frame src. The bytes between the length and the capacity of dst may be overwritten: with slack bytes there, the
// library copies 16 bytes at a time.
func (z *zstdDecoder) decode(dst, src []byte) error {
	if z.d == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxUnit), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return fmt.Errorf("zstd decoder: %w", err)
		}
		z.d = d
	}
	out, err := z.d.DecodeAll(src, dst[:0:min(len(dst)+slack, cap(dst))])
	switch {
	case err != nil:
		return broken(err)
	case len(out) != len(dst):
		return fmt.Errorf("zstd frame of %d raw bytes where %d are expected: %w", len(out), len(dst), fault.ErrCorrupt)
	case len(out) > 0 && &out[0] != &dst[0]:
		copy(dst, out)
	}
	return nil
}

// wholeZstd is the compression of ZstdStoredFields814: VInt compressed length, frame.
type wholeZstd struct{ zstdDecoder }

func newZstd() compression { return &wholeZstd{} }

func (z *wholeZstd) unit(dst, src []byte, n int, _ needed, _ bool) ([]byte, int, error) {
	return onePiece(dst, src, n, z.decode)
}

// dictZstd is the compression of CustomStoredFieldsZstd: pieces are frames; the blocks use the dictionary as raw content, with id 0.
type dictZstd struct {
	zstdPrefix
	dictPieces
}

func newZstdDict() compression { return &dictZstd{} }

func (z *dictZstd) unit(dst, src []byte, n int, need needed, _ bool) ([]byte, int, error) {
	return z.pieces(dst, src, n, need, func(buf []byte, start int, src []byte, fresh bool) error {
		if fresh {
			z.use(buf[:start])
		}
		return z.decode(buf, src)
	})
}

// blockPieces decodes units without a dictionary: VInt blockLen, then for each block VInt compressed length (0 ends the list) and the
// block.
func blockPieces(dst, src []byte, n int, need needed, decode func(dst, src []byte) error) ([]byte, int, error) {
	if err := checkUnit(n); err != nil {
		return dst, 0, err
	}
	in := codec.NewInput(src)
	blockLen := int(in.VInt())
	if blockLen < 1 {
		in.Fail("blocks of %d bytes", blockLen)
	}
	if in.Err() != nil {
		return dst, 0, in.Err()
	}
	at := len(dst)
	dst = extend(dst, n)
	out := dst[at:]
	for done := 0; done < n; {
		p := piece(in)
		if in.Err() == nil && len(p) == 0 {
			in.Fail("the blocks end after %d of %d bytes", done, n)
		}
		if in.Err() != nil {
			return dst, 0, in.Err()
		}
		to := min(done+blockLen, n)
		if need.in(done, to) {
			if err := decode(out[done:to], p); err != nil {
				return dst, 0, err
			}
		}
		done = to
	}
	return dst, in.Pos(), nil
}

// blocksZstd is the compression of CustomStoredFieldsZstdNoDict: each block is a frame.
type blocksZstd struct{ zstdDecoder }

func newZstdBlocks() compression { return &blocksZstd{} }

func (z *blocksZstd) unit(dst, src []byte, n int, need needed, _ bool) ([]byte, int, error) {
	return blockPieces(dst, src, n, need, z.decode)
}

const (
	zstdMagic    = 0xFD2FB528 // little-endian
	zstdMaxBlock = 128 << 10  // maximum raw bytes of a block
)

/*
zstdPrefix decodes frames that have raw content as their dictionary. The library's assembler
does not support dictionaries, but a dictionary of raw content only precedes the output. So the
decoder gets one frame of raw blocks with the dictionary and the blocks of the original frame:

	magic | descriptor A0: single segment, four bytes of content size | u32 dictionary + content |
	dictionary in raw blocks of at most 128 KiB | the blocks of the frame

so that the output starts with the dictionary. The fields of the original header (content size,
dictionary id, window, checksum) are checked here.
*/
type zstdPrefix struct {
	zstdDecoder
	head []byte // of the frame with the dictionary: up to the blocks
	dict int    // length of the dictionary
}

// use sets the dictionary of the following frames; if it is empty, they have none.
func (z *zstdPrefix) use(dict []byte) {
	z.dict = len(dict)
	if z.dict == 0 {
		return
	}
	z.head = binary.LittleEndian.AppendUint32(z.head[:0], zstdMagic)
	z.head = append(z.head, 0xA0, 0, 0, 0, 0)
	for p := range slices.Chunk(dict, zstdMaxBlock) {
		z.head = append(appendBlockHeader(z.head, len(p)), p...)
	}
}

// appendBlockHeader appends the header of a raw block that is not the last.
func appendBlockHeader(b []byte, size int) []byte {
	h := size << 3
	return append(b, byte(h), byte(h>>8), byte(h>>16))
}

// decode fills buf from the frame src: first the dictionary, which buf may already hold, then the content of the frame. As in
// zstdDecoder.decode, bytes after buf may be overwritten.
func (z *zstdPrefix) decode(buf, src []byte) error {
	if z.dict == 0 {
		return z.zstdDecoder.decode(buf, src)
	}
	n := len(buf) - z.dict
	f, err := parseZstdFrame(src)
	switch {
	case err != nil:
		return err
	case f.dictID != 0:
		return codec.Errorf(0, "zstd frame wants dictionary %d", f.dictID)
	case f.sized && f.size != uint64(n):
		return codec.Errorf(0, "zstd frame of %d raw bytes where %d are expected", f.size, n)
	}
	frame := append(z.head, f.blocks...)
	z.head = frame[:len(z.head)] // keep the memory that append allocated
	binary.LittleEndian.PutUint32(frame[5:], uint32(len(buf)))
	if err := z.zstdDecoder.decode(buf, frame); err != nil {
		return err
	}
	if f.hasSum {
		if sum := uint32(xxhash.Sum64(buf[z.dict:])); sum != f.sum {
			return fmt.Errorf("zstd frame of checksum %08x states %08x: %w", sum, f.sum, fault.ErrCorrupt)
		}
	}
	return nil
}

// zstdParts are the blocks of a frame and what its header states about them.
type zstdParts struct {
	blocks []byte
	dictID uint32
	size   uint64 // raw bytes
	sized  bool   // size is stated
	sum    uint32 // low half of the XXH64 of the raw bytes
	hasSum bool
}

/*
parseZstdFrame parses b, which must be exactly one frame (RFC 8878):

	u32 magic | u8 descriptor: size flag (2 bits), single segment, -, reserved, checksum, id flag (2 bits) |
	u8 window, unless single segment | dictionary id of 0, 1, 2 or 4 bytes |
	content size of 0, 2, 4 or 8 bytes; 1 instead of 0 with a single segment; 256 more with 2 |
	blocks: u24 size<<3 | type<<1 | last, then size bytes (type 1: one byte) | u32 checksum
*/
func parseZstdFrame(b []byte) (f zstdParts, err error) {
	in := codec.NewInput(b)
	in.SetLittleEndian(true)
	if magic := uint32(in.I32()); magic != zstdMagic {
		in.Fail("zstd frame starts with %08x", magic)
	}
	d := in.U8()
	single := d&0x20 != 0
	if d&8 != 0 {
		in.Fail("zstd frame with reserved bit")
	}
	if !single {
		w := in.U8()
		if window := uint64(8+w&7) << (7 + w>>3); window > maxUnit {
			in.Fail("zstd frame with a window of %d bytes", window)
		}
	}
	f.dictID = uint32(littleEndian(in, []int{0, 1, 2, 4}[d&3]))
	sizes := []int{0, 2, 4, 8}
	if single {
		sizes[0] = 1
	}
	width := sizes[d>>6]
	if f.sized = width > 0; f.sized {
		f.size = littleEndian(in, width)
		if width == 2 {
			f.size += 256
		}
	}
	begin := in.Pos()
	for last := false; !last && in.Err() == nil; {
		h := int(littleEndian(in, 3))
		size := h >> 3
		if h>>1&3 == 1 {
			size = 1
		}
		in.Take(size)
		last = h&1 != 0
	}
	if in.Err() == nil {
		f.blocks = b[begin:in.Pos()]
	}
	if f.hasSum = d&4 != 0; f.hasSum {
		f.sum = uint32(in.I32())
	}
	if in.Err() == nil && in.Left() != 0 {
		in.Fail("%d bytes left after the zstd frame", in.Left())
	}
	return f, in.Err()
}

// littleEndian reads an unsigned integer of n bytes.
func littleEndian(in *codec.Input, n int) (v uint64) {
	for i, c := range in.Take(n) {
		v |= uint64(c) << (8 * i)
	}
	return v
}
