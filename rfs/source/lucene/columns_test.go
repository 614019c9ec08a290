package lucene

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// valuesAt are the scalars of a JSON document at a path, as text; numbers of arrays and objects in any order.
func valuesAt(t *testing.T, source []byte, path string) []string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(source))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case map[string]any:
			key, rest, _ := strings.Cut(path, ".")
			walk(v[key], rest)
		case []any:
			for _, x := range v {
				walk(x, path)
			}
		case nil:
		default:
			if path == "" {
				out = append(out, fmt.Sprint(v))
			}
		}
	}
	walk(doc, path)
	return out
}

// How the values of a source become those of a column.
func asNumber(s string) string { return s }

func asBool(s string) string { return map[string]string{"true": "1", "false": "0"}[s] }

func asDouble(s string) string {
	v, _ := strconv.ParseFloat(s, 64)
	b := int64(math.Float64bits(v))
	if b < 0 {
		b ^= math.MaxInt64
	}
	return strconv.FormatInt(b, 10)
}

// asBinary makes base64 what a column of type binary holds: VInt values, then VInt length and bytes of each.
func asBinary(s string) string {
	b, _ := base64.StdEncoding.DecodeString(s)
	return string(append(binary.AppendUvarint([]byte{1}, uint64(len(b))), b...))
}

// columnValues are all values of a column of a segment, by document.
func columnValues(ctx context.Context, s *Segment, fi *fieldInfos, name string) ([][]string, error) {
	f := fi.named(name)
	if f == nil {
		return make([][]string, s.MaxDoc), nil // no document of the segment has the field
	}
	metas := columnMetas{seg: s, fields: fi}
	c, err := metas.open(ctx, f)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("format %q is unknown", f.attrs[attrFormat])
	}
	r, err := c.reader(int32(s.MaxDoc))
	if err != nil {
		return nil, err
	}
	out := make([][]string, s.MaxDoc)
	for d := range out {
		n, err := r.values.Advance(ctx, int32(d))
		if err != nil {
			return nil, c.wrap(err)
		}
		for i := range n {
			var text string
			if f.docValues >= 2 && f.docValues <= 4 {
				b, e := r.values.Bytes(ctx, i)
				text, err = string(b), e
			} else {
				v, e := r.values.Number(ctx, i)
				text, err = strconv.FormatInt(v, 10), e
			}
			if err != nil {
				return nil, c.wrap(err)
			}
			out[d] = append(out[d], text)
		}
	}
	return out, nil
}

