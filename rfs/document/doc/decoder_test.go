package doc_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestStoredIdsAreDecoded(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    lucene.IDKind
		in      string
		typ, id string
		reason  doc.Reason
	}{
		{name: "literal", kind: lucene.IDString, in: "a#b", id: "a#b"},
		{name: "UTF-8", kind: lucene.IDBinary, in: "\xFFä/x", id: "ä/x"},
		{name: "numeric, even", kind: lucene.IDBinary, in: "\xFE\x12\x34", id: "1234"},
		{name: "numeric, odd, leading zeros", kind: lucene.IDBinary, in: "\xFE\x00\x7F", id: "007"},
		{name: "base64", kind: lucene.IDBinary, in: "foo", id: "Zm9v"},
		{name: "base64, escaped", kind: lucene.IDBinary, in: "\xFD\xFE\x01", id: "_gE"},
		{name: "uid", kind: lucene.IDUID, in: "t#a#b", typ: "t", id: "a#b"},
		{name: "uid of _doc", kind: lucene.IDUID, in: "_doc#1", id: "1"},
		{name: "none", kind: lucene.IDNone, reason: doc.NoID},
		{name: "empty binary", kind: lucene.IDBinary, reason: doc.BadID},
		{name: "empty after decoding", kind: lucene.IDBinary, in: "\xFE", reason: doc.BadID},
		{name: "digit above nine", kind: lucene.IDBinary, in: "\xFE\x1A", reason: doc.BadID},
		{name: "odd end in the middle", kind: lucene.IDBinary, in: "\xFE\x1F\x11", reason: doc.BadID},
		{name: "not UTF-8", kind: lucene.IDBinary, in: "\xFF\xFF", reason: doc.BadID},
		{name: "uid without a hash", kind: lucene.IDUID, in: "x", reason: doc.BadID},
		{name: "uid without an id", kind: lucene.IDUID, in: "x#", reason: doc.BadID},
	} {
		d, fail := doc.NewDecoder("i", 3).Decode(&lucene.Record{Ordinal: 9, IDKind: c.kind, ID: []byte(c.in), HasSource: true, Source: []byte(`{}`)})
		if c.reason != "" {
			if fail == nil || fail.Reason != c.reason || fail.Ordinal != 9 || fail.Shard != 3 || fail.Index != "i" || string(fail.Source) != "{}" {
				t.Errorf("%s: failure %+v, want %s", c.name, fail, c.reason)
			}
			continue
		}
		if fail != nil || string(d.ID) != c.id || string(d.Type) != c.typ {
			t.Errorf("%s: type %q, id %q, %v", c.name, d.Type, d.ID, fail)
		}
	}
}

func TestIdsOfTimeSeriesAreComputedAsTheClusterDoes(t *testing.T) {
	tsid := "\x24\x51\x54\xcb\x5e\x02\xf5\x47\x17\xdc\xc9\xc5\x9e\xc1\x6b\xa5\xfd\x17\x0d\x81\x37\x18\x3a\x0d\x15\xaf\xfc\xa6\x72\x34\x08\xd9\x0e\x8f\x93\x76\xf7"
	for _, c := range []struct {
		name, tsid, hash string
		time             int64
		id               string
		detail           string
	}{
		{name: "as 9.5.3 answered", tsid: tsid, time: 1700000037000, hash: "\xa4\x68\xaa\x2e", id: "JFFUy14C9UcX3MnFnsFrpf0XDYE3GDoNFa_8pnI0CNkOj5N293___nQwGgd3LqpopA"},
		{name: "hash that starts like a kind of id", tsid: "\x01", time: 0, hash: "\xFD\xFE\x01\x02\x03", id: "AX__________AwIB_g"},
		{name: "hash whose base64 is a number", tsid: "\x01", time: 0, hash: "\xFE\x12\x34\x56", id: "AX__________5_ht1w"},
		{name: "before 1970", tsid: "\x01", time: -1, hash: "\x00\x00\x00\x00", id: "AYAAAAAAAAAAAAAAAA"},
		{name: "no tsid", hash: "\x00\x00\x00\x00", detail: "empty _tsid"},
		{name: "hash of three bytes", tsid: "\x01", hash: "\x00\x00\x00", detail: "not base64 of 4 bytes"},
		{name: "no hash", tsid: "\x01", detail: "_ts_routing_hash"},
	} {
		rec := &lucene.Record{IDKind: lucene.IDSeries, ID: []byte(c.tsid), Timestamp: c.time, RoutingHash: []byte(c.hash), HasSource: true, Source: []byte(`{}`)}
		d, fail := doc.NewDecoder("i", 0).Decode(rec)
		switch {
		case c.detail != "":
			if fail == nil || fail.Reason != doc.BadID || !strings.Contains(fail.Detail, c.detail) {
				t.Errorf("%s: %q, failure %+v, want %q", c.name, d.ID, fail, c.detail)
			}
		case fail != nil || string(d.ID) != c.id:
			t.Errorf("%s: id %q, want %q, %v", c.name, d.ID, c.id, fail)
		}
		if string(rec.ID) != c.tsid {
			t.Errorf("%s: the record was changed", c.name)
		}
	}
}

