package boltcms

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime/debug"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Layout of a bbolt file, as far as it is checked before the file is mapped. The first two pages are copies of the meta page; the valid
// copy with the higher transaction id applies. A page header of 16 bytes is followed by magic, version, page size, flags (4 bytes each),
// root (16), freelist (8), number of pages in use (8), transaction id (8), and the FNV-1a 64 hash of all these. Integers have the byte
// order of the machine.
const (
	pageHeader = 16
	metaSize   = 64
	metaMagic  = 0xED0CDAED
	minPage    = 512
	maxPage    = 1 << 24
)

// check returns fault.ErrCorrupt for a file that is shorter than its pages in use: reading a missing page of a mapped file kills the
// process. A new or empty file passes.
func check(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open coordination file: %w: %w", err, fault.ErrConfig)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("coordination file %s: %w: %w", path, err, fault.ErrConfig)
	}
	if !st.Mode().IsRegular() || st.Size() == 0 {
		return nil
	}
	pages, pageSize, ok := newestMeta(f)
	if !ok {
		return fmt.Errorf("%s is not a coordination file, or its head is damaged: %w", path, fault.ErrCorrupt)
	}
	if pages > uint64(st.Size())/pageSize {
		return fmt.Errorf("%s is cut off: %d bytes, %d pages of %d in use: %w", path, st.Size(), pages, pageSize, fault.ErrCorrupt)
	}
	return checkPages(f, path, pages, pageSize)
}

// checkPages returns fault.ErrCorrupt for a page that claims to continue beyond the file: freeing it would take memory and time without
// bound. A page header has the page's own number (8 bytes), flags (2), count (2) and the number of pages that continue it (4). Pages that
// do not start with their own number continue another page or were never used.
func checkPages(f io.ReaderAt, path string, pages, pageSize uint64) error {
	var h [pageHeader]byte
	for i := uint64(2); i < pages; i++ {
		if _, err := f.ReadAt(h[:], int64(i*pageSize)); err != nil {
			return fmt.Errorf("coordination file %s: %w: %w", path, err, fault.ErrConfig)
		}
		more := uint64(binary.NativeEndian.Uint32(h[12:]))
		if binary.NativeEndian.Uint64(h[:]) == i && more >= pages-i {
			return fmt.Errorf("%s: page %d of %d claims %d more: %w", path, i, pages, more, fault.ErrCorrupt)
		}
	}
	return nil
}

// newestMeta returns the pages in use and the page size in bytes from the valid meta page with the higher transaction id. The second meta
// page is at the offset of the page size in the first; when the first is damaged, the usual sizes are tried.
func newestMeta(f io.ReaderAt) (pages, pageSize uint64, ok bool) {
	var txid uint64
	take := func(at int64) (size uint64, valid bool) {
		var b [pageHeader + metaSize]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			return 0, false
		}
		m, order := b[pageHeader:], binary.NativeEndian
		h := fnv.New64a()
		h.Write(m[:metaSize-8]) //nolint:errcheck // a hash takes everything
		size = uint64(order.Uint32(m[8:]))
		if order.Uint32(m) != metaMagic || order.Uint64(m[56:]) != h.Sum64() || size < minPage || size > maxPage {
			return 0, false
		}
		if id := order.Uint64(m[48:]); !ok || id > txid {
			pages, pageSize, txid, ok = order.Uint64(m[40:]), size, id, true
		}
		return size, true
	}
	if size, valid := take(0); valid {
		take(int64(size))
		return pages, pageSize, ok
	}
	for size := int64(1024); size <= 1<<16; size *= 2 {
		if _, valid := take(size); valid {
			break
		}
	}
	return pages, pageSize, ok
}

// safely calls f and returns a panic of bbolt over damaged pages, and a memory fault in reading them, as an error.
func safely(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s is damaged: %v: %w", path, p, fault.ErrCorrupt)
		}
	}()
	return f()
}
