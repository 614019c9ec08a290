package lucene

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// seedFiles adds the real files of a kind, also those inside of compound files.
func seedFiles(f *testing.F, ext string, add func(b []byte)) {
	f.Helper()
	n := 0
	for _, dir := range testShards(f) {
		for name, b := range dir {
			if strings.HasSuffix(name, ext) || ext == "segments" && strings.HasPrefix(name, ext) {
				add(b)
				n++
			}
			if !strings.HasSuffix(name, ".cfe") {
				continue
			}
			sections, err := parseCompound(b, "")
			if err != nil {
				f.Fatal(err)
			}
			for s, at := range sections {
				if strings.HasSuffix(s, ext) {
					add(dir[strings.TrimSuffix(name, "e")+"s"][at.off : at.off+at.size])
					n++
				}
			}
		}
	}
	if n == 0 {
		f.Fatalf("no seed ends with %s", ext)
	}
}

// wellBehaved fails when an error has no category, or when a small input took much memory or time.
func wellBehaved(t *testing.T, input int, parse func() error) {
	t.Helper()
	end := fuzzing.Bounded(t, input)
	err := parse()
	end()
	if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) {
		t.Fatalf("error without a category: %v", err)
	}
}

// reseal makes the checksum in the footer right again, so that damage reaches the parsers.
func reseal(b []byte) []byte {
	if !codec.HasFooter(b) {
		return b
	}
	b = bytes.Clone(b)
	binary.BigEndian.PutUint64(b[len(b)-8:], uint64(crc32.ChecksumIEEE(b[:len(b)-8])))
	return b
}

// FuzzCommit changes one byte of a real shard and makes the checksum right again: whatever
// comes of it, there is no panic, no error without a category and no great use of memory.
func FuzzCommit(f *testing.F) {
	var dirs []mapDir
	shards := testShards(f)
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		dirs = append(dirs, shards[name].without(documentsFile))
		for file := range dirs[len(dirs)-1].List() {
			f.Add(len(dirs)-1, file, 60, byte(1))
		}
	}
	f.Fuzz(func(t *testing.T, dir, file, off int, flip byte) {
		d := maps.Clone(dirs[uint(dir)%uint(len(dirs))])
		name := d.List()[uint(file)%uint(len(d))]
		if len(d[name]) == 0 {
			t.Skip("nothing to change")
		}
		b := bytes.Clone(d[name])
		b[uint(off)%uint(len(b))] ^= flip
		d[name] = reseal(b)
		wellBehaved(t, 0, func() error { return readAllOf(t, d) })
	})
}

func FuzzSegments(f *testing.F) {
	seedFiles(f, "segments", func(b []byte) { f.Add(b) })
	for format := range 11 {
		f.Add(segmentsFile(format, 1))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		wellBehaved(t, len(b), func() error { _, err := parseSegments("segments_1", reseal(b)); return err })
	})
}

func FuzzSegmentInfo(f *testing.F) {
	seedFiles(f, ".si", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		wellBehaved(t, len(b), func() error { _, err := parseSegmentInfo(b); return err })
	})
}

func FuzzFieldInfos(f *testing.F) {
	seedFiles(f, ".fnm", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		wellBehaved(t, len(b), func() error {
			fi, err := parseFieldInfos(b, "")
			if err == nil {
				newFieldTable(fi)
			}
			return err
		})
	})
}

func FuzzCompound(f *testing.F) {
	seedFiles(f, ".cfe", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		wellBehaved(t, len(b), func() error { _, err := parseCompound(b, ""); return err })
	})
}

func FuzzLive(f *testing.F) {
	seedFiles(f, ".liv", func(b []byte) { f.Add(b, int64(1), int32(100)) })
	f.Fuzz(func(t *testing.T, b []byte, gen int64, maxDoc int32) {
		if gen < 0 || maxDoc < 0 || int(maxDoc) > 1024*len(b) {
			t.Skip("the caller has bounded both")
		}
		wellBehaved(t, len(b), func() error { _, err := parseLive(t, b, "", gen, maxDoc); return err })
	})
}

