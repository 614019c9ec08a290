package smile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// header with shared names and raw binary, as every real blob has it; values shared too.
const (
	header      = "3A290A 05 "
	valueHeader = "3A290A 07 "
)

func TestEveryTokenBecomesItsJSON(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty string", header + "20", `""`},
		{"null", header + "21", `null`},
		{"false and true", header + "F8 22 23 F9", `[false,true]`},
		{"end marker", header + "21 FF", `null`},
		{"small integers", header + "F8 C0 C1 C2 DF DE F9", `[0,-1,1,-16,15]`},
		{"int32", header + "F8 24 80 24 81 24 01 88 F9", `[0,-1,36]`},
		{"int64 extremes", header + "F8 25 03 7F 7F 7F 7F 7F 7F 7F 7F BE 25 03 7F 7F 7F 7F 7F 7F 7F 7F BF F9", `[9223372036854775807,-9223372036854775808]`},
		{"float32", header + "28 03 6E 33 19 4D", `0.1`},
		{"float64", header + "29 00 3F 5C 66 33 19 4C 66 33 1A", `0.1`},
		{"integral float64", header + "29 00 40 00 00 00 00 00 00 00 00", `2.0`},
		{"not a number", header + "29 00 7F 7C 00 00 00 00 00 00 00", `"NaN"`},
		{"big integer 256", header + "26 82 00 40 00", `256`},
		{"big integer -1", header + "26 81 7F 01", `-1`},
		{"big decimal 1.5", header + "2A 82 81 07 01", `1.5`},
		{"ascii", header + "42 616263", `"abc"`},
		{"ascii of 33", header + "60" + strings.Repeat("61", 33), `"` + strings.Repeat("a", 33) + `"`},
		{"utf-8 of 2", header + "80 C3BC", `"ü"`},
		{"utf-8 of 34", header + "A0" + strings.Repeat("C3BC", 17), `"` + strings.Repeat("ü", 17) + `"`},
		{"long ascii", header + "E0" + strings.Repeat("61", 70) + "FC", `"` + strings.Repeat("a", 70) + `"`},
		{"long utf-8", header + "E4" + strings.Repeat("E282AC", 30) + "FC", `"` + strings.Repeat("€", 30) + `"`},
		{"raw binary", header + "FD 83 010203", `"AQID"`},
		{"padded binary", header + "FD 81 FF", `"/w=="`},
		{"7-bit binary of 7", header + "E8 87 7F 7F 7F 7F 7F 7F 7F 7F", `"/////////w=="`},
		{"7-bit binary of 2", header + "E8 82 7F 7F 03", `"//8="`},
		{"escapes", header + "45 22 5C 0A 09 01 0D", `"\"\\\n\t\u0001\r"`},
		{"key order and repeated keys", header + "FA 80 62 C2 80 61 C4 40 C6 FB", `{"b":1,"a":2,"b":3}`},
		{"empty key", header + "FA 20 21 FB", `{"":null}`},
		{"utf-8 key", header + "FA C0 C3BC 21 40 21 FB", `{"ü":null,"ü":null}`},
		{"long keys are shared too", header + "FA 34" + strings.Repeat("61", 70) + "FC 21 40 21 FB",
			`{"` + strings.Repeat("a", 70) + `":null,"` + strings.Repeat("a", 70) + `":null}`},
		{"shared values", valueHeader + "F8 42 616263 01 F9", `["abc","abc"]`},
		{"65 bytes are shared", valueHeader + "F8 BF" + strings.Repeat("C3BC", 32) + "61 01 F9",
			`["` + strings.Repeat("ü", 32) + `a","` + strings.Repeat("ü", 32) + `a"]`},
		{"nested", header + "FA 80 61 F8 FA FB F8 F9 F9 FB", `{"a":[{},[]]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := AppendJSON([]byte("x"), unhex(t, c.in))
			if err != nil || string(got) != "x"+c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestWhatIsNoDocumentIsCorruptAtItsOffset(t *testing.T) {
	for _, c := range []struct {
		name, in string
		at       int64
	}{
		{"nothing", "", 0}, {"header only", "3A290A05", 4}, {"another magic", "7B7D2020", 0}, {"version 1", "3A290A15 21", 3},
		{"reserved 00", header + "00", 4}, {"reserved FE", header + "FE", 4}, {"string cut", header + "45 61", 5},
		{"long text without end", header + "E0 6161", 5}, {"bad utf-8", header + "40 FF", 6},
		{"reference without a string", header + "FA 45 21 FB", 6}, {"values not shared", header + "F8 40 61 01 F9", 8},
		{"array not ended", header + "F8 21", 6}, {"value for a key", header + "FA F8 F9 FB", 5},
		{"two documents", header + "21 21", 5}, {"endless integer", header + "24" + strings.Repeat("00", 12), 16},
		{"absurd length", header + "FD 7F 7F 7F 7F BF", 10}, {"more binary than there is", header + "FD 84 01", 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := AppendJSON(nil, unhex(t, c.in))
			var d *fault.Damage
			if !errors.As(err, &d) {
				t.Fatalf("%s, %v", got, err)
			}
			if d.Offset != c.at {
				t.Errorf("offset %d, want %d: %v", d.Offset, c.at, err)
			}
		})
	}
}

func TestDepthIsBounded(t *testing.T) {
	deep := append(unhex(t, header), bytes.Repeat([]byte{0xF8}, 100_000)...)
	if _, err := AppendJSON(nil, deep); !errors.Is(err, fault.ErrCorrupt) {
		t.Error(err)
	}
}

// writer writes SMILE as the specification describes it, for round trips.
type writer struct {
	bytes.Buffer
	names map[string]int
	n     int
}

func (w *writer) vint(v uint64) {
	b := []byte{byte(v&0x3F) | 0x80}
	for v >>= 6; v > 0; v >>= 7 {
		b = append([]byte{byte(v & 0x7F)}, b...)
	}
	w.Write(b)
}

// key writes a name, or refers to it as Jackson does: never to a number ending in FE or FF.
func (w *writer) key(s string) {
	if i, ok := w.names[s]; ok && i&0xFF < 0xFE {
		if i < 64 {
			w.WriteByte(0x40 + byte(i))
		} else {
			w.WriteByte(0x30 | byte(i>>8))
			w.WriteByte(byte(i))
		}
		return
	}
	if s == "" {
		w.WriteByte(0x20)
		return
	}
	if w.n == 1024 {
		w.n, w.names = 0, map[string]int{}
	}
	w.names[s] = w.n
	w.n++
	switch {
	case len(s) > 56:
		w.WriteByte(0x34)
		w.WriteString(s)
		w.WriteByte(0xFC)
	case len(s) >= 2:
		w.WriteByte(0xC0 + byte(len(s)-2))
		w.WriteString(s)
	default:
		w.WriteByte(0x80)
		w.WriteString(s)
	}
}

func (w *writer) value(v any) {
	switch v := v.(type) {
	case nil:
		w.WriteByte(0x21)
	case int64:
		w.WriteByte(0x25)
		w.vint(uint64(v<<1) ^ uint64(v>>63))
	case string:
		w.WriteByte(0xE4)
		w.WriteString(v)
		w.WriteByte(0xFC)
	case float64:
		w.WriteByte(0x29)
		bits := math.Float64bits(v)
		for i := 9; i >= 0; i-- {
			w.WriteByte(byte(bits >> (7 * i) & 0x7F))
		}
	case *big.Int:
		raw := v.Bytes()
		if len(raw) == 0 || raw[0]&0x80 != 0 {
			raw = append([]byte{0}, raw...)
		}
		w.WriteByte(0x26)
		w.vint(uint64(len(raw)))
		for len(raw) > 0 {
			group := raw[:min(7, len(raw))]
			raw = raw[len(group):]
			wide := append(make([]byte, 8-len(group)), group...)
			x := binary.BigEndian.Uint64(wide)
			for i := range group {
				w.WriteByte(byte(x >> (8*len(group) - 7*(i+1)) & 0x7F))
			}
			w.WriteByte(byte(x & (1<<len(group) - 1)))
		}
	case []any:
		w.WriteByte(0xF8)
		for _, e := range v {
			w.value(e)
		}
		w.WriteByte(0xF9)
	case [][2]any:
		w.WriteByte(0xFA)
		for _, e := range v {
			w.key(e[0].(string))
			w.value(e[1])
		}
		w.WriteByte(0xFB)
	}
}

// plain is the JSON that a value must become.
func plain(b *strings.Builder, v any) {
	switch v := v.(type) {
	case []any:
		b.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			plain(b, e)
		}
		b.WriteByte(']')
	case [][2]any:
		b.WriteByte('{')
		for i, e := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			plain(b, e[0])
			b.WriteByte(':')
			plain(b, e[1])
		}
		b.WriteByte('}')
	case string:
		b.Write(appendQuoted(nil, []byte(v)))
	default:
		j, _ := json.Marshal(v)
		b.Write(j)
	}
}

func document(w *writer, v any) []byte {
	w.names = map[string]int{}
	w.Write([]byte{':', ')', '\n', 5})
	w.value(v)
	return w.Bytes()
}

func TestRandomDocumentsComeBack(t *testing.T) {
	text := rapid.StringMatching(`[a-zü€\n"]{0,70}`)
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Int64(), func(v int64) any { return v }),
			rapid.Map(text, func(s string) any { return s }),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) any { return new(big.Int).SetBytes(b) }))
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 6),
			func(s []any) any {
				if len(s)%2 == 0 {
					return s
				}
				object := [][2]any{}
				for i, e := range s {
					object = append(object, [2]any{fmt.Sprintf("key%d", i%3), e})
				}
				return object
			}))
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value(4).Draw(t, "document")
		var want strings.Builder
		plain(&want, v)
		got, err := AppendJSON(nil, document(&writer{}, v))
		if err != nil || string(got) != want.String() {
			t.Fatalf("%s, %v\nwant %s", got, err, want.String())
		}
	})
}

