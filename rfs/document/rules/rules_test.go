package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func parse(t testing.TB, text string) *Set {
	t.Helper()
	s, err := Parse("rules.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestErrorsNameLineAndKey(t *testing.T) {
	for _, c := range []struct{ name, text, words string }{
		{"unknown section", "\n[[docs]]\nmatch = \"a\"\n", "rules.toml:2: key docs is unknown"},
		{"unknown key", "[[document]]\nmatch = \"a\"\ndrops = [\"b\"]\n", "rules.toml:3: key document.drops is unknown"},
		{"unknown key in a condition", "[[document]]\nmatch = \"a\"\nleave-out = true\n[document.where]\nfeld = \"x\"\n", "rules.toml:5: key document.where.feld is unknown"},
		{"unknown key in a line", "[[index]]\nmatch = \"a\"\nset = [{ path = \"/settings/a\", valeu = 1, value = 2 }]\n", "rules.toml:3: key index.set.valeu is unknown"},
		{"syntax", "[[document]]\nmatch = \n", "line 2"},
		{"wrong kind", "[[document]]\nmatch = 5\n", "document.match"},
		{"wrong kind in a list", "[[document]]\nmatch = [5]\n", "5 is not a string"},
		{"no match", "[[document]]\nmatch=\"a\"\ndrop=[\"a\"]\n[[document]]\ndrop = [\"a\"]\n", "rules.toml:4: document: match is missing"},
		{"bad pattern", "[[index]]\nmatch = \"regex:(\"\n", "rules.toml:1: index: match"},
		{"no name", "[[rename-index]]\nmatch = \"a\"\n", "rules.toml:1: rename-index: to is missing"},
		{"no such group", "[[rename-index]]\nmatch = \"a*\"\nto = \"b$1x\"\n", "group 1x"},
		{"no such group of one pattern", "[[document]]\nmatch = [\"a*\", \"b\"]\nindex = \"b$1\"\n", "group 1"},
		{"path outside", "[[index]]\nmatch = \"a\"\ndrop = [\"/version\"]\n", "drop: path"},
		{"no path", "[[template]]\nmatch = \"a\"\nset = [{ value = 1 }]\n", "set: path"},
		{"no value", "[[template]]\nmatch = \"a\"\nset = [{ path = \"/settings/a\" }]\n", "value is missing"},
		{"a date", "[[template]]\nmatch = \"a\"\nset = [{ path = \"/settings/a\", value = 2020-01-01 }]\n", "dates as text"},
		{"stars cannot be renamed", "[[index]]\nmatch = \"a\"\nrename = [{ from = \"/mappings/*\", to = \"/mappings/x\" }]\n", "path with *"},
		{"nothing to do", "[[index]]\nmatch = \"a\"\n", "does nothing"},
		{"nothing to do with documents", "[[document]]\nmatch = \"a\"\n", "does nothing"},
		{"left out and changed", "[[document]]\nmatch = \"a\"\nleave-out = true\ndrop = [\"a\"]\n", "left out"},
		{"rename into another object", "[[document]]\nmatch = \"a\"\nrename = [{ from = \"a.b\", to = \"b\" }]\n", "same object"},
		{"no field", "[[document]]\nmatch = \"a\"\ndrop = [\"a..b\"]\n", "not a name of a field"},
		{"two conditions in one", "[[document]]\nmatch = \"a\"\nleave-out = true\nwhere = { field = \"a\", equals = 1, exists = true }\n", "where: field a"},
		{"no condition", "[[document]]\nmatch = \"a\"\nleave-out = true\nwhere = { field = \"a\" }\n", "where: field a"},
		{"no field in a condition", "[[document]]\nmatch = \"a\"\nleave-out = true\nwhere = { equals = 1 }\n", "where: a condition"},
		{"a list as value", "[[document]]\nmatch = \"a\"\nleave-out = true\nwhere = { field = \"a\", equals = [1] }\n", "not text, a number"},
		{"no conditions", "[[document]]\nmatch = \"a\"\nleave-out = true\nwhere = { all = [] }\n", "need conditions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("rules.toml", []byte(c.text))
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want %s", err, c.words)
			}
		})
	}
}

