package shards

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// recordReader reads the records of a job: *lucene.Reader all documents of a range, *sample a sample of a shard.
type recordReader interface {
	Next(ctx context.Context) (*lucene.Record, error)
	Checks(watermark int64) []lucene.Check
	Close() error
}

// samplePlaces is the maximum number of positions at which a shard is read for a sample.
const samplePlaces = 64

// sample reads documents spread evenly over the ordinals of a shard: at equidistant positions the same number of live root documents each.
// The selection depends only on the shard and the number of documents, so it is the same for every holder of a lease.
type sample struct {
	open      func(from, to int64) *lucene.Reader
	ordinals  int64 // number of ordinals of the shard
	documents int64 // number of documents wanted
	places    int64
	begin     int64 // documents below it were already sent

	place  int64 // index of the current position
	taken  int64 // documents read there
	reader *lucene.Reader

	mu      sync.Mutex
	scanned []scan
}

// scan is a range of ordinals that was read.
type scan struct{ from, to int64 }

// newSample returns the part of a sample from o.From on.
func newSample(c *lucene.Commit, o lucene.ReadOptions, documents int64) *sample {
	begin := o.From
	open := func(from, to int64) *lucene.Reader {
		o.From, o.To = from, to
		return c.Reader(o)
	}
	s := &sample{open: open, ordinals: c.MaxOrdinal, documents: documents, places: min(samplePlaces, documents), begin: begin}
	if documents >= c.MaxOrdinal {
		s.places = min(1, c.MaxOrdinal) // all documents
	}
	return s
}

// bounds returns the range of ordinals of a position and the number of documents wanted there.
func (s *sample) bounds(place int64) (from, to, documents int64) {
	documents = s.documents / s.places
	if place < s.documents%s.places {
		documents++
	}
	part := func(n int64) int64 { return s.ordinals/s.places*n + s.ordinals%s.places*n/s.places }
	return part(place), part(place + 1), documents
}

// Next returns the next document of the sample, or io.EOF after the last.
func (s *sample) Next(ctx context.Context) (*lucene.Record, error) {
	for s.place < s.places {
		from, to, wanted := s.bounds(s.place)
		if to <= s.begin || s.reader != nil && s.taken == wanted {
			if err := s.leave(); err != nil {
				return nil, err
			}
			continue
		}
		if s.reader == nil {
			s.reader = s.open(from, to)
			s.note(scan{from, from}, true)
		}
		rec, err := s.reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			s.note(scan{from, to}, false)
			if err := s.leave(); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		s.taken++
		s.note(scan{from, rec.Ordinal + 1}, false)
		if rec.Ordinal >= s.begin {
			return rec, nil
		}
	}
	return nil, io.EOF
}

// leave moves to the next position.
func (s *sample) leave() error {
	s.place, s.taken = s.place+1, 0
	return s.Close()
}

func (s *sample) note(x scan, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.scanned = append(s.scanned, x)
		return
	}
	s.scanned[len(s.scanned)-1] = x
}

// looked returns the number of ordinals below a watermark that were read.
func (s *sample) looked(watermark int64) (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.scanned {
		n += max(0, min(x.to, watermark)-max(x.from, s.begin))
	}
	return n
}

// Checks returns nil, because no file is read completely.
func (s *sample) Checks(int64) []lucene.Check { return nil }

// Close closes the reader of the current position.
func (s *sample) Close() error {
	if s.reader == nil {
		return nil
	}
	r := s.reader
	s.reader = nil
	return r.Close()
}

// nearby is a directory whose streams request little at a time, since a sample reads only a short range of each.
type nearby struct{ lucene.Directory }

// nearbyBytes is the length of one request in bytes.
const nearbyBytes = 256 << 10

// Open opens a file.
func (d nearby) Open(name string) (lucene.File, error) {
	f, err := d.Directory.Open(name)
	if err != nil {
		return nil, err
	}
	return nearbyFile{f}, nil
}

type nearbyFile struct{ lucene.File }

// Checksum returns the CRC from the snapshot's manifest, if it has one.
func (f nearbyFile) Checksum() (uint32, bool) {
	if c, ok := f.File.(interface{ Checksum() (uint32, bool) }); ok {
		return c.Checksum()
	}
	return 0, false
}

// Adler returns the Adler-32 from the snapshot's manifest, if it has one.
func (f nearbyFile) Adler() (uint32, bool) {
	if c, ok := f.File.(interface{ Adler() (uint32, bool) }); ok {
		return c.Adler()
	}
	return 0, false
}

// Stream returns a stream that requests each range when it is read.
func (f nearbyFile) Stream(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	s := &nearbyStream{open: func(off, n int64) (io.ReadCloser, error) { return f.File.Stream(ctx, off, n) }, off: off, end: off + n}
	return s, s.next()
}

// nearbyStream reads ranges of nearbyBytes in sequence.
type nearbyStream struct {
	open     func(off, n int64) (io.ReadCloser, error)
	off, end int64 // range that is not requested yet
	part     io.ReadCloser
	left     int64 // of part
}

func (s *nearbyStream) next() error {
	n := min(nearbyBytes, s.end-s.off)
	part, err := s.open(s.off, n)
	if err != nil {
		return err
	}
	s.part, s.off, s.left = part, s.off+n, n
	return nil
}

// Read reads from the current range, or requests the next one.
func (s *nearbyStream) Read(p []byte) (int, error) {
	if s.left == 0 {
		if err := s.Close(); err != nil {
			return 0, err
		}
		if s.off == s.end {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n, err := s.part.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if s.left == 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Close closes the current range.
func (s *nearbyStream) Close() error {
	if s.part == nil {
		return nil
	}
	p := s.part
	s.part, s.left = nil, 0
	return p.Close()
}
