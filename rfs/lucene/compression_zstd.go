package lucene

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/lucene/codec"
)

// zstdDecoder reuses one zstd decoder. It decodes in the goroutine of the caller.
type zstdDecoder struct{ d *zstd.Decoder }

// zstdOptions bound what a frame can ask for; they have to be given again with a reset.
func zstdOptions() []zstd.DOption {
	return []zstd.DOption{
		zstd.WithDecoderMaxMemory(maxUnit),
		zstd.WithDecodeAllCapLimit(true),
	}
}

// use chooses the dictionary of the next frames; an empty one is none.
func (z *zstdDecoder) use(dict []byte) error {
	opts := append(zstdOptions(), zstd.WithDecoderDictDelete())
	if len(dict) > 0 {
		opts = append(opts, zstd.WithDecoderDictRaw(0, dict))
	}
	if z.d == nil {
		d, err := zstd.NewReader(nil, append(opts, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))...)
		if err != nil {
			return fmt.Errorf("zstd decoder: %w", err)
		}
		z.d = d
		return nil
	}
	if err := z.d.ResetWithOptions(nil, opts...); err != nil {
		return fmt.Errorf("zstd decoder: %w", err)
	}
	return nil
}

// decode fills dst from the frame src.
func (z *zstdDecoder) decode(dst, src []byte) error {
	if z.d == nil {
		if err := z.use(nil); err != nil {
			return err
		}
	}
	out, err := z.d.DecodeAll(src, dst[:0:len(dst)])
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
	return dst, in.Pos(), z.decode(dst[at:], p)
}

// dictZstd is the compression of CustomStoredFieldsZstd: laid out as dictDeflate, each
// piece a frame; the blocks have the dictionary as raw content, with id 0.
type dictZstd struct{ zstdDecoder }

func newZstdDict() compression { return &dictZstd{} }

func (z *dictZstd) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
	return dictPieces(dst, src, n, func(dst, src, dict []byte, fresh bool) error {
		if fresh {
			if err := z.use(dict); err != nil {
				return err
			}
		}
		return z.decode(dst, src)
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
