package rebuild

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestPatches puts values into sources where the cluster puts them: SourceLoader.applySyntheticVectors of Elasticsearch 9.2.
func TestPatches(t *testing.T) {
	leaf := func(path string) patch { return patch{path: path, value: []byte("[1.0]")} }
	for _, c := range []struct {
		source  string
		patches []patch
		want    string // "" when it cannot be patched
	}{
		{`{}`, []patch{leaf("v")}, `{"v":[1.0]}`},
		{`{"a":1}`, []patch{leaf("v"), leaf("w")}, `{"a":1,"v":[1.0],"w":[1.0]}`},
		{`{"a":{"v":1} }`, []patch{leaf("v")}, `{"a":{"v":1} ,"v":[1.0]}`},
		{`{"o":{"k":1}}`, []patch{leaf("o.v")}, `{"o":{"k":1,"v":[1.0]}}`},
		{`{"o":{}}`, []patch{leaf("o.v"), leaf("o.w"), leaf("v")}, `{"o":{"v":[1.0],"w":[1.0]},"v":[1.0]}`},
		{`{"k":"o"}`, []patch{leaf("o.v")}, `{"k":"o","o.v":[1.0]}`},
		{`{"o":{"k":1}}`, []patch{leaf("o.p.v")}, `{"o":{"k":1,"p.v":[1.0]}}`},
		{`{"o.p":{"k":1}}`, []patch{leaf("o.p.v")}, `{"o.p":{"k":1,"v":[1.0]}}`},
		{`{"o":null}`, []patch{leaf("o.v")}, `{"o":null,"o.v":[1.0]}`},
		{`{"o":[{"k":1}]}`, []patch{leaf("o.v")}, `{"o":[{"k":1,"v":[1.0]}]}`},
		{`{"o":[{"k":1},{}]}`, []patch{leaf("o.v")}, ``},
		{`{"o":7}`, []patch{leaf("o.v")}, ``},
		{`{"v":[2]}`, []patch{leaf("v")}, ``},
		{`{"n":[{"t":1},{"t":2}],"k":1}`, []patch{{path: "n", nested: [][]patch{{leaf("n.v")}, nil}}, leaf("v")}, `{"n":[{"t":1,"v":[1.0]},{"t":2}],"k":1,"v":[1.0]}`},
		{`{"n":{}}`, []patch{{path: "n", nested: [][]patch{{leaf("n.v")}}}}, `{"n":{"v":[1.0]}}`},
		{`{"n":[null,{}]}`, []patch{{path: "n", nested: [][]patch{{leaf("n.v")}}}}, `{"n":[null,{"v":[1.0]}]}`},
		{`{"n":[{}]}`, []patch{{path: "n", nested: [][]patch{{leaf("n.v")}, nil}}}, ``},
		{`{"o":{"n":[{"m":[{},{}]}]}}`, []patch{{path: "o.n", nested: [][]patch{{{path: "o.n.m", nested: [][]patch{nil, {leaf("o.n.m.v")}}}}}}}, `{"o":{"n":[{"m":[{},{"v":[1.0]}]}]}}`},
		{`{"n":7}`, []patch{{path: "n", nested: [][]patch{{leaf("n.v")}}}}, ``},
		{`[1]`, []patch{leaf("v")}, ``},
		{`{`, []patch{leaf("o.v")}, ``},
	} {
		got, done, err := appendPatched([]byte("before "), []byte(c.source), c.patches, 0)
		if c.want == "" {
			if _, ok := errors.AsType[*Unknown](err); !ok || done {
				t.Errorf("%s: %s, %v", c.source, got, err)
			}
			continue
		}
		if err != nil || !done || string(got) != "before "+c.want {
			t.Errorf("%s: %s, %v, want %s", c.source, got, err, c.want)
		}
	}
	for _, c := range []struct {
		source  string
		patches []patch
		want    string
	}{
		{`{"o":[{"k":1},{}]}`, []patch{leaf("o.v"), leaf("v"), leaf("o.w")}, `{"o":[{"k":1},{}],"v":[1.0]}`},
		{`{"n":[{"o":[{},{}]},{}]}`, []patch{{path: "n", nested: [][]patch{{leaf("n.o.v")}, {leaf("n.v")}}}}, `{"n":[{"o":[{},{}]},{"v":[1.0]}]}`},
	} { // those that have a place are put back, the first that has none is named
		got, done, err := appendPatched(nil, []byte(c.source), c.patches, 0)
		if unknown, ok := errors.AsType[*Unknown](err); !ok || !done || string(got) != c.want || !strings.HasSuffix(unknown.Field, "o.v") {
			t.Errorf("%s: %s, %v, want %s", c.source, got, err, c.want)
		}
	}
	if _, _, err := appendPatched(nil, []byte(`{"a":1}`), []patch{leaf("v")}, 10); !errors.Is(err, ErrTooLong) {
		t.Errorf("a source that becomes too long: %v", err)
	}
}

// FuzzPatches gives any sources to the search for the place of a value: a JSON object stays one, and holds the value.
func FuzzPatches(f *testing.F) {
	for _, source := range []string{`{}`, `{"o":{"p":[{"v":1},null]}}`, `{"o.p":{"k":"}"}}`, `{"o":[[{"p":{}}]]} `, `{"o":{"p":{"v.w":2}}`} {
		f.Add([]byte(source), "o.p.v", false)
		f.Add([]byte(source), "v", true)
	}
	f.Fuzz(func(t *testing.T, source []byte, path string, nested bool) {
		p := patch{path: path, value: []byte(`[-0.5,1.0E10]`)}
		if nested {
			p = patch{path: path, nested: [][]patch{{{path: path + ".v", value: p.value}}}}
		}
		got, _, err := appendPatched(nil, source, []patch{p}, 1<<20)
		if _, ok := errors.AsType[*Unknown](err); !ok && err != nil && !errors.Is(err, ErrTooLong) {
			t.Fatal(err)
		}
		if err == nil && json.Valid(source) && (!json.Valid(got) || !strings.Contains(string(got), string(p.value))) {
			t.Fatalf("%q becomes %q", source, got)
		}
	})
}
