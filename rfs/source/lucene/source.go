package lucene

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// Directory opens the files of one Lucene commit by their physical names (segments_4, _0.cfs, …). The snapshot package implements it for a
// shard manifest; tests use a map. Implementations are safe for concurrent use.
type Directory interface {
	// List returns the names of all files of the commit, in any order.
	List() []string
	// Open returns a file. Its error is fs.ErrNotExist if the commit has no file of that name.
	Open(name string) (File, error)
}

// File is one Lucene file, which may be spread over several blobs of a repository. Only the requested ranges are fetched.
type File interface {
	// Size returns the length of the file in bytes, as the manifest states it.
	Size() int64
	// ReadAt fills p with the bytes at off; anything less is an error (fault.ErrCorrupt if the blob is missing or shorter than in the
	// manifest, fault.ErrUnavailable if the repository did not answer).
	ReadAt(ctx context.Context, p []byte, off int64) error
	// Stream reads n bytes at off, in order, with read-ahead. Ending early is an error as in ReadAt, never io.EOF before n bytes.
	Stream(ctx context.Context, off, n int64) (io.ReadCloser, error)
	// Locate returns the blob that holds the byte at off, and the byte's offset in it (for errors).
	Locate(off int64) (blob string, blobOff int64)
}

const (
	// maxSmallFile bounds the files that are read whole into memory.
	maxSmallFile = 256 << 20
	// longFile is the length beyond which files that are read whole are read one at a time: parsed, they take several times their length.
	longFile = 256 << 10
	// cachedCompound is the length up to which a compound file is read once and kept while a commit is opened: one request instead of five.
	cachedCompound = 256 << 10
	// firstRead is the memory that may be allocated for a stated length before any byte was read.
	firstRead = 16 << 20
)

// maxWhole bounds the length of files that stay short regardless of the size of the index, in bytes, by extension. A segment has some
// dozens of files, and a field with a long name and all its attributes takes 240 bytes of .fnm: 32 MiB suffice for 140,000 fields. A column
// takes about 100 bytes of .dvm and 21 for each 65,536 values, 1,024 chunks of documents take 42 of .fdm: 8 MiB suffice for 3 TB.
var maxWhole = map[string]int64{".si": 1 << 20, ".cfe": 1 << 20, ".fnm": 32 << 20, ".dvm": 32 << 20, ".dvdm": 32 << 20, ".fdm": 8 << 20, ".vemf": 8 << 20, ".vem": 64 << 20}

// maxCommit bounds segments_N, in bytes: 100,000 segments.
const maxCommit = 16 << 20

// checksummed is an optional interface of a File: the CRC-32 in its footer, as recorded in the manifest of the snapshot.
type checksummed interface {
	Checksum() (crc uint32, ok bool)
}

// summed is an optional interface of a File of Lucene before 4.8, which has no checksum of its own: the Adler-32 of all its bytes, as
// recorded in the manifest of the snapshot.
type summed interface {
	Adler() (sum uint32, ok bool)
}

// source is one Lucene file, on its own or as a section of a compound file.
type source struct {
	name string // Lucene name, also inside a compound file: _0.fdt
	file File
	base int64 // offset of the source in file
	size int64
	data []byte // all bytes of file if they are cached
	held []byte // all bytes of the source if they are cached
	own  bool   // the source is all of file

	early *earlyRead // an early read of its start, or nil
}

func openSource(dir Directory, name string) (*source, error) {
	f, err := dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Corrupt("", name, -1, "the snapshot does not list this file of the commit")
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return &source{name: name, file: f, size: f.Size(), own: true}, nil
}

// section returns the source of a file inside a compound file.
func (s *source) section(name string, off, size int64) *source {
	return &source{name: name, file: s.file, base: s.base + off, size: size, data: s.data}
}

// cache reads a small file once; its sections are then served from memory.
func (s *source) cache(ctx context.Context) error {
	b, err := s.readAt(ctx, 0, s.size)
	s.data = b
	return err
}

func (s *source) uncached() *source {
	c := *s
	c.data, c.held, c.early = nil, nil, nil
	return &c
}

// readAt returns n bytes at off.
func (s *source) readAt(ctx context.Context, off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > s.size || n > s.size-off {
		return nil, s.corrupt(off, "%d bytes wanted of a file of %d", n, s.size)
	}
	if n > maxSmallFile {
		return nil, s.corrupt(off, "%d bytes are too many for this file", n)
	}
	if s.held != nil {
		return s.held[off : off+n], nil
	}
	if s.data != nil {
		return s.data[s.base+off : s.base+off+n], nil
	}
	if b, err := s.early.at(ctx, off, n); b != nil || err != nil {
		return b, err
	}
	// The manifest may state a wrong length, so memory grows with the bytes that are read.
	p := make([]byte, 0, min(n, firstRead))
	for have := int64(0); have < n; have = int64(len(p)) {
		step := min(n-have, max(have, firstRead))
		p = slices.Grow(p, int(step))[:have+step]
		if err := s.file.ReadAt(ctx, p[have:], s.base+off+have); err != nil {
			return nil, fmt.Errorf("read %s: %w", s.name, err)
		}
	}
	return p, nil
}

