package rebuild

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStatesOfFields(t *testing.T) {
	const v1, v2, v6, v7, os2 = 1_07_06_99, 2_04_06_99, 6_00_01_99, 7_10_02_99, openSearch ^ 2_19_04_99
	for _, c := range []struct {
		name    string
		created int64
		mapping string
		want    string // field state (note), in sequence
		text    bool   // out of terms, too
	}{
		{"doc values are sorted", v7, `{"properties":{"a":{"type":"long"},"b":{"type":"keyword"}}}`, "a normal form; b normal form", false},
		{"stored values are as they were sent", v7, `{"properties":{"a":{"type":"long","store":true},"t":{"type":"text","store":true}}}`, "a exact; t exact", false},
		{"stored values that the field changed", v7, `{"properties":{"a":{"type":"keyword","store":true,"normalizer":"l"},"d":{"type":"date","store":true},"n":{"type":"keyword","store":true,"null_value":"N"}}}`,
			"a normal form; d normal form; n normal form", false},
		{"neither", v7, `{"properties":{"a":{"type":"long","doc_values":false},"t":{"type":"text"}}}`, "a lost; t lost", false},
		{"text by its keyword", v7, `{"properties":{"t":{"type":"text","fields":{"raw":{"type":"keyword","ignore_above":256}}}}}`,
			"t normal form (from t.raw; values of more than 256 characters are lost)", false},
		{"text by the keyword that is not normalized", v7, `{"properties":{"t":{"type":"text","fields":{"a":{"type":"keyword","normalizer":"l"},"b":{"type":"keyword"}}}}}`, "t normal form (from t.b)", false},
		{"a number by its stored text", v7, `{"properties":{"n":{"type":"long","doc_values":false,"fields":{"t":{"type":"text","store":true}}}}}`, "n exact (from n.t)", false},
		{"1.x has no doc values unless asked", v1, `{"properties":{"a":{"type":"long"},"b":{"type":"long","doc_values":true},"s":{"type":"string","index":"not_analyzed"}}}`, "a lost; b normal form; s lost", false},
		{"2.x has none of what is not indexed", v2, `{"properties":{"a":{"type":"long","index":"no"},"s":{"type":"string"},"u":{"type":"string","index":"not_analyzed"}}}`, "a lost; s lost; u normal form", false},
		{"points of 2.x", v2, `{"properties":{"p":{"type":"geo_point"},"q":{"type":"geo_point","store":true}}}`, "p normal form; q normal form", false},
		{"points of 2.1", 2_01_02_99, `{"properties":{"p":{"type":"geo_point"},"q":{"type":"geo_point","store":true}}}`, "p lost; q normal form", false},
		{"copies are made again", v7, `{"properties":{"a":{"type":"keyword","copy_to":"c"},"c":{"type":"keyword"}}}`, "a normal form; c normal form (not sent: copy_to fills it from a)", false},
		{"copies of lost fields are sent", v7, `{"properties":{"a":{"type":"text","copy_to":["c"]},"c":{"type":"keyword"}}}`, "a lost; c normal form (with values that copy_to copied from a)", false},
		{"objects that are not indexed", v7, `{"properties":{"o":{"type":"object","enabled":false},"p":{"properties":{"k":{"type":"keyword"}}}}}`, "o lost (it is not indexed); p.k normal form", false},
		{"nested", v7, `{"properties":{"n":{"type":"nested","properties":{"k":{"type":"keyword"}}}}}`, "n.k normal form", false},
		{"nested of old versions", v6, `{"properties":{"n":{"type":"nested","properties":{"k":{"type":"keyword"}}}}}`, "n.k lost (nested objects of this version are not read)", false},
		{"what a filter leaves out", v7, `{"_source":{"excludes":["b*","o.x","n.*"]},"properties":{"a":{"type":"long"},"body":{"type":"text","store":true},"o":{"properties":{"x":{"type":"long"},"y":{"type":"long"}}},` +
			`"n":{"type":"nested","properties":{"k":{"type":"keyword"}}}}}`, "body exact; n.k lost (part of nested objects of a filtered source); o.x normal form", false},
		{"copies of what is stored", v7, `{"_source":{"excludes":["c"]},"properties":{"a":{"type":"text","copy_to":"c"},"c":{"type":"keyword"}}}`, "c normal form (not sent: copy_to fills it from a)", false},
		{"types of OpenSearch", os2, `{"properties":{"f":{"type":"flat_object"},"s":{"type":"scaled_float","scaling_factor":10},"u":{"type":"unsigned_long"},"w":{"type":"wildcard","doc_values":true}}}`,
			"f lost; s normal form; u normal form; w normal form", false},
		{"types that are not read", v7, `{"properties":{"h":{"type":"histogram"},"w":{"type":"wildcard","doc_values":true},"x":{"type":"date","format":"MMM"}}}`, "h lost; w normal form; x lost", false},
		{"in the mapping, or of another field", v7, `{"properties":{"a":{"type":"alias","path":"c"},"c":{"type":"constant_keyword","value":"v"}}}`, "c exact (its value is in the mapping)", false},
		{"text by its terms", v7, `{"properties":{"t":{"type":"text"},"s":{"type":"text","store":true},"k":{"type":"text","fields":{"raw":{"type":"keyword"}}},"n":{"type":"long","doc_values":false}}}`,
			"k normal form (from k.raw); n lost; s exact; t approximate (from its terms)", true},
		{"text without terms or positions", v7, `{"properties":{"a":{"type":"text","index":false},"b":{"type":"text","index_options":"docs"},"c":{"type":"text","index_options":"offsets"}}}`,
			"a lost; b lost; c approximate (from its terms)", true},
		{"strings of 2.x by their terms", v2, `{"properties":{"a":{"type":"string"},"b":{"type":"string","index":"no"},"c":{"type":"string","index":"not_analyzed","doc_values":false}}}`,
			"a approximate (from its terms); b lost; c lost", true},
		{"text that copies are brought to", v7, `{"properties":{"a":{"type":"long","doc_values":false,"copy_to":"c"},"c":{"type":"text"}}}`,
			"a lost; c approximate (from its terms; with values that copy_to copied from a)", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			states, err := StatesFields(json.RawMessage(c.mapping), c.created, c.text)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range states {
				text := f.Field + " " + string(f.State)
				if f.Note != "" {
					text += " (" + f.Note + ")"
				}
				got = append(got, text)
			}
			if strings.Join(got, "; ") != c.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), c.want)
			}
		})
	}
}