func FuzzBinaryIDIsTextOrRefused(f *testing.F) {
	for _, s := range []string{"\xFFabc", "\xFE\x00\x7F", "\xFD\xFE", "foo", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		id, err := doc.AppendBinaryID(nil, b)
		if err == nil && !utf8.Valid(id) {
			t.Fatalf("%x became %q", b, id)
		}
		if err == nil && b[0] < 0xFD {
			if back, err := base64.RawURLEncoding.DecodeString(string(id)); err != nil || string(back) != string(b) {
				t.Fatalf("%x became %q", b, id)
			}
		}
	})
}

func TestRoutingComesFromTheParentWhenNoneIsStored(t *testing.T) {
	for _, c := range []struct{ routing, parent, want string }{
		{"", "", ""}, {"r", "", "r"}, {"", "p#1#2", "1#2"}, {"r", "p#1", "r"}, {"", "plain", "plain"},
	} {
		rec := &lucene.Record{IDKind: lucene.IDString, ID: []byte("1"), HasSource: true, Source: []byte(`{}`)}
		if c.routing != "" {
			rec.Routing = []byte(c.routing)
		}
		if c.parent != "" {
			rec.Parent = []byte(c.parent)
		}
		if d, fail := doc.NewDecoder("i", 0).Decode(rec); fail != nil || string(d.Routing) != c.want {
			t.Errorf("%+v: %q, %v", c, d.Routing, fail)
		}
	}
}

func TestSourceWinsAndRecoveryStandsIn(t *testing.T) {
	for _, c := range []struct {
		rec    lucene.Record
		want   string
		reason doc.Reason
	}{
		{lucene.Record{HasSource: true, Source: []byte("{\"s\":1}"), HasRecovery: true, RecoverySource: []byte("{}")}, `{"s":1}`, ""},
		{lucene.Record{HasRecovery: true, RecoverySource: []byte("{\"r\":1}\n")}, `{"r":1}`, ""},
		{lucene.Record{}, "", doc.NoSource},
		{lucene.Record{SyntheticParts: true}, "", doc.NoSource},
		{lucene.Record{HasSource: true}, "", doc.BadSource},
		{lucene.Record{HasSource: true, Source: []byte("{\"a\":\"x\ny\"}")}, "", doc.LineBreak},
		{lucene.Record{HasSource: true, Source: []byte("some reason")}, "", doc.BadSource},
	} {
		c.rec.IDKind, c.rec.ID = lucene.IDString, []byte("1")
		d, fail := doc.NewDecoder("i", 0).Decode(&c.rec)
		switch {
		case c.reason == "" && (fail != nil || string(d.Source) != c.want):
			t.Errorf("%+v: %q, %v", c.rec, d.Source, fail)
		case c.reason != "" && (fail == nil || fail.Reason != c.reason || fail.ID != "1"):
			t.Errorf("%+v: %+v, want %s", c.rec, fail, c.reason)
		}
	}
}

