package doc

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/fxamacker/cbor/v2"

	"github.com/rfsd/rfsd/testing/fuzzing"
)

func convert(t testing.TB, in []byte) (string, error) {
	t.Helper()
	var c converter
	out, err := c.oneLine(in)
	if hasLineBreak(out) {
		t.Fatalf("line break in %q", out)
	}
	return string(out), err
}

func TestYAMLIsReadAsJacksonReadsIt(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"---\na: 1\nb: x\n", `{"a":1,"b":"x"}`},
		{"a: yes\nb: No\nc: on\nd: y\ne: tRUE", `{"a":true,"b":false,"c":true,"d":"y","e":"tRUE"}`},
		{"a: 'yes'\nb: \"12\"\nc: ''\nd:\ne: ~\nf: null", `{"a":"yes","b":"12","c":"","d":null,"e":null,"f":null}`},
		{"a: 0x1F\nb: 017\nc: 0b11\nd: 1_000\ne: +12\nf: -0\ng: 09\nh: 0", `{"a":31,"b":15,"c":3,"d":1000,"e":12,"f":-0,"g":"09","h":0}`},
		{"a: 123456789012345678901234567890\nb: 0.10\nc: .5\nd: 1.\ne: 1e400\nf: -007.50\ng: +1.5E-3", `{"a":123456789012345678901234567890,"b":0.10,"c":0.5,"d":1.0,"e":1e400,"f":-7.50,"g":1.5E-3}`},
		{"a: 2001-01-01\nb: 190:20:30\nc: .inf\nd: .nan\ne: 1.2.3", `{"a":"2001-01-01","b":"190:20:30","c":".inf","d":".nan","e":"1.2.3"}`},
		{"a: |\n  one\n  two\nb: >\n  one\n  two\n", `{"a":"one\u000atwo\u000a","b":"one two\u000a"}`},
		{"a: &x [1, {b: 2}]\nc: *x\n<<: z", `{"a":[1,{"b":2}],"c":"x","<<":"z"}`},
		{"a: !!binary aGk=\nb: !!str 1\nc: !!int '3'", `{"a":"aGk=","b":"1","c":3}`},
		{"1: a\ntrue: b\n", `{"1":"a","true":"b"}`},
		{"a: 1\na: 2\n", `{"a":1,"a":2}`},
	} {
		got, err := convert(t, []byte(c.in))
		if err != nil || got != c.want {
			t.Errorf("%q:\n got %s, %v\nwant %s", c.in, got, err, c.want)
		}
	}
}

func TestCBORKeepsNumbersOrderAndRepetition(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"bf6161016162fb3ff199999999999aff", `{"a":1,"b":1.1}`},
		{"d9d9f7a161611b7fffffffffffffff", `{"a":9223372036854775807}`},
		{"a16161c249010000000000000000", `{"a":18446744073709551616}`},
		{"a16161c349010000000000000000", `{"a":-18446744073709551617}`},
		{"a161613bffffffffffffffff", `{"a":-18446744073709551616}`},
		{"a16161f93e00", `{"a":1.5}`},
		{"a16161f90001", `{"a":5.9604645e-08}`},
		{"a16161fa3f8ccccd", `{"a":1.1}`},
		{"a16161fb7ff0000000000000", `{"a":"Infinity"}`},
		{"a16161f97e00", `{"a":"NaN"}`},
		{"a26161f56161f6", `{"a":true,"a":null}`},
		{"a161619f0102ff", `{"a":[1,2]}`},
		{"a161617f6178610affff"[:18], `{"a":"x\u000a"}`},
		{"a1616142ff00", `{"a":"/wA="}`},
		{"a16161c482211a0001e240", `{"a":123456e-2}`},
		{"a10100", `{"1":0}`},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		got, err := convert(t, b)
		if err != nil || got != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.hex, got, err, c.want)
		}
	}
}