// bound returns fault.ErrUnsupported for a file of more than most bytes; 0 allows any length.
func (s *source) bound(most int64) error {
	if most > 0 && s.size > most {
		return fmt.Errorf("%s has %d bytes, at most %d are read: %w", s.name, s.size, most, fault.ErrUnsupported)
	}
	return nil
}

// readAll returns the whole file after checking its footer; files of Lucene before 4.8 have none.
func (s *source) readAll(ctx context.Context) ([]byte, error) {
	if err := s.bound(maxWhole[path.Ext(s.name)]); err != nil {
		return nil, err
	}
	b, err := s.readAt(ctx, 0, s.size)
	if err != nil {
		return nil, err
	}
	if !codec.HasFooter(b) && !codec.WantsFooter(b) {
		return b, nil
	}
	crc, err := codec.Footer(b)
	if err != nil {
		return nil, s.wrap(err)
	}
	return b, s.compareManifest(crc)
}

// heldFile is the length up to which a file that is read in pages is kept in memory, in bytes.
const heldFile = 1 << 20

// check verifies a file that is to be read in pages, and keeps a short one in memory.
func (s *source) check(ctx context.Context) error {
	if s.size > heldFile {
		return s.verify(ctx)
	}
	b, err := s.readAll(ctx)
	s.held = b
	return err
}

// compareManifest compares the CRC of the footer with the CRC in the manifest.
func (s *source) compareManifest(crc uint32) error {
	c, ok := s.file.(checksummed)
	if !ok || !s.own {
		return nil
	}
	if want, ok := c.Checksum(); ok && want != crc {
		return s.corrupt(s.size-8, "footer states %08x, the snapshot's file list %08x", crc, want)
	}
	return nil
}

// verify reads a file of any length once and compares its CRC with its footer.
func (s *source) verify(ctx context.Context) error {
	if s.size < codec.FooterLen {
		return nil
	}
	tail, err := s.readAt(ctx, s.size-codec.FooterLen, codec.FooterLen)
	if err != nil {
		return err
	}
	if !codec.HasFooter(tail) {
		head, err := s.readAt(ctx, 0, min(s.size, codec.MaxHeaderLen))
		if err != nil || !codec.WantsFooter(head) {
			return err
		}
	}
	want, err := codec.ParseFooter(tail, s.size-codec.FooterLen)
	if err != nil {
		return s.wrap(err)
	}
	stream, err := s.stream(ctx, 0, s.size-8)
	if err != nil {
		return err
	}
	defer stream.Close()
	h := crc32.NewIEEE()
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{stream}, make([]byte, min(s.size, windowSize)))
	if err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	if n != s.size-8 {
		return s.corrupt(n, "file ends early")
	}
	if got := h.Sum32(); got != want {
		return s.corrupt(s.size-codec.FooterLen, "checksum %08x, footer states %08x", got, want)
	}
	return s.compareManifest(want)
}

// verifyWhole compares the Adler-32 of a file without a footer, or of the compound file that contains it, with the one in the manifest.
func (s *source) verifyWhole(ctx context.Context) error {
	f, ok := s.file.(summed)
	if !ok {
		return nil
	}
	want, ok := f.Adler()
	if !ok {
		return nil
	}
	stream, err := s.file.Stream(ctx, 0, s.file.Size())
	if err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	defer stream.Close()
	h := adler32.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{stream}, make([]byte, min(s.file.Size()+1, windowSize))); err != nil {
		return fmt.Errorf("read %s: %w", s.name, err)
	}
	if got := h.Sum32(); got != want {
		return s.corrupt(0, "checksum %08x, the snapshot's file list states %08x", got, want)
	}
	return nil
}

// stream returns a stream of n bytes at off, from memory if they are cached.
func (s *source) stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if s.data != nil && off >= 0 && n >= 0 && off <= s.size-n {
		return io.NopCloser(bytes.NewReader(s.data[s.base+off : s.base+off+n])), nil
	}
	r, err := s.file.Stream(ctx, s.base+off, n)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.name, err)
	}
	return r, nil
}

// corrupt returns a fault.Damage with the blob, the file and the offset.
func (s *source) corrupt(off int64, format string, args ...any) error {
	return s.damage(off, fmt.Errorf(format, args...))
}

func (s *source) damage(off int64, err error) error {
	at := min(max(off, 0), max(s.size-1, 0))
	blob, _ := s.file.Locate(s.base + at)
	return &fault.Damage{Blob: blob, File: s.name, Offset: off, Err: err}
}

// wrap converts the error of a parser to a fault.Damage of this file; other errors only get the name of the file.
func (s *source) wrap(err error) error { return s.wrapAt(err, 0) }

// wrapAt is wrap for a parser that started at offset base of the file.
func (s *source) wrapAt(err error, base int64) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*codec.Error](err); ok {
		return s.damage(base+e.Off, e.Err)
	}
	if _, ok := errors.AsType[*fault.Damage](err); ok {
		return err
	}
	if errors.Is(err, fault.ErrCorrupt) {
		return s.damage(base, err)
	}
	return fmt.Errorf("%s: %w", s.name, err)
}