func TestFilterLeavesOut(t *testing.T) {
	for _, c := range []struct {
		includes, excludes string
		path               string
		want               bool
	}{
		{"", "a", "a", true}, {"", "a", "a.b", true}, {"", "a.b", "a", false}, {"", "a.*", "a", false}, {"", "a.*", "a.b.c", true},
		{"", "*.b", "a.b", true}, {"", "*.b", "a.bc", false}, {"", "a*c*e", "abcde", true}, {"", "a*c*e", "abde", false}, {"", "a", "ab", false},
		{"a", "", "a", false}, {"a", "", "a.b", false}, {"a", "", "b", true}, {"a.*", "a.b", "a.b", true}, {"a.*", "a.b", "a.c", false},
	} {
		f := SourceFilter{}
		if c.includes != "" {
			f.Includes = names{c.includes}
		}
		if c.excludes != "" {
			f.Excludes = names{c.excludes}
		}
		if got := f.leavesOut(c.path); got != c.want {
			t.Errorf("includes %q, excludes %q: %s is left out: %v", c.includes, c.excludes, c.path, got)
		}
	}
}

func TestLosslessFormat(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct{ format, at, want string }{
		{"", "2023-11-14T22:13:20.5Z", `"2023-11-14T22:13:20.500Z"`},
		{"yyyy-MM-dd||yyyy/MM/dd HH:mm:ss||epoch_millis", "2023-11-14T00:00:00Z", `"2023-11-14"`},
		{"yyyy-MM-dd||yyyy/MM/dd HH:mm:ss||epoch_millis", "2023-11-14T22:13:20Z", `"2023/11/14 22:13:20"`},
		{"yyyy-MM-dd||yyyy/MM/dd HH:mm:ss||epoch_millis", "2023-11-14T22:13:20.001Z", `"1700000000001"`},
		{"yyyy-MM-dd", "2023-11-14T00:00:01Z", ""}, // no value of the field
		{"HH:mm", "1970-01-01T10:20:00Z", `"10:20"`},
		{"HH:mm||yyyy-MM-dd'T'HH:mm", "2023-01-01T10:20:00Z", `"2023-01-01T10:20"`},
		{"MMM yyyy||basic_date", "2023-11-14T00:00:00Z", `"20231114"`}, // the first depends on a locale
		{"dateOptionalTime", "2023-11-14T22:13:20Z", `"2023-11-14T22:13:20.000Z"`},
		{"strict_date||strictDateTimeNoMillis", "2023-11-14T22:13:20Z", `"2023-11-14T22:13:20Z"`},
		{"date_time", "2023-11-14T22:13:20.123456Z", `"2023-11-14T22:13:20.123456Z"`},
		{"yyyy-MM-dd HH:mm:ss.SSS", "2023-11-14T22:13:20.1234Z", ""},
		{"8uuuu-MM-dd", "2023-11-14T00:00:00Z", `"2023-11-14"`},
		{"epoch_second||epoch_millis", "1969-12-31T23:59:59.5Z", `"-500"`},
	} {
		if got := losslessFormat(c.format)(nil, at(c.at)); string(got) != c.want {
			t.Errorf("%s in %q is %s, want %s", c.at, c.format, got, c.want)
		}
	}
	for _, format := range []string{"MMM", "week_date||e"} {
		if losslessFormat(format) != nil {
			t.Errorf("%q is not understood, but taken", format)
		}
	}
}

