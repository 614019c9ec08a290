package lucene

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/flate"

	"github.com/rfsd/rfsd/rfs/lucene/codec"
)

// inflater reuses one DEFLATE decoder (raw streams, no zlib header).
type inflater struct {
	src bytes.Reader
	r   io.ReadCloser
}

// inflate fills dst from all of src; dict primes the window.
func (z *inflater) inflate(dst, src, dict []byte) error {
	z.src.Reset(src)
	if z.r == nil {
		z.r = flate.NewReaderDict(&z.src, dict)
	} else if err := z.r.(flate.Resetter).Reset(&z.src, dict); err != nil {
		return broken(err)
	}
	return readFull(z.r, dst)
}

// plainDeflate is the high compression of Lucene 5.0–8.6: VInt compressed length, stream.
type plainDeflate struct{ inflater }

func newDeflate() compression { return &plainDeflate{} }

func (z *plainDeflate) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
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
	return dst, in.Pos(), z.inflate(dst[at:], p, nil)
}

// dictDeflate is the high compression of Lucene 8.7 and later: VInt dictLen, VInt blockLen,
// then the dictionary and each block as VInt compressed length and stream; the dictionary
// primes the window of the blocks. An empty dictionary has length 0 and no bytes.
type dictDeflate struct{ inflater }

func newDeflateDict() compression { return &dictDeflate{} }

func (z *dictDeflate) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
	return dictPieces(dst, src, n, func(dst, src, dict []byte, _ bool) error { return z.inflate(dst, src, dict) })
}

// dictPieces walks through a unit of dictionary and blocks with a length before each.
// decode fills dst from src; fresh says that the dictionary is another one than before.
func dictPieces(dst, src []byte, n int, decode func(dst, src, dict []byte, fresh bool) error) ([]byte, int, error) {
	if err := checkUnit(n); err != nil {
		return dst, 0, err
	}
	in := codec.NewInput(src)
	dictLen, blockLen := dictHead(in, n)
	p := piece(in)
	if in.Err() != nil {
		return dst, 0, in.Err()
	}
	at := len(dst)
	dst = extend(dst, n)
	out := dst[at:]
	dict := out[:dictLen]
	if dictLen > 0 {
		if err := decode(dict, p, nil, true); err != nil {
			return dst, 0, err
		}
	}
	for done := dictLen; done < n; {
		p := piece(in)
		if in.Err() != nil {
			return dst, 0, in.Err()
		}
		to := min(done+blockLen, n)
		if err := decode(out[done:to], p, dict, done == dictLen); err != nil {
			return dst, 0, err
		}
		done = to
	}
	return dst, in.Pos(), nil
}
