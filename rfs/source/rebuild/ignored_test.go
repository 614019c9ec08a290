package rebuild

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseEntry(t *testing.T) {
	for _, c := range []struct{ name, entry, want string }{
		{"a value of the root", "\x01\x00\x00\x00aSx", "[_ a a Sx]"},
		{"a value of an object", "\x03\x00\x02\x00a.bn", "[a a.b b n]"},
		{"names count in UTF-16", "\x04\x00\x03\x00😀.bt", "[😀 😀.b b t]"},
		{"coalesced", "\x02\x03a.b\x02\x02Sx\x00\x01v", "[a a.b b Sx] [_ a.b a.b v]"},
		{"coalesced, characters outside of the basic plane in two parts", "\x01\x02\xed\xa0\xbd\xed\xb8\x80\x00\x01f", "[_ 😀 😀 f]"},
		{"too short", "\x01\x00", "error"},
		{"no value", "\x01\x00\x00\x00a", "error"},
		{"a name that ends too early", "\x09\x00\x00\x00aSx", "error"},
		{"a parent that ends within a name", "\x03\x00\x01\x00a.bn", "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			err := parseEntry([]byte(c.entry), func(x ignored) {
				parent := x.parent
				if parent == "" {
					parent = "_"
				}
				got = append(got, fmt.Sprintf("[%s %s %s %s]", parent, x.name, x.leaf, x.value))
			})
			if text := strings.Join(got, " "); err != nil && c.want != "error" || err == nil && text != c.want {
				t.Errorf("%s, %v; want %s", text, err, c.want)
			}
		})
	}
}

func TestAppendIgnored(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"Sa\"😀\x01", `"a\"\uD83D\uDE00\u0001"`},
		{"I\xff\xff\xff\xff", "-1"},
		{"L\x01\x00\x00\x00\x00\x00\x00\x80", "-9223372036854775807"},
		{"D\x00\x00\x00\x00\x00\x00\xf8\x3f", "1.5"},
		{"F\xcd\xcc\xcc\x3d", "0.1"},
		{"i\x00\xff", "255"},
		{"i\xff", "-1"},
		{"d\x02\x00\x00\x00\x7b", "123E-2"},
		{"t", "true"},
		{"f", "false"},
		{"n", "null"},
		{"b\x00\x01", `"AAE="`},
		{`j{"a":[1]}`, `{"a":[1]}`},
		{"I\x00", ""},
		{"d\x00", ""},
		{"t\x00", ""},
		{"?", ""},
	} {
		got, err := appendIgnored(nil, []byte(c.value), nil)
		if (err != nil) != (c.want == "") || err == nil && string(got) != c.want {
			t.Errorf("%q: %s, %v; want %s", c.value, got, err, c.want)
		}
	}
}

// FuzzIgnored gives any bytes to the decoder of _ignored_source: it returns an error or values that it can write.
func FuzzIgnored(f *testing.F) {
	for _, seed := range []string{"\x03\x00\x02\x00a.bn", "\x02\x03a.b\x02\x02Sx\x00\x01v", "\x01\x00\x00\x00aj[1]", "\x01\x01a\x00\x06d\x00\x00\x00\x00\x7f"} {
		f.Add([]byte(seed))
	}
	convert := func(dst []byte, _ byte, b []byte) ([]byte, error) { return append(dst, b...), nil }
	f.Fuzz(func(t *testing.T, b []byte) {
		was := slices.Clone(b)
		_ = parseEntry(b, func(x ignored) {
			if x.parent != "" && x.parent+"."+x.leaf != x.name {
				t.Errorf("%q lies as %q in %q", x.name, x.leaf, x.parent)
			}
			if out, err := appendIgnored([]byte("-"), x.value, convert); err == nil && !x.void() && (len(out) == 0 || out[0] != '-') {
				t.Errorf("%q became %q", x.value, out)
			}
		})
		if !slices.Equal(was, b) {
			t.Error("the entry was changed")
		}
	})
}
