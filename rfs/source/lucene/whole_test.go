package lucene

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// longDir has one file of a length that must not be read.
type longDir struct {
	mapDir
	t    *testing.T
	name string
	size int64
}

func (d longDir) Open(name string) (File, error) {
	f, err := d.mapDir.Open(name)
	if err != nil || name != d.name {
		return f, err
	}
	return unread{f, d}, nil
}

type unread struct {
	File
	d longDir
}

func (f unread) Size() int64 { return f.d.size }

func (f unread) ReadAt(context.Context, []byte, int64) error {
	f.d.t.Errorf("%s of %d bytes is read", f.d.name, f.d.size)
	return errors.New("it is read")
}

func plainSegment(t *testing.T) mapDir {
	t.Helper()
	doc := testDoc{{numID, 1, []byte("\xffa")}, {numSource, 1, []byte("{}")}}
	return encodeSegment(t, segmentSpec{fdt: "Lucene90StoredFieldsFastData", version: 1, chunkSize: 1 << 10, chunkDocs: 4, packed: 2, docs: []testDoc{doc}})
}

// TestFilesThatStayShort: what no cluster writes is refused before it is read, by name.
func TestFilesThatStayShort(t *testing.T) {
	if _, err := Open(t.Context(), plainSegment(t), Options{}); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"segments_1": maxCommit + 1, "_0.si": 1<<20 + 1, "_0.fnm": 32<<20 + 1} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), longDir{plainSegment(t), t, name, size}, Options{})
			if !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), name) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestFieldsOfAnIndex: the tables that are indexed by their numbers stay small.
func TestFieldsOfAnIndex(t *testing.T) {
	for _, c := range []struct {
		name   string
		number int
		err    error
	}{
		{"the last number", maxFieldNumber, nil},
		{"one more", maxFieldNumber + 1, fault.ErrUnsupported},
		{"below the first", -1, fault.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o out
			o.header("Lucene46FieldInfos", 1)
			o.vint(1)
			o.str("f")
			o.vint(c.number)
			o.u8(0)
			o.u8(0)
			o.be64(-1)
			o.be32(0)
			if _, err := parseFieldInfos(o.footer(), ""); !errors.Is(err, c.err) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestDocumentsOfAnIndex: segments state no more documents together than an index can have.
func TestDocumentsOfAnIndex(t *testing.T) {
	o := segmentOpener{dir: plainSegment(t), entry: segmentEntry{name: "_0", delGen: -1, fieldInfosGen: -1, softDelCount: -1}, inAll: &inAll{}}
	o.commit = &source{name: "segments_1", file: memFile{"segments_1", nil}, own: true}
	o.inAll.docs.Store(maxDocs)
	if err := o.open(t.Context()); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "at most 2147483647") {
		t.Errorf("%v", err)
	}
}
