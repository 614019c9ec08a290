package difference

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// large is a commit of Lucene 10 with one segment of any number of documents, whose file of numbers is made as it is read.
type large struct {
	documents int64
	id        string                   // of the segment, 16 bytes
	top       int64                    // the highest number
	number    func(doc int64) int64    // below 2^32
	read      *atomic.Int64            // bytes of its files
	files     map[string]func() []byte // short ones
}

const largeSuffix = "Lucene90_0"

// luceneFile writes the primitives of a file.
type luceneFile struct{ b []byte }

func (f *luceneFile) be32(v uint32) { f.b = binary.BigEndian.AppendUint32(f.b, v) }
func (f *luceneFile) i32(v int32)   { f.b = binary.LittleEndian.AppendUint32(f.b, uint32(v)) }
func (f *luceneFile) i64(v int64)   { f.b = binary.LittleEndian.AppendUint64(f.b, uint64(v)) }
func (f *luceneFile) raw(p ...byte) { f.b = append(f.b, p...) }
func (f *luceneFile) vint(v int)    { f.b = binary.AppendUvarint(f.b, uint64(v)) }
func (f *luceneFile) text(s string) { f.vint(len(s)); f.b = append(f.b, s...) }

func (f *luceneFile) header(codec string, version uint32, id, suffix string) {
	f.be32(0x3FD76C17)
	f.text(codec)
	f.be32(version)
	f.b = append(f.b, id...)
	f.raw(byte(len(suffix)))
	f.b = append(f.b, suffix...)
}

func (f *luceneFile) footed() []byte {
	f.be32(0xC02893E8)
	f.be32(0)
	f.b = binary.BigEndian.AppendUint64(f.b, uint64(crc32.ChecksumIEEE(f.b)))
	return f.b
}

// dvdHead is what precedes the numbers.
func (c *large) dvdHead() []byte {
	var f luceneFile
	f.header("Lucene90DocValuesData", 0, c.id, largeSuffix)
	return f.b
}

func (c *large) segments() []byte {
	var f luceneFile
	f.header("segments", 10, c.id, "1")
	f.raw(10, 1, 0)
	f.vint(10)
	f.b = binary.BigEndian.AppendUint64(f.b, 7)
	f.vint(1)
	f.be32(1)
	f.raw(10, 1, 0)
	f.text("_0")
	f.b = append(f.b, c.id...)
	f.text("AnyCodec")
	none := ^uint64(0)
	f.b = binary.BigEndian.AppendUint64(f.b, none) // deletions
	f.be32(0)
	f.b = binary.BigEndian.AppendUint64(f.b, none)
	f.b = binary.BigEndian.AppendUint64(f.b, none)
	f.be32(0)
	f.raw(0)
	f.vint(0)
	f.be32(0)
	f.vint(2)
	f.text("max_seq_no")
	f.text(strconv.FormatInt(c.top, 10))
	f.text("history_uuid")
	f.text("one")
	return f.footed()
}

func (c *large) info() []byte {
	var f luceneFile
	f.header("Lucene90SegmentInfo", 0, c.id, "")
	for _, v := range []int32{10, 1, 0} {
		f.i32(v)
	}
	f.raw(0)
	f.i32(int32(c.documents))
	f.raw(0xFF, 0)
	f.vint(0) // diagnostics
	f.vint(1)
	f.text("_0.fdt")
	f.vint(0)
	f.vint(0)
	return f.footed()
}

func (c *large) fields() []byte {
	var f luceneFile
	f.header("Lucene94FieldInfos", 2, c.id, "")
	f.vint(2)
	for i, name := range []string{"_seq_no", "_primary_term"} {
		f.text(name)
		f.vint(i)
		f.raw(0, 0, 1, 0) // a number
		f.i64(-1)
		f.vint(2)
		f.text("PerFieldDocValuesFormat.format")
		f.text("Lucene90")
		f.text("PerFieldDocValuesFormat.suffix")
		f.text("0")
		f.raw(0, 0, 0, 0)
	}
	return f.footed()
}

func (c *large) columns() []byte {
	var f luceneFile
	f.header("Lucene90DocValuesMetadata", 0, c.id, largeSuffix)
	for field, bits := range []byte{32, 0} {
		f.i32(int32(field))
		f.raw(0)
		f.i64(-1) // all documents have a value
		f.i64(0)
		f.raw(0, 0, 0xFF)
		f.i64(c.documents)
		f.i32(-1)
		f.raw(bits)
		f.i64(int64(field)) // the term is 1
		f.i64(1)
		f.i64(int64(len(c.dvdHead())))
		f.i64(c.documents * int64(bits) / 8)
		f.i64(0)
	}
	f.i32(-1)
	return f.footed()
}

// List returns the names of the files.
func (c *large) List() []string { return slices.Sorted(maps.Keys(c.names())) }