func TestAFileIsKnownByItsContent(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.toml")
	if err := os.WriteFile(name, []byte("# nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(name)
	if err != nil || s.Digest() != parse(t, "# nothing\n").Digest() || s.Digest() == parse(t, "# other\n").Digest() {
		t.Errorf("%v, %v", s.Digest(), err)
	}
	if _, err := Load(name + ".not"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("error %v", err)
	}
	var none *Set
	if none.Digest() != "" || none.IndexName("a") != "a" || none.Documents("a") != nil || none.EditIndex("a", nil) != nil || none.EditTemplate("a", nil) != nil {
		t.Error("no rules change something")
	}
}

// apply returns the source of a document as one rule leaves it.
func apply(t *testing.T, rule, source string) string {
	t.Helper()
	d := doc.Document{Source: []byte(source)}
	keep, err := parse(t, "[[document]]\nmatch = \"*\"\n"+rule).Documents("x").Edit(&d, 0)
	if err != nil {
		return "error: " + err.Error()
	}
	if !keep {
		return ""
	}
	return string(d.Source)
}

func TestOnlyTheBytesOfTheFieldChange(t *testing.T) {
	for _, c := range []struct{ rule, before, after string }{
		{`drop = ["a"]`, `{"a":1}`, `{}`},
		{`drop = ["a"]`, `{ "a" : 1 }`, `{}`},
		{`drop = ["a"]`, "\xEF\xBB\xBF{\"a\":1,\"b\":2}", "\xEF\xBB\xBF{\"b\":2}"},
		{`drop = ["a"]`, `{"a":1, "b":2}`, `{ "b":2}`},
		{`drop = ["a"]`, `{"b":2 , "a":1 }`, `{"b":2 }`},
		{`drop = ["a"]`, `{"x":0,"a":1,"a":2}`, `{"x":0}`},
		{`drop = ["a"]`, `{"a":1,"a":2,"x":[1.0,1e400,-0],"a":3}`, `{"x":[1.0,1e400,-0]}`},
		{`drop = ["a"]`, `{"b":{"a":1},"\u0061":"\"}","c":"a"}`, `{"b":{"a":1},"c":"a"}`},
		{`drop = ["a"]`, `{"b":"\\","a":"\\\"","c":1}`, `{"b":"\\","c":1}`},
		{`drop = ["a.b"]`, `{"a":{"b":1,"c":[]},"a.b":2,"a.bc":3}`, `{"a":{"c":[]},"a.bc":3}`},
		{`drop = ["a.b.c"]`, `{"a":[{"b":[[{"c":1}]]},{"b.c":2},{"b":{"c":{"d":1}},"x":1}]}`, `{"a":[{"b":[[{}]]},{},{"b":{},"x":1}]}`},
		{`drop = ["é"]`, `{"\u00e9":1,"é":2,"e":3}`, `{"e":3}`},
		{`drop = ["a"]`, `{"a":NaN,"b":Infinity}`, `{"b":Infinity}`},
		{`drop = ["a", "b"]`, `{"a":1,"c":2,"b":3}`, `{"c":2}`},
		{`rename = [{from="a",to="b"}]`, `{"a":1,"c":{"a":2}, "a" :3}`, `{"b":1,"c":{"a":2}, "b" :3}`},
		{`rename = [{from="a.b",to="a.\"c"}]`, `{"a.b":1,"a":{"b":2,"x":{"b":3}}}`, `{"a.\"c":1,"a":{"\"c":2,"x":{"b":3}}}`},
		{`rename = [{from="a",to="b"},{from="b",to="c"}]`, `{"a":1}`, `{"c":1}`},
		{`copy = [{from="a",to="b"}]`, `{"a": {"x":[1, 2]} }  `, `{"a": {"x":[1, 2]} ,"b":{"x":[1, 2]}}  `},
		{`copy = [{from="a.b",to="z.y"}]`, `{"a":[{"b":1},{"b":[2]}]}`, `{"a":[{"b":1},{"b":[2]}],"z.y":[1,[2]]}`},
		{`copy = [{from="a",to="b"}]`, `{"a":1,"b":null}`, `{"a":1,"b":null}`},
		{`copy = [{from="a",to="b"}]`, `{"c":1}`, `{"c":1}`},
		{"copy = [{from=\"a\",to=\"b\"}]\ndrop = [\"a\"]", `{"a":1}`, `{"b":1}`},
		{`drop = ["zz"]`, `not JSON`, `not JSON`},
		{`drop = ["a"]`, `not JSON, a`, `error: no JSON object`},
		{`drop = ["a"]`, `{"a":1`, `error: no comma or } at byte 6`},
		{`drop = ["a"]`, `{"a":"`, `error: a string without end at byte 5`},
		{`drop = ["a"]`, `{"a":}`, `error: no value at byte 5`},
		{`drop = ["a"]`, `{"a" 1}`, `error: no colon at byte 5`},
		{`drop = ["a"]`, `{a:1}`, `error: no string at byte 1`},
		{`drop = ["a"]`, `{"a":[1 2]}`, `error: no comma or ] at byte 8`},
		{`drop = ["a"]`, `{"a":1} x`, `error: more than one value at byte 8`},
		{`drop = ["a"]`, `{"a":` + strings.Repeat("[", 5000), `error: nested too deeply at byte 2005`},
	} {
		if got := apply(t, c.rule, c.before); got != c.after {
			t.Errorf("%s\n of %.80s\n is %.80s\nnot %s", c.rule, c.before, got, c.after)
		}
	}
}

func TestConditionsAreAboutValues(t *testing.T) {
	for _, c := range []struct {
		where string
		yes   []string
		no    []string
	}{
		{`{field="a",equals=5}`, []string{`5`, `5.0`, `5e0`, `[1,[5]]`}, []string{`"5"`, `6`, `null`, `true`, `{"a":5}`, `[]`}},
		{`{field="a",equals=9223372036854775807}`, []string{`9223372036854775807`}, []string{`9223372036854775806`}},
		{`{field="a",equals=0.5}`, []string{`0.5`, `5e-1`}, []string{`0`, `"0.5"`, `NaN`}},
		{`{field="a",equals="é\""}`, []string{`"é\""`, `"\u00e9\u0022"`}, []string{`"e"`, `"é"`}},
		{`{field="a",equals=true}`, []string{`true`}, []string{`false`, `"true"`, `1`}},
		{`{field="a",equals=false}`, []string{`false`}, []string{`true`, `null`}},
		{`{field="a",in=["x",1,false]}`, []string{`"x"`, `1`, `false`, `["y","x"]`}, []string{`"y"`, `2`, `true`}},
		{`{field="a",exists=true}`, []string{`0`, `""`, `false`, `{}`, `[null,1]`}, []string{`null`, `[]`, `[null]`}},
		{`{field="a",exists=false}`, []string{`null`, `[]`}, []string{`0`, `{}`}},
		{`{field="a",prefix="ab"}`, []string{`"ab"`, `"abc"`, `"\u0061bc"`}, []string{`"a"`, `"xab"`, `1`}},
		{`{field="a",gt=1,lte=3}`, []string{`1.5`, `3`, `[9,2]`}, []string{`1`, `3.1`, `"2"`, `[0,9]`}},
		{`{field="a",gte="2024-01-01",lt="2025"}`, []string{`"2024-01-01"`, `"2024-12-31T23:59:59Z"`}, []string{`"2023-12-31"`, `"2025"`, `2024`}},
		{`{not={field="a",equals=1}}`, []string{`2`, `null`}, []string{`1`}},
		{`{all=[{field="a",gt=1},{field="a",lt=3}]}`, []string{`2`}, []string{`1`, `3`}},
		{`{any=[{field="a",equals=1},{field="a",equals=3}]}`, []string{`1`, `3`}, []string{`2`}},
		{`{field="a.b",equals=1}`, []string{`{"b":1}`, `[{"b":0},{"b":1}]`}, []string{`1`, `{"b":{"b":1}}`}},
	} {
		rule := "where = " + c.where + "\nleave-out = true"
		for _, v := range c.yes {
			if got := apply(t, rule, `{"x":1,"a":`+v+`}`); got != "" {
				t.Errorf("%s does not hold for %s: %s", c.where, v, got)
			}
		}
		for _, v := range c.no {
			if source := `{"x":1,"a":` + v + `}`; apply(t, rule, source) != source {
				t.Errorf("%s holds for %s", c.where, v)
			}
		}
	}
	if got := apply(t, "where = {field=\"a\",exists=false}\nleave-out = true", `{"b":1}`); got != "" {
		t.Errorf("a field that is missing exists: %s", got)
	}
}

func TestRulesAreAppliedInOrderToTheIndicesThatTheyAreAbout(t *testing.T) {
	s := parse(t, `
[[document]]
match = "logs-*"
rename = [{from="lvl", to="level"}]
[[document]]
match = ["logs-*", "more"]
where = {field="level", equals="debug"}
index = "debug"
[[document]]
match = "regex:logs-(\\d)"
where = {field="level", equals="trace"}
index = "trace-$1"
`)
	for _, c := range []struct{ index, source, to, after string }{
		{"logs-1", `{"lvl":"debug"}`, "debug", `{"level":"debug"}`},
		{"logs-1", `{"lvl":"trace"}`, "trace-1", `{"level":"trace"}`},
		{"logs-x", `{"lvl":"trace"}`, "own", `{"level":"trace"}`},
		{"more", `{"lvl":"debug"}`, "own", `{"lvl":"debug"}`},
	} {
		d := doc.Document{Index: []byte("own"), Source: []byte(c.source)}
		if keep, err := s.Documents(c.index).Edit(&d, 0); !keep || err != nil || string(d.Index) != c.to || string(d.Source) != c.after {
			t.Errorf("%s: %s in %s, %v", c.source, d.Source, d.Index, err)
		}
	}
	if s.Documents("other") != nil {
		t.Error("an index without rules has an editor")
	}
}

func TestDocumentsThatNoRuleChangesPassWithoutACopy(t *testing.T) {
	e := parse(t, "[[document]]\nmatch = \"*\"\nwhere = {all=[{field=\"level\", in=[\"debug\",5]},{not={field=\"x.y\",exists=true}}]}\ndrop = [\"message\"]\n").Documents("x")
	source := []byte(`{"level":"info","message":"a \"quoted\" text","n":[1,2,{"level":"y"}],"x":{"y":1}}`)
	d := doc.Document{Source: source}
	if n := testing.AllocsPerRun(100, func() {
		if keep, err := e.Edit(&d, 0); !keep || err != nil || &d.Source[0] != &source[0] || len(d.Source) != len(source) {
			t.Fatal("changed", err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMetadataIsChangedByPath(t *testing.T) {
	for _, c := range []struct{ name, rule, before, after, done string }{
		{"settings in every spelling", `set = [{path="/settings/a",value="1"},{path="/settings/index.b",value=2},{path="/settings/c/d",value=true}]`, `{}`, `{"settings":{"index.a":"1","index.b":2,"index.c.d":true}}`, "/settings/index.a set to \"1\", /settings/index.b set to 2, /settings/index.c.d set to true"},
		{"objects and lists as values", `set = [{path="/mappings/properties/f",value={type="text",fields={k={type="keyword"}}}}]`, `{"mappings":{"dynamic":"strict"}}`, `{"mappings":{"dynamic":"strict","properties":{"f":{"type":"text","fields":{"k":{"type":"keyword"}}}}}}`, `/mappings/properties/f set to {"fields":{"k":{"type":"keyword"}},"type":"text"}`},
		{"what is missing is not dropped", `drop = ["/mappings/properties/a", "/aliases/x"]`, `{"aliases":{"y":{}}}`, `{"aliases":{"y":{}}}`, ""},
		{"an empty section goes", `drop = ["/aliases/*"]`, `{"aliases":{"y":{},"z":{}}}`, `{}`, "/aliases/y dropped, /aliases/z dropped"},
		{"members of every field", `drop = ["/mappings/properties/*/boost"]`, `{"mappings":{"properties":{"a":{"boost":1},"b":{"type":"x"},"c":5}}}`, `{"mappings":{"properties":{"a":{},"b":{"type":"x"},"c":5}}}`, "/mappings/properties/a/boost dropped"},
		{"a position of a list", `set = [{path="/mappings/dynamic_templates/1/t/mapping",value={}}]`, `{"mappings":{"dynamic_templates":[{"s":{}},{"t":{"mapping":{"a":1}}}]}}`, `{"mappings":{"dynamic_templates":[{"s":{}},{"t":{"mapping":{}}}]}}`, "/mappings/dynamic_templates/1/t/mapping set to {}"},
		{"slashes in names", `rename = [{from="/aliases/a~1b",to="/aliases/~0"}]`, `{"aliases":{"a/b":{"routing":"1"}}}`, `{"aliases":{"~":{"routing":"1"}}}`, "/aliases/a~1b is /aliases/~0"},
		{"all settings", `drop = ["/settings/*"]`, `{"settings":{"index.a":"1","index.b":2},"mappings":{"x":1}}`, `{"mappings":{"x":1}}`, "/settings/index.a dropped, /settings/index.b dropped"},
		{"a section of another form stays", `drop = ["/aliases/x"]`, `{"mappings":5,"settings":[],"aliases":{"x":{}}}`, `{"mappings":5,"settings":[]}`, "/aliases/x dropped"},
		{"the first position of a list", `drop = ["/mappings/l/0/a"]`, `{"mappings":{"l":[{"a":1},{"a":2}]}}`, `{"mappings":{"l":[{},{"a":2}]}}`, "/mappings/l/0/a dropped"},
		{"positions that a list does not have", `drop = ["/mappings/l/2/a","/mappings/l/-1/a","/mappings/l/x/a","/mappings/l/99999999999999999999/a"]`, `{"mappings":{"l":[{"a":1},{"a":2}]}}`, `{"mappings":{"l":[{"a":1},{"a":2}]}}`, ""},
		{"an element of a list as a whole", `drop = ["/mappings/l/0"]`, `{"mappings":{"l":[{"a":1}]}}`, `{"mappings":{"l":[{"a":1}]}}`, ""},
		{"nothing to move", `rename = [{from="/aliases/a",to="/aliases/b"}]`, `{"settings":{"x":1}}`, `{"settings":{"x":1}}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := parse(t, "[[index]]\nmatch = \"i*\"\n"+c.rule+"\n")
			var body, want map[string]any
			if err := errors.Join(json.Unmarshal([]byte(c.before), &body), json.Unmarshal([]byte(c.after), &want)); err != nil {
				t.Fatal(err)
			}
			if s.EditIndex("other", body) != nil || s.EditTemplate("i1", body) != nil {
				t.Error("a rule is applied where it does not match")
			}
			var done []string
			for _, e := range s.EditIndex("i1", body) {
				done = append(done, e.Path+" "+e.Detail)
			}
			got, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			var have map[string]any
			if err := json.Unmarshal(got, &have); err != nil || !reflect.DeepEqual(have, want) || strings.Join(done, ", ") != c.done {
				t.Errorf("%s\n%s", got, strings.Join(done, ", "))
			}
		})
	}
}

func TestIndicesDoNotShareAValueOfTheFile(t *testing.T) {
	s := parse(t, "[[index]]\nmatch = \"*\"\nset = [{path=\"/mappings/_meta\",value={l=[{a=1}]}}]\n")
	if u := parse(t, "[[template]]\nmatch = \"*\"\nset = [{path=\"/mappings/_meta\",value={l={m={a=1}}}}]\n"); len(u.templates) != 1 {
		t.Error("an object as value in a template")
	}
	a, b := map[string]any{}, map[string]any{}
	s.EditIndex("a", a)
	s.EditIndex("b", b)
	a["mappings"].(map[string]any)["_meta"].(map[string]any)["l"].([]any)[0].(map[string]any)["a"] = 2
	if got := brief(b); got != `{"mappings":{"_meta":{"l":[{"a":1}]}}}` {
		t.Error(got)
	}
}

// FuzzDocuments: of valid JSON every rule makes valid JSON, and whatever it is not about is untouched.
func FuzzDocuments(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":{"b":[{"c":1.50}]},"d":"\u0061\\"}`, `{"a.b":1,"a":[{"b":null},{"b":[]}], "z" : 1e400 }`, `{}`, `{"x":1,"a":2,"a":3}`, `[1]`, `{"a":"`, `{"\ud800":1,"a":{}}`} {
		f.Add([]byte(s), "a", "b")
		f.Add([]byte(s), "a.b", "a.c")
	}
	f.Fuzz(func(t *testing.T, source []byte, from, to string) {
		defer fuzzing.Bounded(t, len(source)+len(from)+len(to))()
		if checkField(from) != nil || checkField(to) != nil {
			return
		}
		var find finder
		e := &Editor{}
		before := bytes.Clone(source)
		if find.find(source, from) != nil {
			if _, err := e.dropField(from, source); err == nil {
				t.Fatal("dropped from what cannot be read")
			}
			return
		}
		hits := len(find.hits)
		dropped, err := e.dropField(from, source)
		if err != nil {
			t.Fatal(err)
		}
		if err := find.find(dropped, from); err != nil || len(find.hits) > 0 {
			t.Errorf("%q is left in %q, %v", from, dropped, err)
		}
		if valid := json.Valid(source); valid && !json.Valid(dropped) {
			t.Errorf("drop %q of %q: %q", from, source, dropped)
		}
		copied, err := e.copyField(&copyOp{from, to, append(doc.AppendString(nil, []byte(to)), ':')}, source)
		if err == nil && json.Valid(source) && !json.Valid(copied) {
			t.Errorf("copy %q to %q of %q: %q", from, to, source, copied)
		}
		if parent(from) != parent(to) {
			return
		}
		renamed, err := e.renameField(renameOp{from, to}, source)
		if err != nil {
			t.Fatal(err)
		}
		if json.Valid(source) && !json.Valid(renamed) {
			t.Errorf("rename %q to %q of %q: %q", from, to, source, renamed)
		}
		if find.find(source, to) == nil && len(find.hits) == 0 && utf8Valid(from, to) && json.Valid(source) {
			back, err := (&Editor{}).renameField(renameOp{to, from}, bytes.Clone(renamed))
			if err != nil || hits > 0 && canonical(t, back) != canonical(t, source) {
				t.Errorf("there and back: %q is %q, %v", source, back, err)
			}
		}
		if !bytes.Equal(source, before) {
			t.Errorf("the source itself was changed: %q is %q", before, source)
		}
	})
}

func utf8Valid(all ...string) bool {
	for _, s := range all {
		if strings.ToValidUTF8(s, "") != s {
			return false
		}
	}
	return true
}

// canonical reads the tokens of a text, so that only spelling is forgiven.
func canonical(t *testing.T, b []byte) string {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var out strings.Builder
	for {
		tok, err := dec.Token()
		if err != nil {
			return out.String()
		}
		enc, err := json.Marshal(tok)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := tok.(json.Delim); ok {
			enc = []byte(d.String())
		}
		out.Write(append(enc, ' '))
	}
}

// BenchmarkDocuments measures bytes of documents per second: none changed, dropped, left out.
func BenchmarkDocuments(b *testing.B) {
	source := []byte(`{"@timestamp":"2024-05-01T00:00:00Z","level":"info","host":{"name":"web-1","ip":["10.0.0.1","10.0.0.2"]},"message":"` +
		strings.Repeat("GET /index.html 200 ", 30) + `","bytes":1234,"user":{"name":"ada","id":17}}`)
	for _, c := range []struct{ name, rule string }{
		{"untouched", `where = {field="level", equals="debug"}` + "\n" + `drop = ["message"]`},
		{"absent", `drop = ["nowhere"]`},
		{"drop", `drop = ["user.id"]`},
		{"rename and copy", `rename = [{from="user.id",to="user.number"}]` + "\n" + `copy = [{from="host.name",to="hostname"}]`},
		{"left out", `where = {field="level", in=["debug","info"]}` + "\n" + `leave-out = true`},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := parse(b, "[[document]]\nmatch = \"*\"\n"+c.rule).Documents("x")
			b.SetBytes(int64(len(source)))
			b.ReportAllocs()
			for b.Loop() {
				d := doc.Document{Source: source}
				if _, err := e.Edit(&d, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
