package lucene

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestCommitsOfEveryFormatAreRead(t *testing.T) {
	for format := range 11 {
		c, err := parseSegments("segments_1", segmentsFile(format, 1))
		if err != nil {
			t.Errorf("format %d: %v", format, err)
			continue
		}
		s := c.segments[0]
		soft := int32(-1)
		if format >= 9 {
			soft = 0
		}
		if s.name != "_0" || s.codec != "AnyCodec" || s.delGen != -1 || s.softDelCount != soft || s.fieldInfosGen != -1 || c.userData["key"] != "value" {
			t.Errorf("format %d: %+v %v", format, s, c.userData)
		}
		if wantID := format >= 4; (s.id == string(testID)) != wantID {
			t.Errorf("format %d: id %q", format, s.id)
		}
	}
}

func TestUnknownFormsAreRefusedAndOldOnesSayWhatToDo(t *testing.T) {
	var old out
	old.be32(-11)
	for name, c := range map[string]struct {
		parse func() error
		says  string
	}{
		"lucene 3":  {func() error { _, err := parseSegments("segments_1", old.b); return err }, "1.x"},
		"format 11": {func() error { _, err := parseSegments("segments_1", headerFile("segments", 11)); return err }, "11"},
		"si":        {func() error { _, err := parseSegmentInfo(headerFile("Lucene3xSegmentInfo", 0)); return err }, "1.x"},
		"si new":    {func() error { _, err := parseSegmentInfo(headerFile("Lucene110SegmentInfo", 0)); return err }, "Lucene110SegmentInfo"},
		"fnm":       {func() error { _, err := parseFieldInfos(headerFile("Lucene110FieldInfos", 0), ""); return err }, "Lucene110FieldInfos"},
		"cfe":       {func() error { _, err := parseCompound(headerFile("Lucene110CompoundEntries", 0), ""); return err }, "Lucene110CompoundEntries"},
		"fdt": {func() error {
			s := segmentSpec{fdt: "Lucene90StoredFieldsFastData", version: 1, chunkSize: 100, chunkDocs: 9}
			s.docs = mixedDocs(s, 5)
			dir := encodeSegment(t, s)
			dir["_0.fdt"] = headerFile("MyStoredFields", 1)
			return readAllOf(t, dir)
		}, "MyStoredFields"},
	} {
		if err := c.parse(); !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func headerFile(name string, version int) []byte {
	var o out
	o.header(name, version)
	return append(o.b, make([]byte, 64)...)
}

// siFile writes a segment info of any codec.
func siFile(name string, version int, hasBlocks bool) []byte {
	var o out
	plain := name < "Lucene50"
	old := plain || name == "Lucene50SegmentInfo" && version == 0
	if plain {
		o.header(name, version)
		o.str("4.7")
	} else {
		o.indexHeader(name, version, "")
		o.i32(9)
		o.i32(12)
		o.i32(1)
	}
	if name >= "Lucene70" {
		o.u8(1)
		o.bytes(make([]byte, 12))
	}
	o.i32(77)
	o.u8(1)
	if hasBlocks {
		o.u8(0xFF)
	}
	o.count(2, old)
	for _, k := range []string{"os", "java"} {
		o.str(k)
		o.str("x")
	}
	if name == "Lucene40SegmentInfo" {
		o.count(0, old)
	}
	o.strs(old, "_0.cfs", "_0.cfe")
	if !plain {
		o.count(0, old)
	}
	return o.footer()
}

func TestSegmentInfosOfEveryCodecAreRead(t *testing.T) {
	for name, versions := range map[string][]int{
		"Lucene40SegmentInfo": {0}, "Lucene46SegmentInfo": {0, 1}, "Lucene50SegmentInfo": {0, 1},
		"Lucene62SegmentInfo": {0}, "Lucene70SegmentInfo": {0}, "Lucene86SegmentInfo": {0}, "Lucene90SegmentInfo": {0},
	} {
		for _, v := range versions {
			for _, blocks := range []bool{false, name == "Lucene90SegmentInfo"} {
				s, err := parseSegmentInfo(siFile(name, v, blocks))
				if err != nil || s.maxDoc != 77 || !s.compound || !slices.Equal(s.files, []string{"_0.cfs", "_0.cfe"}) {
					t.Errorf("%s v%d: %+v %v", name, v, s, err)
				}
			}
		}
	}
}

// fnmFile writes one field of numeric doc values in any codec.
func fnmFile(name string, version int) []byte {
	var o out
	plain := name < "Lucene50"
	if plain {
		o.header(name, version)
	} else {
		o.indexHeader(name, version, "")
	}
	o.vint(2)
	for i, f := range []string{"first", "__soft_deletes"} {
		o.str(f)
		o.vint(i * 300)
		o.u8(8)
		if plain {
			o.u8(1)
			if name == "Lucene46FieldInfos" {
				o.be64(5)
			}
		} else {
			o.u8(0)
			o.u8(1)
			if name == "Lucene94FieldInfos" && version >= 2 {
				o.u8(1)
			}
			o.i64(5)
		}
		o.count(1, plain || name == "Lucene50FieldInfos" && version == 0)
		o.str("PerFieldDocValuesFormat.format")
		o.str("Lucene80")
		if name >= "Lucene60" {
			o.vint(2)
			if name != "Lucene60FieldInfos" || version >= 2 {
				o.vint(1)
			}
			o.vint(8)
		}
		if name >= "Lucene90" {
			o.vint(0)
			if name == "Lucene94FieldInfos" {
				o.u8(1)
			}
			o.u8(0)
		}
	}
	if plain && version == 0 {
		return o.b
	}
	return o.footer()
}

func TestFieldInfosOfEveryCodecAreRead(t *testing.T) {
	for name, versions := range map[string][]int{
		"Lucene40FieldInfos": {0}, "Lucene42FieldInfos": {0}, "Lucene46FieldInfos": {0, 1, 2}, "Lucene50FieldInfos": {0, 1},
		"Lucene60FieldInfos": {0, 1, 2}, "Lucene90FieldInfos": {0}, "Lucene94FieldInfos": {0, 1, 2},
	} {
		for _, v := range versions {
			fi, err := parseFieldInfos(fnmFile(name, v), "")
			if err != nil {
				t.Errorf("%s v%d: %v", name, v, err)
				continue
			}
			gen := int64(5)
			if name == "Lucene40FieldInfos" || name == "Lucene42FieldInfos" {
				gen = -1
			}
			f := fi.numeric("__soft_deletes")
			if f == nil || f.number != 300 || f.dvGen != gen || f.attrs[attrFormat] != "Lucene80" || f.skipIndex != (name == "Lucene94FieldInfos" && v == 2) {
				t.Errorf("%s v%d: %+v", name, v, f)
			}
		}
	}
}

// delFile writes the dead documents of Lucene 4; version -1 has no header.
func delFile(version int32, gaps bool, dead []int, maxDoc int) []byte {
	var o out
	if version >= 0 {
		o.be32(-2)
		o.header("BitVector", int(version))
	}
	raw := make([]byte, (maxDoc+7)/8)
	if version >= 1 {
		for i := range raw {
			raw[i] = 0xFF
		}
	}
	for _, d := range dead {
		raw[d>>3] ^= 1 << (d & 7)
	}
	count := len(dead)
	if version >= 1 {
		count = maxDoc - len(dead)
	}
	if gaps {
		o.be32(-1)
	}
	o.be32(maxDoc)
	o.be32(count)
	plain := byte(0)
	if version >= 1 {
		plain = 0xFF
	}
	last := 0
	for i, c := range raw {
		if !gaps {
			o.u8(int(c))
		} else if c != plain {
			o.vint(i - last)
			o.u8(int(c))
			last = i
		}
	}
	if version >= 2 {
		return o.footer()
	}
	return o.b
}

func TestDeadDocumentsOfLucene4AreReadInEveryForm(t *testing.T) {
	dead := []int{0, 3, 8, 63, 64, 200, 201, 202, 298}
	for version := int32(-1); version <= 2; version++ {
		for _, gaps := range []bool{false, true} {
			live, err := parseDel(t, delFile(version, gaps, dead, 299), 299)
			if err != nil {
				t.Errorf("v%d gaps %v: %v", version, gaps, err)
				continue
			}
			for d := range int32(299) {
				if live.get(d) == slices.Contains(dead, int(d)) {
					t.Errorf("v%d gaps %v: document %d is alive: %v", version, gaps, d, live.get(d))
				}
			}
			if n := live.count(); n != 299-len(dead) {
				t.Errorf("v%d gaps %v: %d live", version, gaps, n)
			}
		}
	}
}

func TestLiveDocumentsAreReadInBothByteOrders(t *testing.T) {
	for _, name := range []string{"Lucene50LiveDocs", "Lucene90LiveDocs"} {
		var o out
		o.indexHeader(name, 0, "11")
		o.i64(-1)
		o.i64(1<<5 - 1 - 1<<2)
		b := o.footer()
		live, err := parseLive(t, b, string(testID), 37, 69)
		if err != nil || live.count() != 68 || live.get(66) {
			t.Errorf("%s: %v %v", name, live, err)
		}
		if _, err := parseLive(t, b, string(testID), 37, 68); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: a live document beyond the last gives %v", name, err)
		}
		if _, err := parseLive(t, b, string(testID), 38, 69); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: another generation gives %v", name, err)
		}
	}
}

func TestOrdinalsCountSegmentsByNameAsStrings(t *testing.T) {
	for name, dir := range testShards(t) {
		c, err := Open(t.Context(), dir.without(documentsFile), Options{})
		if err != nil {
			t.Fatal(err)
		}
		base := int64(0)
		for i, s := range c.Segments {
			if s.Base != base || i > 0 && c.Segments[i-1].Name >= s.Name {
				t.Errorf("%s: segment %s starts at %d, not %d", name, s.Name, s.Base, base)
			}
			base += int64(s.MaxDoc)
			if s.LiveCount != s.MaxDoc-s.DelCount-s.SoftDelCount {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if base != c.MaxOrdinal {
			t.Errorf("%s: %d ordinals, not %d", name, c.MaxOrdinal, base)
		}
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	for name, dir := range testShards(t) {
		dir = dir.without(documentsFile)
		for _, f := range slices.Sorted(maps.Keys(dir)) {
			err := readAllOf(t, dir.without(f))
			if err == nil {
				continue // not every file is read
			}
			if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprint(f)) && !strings.HasPrefix(f, "segments") {
				t.Errorf("%s without %s: %v", name, f, err)
			}
		}
	}
}
