package check

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"hash/crc32"
	"hash/fnv"
	"io"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// Subset is part N of Of parts of all files, chosen by their names, so that the runs with N from 1 to Of read every file once. Part 0
// reads none.
type Subset struct{ N, Of uint64 }

func (s Subset) has(name string) bool {
	h := fnv.New64a()
	h.Write([]byte(name)) //nolint:errcheck // a hash takes everything
	return h.Sum64()%s.Of+1 == s.N
}

const (
	footerMagic = 0xC02893E8 // Lucene 4.8 and later: magic, i32 0, i64 CRC-32 of all before; big-endian
	footerLen   = 16
	crcLen      = 8
	readBuffer  = 256 << 10
)

// errNoChecksum: the file has none, so that only its length is proven.
var errNoChecksum = errors.New("the file has no checksum")

// verifyFile reads a file and compares its CRC-32 with its footer and with the manifest.
// Files older than Lucene 4.8 have no footer: then the manifest's checksum is an Adler-32
// of the whole (Elasticsearch before 1.3), or the file ends in a plain CRC-32 (segments_N).
func verifyFile(ctx context.Context, f lucene.File, manifest string) error {
	rc, err := f.Stream(ctx, 0, f.Size())
	if err != nil {
		return err
	}
	defer rc.Close()
	body := max(f.Size()-crcLen, 0)
	crc, adler := crc32.NewIEEE(), adler32.New()
	var whole io.Reader = rc
	if manifest != "" {
		whole = io.TeeReader(rc, adler)
	}
	if _, err := io.CopyBuffer(crc, io.LimitReader(whole, body), make([]byte, readBuffer)); err != nil {
		return err
	}
	last, err := io.ReadAll(whole)
	if err != nil {
		return err
	}
	footer := make([]byte, footerLen-crcLen)
	if f.Size() >= footerLen {
		if err := f.ReadAt(ctx, footer, f.Size()-footerLen); err != nil {
			return err
		}
	}
	blob, _ := f.Locate(max(f.Size()-1, 0))
	return compare(crc.Sum32(), adler.Sum32(), footer, last, manifest, func(format string, args ...any) error {
		return fault.Corrupt(blob, "", -1, format, args...)
	})
}

// compare judges a file by the CRC-32 of all but its last 8 bytes, the Adler-32 of the
// whole, the 8 bytes before the last 8, and the last 8.
func compare(crc, adler uint32, footer, last []byte, manifest string, corrupt func(string, ...any) error) error {
	want, err := strconv.ParseUint(manifest, 36, 32)
	stated := err == nil
	if manifest != "" && !stated {
		return corrupt("the manifest states the checksum %q", manifest)
	}
	plain := len(last) == crcLen && binary.BigEndian.Uint64(last) == uint64(crc)
	footed := binary.BigEndian.Uint32(footer) == footerMagic && binary.BigEndian.Uint32(footer[4:]) == 0
	switch {
	case footed && !plain:
		return corrupt("checksum %08x, computed %08x", binary.BigEndian.Uint64(last), crc)
	case footed && stated && uint32(want) != crc:
		return corrupt("checksum %08x, the manifest states %08x", crc, want)
	case footed, plain:
		return nil
	case !stated:
		return errNoChecksum
	case uint32(want) != adler:
		return corrupt("no footer, and the manifest states checksum %08x, which does not match the bytes", want)
	}
	return nil
}
