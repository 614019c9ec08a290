package doc

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestKeepLast(t *testing.T) {
	deep := strings.Repeat(`[`, maxNesting+1) + `{"a":1,"a":2}` + strings.Repeat(`]`, maxNesting+1)
	for _, c := range []struct{ name, in, want string }{ // want "": stays the same slice
		{"none", `{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}`, ""},
		{"the last of two stays", `{"a":1,"b":2,"a":3}`, `{"b":2,"a":3}`},
		{"the last of three stays", `{"a":1,"a":2,"a":3}`, `{"a":3}`},
		{"after a byte order mark", "\xEF\xBB\xBF{\"a\":1,\"a\":2}", "\xEF\xBB\xBF{\"a\":2}"},
		{"neighbours", `{"x":0,"a":1,"a":2,"y":0}`, `{"x":0,"a":2,"y":0}`},
		{"two keys", `{"a":1,"b":1,"a":2,"b":2}`, `{"a":2,"b":2}`},
		{"the space of a superseded pair goes with it", `{ "a" : 1 , "b":2, "a" : 3 }`, `{ "b":2, "a" : 3 }`},
		{"all else stays byte for byte", `{"a":1,"n":1e400,"u":"\u00e9é\/","a": 1.0 , "z" :NaN}`, `{"n":1e400,"u":"\u00e9é\/","a": 1.0 , "z" :NaN}`},
		{"in an object", `{"o":{"a":1,"b":2,"a":3},"p":1}`, `{"o":{"b":2,"a":3},"p":1}`},
		{"in lists of lists", `{"l":[[{"a":1,"a":2}],{"b":1},{"b":1,"b":2}]}`, `{"l":[[{"a":2}],{"b":1},{"b":2}]}`},
		{"within what is superseded", `{"o":{"a":1,"a":2},"o":{"b":1,"b":2}}`, `{"o":{"b":2}}`},
		{"values that are objects and lists", `{"a":{"x":[1,"}"]},"b":",","a":[]}`, `{"b":",","a":[]}`},
		{"keys are compared decoded", `{"a\/é":1,"\u0061/\u00e9":2}`, `{"\u0061/\u00e9":2}`},
		{"every escape", `{"\"\\\b\f\n\r\t":1,"\u0022\u005c\u0008\u000c\u000A\u000d\u0009":2}`, `{"\u0022\u005c\u0008\u000c\u000A\u000d\u0009":2}`},
		{"a pair of surrogates is its character", `{"\ud83d\ude00":1,"😀":2}`, `{"😀":2}`},
		{"different halves of pairs differ", `{"\ud800":1,"\ud801":2,"\udc00":3}`, ""},
		{"equal halves of pairs are equal", `{"\ud800":1,"\uD800":2}`, `{"\uD800":2}`},
		{"keys differ in case", `{"a":1,"A":2}`, ""},
		{"dots are no objects here", `{"a.b":1,"a":{"b":2}}`, ""},
		{"empty keys", `{"":1,"":2}`, `{"":2}`},
		{"comments are white space", `{"a":1/* "a":, */,"b":2,/**/"a":3}`, `{"b":2,/**/"a":3}`},
		{"lists repeat values", `{"a":[1,1,{"b":1},{"b":1}]}`, ""},
		{"a text behind the document", `{"a":1,"a":2} {}`, ""},
		{"no end", `{"a":1,"a":2`, ""},
		{"a key without end", `{"a":1,"a\"`, ""},
		{"an escape that is none", `{"a":1,"a":2,"\x":3}`, ""},
		{"half an escape", `{"a":1,"a":2,"\u00`, ""},
		{"no colon", `{"a":1,"a" 2}`, ""},
		{"no value", `{"a":1,"a":}`, ""},
		{"no comma", `{"a":1 "a":2}`, ""},
		{"a list without end", `{"a":1,"a":[1`, ""},
		{"a list", `[{"a":1,"a":2}]`, ""},
		{"nothing", ``, ""},
		{"nested too deeply", `{"x":` + deep + `}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var k KeepLast
			k.Apply([]byte(`{"from":{"before":1,"before":2},"\u0066rom":1}`)) // buffers are used again
			in := []byte(c.in)
			got, found := k.Apply(in)
			if c.want == "" {
				if found || len(got) != len(in) || len(in) > 0 && &got[0] != &in[0] {
					t.Errorf("changed to %q", got)
				}
				return
			}
			if !found || string(got) != c.want {
				t.Errorf("got %q, %v; want %q", got, found, c.want)
			}
		})
	}
}

// repeats reports whether an object of a JSON text has a key twice, as Go reads keys.
func repeats(t *testing.T, b []byte) bool {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var open []map[string]bool // nil for a list
	isKey := false
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		inObject := len(open) > 0 && open[len(open)-1] != nil
		switch v := tok.(type) {
		case json.Delim:
			switch v {
			case '{':
				open = append(open, map[string]bool{})
				isKey = true
				continue
			case '[':
				open = append(open, nil)
				continue
			}
			open = open[:len(open)-1]
			isKey = len(open) > 0 && open[len(open)-1] != nil
			continue
		case string:
			if inObject && isKey {
				if open[len(open)-1][v] {
					return true
				}
				open[len(open)-1][v] = true
				isKey = false
				continue
			}
		}
		isKey = inObject
	}
}

// FuzzKeepLast checks that a JSON document keeps its meaning to a parser that keeps the last of duplicate keys, that none
// is left, and that only whole parts are cut out.
func FuzzKeepLast(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[{"c":1,"\u0063":{"d":1,"d":2}}],"a":"x"}`))
	f.Add([]byte(`{"\ud83d\ude00":1,"😀":2,"\ud800":3}`))
	f.Add([]byte(`{"a":1/* x */,"a":2}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		defer fuzzing.Bounded(t, len(in))()
		var k KeepLast
		before := bytes.Clone(in)
		got, found := k.Apply(in)
		got = bytes.Clone(got)
		if !bytes.Equal(in, before) {
			t.Fatal("the source was changed")
		}
		if !found && !bytes.Equal(got, in) {
			t.Fatalf("%q became %q", in, got)
		}
		if again, more := k.Apply(got); more || !bytes.Equal(again, got) {
			t.Fatalf("%q has duplicate keys left: %q", got, again)
		}
		if !json.Valid(in) || in[0] != '{' {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%q became %q", in, got)
		}
		var a, b any
		if json.Unmarshal(in, &a) != nil || json.Unmarshal(got, &b) != nil {
			return // nested too deeply for Go, or a number out of range
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("%q became %q, which means something else", in, got)
		}
		if lower := bytes.ToLower(in); utf8.Valid(in) && !bytes.Contains(lower, []byte(`\ud`)) && bytes.Count(in, []byte("["))+bytes.Count(in, []byte("{")) < maxNesting && found != repeats(t, in) {
			t.Fatalf("%q: found %v", in, found)
		}
	})
}

func BenchmarkKeepLast(b *testing.B) {
	source := []byte(`{"@timestamp":"2024-05-01T00:00:00Z","level":"info","host":{"name":"web-1","ip":["10.0.0.1","10.0.0.2"]},"message":"` +
		strings.Repeat("GET /index.html 200 ", 30) + `","bytes":1234,"user":{"name":"ada","id":17}}`)
	var k KeepLast
	b.SetBytes(int64(len(source)))
	b.ReportAllocs()
	for b.Loop() {
		if _, found := k.Apply(source); found {
			b.Fatal("changed")
		}
	}
}
