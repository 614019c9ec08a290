package lucene

import "github.com/rfsd/rfsd/rfs/source/lucene/codec"

// maxDictBlocks bounds the length of a dictionary in blocks. Each block costs the time of a
// dictionary, so a small file could otherwise take minutes. In what Lucene writes a block is
// six times as long as the dictionary.
const maxDictBlocks = 64

// dictHead returns the head of the modes with a dictionary: the first dictLen raw bytes are
// stored first, the rest follows in blocks of blockLen that may refer to them.
func dictHead(in *codec.Input, n int) (dictLen, blockLen int) {
	dictLen, blockLen = int(in.VInt()), int(in.VInt())
	if dictLen < 0 || dictLen > n || blockLen < 0 || blockLen == 0 && dictLen < n {
		in.Fail("dictionary of %d and blocks of %d bytes for %d", dictLen, blockLen, n)
	}
	return dictLen, blockLen
}

// dictDecode fills buf[start:] from src; buf[:start] is the dictionary. With fresh it is another
// dictionary than that of the call before.
type dictDecode func(buf []byte, start int, src []byte, fresh bool) error

// dictPieces decodes units of a dictionary and blocks: VInt dictLen, VInt blockLen, then the
// dictionary and each block as VInt compressed length and bytes.
//
// Decoders want the dictionary right before their output. Where another block ends, its last
// bytes make room for the dictionary while the next one is decoded.
type dictPieces struct{ aside []byte }

func (z *dictPieces) pieces(dst, src []byte, n int, decode dictDecode) ([]byte, int, error) {
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
	for done := dictLen; done < n; {
		p := piece(in)
		if in.Err() != nil {
			return dst, 0, in.Err()
		}
		to := min(done+blockLen, n)
		buf := out[done-dictLen : to]
		first := done == dictLen
		if !first {
			z.aside = append(z.aside[:0], buf[:dictLen]...)
			copy(buf, out[:dictLen])
		}
		if err := decode(buf, dictLen, p, first); err != nil {
			return dst, 0, err
		}
		if !first {
			copy(buf, z.aside)
		}
		done = to
	}
	return dst, in.Pos(), nil
}