func TestWideAndMarkedTextIsTranscoded(t *testing.T) {
	const want = `{"a":"ä😀"}`
	var u16le, u16be, u32be []byte
	for _, u := range utf16.Encode([]rune(want)) {
		u16le = binary.LittleEndian.AppendUint16(u16le, u)
		u16be = binary.BigEndian.AppendUint16(u16be, u)
	}
	for _, r := range want {
		u32be = binary.BigEndian.AppendUint32(u32be, uint32(r))
	}
	for name, in := range map[string][]byte{
		"UTF-16LE": u16le, "UTF-16BE": u16be, "UTF-32BE": u32be,
		"UTF-16LE with mark": append([]byte{0xFF, 0xFE}, u16le...),
	} {
		if got, err := convert(t, in); err != nil || got != want {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

// TestByteOrderMark_StaysWithTheSource: clusters take and store such a source, and the target takes it in a bulk request.
func TestByteOrderMark_StaysWithTheSource(t *testing.T) {
	const mark = "\xEF\xBB\xBF"
	for in, want := range map[string]string{
		mark + `{"a":1}`:                        mark + `{"a":1}`,
		mark + " {\"a\":\r\n1\n}":               mark + ` {"a":1}`,
		"ZV\x00\x00\x0b" + mark + "{\"a\":1}\n": mark + `{"a":1}`,
		mark + "---\na: 1\n":                    `{"a":1}`,
	} {
		if got, err := convert(t, []byte(in)); err != nil || got != want {
			t.Errorf("%q became %q, want %q: %v", in, got, want, err)
		}
	}
	part, err := AppendJSON([]byte(`[`), []byte(mark+`{"a":1}`))
	if err != nil || string(part) != `[{"a":1}` {
		t.Errorf("as a part of another text: %q, %v", part, err)
	}
}

func TestWhatIsNoDocumentIsRefused(t *testing.T) {
	for _, in := range []string{"", "plain text", "[1]", "\xFF\xFF", "---\n- a\n", "\xBF\x61a", "\xA1\x61a\x1C", ":)\n\x05", "{\x00\x00", "ZV\x01\x00\xFF\x00\x01", "a: b: c",
		"\xBB\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", "---\n? [a]\n: b\n"} {
		if got, err := convert(t, []byte(in)); err == nil {
			t.Errorf("%q became %q", in, got)
		}
	}
}

func TestCompressedSourceIsRead(t *testing.T) {
	if got, err := convert(t, []byte("ZV\x00\x00\x09{\"a\":1\n}\n")); err != nil || got != `{"a":1}` {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzConvert(f *testing.F) {
	for _, s := range []string{"---\na: [1, 0x2, *b]\n", "\xbfaa\x01\xff", ":)\n\x05\xfa\x80a\xc2\xfb", "ZV\x00\x00\x02{}", "{\x00}\x00", "\xEF\xBB\xBF{}", "/**/{}\n", "a: !!binary xx"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		if len(b) > 64<<10 {
			return
		}
		got, err := convert(t, b)
		if err != nil || isJSON(b) {
			return
		}
		if b[0] != 'Z' && wideUnit(b) == 1 && !strings.HasPrefix(string(b), "\xEF\xBB\xBF") && !json.Valid([]byte(got)) {
			t.Fatalf("%q became %q", b, got)
		}
	})
}

func FuzzCBORAgreesWithAnotherReader(f *testing.F) {
	f.Add([]byte("\xa2\x61a\x19\x01\x00\x61b\x82\xf5\xf6"))
	mode, err := cbor.DecOptions{MaxNestedLevels: 1000}.DecMode()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		out, err := appendCBOR(nil, b, 1<<20)
		if err == nil && !json.Valid(out) {
			t.Fatalf("%x became %q", b, out)
		}
		if err == nil && mode.Wellformed(b) != nil && len(b) < 1000 {
			t.Fatalf("%x is not well-formed and became %q", b, out)
		}
	})
}