func fieldsOf(t testing.TB, s *Segment) *fieldInfos {
	t.Helper()
	f, err := s.files.core(".fnm")
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.readAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fi, err := parseFieldInfos(b, s.id)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

// TestColumnsHoldWhatTheSourcesHold compares the columns of real segments with the stored sources of their documents.
func TestColumnsHoldWhatTheSourcesHold(t *testing.T) {
	shards := testShards(t)
	for _, c := range []struct {
		shard, column string
		as            func(string) string
		atLeast       int // values
	}{
		{"lucene-4.10.4-0", "n", asNumber, 1100},
		{"lucene-4.10.4-0", "day", asNumber, 1100},
		{"lucene-4.10.4-0", "one", asNumber, 1100},
		{"lucene-4.10.4-0", "wide", asNumber, 120},
		{"lucene-4.10.4-0", "rare", asNumber, 5},
		{"lucene-4.10.4-0", "rareword", asNumber, 4},
		{"lucene-4.10.4-0", "many", asNumber, 1500},
		{"lucene-4.10.4-0", "few", asNumber, 2000},
		{"lucene-4.10.4-0", "tags", asNumber, 1500},
		{"lucene-4.10.4-0", "kinds", asNumber, 1000},
		{"lucene-4.10.4-0", "term", asNumber, 1100},
		{"lucene-4.10.4-0", "code", asNumber, 1100},
		{"lucene-4.10.4-0", "bin", asNumber, 550},
		{"lucene-4.10.4-0", "fix", asNumber, 1100},
		{"lucene-5.3.2-0", "n", asNumber, 1100},
		{"lucene-5.3.2-0", "day", asNumber, 1100},
		{"lucene-5.3.2-0", "one", asNumber, 1100},
		{"lucene-5.3.2-0", "wide", asNumber, 120},
		{"lucene-5.3.2-0", "rare", asNumber, 5},
		{"lucene-5.3.2-0", "rareword", asNumber, 4},
		{"lucene-5.3.2-0", "many", asNumber, 1500},
		{"lucene-5.3.2-0", "few", asNumber, 2000},
		{"lucene-5.3.2-0", "tags", asNumber, 1500},
		{"lucene-5.3.2-0", "kinds", asNumber, 1000},
		{"lucene-5.3.2-0", "term", asNumber, 1100},
		{"lucene-5.3.2-0", "code", asNumber, 1100},
		{"lucene-5.3.2-0", "bin", asNumber, 550},
		{"lucene-5.3.2-0", "fix", asNumber, 1100},
		{"lucene-5.5.4-0", "n", asNumber, 1100},
		{"lucene-5.5.4-0", "day", asNumber, 1100},
		{"lucene-5.5.4-0", "one", asNumber, 1100},
		{"lucene-5.5.4-0", "wide", asNumber, 120},
		{"lucene-5.5.4-0", "rare", asNumber, 5},
		{"lucene-5.5.4-0", "rareword", asNumber, 4},
		{"lucene-5.5.4-0", "many", asNumber, 1500},
		{"lucene-5.5.4-0", "few", asNumber, 2000},
		{"lucene-5.5.4-0", "tags", asNumber, 1500},
		{"lucene-5.5.4-0", "kinds", asNumber, 1000},
		{"lucene-5.5.4-0", "term", asNumber, 1100},
		{"lucene-5.5.4-0", "code", asNumber, 1100},
		{"lucene-5.5.4-0", "bin", asNumber, 550},
		{"lucene-5.5.4-0", "fix", asNumber, 1100},
		{"2.4.6-updates-deletes-0", "n", asNumber, 150},
		{"2.4.6-updates-deletes-0", "tag", asNumber, 100},
		{"2.4.6-updates-deletes-0", "flag", asBool, 100},
		{"2.4.6-updates-deletes-0", "price", asDouble, 100},
		{"2.4.6-updates-deletes-0", "obj.a.b.c", asNumber, 20},
		{"5.6.16-multi-type-0", "age", asNumber, 10},
		{"5.6.16-multi-type-0", "vat", asNumber, 10},
		{"6.8.23-updates-deletes-0", "n", asNumber, 150},
		{"6.8.23-updates-deletes-0", "tag", asNumber, 100},
		{"6.8.23-updates-deletes-0", "flag", asBool, 100},
		{"6.8.23-updates-deletes-0", "price", asDouble, 100},
		{"6.8.23-updates-deletes-0", "objs.v.keyword", asNumber, 20},
		{"7.17.29-updates-deletes-0", "n", asNumber, 170},
		{"7.17.29-updates-deletes-0", "tag", asNumber, 100},
		{"7.17.29-updates-deletes-0", "flag", asBool, 100},
		{"7.17.29-updates-deletes-0", "price", asDouble, 100},
		{"7.17.29-updates-deletes-0", "arr.keyword", asNumber, 20},
		{"7.17.29-updates-deletes-0", "esc.keyword", asNumber, 10},
		{"os3.8.0-codec-zstd-0", "n", asNumber, 300},
		{"os3.8.0-codec-zstd-0", "tag", asNumber, 200},
		{"os3.8.0-codec-zstd-0", "price", asDouble, 300},
		{"os3.8.0-codec-zstd-0", "flag", asBool, 300},
		{"os3.8.0-codec-zstd-0", "obj.a.b.c", asNumber, 20},
		{"os3.8.0-codec-zstd-0", "obj.a.b.d.keyword", asNumber, 20},
		{"os3.8.0-codec-zstd-0", "objs.k", asNumber, 20},
		{"os3.8.0-codec-zstd-0", "arr.keyword", asNumber, 20},
		{"8.19.21-synthetic-0", "@timestamp", asNumber, 60},
		{"8.19.21-synthetic-0", "n", asNumber, 60},
		{"8.19.21-synthetic-0", "arr", asNumber, 180},
		{"8.19.21-synthetic-0", "tag", asNumber, 120},
		{"8.19.21-synthetic-0", "host.name", asNumber, 60},
		{"8.19.21-synthetic-0", "unmapped.x.keyword", asNumber, 60},
		{"9.5.3-timeseries-stored-0", "@timestamp", asNumber, 40},
		{"9.5.3-timeseries-stored-0", "dim", asNumber, 40},
		{"9.5.3-timeseries-stored-0", "g", asDouble, 40},
		{"8.18.8-timeseries-0", "@timestamp", asNumber, 300},
		{"8.18.8-timeseries-0", "dim", asNumber, 300},
		{"8.18.8-timeseries-0", "count", asNumber, 300},
		{"8.18.8-timeseries-0", "gcd", asNumber, 300},
		{"8.18.8-timeseries-0", "wide", asNumber, 300},
		{"8.18.8-timeseries-0", "g", asDouble, 300},
		{"8.18.8-timeseries-0", "sparse", asNumber, 40},
		{"8.18.8-timeseries-0", "many", asNumber, 250},
		{"8.18.8-timeseries-0", "tags", asNumber, 350},
		{"8.18.8-timeseries-0", "kind", asNumber, 300},
		{"8.18.8-timeseries-0", "flag", asBool, 300},
		{"8.18.8-timeseries-0", "one", asNumber, 300},
		{"8.18.8-timeseries-0", "noise", asNumber, 300},
		{"8.18.8-timeseries-0", "bin", asBinary, 200},
		{"8.18.8-timeseries-0", "fixed", asBinary, 300},
		{"8.18.8-logs-0", "@timestamp", asNumber, 300},
		{"8.18.8-logs-0", "dim", asNumber, 300},
		{"8.18.8-logs-0", "count", asNumber, 300},
		{"8.18.8-logs-0", "gcd", asNumber, 300},
		{"8.18.8-logs-0", "wide", asNumber, 300},
		{"8.18.8-logs-0", "g", asDouble, 300},
		{"8.18.8-logs-0", "sparse", asNumber, 40},
		{"8.18.8-logs-0", "many", asNumber, 250},
		{"8.18.8-logs-0", "tags", asNumber, 350},
		{"8.18.8-logs-0", "kind", asNumber, 300},
		{"8.18.8-logs-0", "flag", asBool, 300},
		{"8.18.8-logs-0", "one", asNumber, 300},
		{"8.18.8-logs-0", "noise", asNumber, 300},
		{"8.18.8-logs-0", "bin", asBinary, 200},
		{"8.18.8-logs-0", "fixed", asBinary, 300},
		{"9.5.3-logs-0", "@timestamp", asNumber, 300},
		{"9.5.3-logs-0", "dim", asNumber, 300},
		{"9.5.3-logs-0", "count", asNumber, 300},
		{"9.5.3-logs-0", "gcd", asNumber, 300},
		{"9.5.3-logs-0", "wide", asNumber, 300},
		{"9.5.3-logs-0", "g", asDouble, 300},
		{"9.5.3-logs-0", "sparse", asNumber, 40},
		{"9.5.3-logs-0", "many", asNumber, 250},
		{"9.5.3-logs-0", "tags", asNumber, 350},
		{"9.5.3-logs-0", "kind", asNumber, 300},
		{"9.5.3-logs-0", "flag", asBool, 300},
		{"9.5.3-logs-0", "one", asNumber, 300},
		{"9.5.3-logs-0", "noise", asNumber, 300},
		{"9.5.3-logs-0", "bin", asBinary, 200},
		{"9.5.3-logs-0", "fixed", asBinary, 300},
	} {
		t.Run(c.shard+"/"+c.column, func(t *testing.T) {
			commit, err := Open(t.Context(), shards[c.shard].without(documentsFile), Options{})
			if err != nil {
				t.Fatal(err)
			}
			columns := map[*Segment][][]string{}
			for _, s := range commit.Segments {
				if columns[s], err = columnValues(t.Context(), s, fieldsOf(t, s), c.column); err != nil {
					t.Fatal(err)
				}
			}
			r := commit.Reader(ReadOptions{})
			defer r.Close()
			compared := 0
			for {
				rec, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				want := valuesAt(t, rec.Source, strings.TrimSuffix(c.column, ".keyword"))
				for i := range want {
					want[i] = c.as(want[i])
				}
				got := columns[rec.Segment][rec.DocID]
				slices.Sort(want)
				if f := fieldsOf(t, rec.Segment).named(c.column); f != nil && f.docValues == 4 {
					want = slices.Compact(want)
				}
				compared += len(want)
				if got = slices.Sorted(slices.Values(got)); !slices.Equal(got, want) {
					t.Fatalf("document %d: %q, the source holds %q", rec.DocID, got, want)
				}
			}
			if compared < c.atLeast {
				t.Errorf("only %d values were compared", compared)
			}
		})
	}
}

// TestDamagedColumnsOfIdsAreNamed: every byte of .dvd that is not as it was is an error with its place, never another id.
func TestDamagedColumnsOfIdsAreNamed(t *testing.T) {
	dir := testShards(t)["9.5.3-timeseries-stored-0"].without(documentsFile)
	sections, err := parseCompound(dir["_0.cfe"], "")
	if err != nil {
		t.Fatal(err)
	}
	at := sections["_ES95TSDB_0.dvd"]
	if at.size < 1000 {
		t.Fatalf("the columns have %d bytes", at.size)
	}
	for off := at.off; off < at.off+at.size; off += 7 {
		d := dir.without("")
		d["_0.cfs"] = bytes.Clone(dir["_0.cfs"])
		d["_0.cfs"][off] ^= 1 << (off % 8)
		var damage *fault.Damage
		if err := readAllOf(t, d); !errors.As(err, &damage) || damage.File != "_0_ES95TSDB_0.dvd" || damage.Blob != "___0.cfs" {
			t.Fatalf("byte %d of .dvd: %v", off-at.off, err)
		}
	}
}

// TestRootsWithoutAColumnThatCanBeReadAreAllDocuments: they are reported, not lost, and the segment is read.
func TestRootsWithoutAColumnThatCanBeReadAreAllDocuments(t *testing.T) {
	dir := testShards(t)["8.19.21-synthetic-0"].without(documentsFile)
	sections, err := parseCompound(dir["_0.cfe"], "")
	if err != nil {
		t.Fatal(err)
	}
	at := sections["_ES819TSDB_0.dvm"]
	meta := bytes.Clone(dir["_0.cfs"][at.off : at.off+at.size])
	meta[4+1+len("ES819TSDBDocValuesMetadata")+3] = 99 // the version
	dir["_0.cfs"] = bytes.Clone(dir["_0.cfs"])
	copy(dir["_0.cfs"][at.off:], reseal(meta))
	commit, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := commit.Segments[0]
	fi := fieldsOf(t, s)
	fi.named(primaryTerm).attrs = attributes{attrFormat: "ES819TSDB", attrSuffix: "0"}
	s.roots = rootTest{}
	o := segmentOpener{seg: s, inAll: &inAll{}}
	if _, roots, err := o.findColumns(t.Context(), fi); err != nil || roots != nil || !s.roots.known {
		t.Errorf("roots %+v, %v", s.roots, err)
	}
}

func TestLargeColumnsAreVerifiedOnce(t *testing.T) {
	var o out
	o.indexHeader("ES95TSDBDocValuesData", 8, "ES95TSDB_0")
	o.bytes(make([]byte, wholeDocValues))
	good := o.footer()
	bad := bytes.Clone(good)
	bad[1<<20] ^= 1
	for name, c := range map[string]struct {
		file []byte
		id   string
		says string
	}{
		"whole":           {good, string(testID), ""},
		"damaged":         {bad, string(testID), "checksum"},
		"another segment": {good, "0000000000000000", "belongs to segment"},
	} {
		d := &columnData{data: &source{name: "_0.dvd", file: memFile{"_0.dvd", c.file}, size: int64(len(c.file)), own: true}, id: c.id}
		err := d.verify(t.Context())
		var damage *fault.Damage
		if c.says == "" && err != nil || c.says != "" && (!errors.As(err, &damage) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if d.whole != nil {
			t.Errorf("%s: a file of %d bytes is kept", name, len(c.file))
		}
	}
}

func TestTheFirstSortFieldIsReadOnlyWhenItRises(t *testing.T) {
	for name, c := range map[string]struct {
		write func(o *out)
		want  string
	}{
		"none":            {func(o *out) { o.vint(0) }, ""},
		"rising":          {func(o *out) { o.vint(1); o.str("SortField"); o.str("_tsid"); o.str("STRING"); o.i32(0) }, "_tsid"},
		"falling":         {func(o *out) { o.vint(1); o.str("SortField"); o.str("_tsid"); o.str("STRING"); o.i32(1) }, ""},
		"sorted set":      {func(o *out) { o.vint(1); o.str("SortedSetSortField"); o.str("a"); o.i32(0) }, "a"},
		"sorted numbers":  {func(o *out) { o.vint(2); o.str("SortedNumericSortField"); o.str("n"); o.str("LONG"); o.i32(0) }, "n"},
		"unknown":         {func(o *out) { o.vint(1); o.str("Other"); o.str("n"); o.i32(0) }, ""},
		"the file is cut": {func(o *out) { o.vint(1); o.str("SortField"); o.str("n") }, ""},
	} {
		o := out{le: true}
		o.vint(0) // attributes
		c.write(&o)
		in := codec.NewInput(o.b)
		in.SetLittleEndian(true)
		if got := sortedBy(*in); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestDamagedColumnsAreNamed: a flipped bit in the columns of each format is an error with the file, never another value.
func TestDamagedColumnsAreNamed(t *testing.T) {
	for name, column := range map[string]string{
		"lucene-4.10.4-0": "term", "lucene-5.3.2-0": "many", "lucene-5.5.4-0": "tags",
		"8.18.8-timeseries-0": "count", "8.18.8-logs-0": "tags", "9.5.3-logs-0": "bin",
	} {
		t.Run(name, func(t *testing.T) {
			commit, err := Open(t.Context(), testShards(t)[name].without(documentsFile), Options{})
			if err != nil {
				t.Fatal(err)
			}
			s := commit.Segments[0]
			fi := fieldsOf(t, s)
			metas := columnMetas{seg: s, fields: fi}
			c, err := metas.open(t.Context(), fi.named(column))
			if err != nil {
				t.Fatal(err)
			}
			whole, err := c.data.readAll(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for off := 0; off < len(whole); off += 1 + len(whole)/400 {
				bad := bytes.Clone(whole)
				bad[off] ^= 1 << (off % 8)
				d := &columnData{data: &source{name: c.data.name, file: memFile{c.data.name, bad}, size: int64(len(bad)), own: true}, id: s.id}
				var damage *fault.Damage
				if err := d.verify(t.Context()); !errors.As(err, &damage) || damage.File != c.data.name {
					t.Fatalf("byte %d: %v", off, err)
				}
			}
		})
	}
}