func TestTheTableOfNamesStartsAnewAfter1024(t *testing.T) {
	object := [][2]any{}
	for i := range 3000 {
		object = append(object, [2]any{fmt.Sprintf("name-%d", i), int64(i)}, [2]any{fmt.Sprintf("name-%d", i), nil})
		if i > 700 {
			object = append(object, [2]any{fmt.Sprintf("name-%d", i-700), nil})
		}
	}
	var want strings.Builder
	plain(&want, object)
	got, err := AppendJSON(nil, document(&writer{}, object))
	if err != nil || string(got) != want.String() {
		t.Errorf("%d bytes, %v; want %d", len(got), err, want.Len())
	}
}

func TestFloatsReadBackAsTheSameNumber(t *testing.T) {
	for _, v := range []float64{0, math.Copysign(0, -1), 0.1, 1e-3, 9.99e-4, 1e7, 123456.789, 1e21, math.MaxFloat64, math.SmallestNonzeroFloat64, -1.5} {
		got, err := AppendJSON(nil, document(&writer{}, v))
		if err != nil {
			t.Fatal(err)
		}
		var back float64
		if err := json.Unmarshal(got, &back); err != nil || math.Float64bits(back) != math.Float64bits(v) {
			t.Errorf("%v became %s: %v", v, got, err)
		}
	}
}

