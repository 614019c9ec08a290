package lucene

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// zstdDecoder reuses one zstd decoder. It decodes in the goroutine of the caller.
type zstdDecoder struct{ d *zstd.Decoder }

// decode fills dst from the frame src. The bytes between the length and the capacity of dst
// may be overwritten: with slack bytes there the library copies 16 bytes at a time.
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

func (z *wholeZstd) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
	return onePiece(dst, src, n, z.decode)
}

// dictZstd is the compression of CustomStoredFieldsZstd: pieces that are frames; the blocks
// have the dictionary as raw content, with id 0.
type dictZstd struct {
	zstdPrefix
	dictPieces
}

func newZstdDict() compression { return &dictZstd{} }

func (z *dictZstd) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
	return z.pieces(dst, src, n, func(buf []byte, start int, src []byte, fresh bool) error {
		if fresh {
			z.use(buf[:start])
		}
		return z.decode(buf, src)
	})
}

// blocks are the modes without a dictionary: VInt blockLen, then per block VInt compressed
// length (0 ends) and the block.
func blockPieces(dst, src []byte, n int, decode func(dst, src []byte) error) ([]byte, int, error) {
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
		if err := decode(out[done:to], p); err != nil {
			return dst, 0, err
		}
		done = to
	}
	return dst, in.Pos(), nil
}

// blocksZstd is the compression of CustomStoredFieldsZstdNoDict: each block a frame.
type blocksZstd struct{ zstdDecoder }

func newZstdBlocks() compression { return &blocksZstd{} }

func (z *blocksZstd) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
	return blockPieces(dst, src, n, z.decode)
}
