package lucene

import (
	"cmp"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// Check is the CRC-32 of the part of a .fdt file that one reader owns.
type Check struct {
	Segment string `json:"segment"`
	File    string `json:"file"`
	Blob    string `json:"blob,omitempty"` // where the part ends in the repository
	Off     int64  `json:"off"`            // first byte of the part
	End     int64  `json:"end"`            // byte after it
	Size    int64  `json:"size"`           // length of the file
	// CRC is the checksum of the bytes [Off, End), without the last 8 bytes of the file if it has a footer,
	// which holds the CRC of everything before it.
	CRC      uint32 `json:"crc"`
	Footed   bool   `json:"footed"`             // the format has a footer
	Footer   uint32 `json:"footer,omitempty"`   // the CRC in the footer; only set if End is Size
	Verified bool   `json:"verified,omitempty"` // the part is the whole file and the CRC is right
}

// FileResult reports whether the checks of a file cover all of it and add up to its checksum.
type FileResult struct {
	Segment  string
	File     string
	Verified bool  // every byte was read once and the CRC equals the footer's
	Err      error // a fault.Damage if the CRC differs
}

// crcLen returns how many bytes CRC covers.
func (c Check) crcLen() int64 {
	end := c.End
	if c.Footed {
		end = min(end, c.Size-8)
	}
	return max(0, end-c.Off)
}

// CombineChecks combines the checks of each file, which may be in any order. A file with a gap, or without a footer, is not verified. Parts
// may overlap, as when an item was processed twice: it uses parts that follow each other from the start of the file to its end.
func CombineChecks(checks []Check) []FileResult {
	sorted := slices.Clone(checks)
	slices.SortStableFunc(sorted, func(a, b Check) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.File, b.File), cmp.Compare(b.Off, a.Off))
	})
	var out []FileResult
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n].Segment == sorted[0].Segment && sorted[n].File == sorted[0].File {
			n++
		}
		out = append(out, combineFile(sorted[:n]))
		sorted = sorted[n:]
	}
	return out
}

// combineFile combines the parts of one file, sorted by descending offset.
func combineFile(parts []Check) FileResult {
	v := FileResult{Segment: parts[0].Segment, File: parts[0].File}
	size := parts[0].Size
	next := map[int64]Check{} // by offset: a part from which others lead to the end
	for _, p := range parts {
		_, leads := next[p.End]
		if p.Off < p.End && p.Size == size && (leads || p.End == size) {
			next[p.Off] = p
		}
	}
	p, ok := next[0]
	if !ok || !p.Footed {
		return v
	}
	crc := p.CRC
	for p.End < size {
		p = next[p.End]
		crc = combineCRC(crc, p.CRC, p.crcLen())
	}
	if v.Verified = crc == p.Footer; !v.Verified {
		v.Err = fault.Corrupt(p.Blob, p.File, size-codec.FooterLen, "checksum %08x over all parts, footer states %08x", crc, p.Footer)
	}
	return v
}

// combineCRC returns the CRC-32 (IEEE) of two byte sequences concatenated, from the CRC
// of each and the length of the second: appending n zero bytes to the first is a linear
// map over GF(2), which is applied by repeated squaring.
func combineCRC(first, second uint32, n int64) uint32 {
	if n <= 0 {
		return first ^ second
	}
	var one, two [32]uint32
	one[0] = 0xEDB88320 // one zero bit
	for i := 1; i < 32; i++ {
		one[i] = 1 << (i - 1)
	}
	square(&two, &one) // two zero bits
	square(&one, &two) // four
	for {
		square(&two, &one) // eight bits: a byte, then 4, 16…
		if n&1 != 0 {
			first = times(&two, first)
		}
		if n >>= 1; n == 0 {
			break
		}
		square(&one, &two)
		if n&1 != 0 {
			first = times(&one, first)
		}
		if n >>= 1; n == 0 {
			break
		}
	}
	return first ^ second
}

func times(m *[32]uint32, v uint32) uint32 {
	var sum uint32
	for i := 0; v != 0; i++ {
		if v&1 != 0 {
			sum ^= m[i]
		}
		v >>= 1
	}
	return sum
}

func square(dst, m *[32]uint32) {
	for i, v := range m {
		dst[i] = times(m, v)
	}
}

// crcTracker records the CRC at the boundaries of chunks, from which Checks derives the CRC of the bytes before an ordinal. It keeps the
// newest boundaries. An ordinal before them leaves a gap, so the file is not verified, but never reported as damaged.
//
// The reader writes it; other goroutines may read it concurrently.
type crcTracker struct {
	mu         sync.Mutex
	files      []trackedFile
	boundaries []boundary
	dropped    bool
}

type trackedFile struct {
	segment *Segment
	src     *source
	own     int64 // first owned byte
	footed  bool
	last    int64 // ordinal of the last boundary
	done    bool  // the end was reached
	crc     uint32
	footer  uint32
}

// boundary is the start of a chunk.
type boundary struct {
	file    int
	ordinal int64
	off     int64
	crc     uint32 // of the bytes [own, off)
}

// maxBoundaries limits the memory of a crcTracker to some MiB.
const maxBoundaries = 1 << 16

// file adds a file. The reader owns its bytes from own on.
func (t *crcTracker) file(s *Segment, src *source, own int64, footed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files = append(t.files, trackedFile{segment: s, src: src, own: own, footed: footed})
}

func (t *crcTracker) boundary(ordinal, off int64, crc uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.boundaries) >= 2*maxBoundaries {
		t.boundaries = append(t.boundaries[:0], t.boundaries[maxBoundaries:]...)
		t.dropped = true
	}
	file := len(t.files) - 1
	t.files[file].last = ordinal
	t.boundaries = append(t.boundaries, boundary{file, ordinal, off, crc})
}

func (t *crcTracker) end(crc, footer uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.files[len(t.files)-1]
	f.done, f.crc, f.footer = true, crc, footer
}

// find returns the first boundary of a file at or after an ordinal; false if the reader has not reached it or it may have been dropped.
func (t *crcTracker) find(file int, ordinal int64) (boundary, bool) {
	i, exact := slices.BinarySearchFunc(t.boundaries, boundary{file: file, ordinal: ordinal}, func(a, b boundary) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.ordinal, b.ordinal))
	})
	if !exact && (i == len(t.boundaries) || t.boundaries[i].file != file || i == 0 && t.dropped) {
		return boundary{}, false
	}
	return t.boundaries[i], true
}

// Checks returns the parts of files that this reader owns if its range ends at the ordinal upTo. upTo must not exceed the ordinal of the
// document that Next returned last, or, after io.EOF, the end of the range. The range of an item that is handed off ends where its
// successor starts, so both together cover each byte once. It may be called while another goroutine calls Next.
func (r *Reader) Checks(upTo int64) []Check {
	r.crcTracker.mu.Lock()
	defer r.crcTracker.mu.Unlock()
	var out []Check
	for i, f := range r.crcTracker.files {
		if f.segment.Base >= upTo {
			break
		}
		c := Check{Segment: f.segment.Name, File: f.src.name, Off: f.own, Size: f.src.size, Footed: f.footed}
		if f.done && upTo > f.last {
			c.End, c.CRC, c.Footer = f.src.size, f.crc, f.footer
			c.Verified = f.own == 0 && f.footed && f.crc == f.footer
		} else if b, ok := r.crcTracker.find(i, upTo); ok {
			c.End, c.CRC = b.off, b.crc
		}
		if c.End <= c.Off {
			continue
		}
		c.Blob, _ = f.src.file.Locate(f.src.base + c.End - 1)
		out = append(out, c)
	}
	return out
}
