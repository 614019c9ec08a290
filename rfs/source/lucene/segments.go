package lucene

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

/*
segments_N, the list of the segments of a commit. Big-endian in every version; the version
F of the header "segments" determines which fields exist:

	F>=4 16 bytes id, u8 n, n bytes suffix (N in base 36)                 Lucene 5.0
	F>=6 3 VInt Lucene version of the commit                              5.3
	F>=7 VInt major version that created the index                        7.0
	i64 version | counter: F>=8 VLong (7.2), else i32 | i32 segments
	F>=6 and segments>0: 3 VInt lowest version of a segment
	per segment
	  str name | F 4..6: u8 1 and 16 bytes id, or u8 0; F>=7: 16 bytes id
	  str codec | i64 delGen (-1 none) | i32 delCount
	  F>=1 i64 fieldInfosGen (4.6) | F>=3 i64 dvGen (4.9)
	  F>=9 i32 softDelCount (7.4) | F>=10 u8 1 and 16 bytes id, or u8 0 (8.6)
	  F 1,2: i32 n, n of (i64 gen, old set of files)
	  F>=3:  set of files, i32 n, n of (i32 field, set of files)
	map user data
	F>=2 footer (4.8), else i64 CRC of everything before

Sets and maps count with an i32 before F 5 (5.1), with a VInt since.
*/
type commitInfo struct {
	format   int32
	version  string // Lucene that wrote the commit; "" before 5.3
	userData map[string]string
	segments []segmentEntry
	counted  int // offset of the number of segments in the file
	listed   int // offset after the last segment
}

// segmentEntry is the entry of one segment in a commit.
type segmentEntry struct {
	name          string
	id            string // "" when the format has none
	codec         string // name of the codec; informational, files are dispatched by their own headers
	at            int    // offset of delGen in the file
	delGen        int64
	delCount      int32
	fieldInfosGen int64
	softDelCount  int32    // -1 if the format lacks it
	updates       []string // files of later generations: field infos and doc values; nil before format 3
}

const maxSegmentsFormat = 10

const luceneTooOld = "segments of Lucene 3 (made by Elasticsearch before 0.90): merge the index on Elasticsearch 1.x with _upgrade or _optimize, snapshot it again"

// UserData returns the data that Elasticsearch or OpenSearch recorded in a commit. name and b are the name and the bytes of its file
// segments_N.
func UserData(name string, b []byte) (map[string]string, error) {
	c, err := parseSegments(name, b)
	if err != nil {
		return nil, err
	}
	return c.userData, nil
}

func parseSegments(name string, b []byte) (*commitInfo, error) {
	in := codec.NewInput(b)
	if len(b) >= 4 && int32(binary.BigEndian.Uint32(b)) < 0 {
		return nil, fmt.Errorf("%s: %s: %w", name, luceneTooOld, fault.ErrUnsupported)
	}
	h := in.Header()
	f := h.Version
	switch {
	case in.Err() != nil:
		return nil, in.Err()
	case h.Codec != "segments":
		return nil, codec.Errorf(0, "codec %q where segments is expected", h.Codec)
	case f < 0 || f > maxSegmentsFormat:
		return nil, fmt.Errorf("%s: commit format %d is newer than the newest known, %d: %w", name, f, maxSegmentsFormat, fault.ErrUnsupported)
	}
	if err := checkCommitSum(b, f); err != nil {
		return nil, err
	}
	c := &commitInfo{format: f}
	if f >= 4 {
		in.Take(16)
		if suffix := string(in.Take(int(in.U8()))); in.Err() == nil && "segments_"+suffix != name {
			in.Fail("suffix %q in a file called %s", suffix, name)
		}
	}
	if f >= 6 {
		c.version = readVIntVersion(in)
	}
	if f >= 7 {
		in.VInt()
	}
	in.I64()
	if f >= 8 {
		in.VLong()
	} else {
		in.I32()
	}
	c.counted = in.Pos()
	n := in.Count32(1 + 1 + 8 + 4)
	if f >= 6 && n > 0 {
		readVIntVersion(in)
	}
	c.segments = make([]segmentEntry, 0, n)
	for i := 0; i < n && in.Err() == nil; i++ {
		c.segments = append(c.segments, readSegmentEntry(in, f))
	}
	c.listed = in.Pos()
	c.userData = in.Map(f < 5)
	return c, checkEntries(in, c, f)
}

