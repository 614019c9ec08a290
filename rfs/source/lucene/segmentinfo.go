package lucene

import (
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
.si, the properties of a segment. By codec name:

	Lucene40SegmentInfo v0    str version, i32 maxDoc, i8 compound, old map, old map, old set; no footer
	Lucene46SegmentInfo v0/1  str version, i32 maxDoc, i8 compound, old map, old set; v1 footer
	Lucene50SegmentInfo v0/1  3 i32 version, i32 maxDoc, i8 compound, map, set, map (v0: old counts)
	Lucene62SegmentInfo       as 50 v1, then the sort fields
	Lucene70, 86SegmentInfo   3 i32 version, u8 1 and 3 i32 lowest version or u8 0, then as 62
	Lucene90SegmentInfo       as 86, little-endian; Lucene 9.9 and later put i8 hasBlocks after
	                          compound without another name or version

compound and hasBlocks are 1 for yes and -1 for no. The number of diagnostics, which follows
compound if there is no hasBlocks, is neither. 40 and 46 have a plain header, the others an index header.

90 ends with VInt n, n sort fields, of which the first is read: str provider, str field, then
SortField and SortedNumericSortField str type, i32 1 for descending order; SortedSetSortField only the i32.
*/
type segmentInfo struct {
	codec     string
	version   string // Lucene that wrote the segment
	maxDoc    int32
	compound  bool
	hasBlocks bool
	id        string
	files     []string
	sortedBy  string // the first sort field if its order is ascending; "" for none and before 90
}

// siLayout describes how one codec of .si is laid out.
type siLayout struct {
	plain      bool // plain header, version as string
	oldCounts  func(version int32) bool
	minVersion bool // an optional lowest version follows the version
	hasBlocks  bool // a byte hasBlocks may follow compound
	attributes bool // a map of attributes precedes the files (40)
}

func never(int32) bool  { return false }
func always(int32) bool { return true }

var siLayouts = map[string]siLayout{
	"Lucene40SegmentInfo": {plain: true, oldCounts: always, attributes: true},
	"Lucene46SegmentInfo": {plain: true, oldCounts: always},
	"Lucene50SegmentInfo": {oldCounts: func(v int32) bool { return v < 1 }},
	"Lucene62SegmentInfo": {oldCounts: never},
	"Lucene70SegmentInfo": {oldCounts: never, minVersion: true},
	"Lucene86SegmentInfo": {oldCounts: never, minVersion: true},
	"Lucene90SegmentInfo": {oldCounts: never, minVersion: true, hasBlocks: true},
}

func parseSegmentInfo(b []byte) (*segmentInfo, error) {
	in := codec.NewInput(b)
	h := in.Header()
	if in.Err() != nil {
		return nil, in.Err()
	}
	l, ok := siLayouts[h.Codec]
	if !ok {
		if strings.HasPrefix(h.Codec, "Lucene3x") {
			return nil, fmt.Errorf("%s: %w", luceneTooOld, fault.ErrUnsupported)
		}
		return nil, fmt.Errorf("segment info of codec %q is unknown: %w", h.Codec, fault.ErrUnsupported)
	}
	s := &segmentInfo{codec: h.Codec}
	if l.plain {
		s.version = in.String()
	} else {
		s.id = string(in.Take(16))
		in.Take(int(in.U8()))
		s.version = versionString(in.I32(), in.I32(), in.I32())
	}
	if l.minVersion && in.U8() == 1 {
		in.Take(12)
	}
	s.maxDoc = in.I32()
	s.compound = in.U8() == 1
	if rest := in.Rest(); l.hasBlocks && len(rest) > 0 && (rest[0] == 1 || rest[0] == 0xFF) {
		s.hasBlocks = in.U8() == 1
	}
	old := l.oldCounts(h.Version)
	in.Map(old)
	if l.attributes {
		in.Map(old)
	}
	s.files = in.Strings(old)
	if l.hasBlocks && in.Err() == nil {
		s.sortedBy = sortedBy(*in)
	}
	if s.maxDoc < 0 {
		in.Fail("maxDoc %d", s.maxDoc)
	}
	return s, in.Err()
}

// sortedBy returns the first sort field if its order is ascending. It returns "" for unknown forms.
func sortedBy(in codec.Input) string {
	in.Map(false)
	if in.VInt() < 1 {
		return ""
	}
	provider, field := in.String(), in.String()
	switch provider {
	case "SortField", "SortedNumericSortField":
		_ = in.String()
	case "SortedSetSortField":
	default:
		return ""
	}
	if in.I32() == 1 || in.Err() != nil {
		return ""
	}
	return field
}
