package export

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Compression of export files: a method, or a method with a level ("zstd:3").
type Compression string

// The compression methods, with the extension that each adds to .ndjson.
const (
	None Compression = "none" // no extension
	Gzip Compression = "gzip" // .gz
	Zstd Compression = "zstd" // .zst
)

// extensions of all finished files of an item.
var extensions = [...]string{".ndjson", ".ndjson.gz", ".ndjson.zst"}

// Method returns the compression without its level. It determines the extension of files.
func (c Compression) Method() Compression {
	method, _, _ := strings.Cut(string(c), ":")
	if method == "" {
		return None
	}
	return Compression(method)
}

// level returns the requested level, from 1 to highest, or 0 for the default.
func (c Compression) level(highest int) (int, error) {
	_, level, given := strings.Cut(string(c), ":")
	if !given {
		return 0, nil
	}
	n, err := strconv.Atoi(level)
	if err != nil || n < 1 || n > highest {
		return 0, fmt.Errorf("want a level from 1 to %d after %s: %w", highest, c.Method(), fault.ErrConfig)
	}
	return n, nil
}

// The highest levels.
const (
	maxGzip = 9
	maxZstd = 22
)

// format is a parsed Compression.
type format struct {
	method    Compression // without its level
	level     int         // 0: the default
	extension string
}

// parse returns the format, or an error for an unknown compression.
func (c Compression) parse() (f format, err error) {
	f.method = c.Method()
	switch f.method {
	case None:
		f.extension = extensions[0]
		f.level, err = c.level(0)
	case Gzip:
		f.extension = extensions[1]
		f.level, err = c.level(maxGzip)
	case Zstd:
		f.extension = extensions[2]
		f.level, err = c.level(maxZstd)
	default:
		err = fmt.Errorf("want none, gzip or zstd, or gzip:LEVEL or zstd:LEVEL: %w", fault.ErrConfig)
	}
	return f, err
}

// Check returns a fault.ErrConfig error if c is invalid.
func (c Compression) Check() error {
	_, err := c.parse()
	return err
}

// encoder compresses documents into a file or object, and counts and hashes the bytes of the result.
type encoder struct {
	out       io.Writer
	sum       *summed
	documents int64
	closers   []func() error // remaining steps of finish: close the compressor, flush the buffer, and the steps of the file
	stop      func()         // blocks until the compressor's goroutine has ended; nil: it has none
}

// newEncoder returns an encoder that writes to a file or object. The steps complete it, once the compressor has ended.
func newEncoder(to io.Writer, f format, steps ...func() error) (*encoder, error) {
	e := &encoder{sum: &summed{to: to, hash: sha256.New()}, closers: steps}
	e.out = e.sum
	return e, e.compress(f.method, f.level)
}

// compress inserts the compressor between the documents and the file. The goroutine of a body compresses it
// while the next body is read. zstd encodes concurrently in one more goroutine, which ends with finish or abandon.
func (e *encoder) compress(method Compression, level int) error {
	switch method {
	case Gzip:
		if level == 0 {
			level = gzip.DefaultCompression
		}
		buf := bufio.NewWriterSize(e.sum, 1<<18)
		z, err := gzip.NewWriterLevel(buf, level)
		if err != nil {
			return err
		}
		e.out, e.closers = z, append([]func() error{z.Close, buf.Flush}, e.closers...)
	case Zstd:
		z, err := zstd.NewWriter(e.sum, zstd.WithEncoderConcurrency(2), zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(max(level, 1))))
		if err != nil {
			return err
		}
		e.out, e.closers = z, append([]func() error{z.Close}, e.closers...)
		e.stop = func() { z.Reset(nil) }
	}
	return nil
}

// write appends documents.
func (e *encoder) write(b []byte, documents int64) error {
	e.documents += documents
	_, err := e.out.Write(b)
	return err
}

// finish ends the compressor and takes the remaining steps. A repeated call continues after the last completed step.
func (e *encoder) finish() error {
	for len(e.closers) > 0 {
		if err := e.closers[0](); err != nil {
			return err // names the file
		}
		e.closers = e.closers[1:]
	}
	return nil
}

// abandon ends the compressor without completing its output.
func (e *encoder) abandon() {
	if e.stop != nil {
		e.stop()
	}
}

// entry returns the manifest entry of a finished file or object.
func (e *encoder) entry(name string) Entry {
	return Entry{Name: name, Bytes: e.sum.n.Load(), Documents: e.documents, SHA256: hex.EncodeToString(e.sum.hash.Sum(nil))}
}

// summed counts and hashes the bytes written to a file or object.
type summed struct {
	to   io.Writer
	hash hash.Hash
	n    atomic.Int64 // a compressor may write in a goroutine of its own
}

// Write writes b, and counts and hashes the bytes written.
func (s *summed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	s.hash.Write(b[:n])
	s.n.Add(int64(n))
	return n, err
}
