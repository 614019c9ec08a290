package doc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestSourceBecomesOneLine(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"single line stays byte for byte", "{ \"a\" :1e400,\"a\":\t2 }", "{ \"a\" :1e400,\"a\":\t2 }"},
		{"pretty", "{\n  \"a\": 1,\r\n  \"b\": [\n    2\n  ]\n}\n", `{  "a": 1,  "b": [    2  ]}`},
		{"line comment goes with its break", "{\"a\":1, // note \"x\n\"b\":2}", `{"a":1, "b":2}`},
		{"line comment at the end", "{\"a\":1}\n// end", `{"a":1}`},
		{"line comment ends at a carriage return", "{//x\r\"a\":1}", `{"a":1}`},
		{"block comment keeps its place", "{/* one\ntwo */\"a\":1}\n", `{/* one two */"a":1}`},
		{"unfinished block comment", "{}\n/* one\ntwo", "{}/* one two"},
		{"slashes in strings are text", "{\"a\":\"http://x\",\n\"b\":\"/* no */\"}", `{"a":"http://x","b":"/* no */"}`},
		{"escapes", "{\"a\\\"\":\"\\\\\",\n\"n\":\"\\n\"}", `{"a\"":"\\","n":"\n"}`},
		{"tokens are not joined", "[1\n2]", "[1 2]"},
		{"tokens around a comment are not joined", "[1//x\n2]", "[1 2]"},
		{"no comment arises", "[1/\n/2]\n", "[1/ /2]"},
		{"unquoted names of old versions", "{a\n:\n1}", "{a:1}"},
		{"lines that look like actions", "{\"a\":1\n}\n{\"delete\":{\"_id\":\"x\"}}\n", `{"a":1}{"delete":{"_id":"x"}}`},
		{"unfinished string", "{\n\"a", `{"a`},
	} {
		got, err := AppendLine([]byte("before\n"), []byte(c.in))
		if err != nil || string(got) != "before\n"+c.want {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestLineBreakInsideStringIsRefused(t *testing.T) {
	for _, in := range []string{"{\"a\":\"x\ny\"}", "{\"a\":\"x\r\"}", "{\"a\":\"x\\\n\"}", "{\"a\n\":1}", "{\"a\":\"\n{\\\"delete\\\":{}}\n\"}"} {
		dst := []byte("kept")
		got, err := AppendLine(dst, []byte(in))
		if !errors.Is(err, ErrLineBreak) || string(got) != "kept" {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}

// tokens reads all JSON tokens of b.
func tokens(b []byte) ([]any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var all []any
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
}

func FuzzAppendLine(f *testing.F) {
	for _, s := range []string{"{\n \"a\": 1 // x\n}", "{\"a\":\"x\ny\"}", "[1\n2]", "{/*\n*/}", "{\"a\\\\\":\"\\\"\"\n}", "'\n'", "\"\\\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		got, err := AppendLine([]byte("x"), b)
		if hasLineBreak(got) {
			t.Fatalf("line break in %q", got)
		}
		if err != nil {
			if json.Valid(b) {
				t.Fatalf("valid JSON refused: %v", err)
			}
			return
		}
		if !json.Valid(b) {
			if json.Valid(got[1:]) && !bytes.ContainsAny(b, "/") {
				t.Fatalf("%q was no JSON and %q is", b, got[1:])
			}
			return
		}
		want, err := tokens(b)
		if err != nil {
			return
		}
		have, err := tokens(got[1:])
		if err != nil || len(have) != len(want) {
			t.Fatalf("%q became %q: %v", b, got[1:], err)
		}
		for i := range want {
			if want[i] != have[i] {
				t.Fatalf("token %d: %v became %v", i, want[i], have[i])
			}
		}
	})
}

func BenchmarkAppendLine(b *testing.B) {
	flat := []byte(`{"message":"` + strings.Repeat("some words of a log line ", 12) + `"}`)
	pretty := []byte("{\n" + strings.Repeat("  \"field\": \"value of some length\",\n", 10) + "  \"last\": 1\n}")
	for _, c := range []struct {
		name string
		in   []byte
	}{{"flat", flat}, {"pretty", pretty}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.in)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				var err error
				if dst, err = AppendLine(dst[:0], c.in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