func realBlobs(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.smile")
	if err != nil || len(names) < 4 {
		t.Fatalf("%d blobs: %v", len(names), err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestRealBlobsBecomeJSONAndNoneOfTheirPrefixesDoes(t *testing.T) {
	for name, b := range realBlobs(t) {
		got, err := AppendJSON(nil, b)
		if err != nil || !json.Valid(got) {
			t.Errorf("%s: %v", name, err)
		}
		for i := range min(len(b), 3000) {
			if _, err := AppendJSON(nil, b[:i]); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: the first %d bytes of %d: %v", name, i, len(b), err)
			}
		}
	}
}

func FuzzAppendJSON(f *testing.F) {
	for _, b := range realBlobs(f) {
		f.Add(b)
	}
	f.Add(unhex(f, valueHeader+"FA 80 61 F8 42 616263 01 F9 34 6161 FC 2A 82 81 07 01 40 E8 82 7F 7F 03 FB"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		got, err := AppendJSON(nil, b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("%v is not a corruption", err)
			}
			return
		}
		if !json.Valid(got) {
			t.Fatalf("no JSON: %.200q", got)
		}
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	var largest []byte
	for _, blob := range realBlobs(b) {
		if len(blob) > len(largest) {
			largest = blob
		}
	}
	var dst []byte
	b.SetBytes(int64(len(largest)))
	for b.Loop() {
		var err error
		if dst, err = AppendJSON(dst[:0], largest); err != nil {
			b.Fatal(err)
		}
	}
}
