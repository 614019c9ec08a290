package verify

import (
	"strings"
	"testing"
)

func TestFirstDifference(t *testing.T) {
	for _, c := range []struct{ name, a, b, want string }{
		{"a changed value", `{"a":1,"b":{"c":[1,{"d":"x"}]}}`, `{"b":{"c":[1,{"d":"y"}]},"a":1}`, "b.c[1].d"},
		{"first in the order of the source", `{"z":1,"a":1}`, `{"a":2,"z":2}`, "z"},
		{"values before forms", `{"a":1.0,"b":1}`, `{"a":1,"b":2}`, "b"},
		{"another form of a number", `{"a":[0,1.0]}`, `{"a":[0,1]}`, "a[1]"},
		{"a missing key", `{"a":1,"b":2}`, `{"a":1}`, "b"},
		{"a key too many", `{"a":1}`, `{"a":1,"b":2}`, "b"},
		{"a duplicate key too many", `{"a":1,"a":2}`, `{"a":1}`, "a"},
		{"a longer array", `{"a":[1]}`, `{"a":[1,2]}`, "a[1]"},
		{"another type", `{"a":[1]}`, `{"a":{"0":1}}`, "a"},
		{"the order of keys", `{"a":1,"b":2}`, `{"b":2,"a":1}`, ""},
		{"white space", `{"a":1}`, `{ "a":1}`, ""},
		{"a byte order mark", "\xEF\xBB\xBF{\"a\":{\"b\":1}}", `{"a":{"b":2}}`, "a.b"},
		{"no JSON", `{"a":`, `{"a":1}`, ""},
		{"a key that is not a word", `{"a.b":{"":1}}`, `{"a.b":{"":2}}`, `"a.b".""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := FirstDifference([]byte(c.a), []byte(c.b)); got != c.want {
				t.Errorf("path %q, want %q", got, c.want)
			}
		})
	}
	long := strings.Repeat("k", 2*maxPath)
	if got := FirstDifference([]byte(`{"`+long+`":1}`), []byte(`{"`+long+`":2}`)); len(got) > maxPath+len("…") {
		t.Errorf("a path of %d bytes", len(got))
	}
}
