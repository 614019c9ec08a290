package lucene

import (
	plz4 "github.com/pierrec/lz4/v4"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/lz4"
)

// plainLZ4 is the compression of Lucene 4.1–8.6: one bare LZ4 block without lengths.
type plainLZ4 struct{}

func newLZ4() compression { return plainLZ4{} }

func (plainLZ4) unit(dst, src []byte, n int, exact bool) ([]byte, int, error) {
	if n > maxUnit {
		// A length of that size must be proven before memory is taken for it.
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

// uncompress decodes a block of known compressed length; dict lies before its output.
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

func (z *dictLZ4) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
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
		if err := uncompress(p, out[done:to], dict); err != nil {
			return dst, 0, err
		}
		done = to
	}
	return dst, in.Pos(), nil
}
