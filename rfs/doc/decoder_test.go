package doc

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/lucene"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestStoredIdsAreDecoded(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    lucene.IDKind
		in      string
		typ, id string
		reason  Reason
	}{
		{name: "literal", kind: lucene.IDString, in: "a#b", id: "a#b"},
		{name: "UTF-8", kind: lucene.IDBinary, in: "\xFFä/x", id: "ä/x"},
		{name: "numeric, even", kind: lucene.IDBinary, in: "\xFE\x12\x34", id: "1234"},
		{name: "numeric, odd, leading zeros", kind: lucene.IDBinary, in: "\xFE\x00\x7F", id: "007"},
		{name: "base64", kind: lucene.IDBinary, in: "foo", id: "Zm9v"},
		{name: "base64, escaped", kind: lucene.IDBinary, in: "\xFD\xFE\x01", id: "_gE"},
		{name: "uid", kind: lucene.IDUID, in: "t#a#b", typ: "t", id: "a#b"},
		{name: "uid of _doc", kind: lucene.IDUID, in: "_doc#1", id: "1"},
		{name: "none", kind: lucene.IDNone, reason: NoID},
		{name: "empty binary", kind: lucene.IDBinary, reason: BadID},
		{name: "empty after decoding", kind: lucene.IDBinary, in: "\xFE", reason: BadID},
		{name: "digit above nine", kind: lucene.IDBinary, in: "\xFE\x1A", reason: BadID},
		{name: "odd end in the middle", kind: lucene.IDBinary, in: "\xFE\x1F\x11", reason: BadID},
		{name: "not UTF-8", kind: lucene.IDBinary, in: "\xFF\xFF", reason: BadID},
		{name: "uid without a hash", kind: lucene.IDUID, in: "x", reason: BadID},
		{name: "uid without an id", kind: lucene.IDUID, in: "x#", reason: BadID},
	} {
		d, fail := NewDecoder("i", 3).Decode(&lucene.Record{Ordinal: 9, IDKind: c.kind, ID: []byte(c.in), HasSource: true, Source: []byte(`{}`)})
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

func FuzzBinaryIDIsTextOrRefused(f *testing.F) {
	for _, s := range []string{"\xFFabc", "\xFE\x00\x7F", "\xFD\xFE", "foo", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		id, err := AppendBinaryID(nil, b)
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
		if d, fail := NewDecoder("i", 0).Decode(rec); fail != nil || string(d.Routing) != c.want {
			t.Errorf("%+v: %q, %v", c, d.Routing, fail)
		}
	}
}

func TestSourceWinsAndRecoveryStandsIn(t *testing.T) {
	for _, c := range []struct {
		rec    lucene.Record
		want   string
		reason Reason
	}{
		{lucene.Record{HasSource: true, Source: []byte("{\"s\":1}"), HasRecovery: true, RecoverySource: []byte("{}")}, `{"s":1}`, ""},
		{lucene.Record{HasRecovery: true, RecoverySource: []byte("{\"r\":1}\n")}, `{"r":1}`, ""},
		{lucene.Record{}, "", NoSource},
		{lucene.Record{SyntheticParts: true}, "", NoSource},
		{lucene.Record{HasSource: true}, "", BadSource},
		{lucene.Record{HasSource: true, Source: []byte("{\"a\":\"x\ny\"}")}, "", LineBreak},
		{lucene.Record{HasSource: true, Source: []byte("some reason")}, "", BadSource},
	} {
		c.rec.IDKind, c.rec.ID = lucene.IDString, []byte("1")
		d, fail := NewDecoder("i", 0).Decode(&c.rec)
		switch {
		case c.reason == "" && (fail != nil || string(d.Source) != c.want):
			t.Errorf("%+v: %q, %v", c.rec, d.Source, fail)
		case c.reason != "" && (fail == nil || fail.Reason != c.reason || fail.ID != "1"):
			t.Errorf("%+v: %+v, want %s", c.rec, fail, c.reason)
		}
	}
}

func TestMappingTypeIsUsedWhenNoneIsStored(t *testing.T) {
	d := NewDecoder("i", 0)
	rec := &lucene.Record{IDKind: lucene.IDBinary, ID: []byte("foo")}
	for set, want := range map[string]string{"log": "log", "_doc": "", "": ""} {
		d.SetType(set)
		if got := d.Type(rec); string(got) != want {
			t.Errorf("%q: %q", set, got)
		}
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	d := NewDecoder("i", 0)
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
	}{
		{"the stored source by default", `{"a":1}`, `{"a":1,"b":2}`, false, `{"a":1}`},
		{"the original on request", `{"a":1}`, `{"a":1,"b":2}`, true, `{"a":1,"b":2}`},
		{"the stored source where a merge removed the original", `{"a":1}`, "", true, `{"a":1}`},
		{"the original where nothing else is stored", "", `{"a":1}`, false, `{"a":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder("i", 0)
			d.SendOriginals(c.originals)
			got, failure := d.Decode(&lucene.Record{
				IDKind: lucene.IDString, ID: []byte("1"), HasSource: c.source != "", Source: []byte(c.source),
				HasRecovery: c.original != "", RecoverySource: []byte(c.original),
			})
			if failure != nil || string(got.Source) != c.want {
				t.Errorf("%s, %+v; want %s", got.Source, failure, c.want)
			}
		})
	}
}
