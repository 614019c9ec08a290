package verify

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// long makes what holds it longer than maxParts.
var long = strings.Repeat("x", maxParts)

func TestCanonicalTellsValuesApart(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"white space", `{"a":1,"b":[1,2]}`, " { \"a\" : 1 ,\n\t\"b\" : [ 1 , 2 ] } ", true},
		{"comments are white space", `{"a":1}`, "/* x */{\"a\":// y\n1}", true},
		{"a byte order mark", `{"a":1}`, "\xEF\xBB\xBF{\"a\":1}", true},
		{"order of keys", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"order of keys, nested", `{"x":{"a":1,"b":2},"y":0}`, `{"y":0,"x":{"b":2,"a":1}}`, true},
		{"order of elements", `[1,2]`, `[2,1]`, false},
		{"1 and 1.0", `1`, `1.0`, true},
		{"1 and 10e-1", `1`, `10e-1`, true},
		{"100 and 1E+2", `100`, `1E+2`, true},
		{"0 and 0.00e7", `0`, `0.00e7`, true},
		{"the sign of a zero counts", `0`, `-0`, false},
		{"1 and -1", `1`, `-1`, false},
		{"exact beyond doubles", `9007199254740993`, `9007199254740992`, false},
		{"exact beyond doubles, fraction", `0.1`, `0.1000000000000000055511151231257827`, false},
		{"huge exponents are equal as text", `1e99999999999999999999`, `1e99999999999999999999`, true},
		{"huge exponents are not computed", `1e99999999999999999999`, `10e99999999999999999998`, false},
		{"a number and its text", `1`, `"1"`, false},
		{"escapes", `"\u0041\/\u00e9\ud83d\ude00"`, `"A/é😀"`, true},
		{"half of a surrogate pair", `"\ud83d"`, `"\ud83e"`, false},
		{"half of a surrogate pair is not a replacement character", `"\ud83d"`, `"�"`, false},
		{"keys with escapes", `{"\u0061":1}`, `{"a":1}`, true},
		{"a duplicate key is kept", `{"a":1,"a":1}`, `{"a":1}`, false},
		{"duplicate keys keep their order", `{"a":1,"a":2}`, `{"a":2,"a":1}`, false},
		{"duplicate keys beside others", `{"a":1,"b":0,"a":2}`, `{"b":0,"a":1,"a":2}`, true},
		{"empty containers", `{}`, `[]`, false},
		{"null and nothing", `{"a":null}`, `{}`, false},
		{"true and false", `true`, `false`, false},
		{"ends of containers", `[[1],2]`, `[[1,2]]`, false},
		{"ends of objects", `{"a":{"b":1},"c":2}`, `{"a":{"b":1,"c":2}}`, false},
		{"a long nested object in another order", `{"x":{"a":"` + long + `","b":[2,1]}}`, `{"x":{"b":[2,1],"a":"` + long + `"}}`, true},
		{"a long nested object with another end", `{"x":{"a":"` + long + `","b":[2,1]}}`, `{"x":{"a":"` + long + `","b":[2]}}`, false},
		{"strings do not run together", `["ab","c"]`, `["a","bc"]`, false},
		{"no JSON is compared by bytes", `{"a":1`, `{"a": 1`, false},
		{"text behind the value is not JSON", `1 2`, `1  2`, false},
		{"bytes that are not UTF-8", "\"\xff\"", "\"\xfe\"", false},
		{"at the greatest depth", deep(maxDepth + 1), " " + deep(maxDepth+1), true},
		{"too deep is compared by bytes", deep(maxDepth + 2), " " + deep(maxDepth+2), false},
		{"leading zeros are no number", `01`, `1`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := NewCanonical()
			a, _ := x.Digest([]byte(c.a))
			b, _ := x.Digest([]byte(c.b))
			if (a == b) != c.same {
				t.Errorf("%s and %s: equal is %v", c.a, c.b, a == b)
			}
		})
	}
}

// TestCanonicalMemoryIsBounded reads a document in which every level has unordered keys: nothing is copied once per level.
func TestCanonicalMemoryIsBounded(t *testing.T) {
	const levels = 900
	inner := `"` + strings.Repeat("x", 4<<20) + `"`
	text := []byte(strings.Repeat(`{"b":0,"a":`, levels) + inner + strings.Repeat("}", levels))
	c := NewCanonical()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, exact := c.Digest(text); !exact {
		t.Fatal("no canonical form")
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 6*uint64(len(text)) {
		t.Errorf("%d bytes allocated for %d", used, len(text))
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,-0e1,"\u0000\ud83d\ude00"],"a":{"b":null}}`, `[`, `/**/1//`, `"\`, `{"a":1e999999999999999999}`, "\"\xff\""} {
		f.Add([]byte(s), []byte(`{"z":0}`))
	}
	c := NewCanonical()
	f.Fuzz(func(t *testing.T, a, b []byte) {
		da, exact := c.Digest(a)
		if again, _ := c.Digest(bytes.Clone(a)); again != da {
			t.Fatal("two digests of one text")
		}
		db, _ := c.Digest(b)
		if bytes.Equal(a, b) != (da == db) && (!exact || !json.Valid(a) || !json.Valid(b)) && bytes.Equal(a, b) {
			t.Fatal("equal texts, other digests")
		}
		path := FirstDifference(a, b)
		if len(path) > maxPath+len("…") {
			t.Fatalf("a path of %d bytes", len(path))
		}
		if !json.Valid(a) {
			return
		}
		var spread bytes.Buffer
		if json.Indent(&spread, a, " ", "\t") != nil {
			return
		}
		ds, _ := c.Digest(spread.Bytes())
		if exact && ds != da {
			t.Fatal("white space changes the value")
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	text := []byte(`{"title":"A book of some length","price":12.50,"tags":["a","b","c"],"author":{"name":"X Y","born":1970,"awards":[{"year":1999,"name":"Z"}]},"body":"` + strings.Repeat("lorem ipsum ", 60) + `"}`)
	c := NewCanonical()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		c.Digest(text)
	}
}
