package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/testing/truth"
)

func TestEveryRecipeHasANameOfItsOwnAndSaysWhatItHolds(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range recipes() {
		if seen[r.name] || r.name == "" || r.holds == "" || r.make == nil || strings.ContainsAny(r.name, "/ ") {
			t.Errorf("recipe %+v", r)
		}
		seen[r.name] = true
	}
}

func TestRecipesAreChosenByNameOrAllThatAreKept(t *testing.T) {
	all := []recipe{{name: "a"}, {name: "b", onDemand: true}, {name: "c"}}
	for _, c := range []struct{ ask, want []string }{
		{nil, []string{"a", "c"}},
		{[]string{"b"}, []string{"b"}},
		{[]string{"c", "a"}, []string{"a", "c"}},
	} {
		chosen, err := choose(all, c.ask)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range chosen {
			names = append(names, r.name)
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%v chose %v, want %v", c.ask, names, c.want)
		}
	}
	if _, err := choose(all, []string{"d"}); err == nil {
		t.Error("an unknown recipe was accepted")
	}
}

func TestBulkBodiesEscapeEveryID(t *testing.T) {
	var x body
	for _, id := range oddIDs() {
		x.index(id, `{}`).remove(id)
	}
	lines := strings.Split(strings.TrimSuffix(x.b.String(), "\n"), "\n")
	for i, id := range oddIDs() {
		for _, line := range []string{lines[3*i], lines[3*i+2]} {
			var action map[string]map[string]string
			if err := json.Unmarshal([]byte(line), &action); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			for _, meta := range action {
				if meta["_id"] != id {
					t.Errorf("%s names %q, want %q", line, meta["_id"], id)
				}
			}
		}
	}
}

func TestTruthKeepsTheBytesOfSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.ndjson.gz")
	source := `{ "a": 1.00, "b":"<ü>\u2028" }`
	docs := []document{
		{Index: "i", ID: "<1>", Routing: "r", Source: json.RawMessage(source)},
		{Index: "i", ID: "2"},
		{Index: "i", Type: "t", ID: "3", Line: "{/* c */}"},
	}
	if err := writeTruth(file, docs); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"_index":"i","_id":"<1>","_routing":"r","_source":` + source + "}\n" +
		`{"_index":"i","_id":"2"}` + "\n" + `{"_index":"i","_type":"t","_id":"3","_line":"{/* c */}"}` + "\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	loaded, err := truth.Load(true, file)
	if err != nil {
		t.Fatal(err)
	}
	if s := loaded[truth.Key{Index: "i", ID: "<1>", Routing: "r"}]; string(s) != source {
		t.Errorf("read back as %s", s)
	}
}

func TestAnAnswerOfAnyVersionBecomesOneFormOfDocument(t *testing.T) {
	for answer, want := range map[string]document{
		`{"_index":"i","_type":"_doc","_id":"1","_routing":"r","_source":{"a": 1}}`:                 {Index: "i", ID: "1", Routing: "r", Source: []byte(`{"a": 1}`)},
		`{"_index":"i","_type":"t","_id":"1","fields":{"_routing":"r","_parent":"p"},"_source":{}}`: {Index: "i", Type: "t", ID: "1", Routing: "r", Parent: "p", Source: []byte(`{}`)},
		"{\"_index\":\"i\",\"_id\":\"1\",\"_source\":{\n \"a\": \"b  c\"\r\n}}":                     {Index: "i", ID: "1", Source: []byte(`{"a":"b  c"}`)},
		`{"_index":"i","_id":"1"}`: {Index: "i", ID: "1"},
	} {
		var h hit
		if err := json.Unmarshal([]byte(answer), &h); err != nil {
			t.Fatal(err)
		}
		got := tidy(h)
		if got.Index != want.Index || got.Type != want.Type || got.ID != want.ID || got.Routing != want.Routing ||
			got.Parent != want.Parent || string(got.Source) != string(want.Source) {
			t.Errorf("%s became %+v, want %+v", answer, got, want)
		}
	}
}

func TestHandWrittenSourcesBecomeTheLinesThatTheTruthNames(t *testing.T) {
	for _, w := range handWritten {
		got, err := doc.AppendLine(nil, []byte(w.source))
		if err != nil || string(got) != w.line {
			t.Errorf("%q became %q, %v; the truth states %q", w.source, got, err, w.line)
		}
	}
}
