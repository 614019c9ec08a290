package doc

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// around calls f for texts of all lengths up to 40 with each byte at each place, and with another one behind it.
func around(f func(b []byte)) {
	for length := range 41 {
		for at := range length {
			b := bytes.Repeat([]byte("a"), length)
			for c := range 256 {
				b[at] = byte(c)
				f(b)
				if at+1 < length {
					for _, next := range []byte{0, ' ', '!', '"', '#', '\\', 0x7f, 0x80, 0xff} {
						b[at+1] = next
						f(b)
					}
					b[at+1] = 'a'
				}
			}
		}
	}
}

func TestIdsThatNeedNoEscapesAreCopiedInWords(t *testing.T) {
	around(func(b []byte) {
		plain := !slices.ContainsFunc(b, func(c byte) bool { return c < ' ' || c == '"' || c == '\\' || c >= 0x80 })
		for _, room := range []int{0, 1, 2, 3, 64} {
			dst := append(make([]byte, 0, 3+len(b)+room), "id:"...)
			got, all := appendQuoted(dst, b)
			if want := plain && len(b) >= 4 && room >= 2; all != want || want && string(got) != `id:"`+string(b)+`"` {
				t.Fatalf("%q with room for %d more: %q, %t, want %t", b, room, got, all, want)
			}
			if s, want := string(AppendString(dst, b)), `id:"`+string(b)+`"`; plain != (s == want) && (plain || !utf8.Valid(b) || bytes.ContainsAny(b, "\x00\n\"\\")) {
				t.Fatalf("%q with room for %d more: %q", b, room, s)
			}
		}
	})
}

func TestALineBreakIsFoundAnywhere(t *testing.T) {
	around(func(b []byte) {
		if want := strings.ContainsAny(string(b), "\n\r"); hasLineBreak(b) != want {
			t.Fatalf("%q: %t, want %t", b, !want, want)
		}
	})
	long := bytes.Repeat([]byte("a"), 3*shortLine)
	for i := range long {
		if long[i] = '\r'; !hasLineBreak(long[i/2:]) || hasLineBreak(long[i+1:]) {
			t.Fatalf("a line break at %d", i)
		}
		long[i] = 'a'
	}
}

func TestIdsAreBase64AsTheLibraryWritesIt(t *testing.T) {
	around(func(b []byte) {
		if got, want := appendURLBase64([]byte("x"), b), base64.RawURLEncoding.AppendEncode([]byte("x"), b); !bytes.Equal(got, want) {
			t.Fatalf("%x: %s, want %s", b, got, want)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, size := range []int{39, 325, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			source := fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", size-8))
			rec := &lucene.Record{IDKind: lucene.IDBinary, ID: []byte("binary id of 15"), HasSource: true, Source: source}
			d := NewDecoder("bench", 0)
			b.ReportAllocs()
			for b.Loop() {
				if _, failure := d.Decode(rec); failure != nil {
					b.Fatal(failure)
				}
			}
		})
	}
}
