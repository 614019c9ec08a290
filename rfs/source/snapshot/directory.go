package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// directory opens the files of a shard by their Lucene names.
type directory struct {
	shard *Shard
	files map[string]*file
}

// Directory returns the shard's files for the Lucene reader, which reads them by range.
func (s *Shard) Directory() lucene.Directory {
	d := &directory{shard: s, files: make(map[string]*file, len(s.Files))}
	for _, f := range s.Files {
		d.files[f.Name] = &file{File: f, shard: s, checked: make(map[int64]bool)}
	}
	return d
}

func (d *directory) List() []string {
	names := make([]string, 0, len(d.shard.Files))
	for _, f := range d.shard.Files {
		names = append(names, f.Name)
	}
	return names
}

func (d *directory) Open(name string) (lucene.File, error) {
	f, ok := d.files[name]
	if !ok {
		return nil, fmt.Errorf("file %s of %s: %w", name, d.shard.Manifest, fs.ErrNotExist)
	}
	return f, nil
}

// file is a Lucene file in zero (virtual or added), one or several blobs.
type file struct {
	File
	shard *Shard

	mu      sync.Mutex
	checked map[int64]bool // parts whose length was compared with the repository
}

// Size returns the length that the manifest states.
func (f *file) Size() int64 { return f.Length }

// Checksum returns the CRC-32 of the Lucene footer that the manifest records.
func (f *file) Checksum() (uint32, bool) {
	v, err := strconv.ParseUint(f.File.Checksum, 36, 32)
	return uint32(v), err == nil && !f.Legacy
}

// Adler returns the Adler-32 of the whole file that the manifest records for files without a footer.
func (f *file) Adler() (uint32, bool) {
	v, err := strconv.ParseUint(f.File.Checksum, 36, 32)
	return uint32(v), err == nil && f.Legacy
}

// Locate returns the blob that holds a byte, and the byte's offset in it.
func (f *file) Locate(off int64) (string, int64) {
	if f.Contents != nil || f.added != nil {
		return f.shard.Manifest, -1
	}
	part, at, _ := f.part(off)
	return f.partName(part), at
}

// part returns the part that holds off, the offset in it, and the length of the part.
func (f *file) part(off int64) (number, at, length int64) {
	if f.Parts() == 1 {
		return 0, off, f.Length
	}
	number = min(off/f.PartSize, f.Parts()-1)
	at = off - number*f.PartSize
	return number, at, min(f.PartSize, f.Length-number*f.PartSize)
}

func (f *file) partName(number int64) string {
	name := f.shard.Path + "/" + f.Blob
	if f.Parts() > 1 {
		name += ".part" + strconv.FormatInt(number, 10)
	}
	return name
}

func (f *file) bounds(off, n int64) error {
	if off < 0 || n < 0 || off > f.Length-n {
		blob, _ := f.Locate(0)
		return fault.Corrupt(blob, f.Name, off, "%d bytes wanted of a file of %d", n, f.Length)
	}
	return nil
}

// ReadAt fills p with the bytes at off.
func (f *file) ReadAt(ctx context.Context, p []byte, off int64) error {
	if err := f.bounds(off, int64(len(p))); err != nil {
		return err
	}
	if f.Contents != nil {
		copy(p, f.Contents[off:])
		return nil
	}
	if f.added != nil {
		_, err := f.added.ReadAt(p, off)
		return err
	}
	if len(p) == 0 {
		return nil
	}
	rc, err := f.Stream(ctx, off, int64(len(p)))
	if err != nil {
		return err
	}
	defer rc.Close()
	if _, err := io.ReadFull(rc, p); err != nil {
		return err // which names the file
	}
	return nil
}

// Stream reads n bytes at off, across parts.
func (f *file) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := f.bounds(off, n); err != nil {
		return nil, err
	}
	if f.Contents != nil {
		return io.NopCloser(bytes.NewReader(f.Contents[off : off+n])), nil
	}
	if f.added != nil {
		return io.NopCloser(io.NewSectionReader(f.added, off, n)), nil
	}
	return &stream{ctx: ctx, f: f, off: off, left: n}, nil
}

// inFile adds the name of the Lucene file to an error about a blob.
func (f *file) inFile(off int64, err error) error {
	var d *fault.Damage
	if errors.Is(err, ErrDeleted) {
		return fmt.Errorf("file %s of index %s shard %d: %w", f.Name, f.shard.Index, f.shard.Number, err)
	}
	if errors.As(err, &d) {
		return &fault.Damage{Blob: d.Blob, File: f.Name, Offset: max(off, 0), Err: d}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		blob, _ := f.Locate(off)
		return fault.Corrupt(blob, f.Name, off, "the blob ends early")
	}
	return fmt.Errorf("file %s of index %s shard %d: %w", f.Name, f.shard.Index, f.shard.Number, err)
}

// check compares the length of a part with the manifest. The stream states the length, or else the repository is asked, once.
func (f *file) check(ctx context.Context, rc io.ReadCloser, number, length int64) error {
	size, known := repo.Total(rc)
	if !known {
		f.mu.Lock()
		done := f.checked[number]
		f.mu.Unlock()
		if done {
			return nil
		}
		var err error
		if size, err = f.shard.repo.Stat(ctx, f.partName(number)); err != nil {
			return f.blameMissing(ctx, number, err)
		}
	}
	if size != length {
		return fault.Corrupt(f.partName(number), f.Name, min(size, length), "the blob has %d bytes, %s states %d", size, f.shard.Manifest, length)
	}
	if !known {
		f.mu.Lock()
		f.checked[number] = true
		f.mu.Unlock()
	}
	return nil
}

// blameMissing returns the error of a missing blob with the blob that refers to it, and with ErrDeleted if the snapshot was deleted.
func (f *file) blameMissing(ctx context.Context, number int64, err error) error {
	if missing(err) {
		gone := fault.Corrupt(f.partName(number), f.Name, -1, "the blob is missing, but %s refers to it", f.shard.Manifest)
		return f.shard.origin.explain(ctx, gone)
	}
	return err
}

// stream reads a range that may span parts; one part is open at a time.
type stream struct {
	ctx  context.Context
	f    *file
	off  int64
	left int64
	cur  io.ReadCloser
	rest int64 // bytes left in cur
}

func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if s.cur == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	if int64(len(p)) > s.rest {
		p = p[:s.rest]
	}
	n, err := s.cur.Read(p)
	s.off += int64(n)
	s.left -= int64(n)
	s.rest -= int64(n)
	if s.rest == 0 {
		s.cur.Close() // all bytes are there
		s.cur = nil
		return n, nil
	}
	if err != nil {
		return n, s.f.inFile(s.off, err)
	}
	return n, nil
}

func (s *stream) open() error {
	number, at, length := s.f.part(s.off)
	s.rest = min(s.left, length-at)
	rc, err := s.f.shard.repo.Open(s.ctx, s.f.partName(number), at, s.rest)
	if err != nil {
		return s.f.inFile(s.off, s.f.blameMissing(s.ctx, number, err))
	}
	if err := s.f.check(s.ctx, rc, number, length); err != nil {
		rc.Close()
		return s.f.inFile(s.off, err)
	}
	s.cur = rc
	return nil
}

func (s *stream) Close() error {
	if s.cur == nil {
		return nil
	}
	err := s.cur.Close()
	s.cur = nil
	return err
}
