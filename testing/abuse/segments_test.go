package abuse

import (
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sparse is a file of zeros between a head and a footer with the right checksum.
type sparse struct {
	head []byte
	size int64
}

func (s sparse) write(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	h := crc32.NewIEEE()
	zeros := make([]byte, 1<<20)
	tail := []byte("\xC0\x28\x93\xE8\x00\x00\x00\x00")
	must(t, ignore(h.Write(s.head)))
	for left := s.size - int64(len(s.head)) - 16; left > 0; left -= int64(len(zeros)) {
		must(t, ignore(h.Write(zeros[:min(left, int64(len(zeros)))])))
	}
	must(t, ignore(h.Write(tail)))
	var end blob
	end.Write(tail)
	end.be64(uint64(h.Sum32()))
	must(t, f.Truncate(s.size))
	must(t, ignore(f.WriteAt(s.head, 0)))
	must(t, ignore(f.WriteAt(end.Bytes(), s.size-16)))
}

func ignore(_ int, err error) error { return err }

// segment are the files of segments that state what they do not have.
type segment struct {
	copies  int // segments that share the files
	docs    int // that each states
	deleted int
	soft    int
	fields  func(b *blob) // of .fnm
	entries int           // of the chunk index
	stored  int64         // bytes of .fdt
	more    map[string]any
}

func (s segment) shard(t *testing.T, dir string) {
	t.Helper()
	var fdt, fdm, fnm, si, commit blob
	fdt.begin(zstd814, 1, true)
	fdm.begin("Lucene90FieldsIndexMeta", 1, true)
	fdm.vint(sliceOf)
	fdm.le32(uint32(s.docs))
	fdm.le32(30)
	fdm.le32(uint32(s.entries))
	fdx := blob{}
	fdx.begin("Lucene90FieldsIndexIdx", 0, true)
	for _, line := range []struct{ first, step float64 }{
		{0, float64(s.docs) / float64(s.entries-1)}, {float64(fdt.Len()), float64(s.stored-int64(fdt.Len())-16) / float64(s.entries-1)},
	} {
		fdm.le64(uint64(fdx.Len()))
		fdm.le64(uint64(line.first))
		fdm.le32(math.Float32bits(float32(line.step)))
		fdm.le64(0)
		fdm.WriteByte(0)
	}
	fdm.le64(uint64(fdx.Len()))
	fdm.le64(uint64(s.stored - 16))
	fdm.vint(2)
	fdm.vint(0)
	fdm.vint(0)

	si.begin("Lucene90SegmentInfo", 0, true)
	for _, v := range []uint32{10, 1, 0} {
		si.le32(v)
	}
	si.WriteByte(0)
	si.le32(uint32(s.docs))
	si.WriteString("\xff\x01")
	si.vint(0)
	si.vint(0)
	si.vint(0)
	si.vint(0)

	fnm.begin("Lucene94FieldInfos", 2, true)
	s.fields(&fnm)

	commit.be32(0x3FD76C17)
	commit.text("segments")
	commit.be32(10)
	commit.WriteString(segmentID + "\x011" + "\x0a\x01\x00")
	commit.vint(10)
	commit.be64(7)
	commit.vint(1)
	commit.be32(uint32(s.copies))
	commit.WriteString("\x0a\x01\x00")
	generation := func(has bool) {
		if has {
			commit.be64(1)
		} else {
			commit.be64(1<<64 - 1)
		}
	}
	var list strings.Builder
	name := func(physical, blob string, size int64) {
		fmt.Fprintf(&list, `,{"name":"__%s","physical_name":"%s","length":%d}`, blob, physical, size)
	}
	for i := range s.copies {
		segment := fmt.Sprintf("_%d", i)
		commit.text(segment)
		commit.WriteString(segmentID)
		commit.text("Lucene101")
		generation(s.deleted > 0)
		commit.be32(uint32(s.deleted))
		generation(s.soft > 0)
		generation(s.soft > 0)
		commit.be32(uint32(s.soft))
		commit.WriteString("\x01" + segmentID)
		commit.vint(0)
		commit.be32(0)
	}
	commit.vint(0)

	files := map[string]any{".fdt": sparse{fdt.Bytes(), s.stored}, ".fdx": fdx.end(), ".fdm": fdm.end(), ".si": si.end(), ".fnm": fnm.end()}
	if s.soft > 0 {
		files["_1.fnm"] = files[".fnm"]
	}
	for suffix, b := range s.more {
		files[suffix] = b
	}
	for suffix, b := range files {
		size := int64(0)
		switch b := b.(type) {
		case []byte:
			size = int64(len(b))
			must(t, os.WriteFile(filepath.Join(dir, "__x"+suffix), b, 0o600))
		case sparse:
			size = b.size
			b.write(t, filepath.Join(dir, "__x"+suffix))
		}
		for i := range s.copies {
			name(fmt.Sprintf("_%d%s", i, suffix), "x"+suffix, size)
		}
	}
	end := commit.end()
	must(t, os.WriteFile(filepath.Join(dir, "__segments_1"), end, 0o600))
	name("segments_1", "segments_1", int64(len(end)))
	writeManifest(t, dir, list.String()[1:])
}

// ids writes the fields _id and _source.
func ids(b *blob) { fieldsOf(b, "_id", "_source") }

func fieldsOf(b *blob, names ...string) {
	b.vint(int64(len(names)))
	for i, name := range names {
		field(b, name, i, 0, nil)
	}
}

func field(b *blob, name string, number, docValues int, attributes []string) {
	b.text(name)
	b.vint(int64(number))
	b.Write([]byte{0, 0, byte(docValues), 0})
	if docValues > 0 {
		b.le64(1)
	} else {
		b.le64(1<<64 - 1)
	}
	b.vint(int64(len(attributes) / 2))
	for _, a := range attributes {
		b.text(a)
	}
	b.WriteString("\x00\x00\x00\x00")
}

// TestFilesOfSegmentsKeepWithinTheBudget: deletions, chunks and columns that a few bytes state, or that are as long as Lucene
// allows.
func TestFilesOfSegmentsKeepWithinTheBudget(t *testing.T) {
	const most = math.MaxInt32 // documents of an index
	var live, gaps, soft, values blob
	live.begin("Lucene90LiveDocs", 0, false)
	live.WriteString(segmentID + "\x011")
	gaps.be32(1<<32 - 2)
	gaps.begin("BitVector", 2, false)
	gaps.be32(1<<32 - 1)
	gaps.be32(most)
	gaps.be32(most)
	soft.begin("Lucene90DocValuesMetadata", 0, false)
	soft.WriteString(segmentID + "\x0c1_Lucene90_0")
	values.begin("Lucene90DocValuesData", 0, false)
	values.WriteString(segmentID + "\x0c1_Lucene90_0")
	const columnSize = 240 << 20
	soft.le32(2)                                              // field
	soft.WriteByte(0)                                         // numbers
	soft.le64(uint64(values.Len()))                           // the set
	soft.le64(columnSize - uint64(values.Len()) - 16)         // its length
	soft.Write([]byte{0xFF, 0xFF, 9})                         // jumps, ranks
	soft.le64(1)                                              // values
	soft.le32(1<<32 - 1)                                      // no table
	soft.Write(append([]byte{0}, make([]byte, 8+8+8+8+8)...)) // bits, and where
	soft.le32(1<<32 - 1)                                      // the end
	softFields := func(b *blob) {
		b.vint(3)
		field(b, "_id", 0, 0, nil)
		field(b, "_source", 1, 0, nil)
		field(b, "__soft_deletes", 2, 1, []string{"PerFieldDocValuesFormat.format", "Lucene90", "PerFieldDocValuesFormat.suffix", "0"})
	}
	for _, c := range []struct {
		name string
		s    segment
		says string // "": it is read
	}{
		{"deleted documents, as many as an index can have", segment{
			copies: 1, docs: most, deleted: most, fields: ids, entries: 2, stored: 3 << 20,
			more: map[string]any{"_1.liv": sparse{live.Bytes(), int64(live.Len()) + (most+63)/64*8 + 16}},
		}, ""},
		{"deleted documents in gaps", segment{
			copies: 1, docs: most, deleted: 1, fields: ids, entries: 2, stored: 3 << 20, more: map[string]any{"_1.del": gaps.end()},
		}, "segments_1"},
		{"chunks", segment{copies: 1, docs: 600_000_000, fields: ids, entries: 600_000_001, stored: 2_000_000_000}, "_0.fdt"},
		{"soft deletes in a long column", segment{
			copies: 6, docs: 100, soft: 1, fields: softFields, entries: 2, stored: 3 << 20,
			more: map[string]any{"_1_Lucene90_0.dvm": soft.end(), "_1_Lucene90_0.dvd": sparse{values.Bytes(), columnSize}},
		}, ".dvd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fixture(t)
			c.s.shard(t, oneShard(t, dir))
			e := run(t, 4*patience, []string{"RFS_TARGET_PASSWORD=x"}, "rfsd", "migrate", "--repo-uri", dir, "--snapshot-name", "snap1", "--index-allowlist", "order-check",
				"--export-dir", filepath.Join(t.TempDir(), "out"), "--coordinator-file", filepath.Join(t.TempDir(), "state.db"), "--output", "json")
			t.Logf("exit %d, %d MB: %.400s %.800s", e.code, e.memory>>20, e.stdout, e.stderr)
			if e.late || e.memory > mostMemory {
				t.Errorf("ran on %t, %d MB", e.late, e.memory>>20)
			}
			if (c.says == "") != (e.code == 0) || !strings.Contains(e.stderr, c.says) {
				t.Errorf("exit %d, %q is not named", e.code, c.says)
			}
		})
	}
}