func FuzzDel(f *testing.F) {
	seedFiles(f, ".del", func(b []byte) { f.Add(b, int32(100)) })
	for v := range int32(4) {
		for _, gaps := range []bool{true, false} {
			f.Add(delFile(v-1, gaps, []int{1, 5, 90}, 100), int32(100))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, maxDoc int32) {
		if maxDoc < 0 || int(maxDoc) > 1024*len(b) {
			t.Skip("the caller has bounded the documents")
		}
		wellBehaved(t, len(b), func() error { _, err := parseDel(t, b, maxDoc); return err })
	})
}

func FuzzDocValuesMeta(f *testing.F) {
	seedFiles(f, ".dvm", func(b []byte) {
		f.Add(b, codec.NewInput(b).IndexHeader().Suffix)
	})
	for _, version := range []string{"4.5.1", "4.6.1", "4.8.1", "4.8.1-disk", "4.9.1"} {
		for name, b := range zipDir(f, filepath.Join("testdata", "columns", version+".zip")) {
			if strings.HasSuffix(name, ".dvm") || strings.HasSuffix(name, ".dvdm") {
				f.Add(b, "")
			}
		}
	}
	field := func(i int32) (columns.Field, bool) {
		return columns.Field{SkipIndex: i%8 == 7, Compressed: i%2 == 0, Sorts: i == 9}, i >= 0 && i < 64
	}
	f.Fuzz(func(t *testing.T, b []byte, suffix string) {
		wellBehaved(t, len(b), func() error { _, err := columns.ParseMeta(b, "", suffix, field); return err })
	})
}

