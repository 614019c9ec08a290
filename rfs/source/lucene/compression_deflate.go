package lucene

import (
	"github.com/rfsd/rfsd/rfs/source/lucene/inflate"
)

// plainDeflate is the high compression of Lucene 5.0–8.6: VInt compressed length, stream.
type plainDeflate struct{ inflate.Decoder }

func newDeflate() compression { return &plainDeflate{} }

func (z *plainDeflate) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
	return onePiece(dst, src, n, func(buf, src []byte) error { return z.Decode(buf, 0, src) })
}

// dictDeflate is the high compression of Lucene 8.7 and later: pieces that are streams; the
// dictionary primes the window of the blocks. An empty dictionary has length 0 and no bytes.
type dictDeflate struct {
	inflate.Decoder
	dictPieces
}

func newDeflateDict() compression { return &dictDeflate{} }

func (z *dictDeflate) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
	return z.pieces(dst, src, n, func(buf []byte, start int, src []byte, _ bool) error { return z.Decode(buf, start, src) })
}