// fixed is a layer with the same values in each document.
type fixed string

func (f fixed) load(_ context.Context, _ *segment, out *values) error {
	out.next()
	out.b = append(out.b, f...)
	return nil
}

// completed is a segment in which the fields a, o.x and o.p.y have values that sources lack; o.p.none has none.
func completed(tb testing.TB) *segment {
	tb.Helper()
	root, err := parseMapping(json.RawMessage(`{"properties":{"a":{"type":"long"},"o":{"properties":{"x":{"type":"long"},"p":{"properties":{"y":{"type":"long"},"none":{"type":"long"}}}}},"n":{"type":"nested"}}}`))
	if err != nil {
		tb.Fatal(err)
	}
	s := &segment{Rebuilder: &Rebuilder{root: root, lenient: true}, leaves: map[string]*leaf{}, pending: map[string][][]byte{}}
	root.walk(func(f *node) {
		if f.leaf != "none" {
			s.leaves[f.path] = &leaf{node: f, layers: []layer{fixed("7")}}
		}
	})
	return s
}

func TestComplete(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"empty", `{}`, `{"a":7,"o":{"p":{"y":7},"x":7}}`},
		{"bytes stay", ` { "z" : [ 1 ] , "b":{"c":"}"} } `, ` { "z" : [ 1 ] , "b":{"c":"}"} ,"a":7,"o":{"p":{"y":7},"x":7}} `},
		{"within objects", `{"o":{"k":1,"p":{}},"z":2}`, `{"o":{"k":1,"p":{"y":7},"x":7},"z":2,"a":7}`},
		{"arrays of objects stay", `{"o":[{"k":1}],"a":1}`, `{"o":[{"k":1}],"a":1}`},
		{"no object where the mapping has one", `{"o":null}`, `{"o":null,"a":7}`},
		{"nothing lacks", `{"a":1,"o":{"x":2,"p":{"y":3}}}`, `{"a":1,"o":{"x":2,"p":{"y":3}}}`},
		{"no object", `[1]`, `[1]`},
		{"cut", `{"z":1`, `{"z":1`},
		{"something behind", `{} {}`, `{} {}`},
		{"another format", ":)\n", ":)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := completed(t)
			got, done, err := s.complete(t.Context(), []byte("before"), []byte(c.source), s.root)
			if err != nil || string(got) != "before"+c.want || done != (c.source != c.want) {
				t.Errorf("%s, done %v, %v; want %s", got, done, err, c.want)
			}
		})
	}
}

// FuzzComplete: whatever source is completed, its own members keep their values, and an object stays one.
func FuzzComplete(f *testing.F) {
	for _, s := range []string{`{}`, `{"o":{"p":{"z":[{}]}},"a":null}`, `{"a":1,"a":{"o":2}}`, `{"\u006f":{}}`, "{\"o\":{\"\xff\":1}}", ` {"n":[],"x":1e9} `, `{"o":{},"o":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		s := completed(t)
		out, done, err := s.complete(t.Context(), nil, source, s.root)
		if err != nil {
			t.Fatal(err)
		}
		if !done {
			if string(out) != string(source) {
				t.Fatalf("%q became %q", source, out)
			}
			return
		}
		var was, is map[string]any
		if json.Unmarshal(source, &was) != nil {
			t.Fatalf("%q is not an object, and was completed", source)
		}
		if err := json.Unmarshal(out, &is); err != nil {
			t.Fatalf("%q became %q: %v", source, out, err)
		}
		if fault := lacks(was, is); fault != "" {
			t.Fatalf("%q became %q: %s", source, out, fault)
		}
	})
}

// lacks reports what of an object another one has not.
func lacks(was, is map[string]any) string {
	for k, v := range was {
		inner, object := v.(map[string]any)
		other, same := is[k].(map[string]any)
		switch {
		case object && same:
			if fault := lacks(inner, other); fault != "" {
				return fault
			}
		case !reflect.DeepEqual(v, is[k]):
			return fmt.Sprintf("%q is %v, was %v", k, is[k], v)
		}
	}
	return ""
}

func TestMembersOf(t *testing.T) {
	got, end, ok := membersOf([]byte(` {"a" : 1,"b":{"c":[]}, "a":"x"}`))
	want := []span{{"a", 8, 9}, {"b", 14, 22}, {"a", 28, 31}}
	if !ok || end != 31 || !slices.Equal(got, want) {
		t.Errorf("%v %d %v, want %v", got, end, ok, want)
	}
}