// FuzzColumns damages the columns of real segments, or gives others to their metadata.
func FuzzColumns(f *testing.F) {
	shards := testShards(f)
	for _, version := range []string{"4.8.1-300", "4.9.1-300"} {
		shards[version] = zipDir(f, filepath.Join("testdata", "columns", version+".zip"))
	}
	for _, dir := range shards {
		commit, err := Open(f.Context(), dir.without(documentsFile), Options{})
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range commit.Segments {
			fi := fieldsOf(f, s)
			var skips, sorts uint64 // fields with these properties, by number
			seen := map[string]bool{}
			for _, i := range fi.fields {
				if i.skipIndex {
					skips |= 1 << i.number
				}
				if i.name == s.sortedBy {
					sorts |= 1 << i.number
				}
				seen["_"+i.attrs[attrFormat]+"_"+i.attrs[attrSuffix]] = columns.Known(i.attrs[attrFormat]) && i.dvGen < 0
			}
			for suffix, known := range seen {
				if known {
					f.Add(wholeFile(f, s, suffix+".dvm"), wholeFile(f, s, suffix+".dvd"), int32(s.MaxDoc), skips, sorts)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, dvm, dvd []byte, maxDoc int32, skips, sorts uint64) {
		if maxDoc < 0 || int(maxDoc) > 1024*len(dvd) {
			t.Skip("the caller has bounded the documents")
		}
		field := func(i int32) (columns.Field, bool) {
			if i < 0 || i > 63 {
				return columns.Field{}, false
			}
			return columns.Field{SkipIndex: skips>>i&1 != 0, Sorts: sorts>>i&1 != 0}, true
		}
		entries, err := columns.ParseMeta(dvm, "", codec.NewInput(dvm).IndexHeader().Suffix, field)
		if err != nil {
			t.Skip("FuzzDocValuesMeta covers it")
		}
		data := &columnData{data: &source{name: "_0.dvd", file: memFile{"_0.dvd", dvd}, size: int64(len(dvd))}, whole: dvd}
		for _, e := range entries {
			wellBehaved(t, len(dvm)+len(dvd), func() error { return readColumn(t, e, data, maxDoc) })
		}
	})
}

func wholeFile(f *testing.F, s *Segment, suffix string) []byte {
	f.Helper()
	src, err := s.files.core(suffix)
	if err != nil {
		f.Fatal(err)
	}
	b, err := src.readAll(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return bytes.Clone(b)
}

// readColumn reads the first values of the first documents of a column.
func readColumn(t *testing.T, e *columns.Entry, data *columnData, maxDoc int32) error {
	r, err := e.NewReader(data, maxDoc)
	if err != nil {
		return err
	}
	for d := range min(maxDoc, 100) {
		n, err := r.Advance(t.Context(), d)
		if err != nil {
			return err
		}
		for i := range min(n, 3) {
			if e.Kind == columns.Numeric || e.Kind == columns.SortedNumeric {
				_, err = r.Number(t.Context(), i)
			} else {
				_, err = r.Bytes(t.Context(), i)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// FuzzStored damages the stored fields of segments of all formats, or gives others to them.
func FuzzStored(f *testing.F) {
	for _, s := range layouts() {
		s.docs = mixedDocs(s, 40)
		dir := encodeSegment(f, s)
		f.Add(dir["_0.fdt"], dir["_0.fdx"], dir["_0.fdm"])
	}
	f.Fuzz(func(t *testing.T, fdt, fdx, fdm []byte) {
		dir := mapDir{"_0.fdt": reseal(fdt), "_0.fdx": reseal(fdx), "_0.fdm": reseal(fdm)}
		wellBehaved(t, len(fdt)+len(fdx)+len(fdm), func() error {
			seg := &Segment{Name: "_0", MaxDoc: 40, LiveCount: 40, files: &files{dir: dir, segment: "_0"}, fields: fieldTable{roleID, roleSource, roleRouting, roleSkip, roleUID}}
			c := &Commit{Segments: []*Segment{seg}, MaxOrdinal: 40, LiveDocs: 40}
			r := c.Reader(ReadOptions{})
			defer r.Close()
			for {
				rec, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if len(rec.Source) > 1<<31 {
					t.Fatal("impossible source")
				}
			}
		})
	})
}

// FuzzCompression gives any bytes to every way of decompressing.
func FuzzCompression(f *testing.F) {
	var names []string
	for _, s := range layouts() {
		if storedFormats[s.fdt].compression != nil && (len(names) == 0 || names[len(names)-1] != s.fdt) {
			names = append(names, s.fdt)
		}
	}
	text := bytes.Repeat([]byte("some text that repeats itself; "), 40)
	for i, n := range names {
		f.Add(i, compressUnit(f, n, text), len(text))
	}
	f.Fuzz(func(t *testing.T, i int, b []byte, n int) {
		if n < 1 || n > 1<<31 {
			t.Skip("the caller has bounded the length")
		}
		unit := storedFormats[names[uint(i)%uint(len(names))]].compression()
		for _, need := range []needed{nil, func(from, to int) bool { return from%2 == 0 }} { // each by itself: the bound is that of one
			exact := need == nil
			wellBehaved(t, len(b), func() error {
				out, took, err := unit.unit([]byte("kept"), b, n, need, exact)
				if err != nil {
					return err
				}
				if len(out) != n+4 || string(out[:4]) != "kept" || took > len(b) {
					t.Fatalf("%d bytes of %d, %d taken of %d", len(out), n+4, took, len(b))
				}
				return nil
			})
		}
	})
}

func FuzzDocument(f *testing.F) {
	s := segmentSpec{fdt: "Lucene90StoredFieldsFastData"}
	for _, d := range mixedDocs(s, 20) {
		f.Add(d.encode(false), int32(len(d)), false)
	}
	table := fieldTable{roleID, roleSource, roleRouting, roleSkip, roleUID}
	f.Fuzz(func(t *testing.T, b []byte, fields int32, fixed bool) {
		wellBehaved(t, len(b), func() error { return parseBody(b, fields, table, &Record{}, fixed) })
		var short, long Record
		if parsePair(b, table, &short) {
			if err := parseBody(b, 2, table, &long, fixed); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(short, long) {
			t.Fatalf("%+v where the fields one by one are %+v", short, long)
		}
		wellBehaved(t, len(b), func() error { return g40{}.parse(b, fields, table, &Record{}) })
	})
}
