package lucene

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/gzip"
	plz4 "github.com/pierrec/lz4/v4"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// qat is the compression of OpenSearch's qat_lz4, qat_deflate and qat_zstd: blocks as in
// blocksZstd, each in the frame that the library chose: gzip (1F 8B), an LZ4 frame
// (04 22 4D 18) or zstd (28 B5 2F FD).
type qat struct {
	zstdDecoder
	src  bytes.Reader
	gzip *gzip.Reader
	lz4  *plz4.Reader
}

func newQAT() compression { return &qat{} }

func (z *qat) unit(dst, src []byte, n int, _ bool) ([]byte, int, error) {
	return blockPieces(dst, src, n, z.block)
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
	return fmt.Errorf("QAT block begins with %08x, which is neither gzip nor LZ4 nor zstd: %w", magic, fault.ErrCorrupt)
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
