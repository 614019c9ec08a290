package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

func TestRulesThatMeanNothingAreRefused(t *testing.T) {
	const field = `{ field = "a", exists = true }`
	where := func(c string) string { return "[[document]]\nmatch = \"*\"\nleave-out = true\nwhere = " + c + "\n" }
	document := func(what string) string { return "[[document]]\nmatch = \"*\"\n" + what + "\n" }
	index := func(what string) string { return "[[index]]\nmatch = \"*\"\n" + what + "\n" }
	for _, c := range []struct{ name, text, words string }{
		{"two groups of conditions", where(`{ all = [` + field + `], any = [` + field + `] }`), "one of all, any and not"},
		{"a group with a test of no field", where(`{ all = [` + field + `], exists = true }`), "one of all, any and not"},
		{"a field with a group", where(`{ field = "a", equals = 1, not = ` + field + ` }`), "field a: one of"},
		{"a bad condition in all", where(`{ all = [` + field + `, { field = "b" }] }`), "field b"},
		{"a bad condition in any", where(`{ any = [{ field = "b" }] }`), "field b"},
		{"a bad condition in not", where(`{ not = { field = "b" } }`), "field b"},
		{"a date as an end of a range", where(`{ field = "a", gt = 2020-01-01 }`), "write dates as text"},
		{"what is not a number as an end of a range", where(`{ field = "a", gt = nan }`), "NaN is in no order"},
		{"no field to rename", document(`rename = [{ from = "", to = "b" }]`), "rename: \"\" is not a name"},
		{"no field to rename to", document(`rename = [{ from = "a" }]`), "rename: \"\" is not a name"},
		{"no field to copy", document(`copy = [{ from = ".a", to = "b" }]`), "copy: \".a\" is not a name"},
		{"no field to copy to", document(`copy = [{ from = "a", to = "b." }]`), "copy: \"b.\" is not a name"},
		{"no field to drop", document(`drop = [""]`), "drop: \"\" is not a name"},
		{"a field that starts with a dot", document(`drop = [".a"]`), "drop: \".a\" is not a name"},
		{"a field that ends with a dot", document(`drop = ["a."]`), "drop: \"a.\" is not a name"},
		{"left out and sent elsewhere", document("leave-out = true\nindex = \"b\""), "cannot be changed, too"},
		{"no match of a name", "[[rename-index]]\nto = \"b\"\n", "rename-index: match is missing"},
		{"a rename to a star", index(`rename = [{ from = "/mappings/a", to = "/mappings/*" }]`), "a path with *"},
		{"a date in a list", index(`set = [{ path = "/settings/a", value = [1, 2020-01-01] }]`), "write dates as text"},
		{"a date in an object", index(`set = [{ path = "/settings/a", value = { b = 2020-01-01 } }]`), "write dates as text"},
		{"a number that JSON does not have", index(`set = [{ path = "/settings/a", value = nan }]`), "JSON has no NaN"},
		{"an infinite number in a list", index(`set = [{ path = "/settings/a", value = [-inf] }]`), "JSON has no -Inf"},
		{"a path of another section", index(`drop = ["/warmers/a"]`), "does not look like"},
		{"a path that does not start with a slash", index(`drop = ["x/settings/a"]`), "does not look like"},
		{"a path with an empty part", index(`drop = ["/mappings//a"]`), "does not look like"},
		{"an unknown key beside a value", index(`set = [{ path = "/settings/a", value = 1, other = { b = { c = 1 } } }]`), "key index.set.other"},
		{"an error in a table that is indented", "\n  [[index]]\n  match = \"a\"\n", "rules.toml:2: index"},
		{"a file that is too large", strings.Repeat("#", maxFile+1), "are more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("rules.toml", []byte(c.text))
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want %s", err, c.words)
			}
		})
	}
	if _, err := Parse("rules.toml", []byte(strings.Repeat("#", maxFile))); err != nil {
		t.Errorf("a file of the largest size: %v", err)
	}
}