func TestMappingTypeIsUsedWhenNoneIsStored(t *testing.T) {
	d := doc.NewDecoder("i", 0)
	rec := &lucene.Record{IDKind: lucene.IDBinary, ID: []byte("foo")}
	for set, want := range map[string]string{"log": "log", "_doc": "", "": ""} {
		d.SetType(set)
		if got := d.Type(rec); string(got) != want {
			t.Errorf("%q: %q", set, got)
		}
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	d := doc.NewDecoder("i", 0)
	rec := &lucene.Record{IDKind: lucene.IDBinary, ID: []byte("\xFE\x12\x34"), Routing: []byte("r"),
		HasSource: true, Source: []byte("{\"message\":\"" + strings.Repeat("x", 300) + "\"\n}")}
	if n := testing.AllocsPerRun(100, func() {
		if _, fail := d.Decode(rec); fail != nil {
			t.Fatal(fail)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestDecoderPicksTheSource(t *testing.T) {
	for _, c := range []struct {
		name             string
		source, original string
		originals        bool
		want             string
		lacking          doc.Lacking
		reduced          bool
	}{
		{"the stored source by default", `{"a":1}`, `{"a":1,"b":2}`, false, `{"a":1}`, doc.Lacking{}, false},
		{"the original on request", `{"a":1}`, `{"a":1,"b":2}`, true, `{"a":1,"b":2}`, doc.Lacking{Source: true}, false},
		{"the stored source where a merge removed the original", `{"a":1}`, "", true, `{"a":1}`, doc.Lacking{Source: true}, true},
		{"the original where nothing else is stored", "", `{"a":1}`, false, `{"a":1}`, doc.Lacking{Source: true}, false},
		{"a filtered source is reduced", `{"a":1}`, `{"a":1,"b":2}`, false, `{"a":1}`, doc.Lacking{Source: true}, true},
		{"a filtered source that equals the original is not", `{"a":1}`, `{"a":1}`, false, `{"a":1}`, doc.Lacking{Source: true}, false},
		{"a filtered original is reduced", `{"a":1}`, `{"a":1,"b":2}`, true, `{"a":1,"b":2}`, doc.Lacking{Source: true, Original: true}, true},
		{"equal to a filtered original is reduced", `{"a":1}`, `{"a":1}`, false, `{"a":1}`, doc.Lacking{Source: true, Original: true}, true},
		{"a filtered original alone", "", `{"a":1}`, false, `{"a":1}`, doc.Lacking{Original: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := doc.NewDecoder("i", 0)
			d.SendOriginals(c.originals)
			d.SetLacking(c.lacking)
			got, failure := d.Decode(&lucene.Record{
				IDKind: lucene.IDString, ID: []byte("1"), HasSource: c.source != "", Source: []byte(c.source),
				HasRecovery: c.original != "", RecoverySource: []byte(c.original),
			})
			if failure != nil || string(got.Source) != c.want || got.Reduced != c.reduced {
				t.Errorf("%s, reduced %v, %+v; want %s, %v", got.Source, got.Reduced, failure, c.want, c.reduced)
			}
		})
	}
}

// TestASourceThatWasNotReadIsTooLarge: unless a form that was read is the one to send.
func TestASourceThatWasNotReadIsTooLarge(t *testing.T) {
	small := []byte(`{"a":1}`)
	for _, c := range []struct {
		name      string
		rec       lucene.Record
		originals bool
		want      string
	}{
		{"the source", lucene.Record{Beyond: 200}, false, ""},
		{"the original, which stands in", lucene.Record{RecoveryBeyond: 200}, false, ""},
		{"the original, which is wanted", lucene.Record{HasSource: true, Source: small, RecoveryBeyond: 200}, true, ""},
		{"the original, which is not", lucene.Record{HasSource: true, Source: small, RecoveryBeyond: 200}, false, `{"a":1}`},
		{"the source, where the original is wanted", lucene.Record{Beyond: 200, HasRecovery: true, RecoverySource: small}, true, `{"a":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.rec.IDKind, c.rec.ID = lucene.IDString, []byte("1")
			d := doc.NewDecoder("i", 0)
			d.SendOriginals(c.originals)
			got, failure := d.Decode(&c.rec)
			if c.want != "" {
				if failure != nil || string(got.Source) != c.want {
					t.Errorf("%s, %+v", got.Source, failure)
				}
				return
			}
			if failure == nil || failure.Reason != doc.TooLarge || failure.ID != "1" || !strings.Contains(failure.Detail, "200 bytes") {
				t.Errorf("%+v", failure)
			}
		})
	}
}

// TestASourceInOneLineIsNotCopied, nor does what follows write into it.
func TestASourceInOneLineIsNotCopied(t *testing.T) {
	stored := []byte(`  {"a":1}`)
	d := doc.NewDecoder("i", 0)
	rec := &lucene.Record{IDKind: lucene.IDString, ID: []byte("1"), HasSource: true, Source: stored}
	got, failure := d.Decode(rec)
	if failure != nil || &got.Source[0] != &stored[0] {
		t.Errorf("%s, %+v", got.Source, failure)
	}
	rec.Source = []byte("{\n\"b\":2}")
	if got, failure = d.Decode(rec); failure != nil || string(got.Source) != `{"b":2}` || string(stored) != `  {"a":1}` {
		t.Errorf("%s, %+v; the one before is %s", got.Source, failure, stored)
	}
}

func TestConverted(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   int64
		exact  bool
	}{
		"plain": {`{"a":1}`, 0, true}, "two chunks of LZF": {"ZV\x00\x00\x03abcZV\x01\x00\x01\xff\x00x", 3 + 0xff00, true}, "damaged LZF": {"ZV\x01\x00\x01", 0, false},
		"two lines": {"{\n}", 3, true}, "UTF-16": {"\x00{\x00}", 8, true}, "SMILE": {":)\n\x00\xfa\xfb", 6, false}, "YAML": {"a: 1", 4, false},
	} {
		if got, exact := doc.Converted([]byte(c.source)); got != c.want || exact != c.exact {
			t.Errorf("%s: %d, %t, want %d, %t", name, got, exact, c.want, c.exact)
		}
	}
}

// TestWhatASourceBecomesIsBounded: forms in which few bytes become many, or take much memory to be read.
func TestWhatASourceBecomesIsBounded(t *testing.T) {
	name := strings.Repeat("n", 60)
	shared := ":)\n\x03\xfa" + "\x80a" + "\xf8" + "\x78" + name[:57] + strings.Repeat("\x01", 2000) + "\xf9\xfb"
	for _, c := range []struct {
		name, source string
		most         int64
		long         bool
	}{
		{"SMILE of references", shared, 1 << 20, false},
		{"SMILE of references, too many", shared, 100 << 10, true},
		{"CBOR of control characters", "\xa1\x61a\x79\x03\xe8" + strings.Repeat("\x01", 1000), 6100, false},
		{"CBOR of control characters, too many", "\xa1\x61a\x79\x03\xe8" + strings.Repeat("\x01", 1000), 5900, true},
		{"CBOR of bytes, too many", "\xa1\x61a\x59\x03\xe8" + strings.Repeat("\x01", 1000), 1200, true},
		{"UTF-16, too long", "\x00{\x00}", 1, true},
		{"YAML of few values", "a: [" + strings.Repeat("1,", 1000) + "1]", 1 << 20, false},
		{"YAML of many values", "a: [" + strings.Repeat("1,", 1000) + "1]", 100 << 10, true},
		{"LZF", "ZV\x01\x00\x01\xff\x00x", 0xfeff, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := doc.NewDecoder("i", 0)
			d.SetMaxSource(c.most)
			_, failure := d.Decode(&lucene.Record{IDKind: lucene.IDString, ID: []byte("1"), HasSource: true, Source: []byte(c.source)})
			if d.Outgrew() != c.long || (failure != nil) != c.long {
				t.Fatalf("outgrew %t: %+v", d.Outgrew(), failure)
			}
			if c.long && (failure.Reason != doc.TooLarge || failure.Source != nil) {
				t.Errorf("%+v", failure)
			}
		})
	}
}
