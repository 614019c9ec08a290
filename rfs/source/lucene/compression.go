package lucene

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// compression undoes one way of compressing a unit: a chunk, or a slice of a sliced chunk.
// Implementations keep buffers and belong to one reader.
type compression interface {
	// unit appends the n > 0 raw bytes of the unit at the start of src to dst and
	// returns dst and how many bytes of src it took. With exact the unit is all of src.
	unit(dst, src []byte, n int, exact bool) ([]byte, int, error)
}

const (
	// maxUnit bounds the raw length of a unit. Writers cut at 600 KiB; only units of plain
	// LZ4 can be longer, because Lucene 4.1 did not slice.
	maxUnit = 16 << 20
	// maxPlainUnit bounds a unit of plain LZ4: a document of a hundred megabytes, and copies of its fields.
	maxPlainUnit = 256 << 20
)

// unitBound returns the most bytes of .fdt that a slice of n raw bytes occupies: no method grows
// incompressible data by more than a small part.
func unitBound(n int64) int64 { return 2*n + 1024 }

// slack is how many bytes behind its output a decoder may overwrite, so that it can copy
// 16 bytes at a time up to the end.
const slack = 16

// extend makes dst longer by n bytes of any content, with slack behind them.
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

// onePiece reads a unit of n bytes that is one piece, and appends it to dst as decode gives it. It also returns the bytes read.
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

// readFull fills p from r and proves that r ends there.
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

// broken makes the error of a decompressor, which can only come from its input, an ErrCorrupt.
func broken(err error) error {
	if errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
}
