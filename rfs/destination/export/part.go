package export

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// part is the file of one item in one index's folder, under its temporary name until it is published.
type part struct {
	files      Files
	name       string // slash-separated, below the export directory
	tmp, final string
	out        io.Writer
	sum        *summed
	documents  int64
	closers    []func() error // remaining steps of finish: close compressor, flush buffer, sync, close file
	stop       func()         // blocks until the compressor's goroutine has ended; nil: it has none
	published  bool
}

// makeFolder creates a folder below the export directory, and syncs its parents.
func (d *Dir) makeFolder(folder string) error {
	if err := d.files.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for dir := filepath.Dir(folder); ; dir = filepath.Dir(dir) {
		if err := d.files.SyncDir(dir); err != nil {
			return err
		}
		if len(dir) <= len(d.path) {
			return nil
		}
	}
}

// createPart creates the temporary file of a part.
func (d *Dir) createPart(index, name string, attempt int64) (*part, error) {
	folder := d.folder(index)
	if err := d.makeFolder(folder); err != nil {
		return nil, err
	}
	p := &part{files: d.files, name: path.Join(EncodeName(index), name+d.extension), final: filepath.Join(folder, name+d.extension)}
	p.tmp = fmt.Sprintf("%s.tmp-%s-%d", p.final, d.writer, attempt)
	f, err := d.files.OpenFile(p.tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	p.sum = &summed{to: f, hash: sha256.New()}
	p.out, p.closers = p.sum, []func() error{f.Sync, f.Close}
	if err := p.compress(d.method, d.level); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// compress inserts the compressor between the documents and the file. The goroutine of a body compresses it
// while the next body is read. zstd encodes concurrently in one more goroutine, which ends with finish or remove.
func (p *part) compress(method Compression, level int) error {
	switch method {
	case Gzip:
		if level == 0 {
			level = gzip.DefaultCompression
		}
		buf := bufio.NewWriterSize(p.sum, 1<<18)
		z, err := gzip.NewWriterLevel(buf, level)
		if err != nil {
			return err
		}
		p.out, p.closers = z, append([]func() error{z.Close, buf.Flush}, p.closers...)
	case Zstd:
		z, err := zstd.NewWriter(p.sum, zstd.WithEncoderConcurrency(2), zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(max(level, 1))))
		if err != nil {
			return err
		}
		p.out, p.closers = z, append([]func() error{z.Close}, p.closers...)
		p.stop = func() { z.Reset(nil) }
	}
	return nil
}

// summed counts and hashes the bytes written to a file.
type summed struct {
	to   io.Writer
	hash hash.Hash
	n    int64
}

// Write writes b to the file, and counts and hashes the bytes written.
func (s *summed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.hash.Write(b[:n])
	s.n += int64(n)
	return n, err
}

func (p *part) write(b []byte, documents int64) error {
	p.documents += documents
	if _, err := p.out.Write(b); err != nil {
		return err // names the file
	}
	return nil
}

// finish makes the content durable under its temporary name. A repeated call continues after the last completed step.
func (p *part) finish() error {
	for len(p.closers) > 0 {
		if err := p.closers[0](); err != nil {
			return err // names the file
		}
		p.closers = p.closers[1:]
	}
	return nil
}

// publish durably renames the file to its final name.
func (p *part) publish() error {
	if !p.published {
		if err := p.files.Rename(p.tmp, p.final); err != nil {
			return err
		}
		p.published = true
	}
	return p.files.SyncDir(filepath.Dir(p.final))
}

// remove removes the temporary file of a part that is not published.
func (p *part) remove() error {
	if p.published {
		return nil
	}
	if p.stop != nil {
		p.stop()
	}
	if n := len(p.closers); n > 0 {
		// Close only the file, without flushing the buffers.
		p.closers[n-1]() //nolint:errcheck // the file is removed anyway
	}
	if err := p.files.Remove(p.tmp); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeOthers removes the finished files of an item in an index's folder, except the one just published.
func (d *Dir) removeOthers(index, name string, keep *part) error {
	folder := d.folder(index)
	removed := false
	for _, ext := range extensions {
		path := filepath.Join(folder, name+ext)
		if keep != nil && keep.final == path {
			continue
		}
		err := d.files.Remove(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = removed || err == nil
	}
	if removed {
		return d.files.SyncDir(folder)
	}
	return nil
}