func checkEntries(in *codec.Input, c *commitInfo, f int32) error {
	tail := codec.FooterLen
	if f < 2 {
		tail = 8
	}
	if in.Err() == nil && in.Left() != tail {
		in.Fail("%d bytes left where the footer of %d starts", in.Left(), tail)
	}
	slices.SortFunc(c.segments, func(a, b segmentEntry) int { return strings.Compare(a.name, b.name) })
	for i, s := range c.segments {
		if in.Err() == nil && (len(s.name) < 2 || s.name[0] != '_' || strings.ContainsAny(s.name, "/\\.")) {
			in.Fail("segment name %q", s.name)
		}
		if in.Err() == nil && i > 0 && c.segments[i-1].name == s.name {
			in.Fail("segment %s is listed twice", s.name)
		}
	}
	return in.Err()
}

func checkCommitSum(b []byte, format int32) error {
	if format >= 2 {
		_, err := codec.Footer(b)
		return err
	}
	n := len(b) - 8
	want := binary.BigEndian.Uint64(b[n:])
	if got := uint64(crc32.ChecksumIEEE(b[:n])); got != want {
		return codec.Errorf(int64(n), "checksum %08x, the file states %08x", got, want)
	}
	return nil
}

func readSegmentEntry(in *codec.Input, f int32) segmentEntry {
	s := segmentEntry{name: in.String(), fieldInfosGen: -1, softDelCount: -1}
	switch {
	case f >= 7:
		s.id = string(in.Take(16))
	case f >= 4:
		if in.U8() == 1 {
			s.id = string(in.Take(16))
		}
	}
	s.codec = in.String()
	s.at = in.Pos()
	s.delGen = in.I64()
	s.delCount = in.I32()
	if f >= 1 {
		s.fieldInfosGen = in.I64()
	}
	if f >= 3 {
		in.I64()
	}
	if f >= 9 {
		if s.softDelCount = in.I32(); s.softDelCount < 0 {
			in.Fail("soft-delete count %d", s.softDelCount)
		}
	}
	if f >= 10 && in.U8() == 1 {
		in.Take(16)
	}
	if s.delCount < 0 {
		in.Fail("delete count %d", s.delCount)
	}
	s.updates = readUpdateFiles(in, f)
	return s
}

// readUpdateFiles returns the names of the files of later generations, so that they can be read early. The generations in the field infos
// determine the same names.
func readUpdateFiles(in *codec.Input, f int32) (names []string) {
	switch {
	case f == 1 || f == 2:
		for n := in.Count32(12); n > 0; n-- {
			in.I64()
			in.Strings(true)
		}
	case f >= 3:
		names = in.Strings(f < 5)
		for n := in.Count32(5); n > 0; n-- {
			in.I32()
			names = append(names, in.Strings(f < 5)...)
		}
	}
	return names
}

func readVIntVersion(in *codec.Input) string {
	return versionString(in.VInt(), in.VInt(), in.VInt())
}

func versionString(major, minor, bugfix int32) string {
	return fmt.Sprintf("%d.%d.%d", major, minor, bugfix)
}

// commitFile returns the name of the newest commit among the files of a directory.
func commitFile(names []string) (string, error) {
	best, gen := "", int64(-1)
	for _, n := range names {
		if n == "segments" && gen < 0 {
			best, gen = n, 0
		}
		s, ok := strings.CutPrefix(n, "segments_")
		if !ok {
			continue
		}
		if g, err := strconv.ParseInt(s, 36, 64); err == nil && g > gen {
			best, gen = n, g
		}
	}
	if best == "" {
		return "", fault.Corrupt("", "segments_N", -1, "the file list has no commit")
	}
	return best, nil
}