func TestConditionsAtTheirEdges(t *testing.T) {
	for _, c := range []struct {
		where string
		yes   []string
		no    []string
	}{
		{`{field="a",equals=5}`, []string{`[[],5]`, `[[1],5]`, `[[[]],[5]]`, `5,"a":6`, `6,"a":5`}, []string{`[[],[1]]`}},
		{`{field="a",equals=-5}`, []string{`-5`, `-5.0`}, []string{`5`, `"-5"`}},
		{`{field="a",equals=""}`, []string{`""`}, []string{`12`, `"x"`, `null`}},
		{`{field="a",prefix=""}`, []string{`""`, `"x"`}, []string{`1`, `{}`, `true`}},
		{`{field="a",prefix="a\""}`, []string{`"a\""`, `"a\"b"`}, []string{`"a"`, `"a\\"`}},
		{`{field="a",gte=1}`, []string{`1`, `1e999`}, []string{`"1"`, `true`, `{}`, `-1e999`}},
		{`{field="a",lt=5.5}`, []string{`5`, `-1e999`}, []string{`NaN`, `Infinity`, `"1"`}},
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
}

func TestOnlyTheFieldItselfIsFound(t *testing.T) {
	for _, c := range []struct{ rule, before, after string }{
		{`drop = ["b"]`, `{"\u0062":1}`, `{}`},
		{`drop = ["a.b"]`, `{"x":{"b":1}}`, `{"x":{"b":1}}`},
		{`drop = ["abc.d"]`, `{"ab":{".d":1},"abc":{"d":1}}`, `{"ab":{".d":1},"abc":{}}`},
		{`drop = ["a"]`, `{"a":1,`, `error: no string at byte 7`},
		{`drop = ["a"]`, `{"a":`, `error: the text ends at byte 5`},
		{`rename = [{from="a",to="b"}]`, `{"a":1`, `error: no comma or } at byte 6`},
		{`copy = [{from="a",to="b"}]`, `{"a":1`, `error: no comma or } at byte 6`},
		{`copy = [{from="a",to="b"}]`, `{"b":1`, `error: no comma or } at byte 6`},
		{`copy = [{from="a",to="b"}]`, `{"c":"b`, `error: a string without end at byte 5`},
	} {
		if got := apply(t, c.rule, c.before); got != c.after {
			t.Errorf("%s of %s is %s, not %s", c.rule, c.before, got, c.after)
		}
	}
	for _, c := range []struct {
		b, s string
		want bool
	}{{"a", "a", true}, {"ab", "ab", true}, {"xab", "ab", true}, {"xxa", "ab", false}, {"xa", "abc", false}, {"aab", "ab", true}, {"", "a", false}} {
		if got := contains([]byte(c.b)[:len(c.b):len(c.b)], c.s); got != c.want {
			t.Errorf("%q in %q: %v", c.s, c.b, got)
		}
	}
}

func TestADocumentThatHoldsTheNameOnlyIsNotCopied(t *testing.T) {
	for _, rule := range []string{`drop = ["a"]`, `rename = [{from="a",to="b"}]`, `copy = [{from="a",to="b"}]`} {
		source := []byte(`{"x":{"a":1}}`)
		d := doc.Document{Source: source}
		if keep, err := parse(t, "[[document]]\nmatch = \"*\"\n"+rule+"\n").Documents("x").Edit(&d, 0); err != nil || !keep || &d.Source[0] != &source[0] {
			t.Errorf("%s: keep %v, %v, now %s", rule, keep, err, d.Source)
		}
	}
}

func TestEditsUseTheirBuffersAgain(t *testing.T) {
	e := parse(t, "[[document]]\nmatch = \"*\"\ndrop = [\"a\"]\nrename = [{from=\"b\",to=\"c\"}]\n").Documents("x")
	source := []byte(`{"a":1,"b":2}`)
	d := doc.Document{}
	if n := testing.AllocsPerRun(100, func() {
		d.Source = source
		if keep, err := e.Edit(&d, 0); !keep || err != nil || string(d.Source) != `{"c":2}` {
			t.Fatalf("%s, %v", d.Source, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTargets(t *testing.T) {
	s := parse(t, `
[[document]]
match = "regex:logs-(.*)"
where = {field="level", equals="debug"}
index = "debug-$1"
[[document]]
match = "logs-*"
drop = ["x"]
[[document]]
match = "logs-1"
index = "debug-1"
[[document]]
match = "logs-1"
index = "all"
`)
	for index, want := range map[string][]string{"logs-1": {"debug-1", "all"}, "logs-2": {"debug-2"}, "other": nil} {
		if got := s.Targets(index); !slices.Equal(got, want) {
			t.Errorf("%s: %v; want %v", index, got, want)
		}
	}
	var none *Set
	if none.Targets("logs-1") != nil {
		t.Error("no rules send documents elsewhere")
	}
	if s := parse(t, "[[document]]\nmatch = \"*\"\ndrop = [\"x\"]\n"); s.Targets("a") != nil {
		t.Error("a rule without an index sends documents elsewhere")
	}
}