func (c *large) names() map[string]func() []byte {
	if c.files == nil {
		stored := func() []byte {
			var f luceneFile
			f.header("Lucene90StoredFieldsFastData", 1, c.id, "")
			return f.b
		}
		c.files = map[string]func() []byte{"segments_1": c.segments, "_0.si": c.info, "_0.fnm": c.fields, "_0_" + largeSuffix + ".dvm": c.columns, "_0_" + largeSuffix + ".dvd": c.dvdHead, "_0.fdt": stored}
	}
	return c.files
}

// Open opens a file.
func (c *large) Open(name string) (lucene.File, error) {
	head := c.names()[name]
	if head == nil {
		return nil, fs.ErrNotExist
	}
	f := largeFile{c: c, head: head()}
	f.size = int64(len(f.head))
	switch name {
	case "_0.fdt":
		f.size += c.documents/64 + 16 // as long as that many documents need
	case "_0_" + largeSuffix + ".dvd":
		f.size += 4*c.documents + 16
	}
	return f, nil
}

// largeFile is its head, and numbers of 32 bits behind it.
type largeFile struct {
	c    *large
	head []byte
	size int64
}

// Size returns the length of the file.
func (f largeFile) Size() int64 { return f.size }

// ReadAt reads from the head, or makes numbers.
func (f largeFile) ReadAt(_ context.Context, p []byte, off int64) error {
	f.c.read.Add(int64(len(p)))
	n := 0
	if off < int64(len(f.head)) {
		n = copy(p, f.head[off:])
	}
	for n < len(p) {
		at := off + int64(n) - int64(len(f.head))
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], uint32(f.c.number(at/4)))
		n += copy(p[n:], b[at%4:])
	}
	return nil
}

// Stream is not needed: nothing is read from end to end.
func (largeFile) Stream(context.Context, int64, int64) (io.ReadCloser, error) {
	return nil, errors.New("the whole file is read")
}

// Locate names no blob.
func (largeFile) Locate(int64) (string, int64) { return "", 0 }

// largePair opens two commits of n documents, of which the second has every thousandth written again, after a forced merge of both.
func largePair(t testing.TB, n int64) (r *Reader, read *atomic.Int64) {
	t.Helper()
	read = &atomic.Int64{}
	first := &large{documents: n, id: "0123456789abcdef", top: n - 1, number: func(doc int64) int64 { return n - 1 - doc }, read: read}
	second := &large{documents: n, id: "fedcba9876543210", top: 2*n - 1, read: read, number: func(doc int64) int64 {
		if doc%1000 == 0 {
			return n + doc
		}
		return doc
	}}
	var all [2]*lucene.Commit
	for i, c := range []*large{first, second} {
		var err error
		all[i], err = lucene.Open(t.Context(), c, lucene.Options{})
		must(t, err)
	}
	r, err := New(all[0], all[1], 32<<20)
	must(t, err)
	return r, read
}

// readLarge reads the difference of a large pair as sets of ordinals, as Documents does.
func readLarge(t testing.TB, r *Reader) (d *Documents, gone int64) {
	t.Helper()
	d, gone, err := r.versions(t.Context())
	must(t, err)
	return d, gone
}

// TestReader_SizeOfASet bounds the memory for each number, and what is read of each column: at 10^8 numbers 37.5 MB are the sets of
// ordinals, and 25 MB the numbers.
func TestReader_SizeOfASet(t *testing.T) {
	const n = 4_000_000
	r, read := largePair(t, n)
	read.Store(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d, gone := readLarge(t, r)
	runtime.ReadMemStats(&after)
	if gone != n/1000 || d.Unchanged != n-n/1000 {
		t.Errorf("%d gone, %d unchanged", gone, d.Unchanged)
	}
	const fixed = 4 << 20 // pages of the columns, blocks of terms
	if columns := int64(2 * 4 * n); read.Load() > columns*101/100 {
		t.Errorf("%d bytes were read of columns of %d", read.Load(), columns)
	}
	// Pages of columns are allocated as they are read, and are garbage then.
	if got := int64(after.TotalAlloc-before.TotalAlloc) - read.Load(); got > n*5/8+fixed {
		t.Errorf("%d bytes for %d numbers", got, n)
	}
}

// BenchmarkReader_HundredMillionNumbers reads the difference of a shard of 10^8 documents that was merged in between, and reports the
// largest memory that the process used.
func BenchmarkReader_HundredMillionNumbers(b *testing.B) {
	for b.Loop() {
		r, read := largePair(b, 100_000_000)
		var peak uint64
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			var m runtime.MemStats
			for tick := time.NewTicker(20 * time.Millisecond); ; {
				runtime.ReadMemStats(&m)
				peak = max(peak, m.Sys-m.HeapReleased)
				select {
				case <-tick.C:
				case <-stop:
					tick.Stop()
					return
				}
			}
		}()
		d, gone := readLarge(b, r)
		close(stop)
		<-stopped
		if gone != 100_000 || d.Unchanged != 99_900_000 {
			b.Fatalf("%d gone, %d unchanged", gone, d.Unchanged)
		}
		b.ReportMetric(float64(peak)/1e6, "peak-MB")
		b.ReportMetric(float64(read.Load())/1e6, "read-MB")
	}
}