// Borders returns ordinals that divide the commit into at most the given number of parts, of about equal length of stored fields. Each is
// the first ordinal of a chunk, none is 0, and they are in ascending order. It reads the chunk index of the segments that contain borders,
// and no documents.
func (c *Commit) Borders(ctx context.Context, parts int) ([]int64, error) {
	var all int64
	sizes := make([]int64, len(c.Segments))
	for i, s := range c.Segments {
		if s.LiveCount == 0 {
			continue
		}
		fdt, err := s.files.core(".fdt")
		if err != nil {
			return nil, err
		}
		sizes[i] = fdt.size
		all += fdt.size
	}
	var borders []int64
	var before int64 // length of earlier segments
	part := 1
	for i, s := range c.Segments {
		var stored *storedFields
		for ; part < parts; part++ {
			at := all/int64(parts)*int64(part) - before
			if at >= sizes[i] {
				break
			}
			if stored == nil {
				var err error
				if stored, err = openStored(ctx, s); err != nil {
					return nil, err
				}
			}
			doc, err := stored.index.chunkFrom(ctx, at)
			if err != nil {
				return nil, err
			}
			if border := s.Base + int64(doc); border < c.MaxOrdinal && border > 0 && (len(borders) == 0 || border > borders[len(borders)-1]) {
				borders = append(borders, border)
			}
		}
		before += sizes[i]
	}
	return borders, nil
}

// chunkFrom returns the first document of the first chunk that starts at offset at or later; after the last chunk, the number of documents.
func (x *chunkIndex) chunkFrom(ctx context.Context, at int64) (doc int32, err error) {
	k := sort.Search(x.chunks(), func(k int) bool {
		_, pointer, failed := x.entry(ctx, k)
		err = cmp.Or(err, failed)
		return pointer >= at
	})
	if err != nil {
		return 0, err
	}
	doc, _, err = x.entry(ctx, k)
	return doc, err
}

// CountLive returns the number of live documents of a commit, nested ones included, according to segments_N and the .si files. It reads no
// other file, so it works for a shard whose documents are damaged. It returns the same errors as Open.
func CountLive(ctx context.Context, dir Directory) (int64, error) {
	src, info, err := readCommit(ctx, dir)
	if err != nil {
		return 0, err
	}
	var live int64
	for _, e := range info.segments {
		si, err := readSegmentInfo(ctx, dir, e)
		if err != nil {
			return 0, err
		}
		n := int64(si.maxDoc) - int64(e.delCount) - int64(max(e.softDelCount, 0))
		if n < 0 {
			return 0, src.corrupt(-1, "segment %s has %d documents and more deletions", e.name, si.maxDoc)
		}
		if live += n; live > maxDocs {
			return 0, src.corrupt(-1, "%d documents in the segments, an index has at most %d", live, maxDocs)
		}
	}
	return live, nil
}

// readCommit reads segments_N.
func readCommit(ctx context.Context, dir Directory) (*source, *commitInfo, error) {
	name, err := commitFile(dir.List())
	if err != nil {
		return nil, nil, err
	}
	src, err := openSource(dir, name)
	if err != nil {
		return nil, nil, err
	}
	if err := src.bound(maxCommit); err != nil {
		return nil, nil, err
	}
	b, err := src.readAt(ctx, 0, src.size)
	if err != nil {
		return nil, nil, err
	}
	info, err := parseSegments(name, b)
	if err != nil {
		return nil, nil, src.wrap(err)
	}
	if n := len(info.segments); n > maxSegments {
		return nil, nil, fmt.Errorf("%s: %d segments, at most %d are read; merge the index and snapshot it again: %w", name, n, maxSegments, fault.ErrUnsupported)
	}
	return src, info, nil
}

// readSegmentInfo reads the .si file of a segment.
func readSegmentInfo(ctx context.Context, dir Directory, e segmentEntry) (*segmentInfo, error) {
	src, err := openSource(dir, e.name+".si")
	if err != nil {
		return nil, err
	}
	b, err := src.readAll(ctx)
	if err != nil {
		return nil, err
	}
	si, err := parseSegmentInfo(b)
	if err != nil {
		return nil, src.wrap(err)
	}
	return si, nil
}
