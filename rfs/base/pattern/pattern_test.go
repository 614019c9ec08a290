package pattern

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		matches    []string
		others     []string
		exact      bool
	}{
		{"a name matches itself alone", "logs", []string{"logs"}, []string{"log", "logs2", "xlogs", ""}, true},
		{"a dot is a dot", "a.b", []string{"a.b"}, []string{"axb"}, true},
		{"a star is any text, also none", "logs-*", []string{"logs-", "logs-1", "logs-a-b"}, []string{"logs", "xlogs-1"}, false},
		{"a question mark is one character", "logs-?", []string{"logs-1", "logs-ä"}, []string{"logs-", "logs-12"}, false},
		{"a regular expression matches the whole name", `regex:metrics-\d{1,2}`, []string{"metrics-1", "metrics-12"}, []string{"metrics-123", "xmetrics-1"}, false},
		{"alternatives are matched whole", "regex:a|bc", []string{"a", "bc"}, []string{"ab", "xbc", "ac"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Parse(c.text)
			if err != nil || p.exact != c.exact || p.String() != c.text {
				t.Fatalf("%v, exact %v, %v", p, p.exact, err)
			}
			for _, name := range c.matches {
				if !p.Match(name) {
					t.Errorf("%q is not matched", name)
				}
			}
			for _, name := range c.others {
				if p.Match(name) {
					t.Errorf("%q is matched", name)
				}
			}
		})
	}
	if (Pattern{}).Match("") {
		t.Error("the zero pattern matches")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "is missing"},
		{"an empty expression", "regex:", "is missing"},
		{"a broken expression", "regex:(", "missing closing"},
		{"an expression without its prefix", "^logs-(.*)$", "regex:^logs-(.*)$"},
		{"a class without its prefix", "logs-[0-9]", "write regex:logs-[0-9]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse(c.text); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not contain %q", err, c.want)
			}
			if _, err := ParseList([]string{"a", c.text}); c.text != "" && !errors.Is(err, fault.ErrConfig) {
				t.Errorf("in a list: %v", err)
			}
		})
	}
}

func TestSelection(t *testing.T) {
	parse := func(entries ...string) List {
		l, err := ParseList(entries)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, c := range []struct {
		name             string
		include, exclude List
		want             []string
	}{
		{"nothing is named", nil, nil, []string{"logs-1", "logs-2", "orders", "a,b"}},
		{"commas separate names", parse("logs-1, orders,"), nil, []string{"logs-1", "orders"}},
		{"a comma belongs to an expression", parse("regex:a,b"), nil, []string{"a,b"}},
		{"what is excluded is left out of everything", nil, parse("logs-*"), []string{"orders", "a,b"}},
		{"exclusion wins over a name", parse("logs-*", "orders"), parse("logs-2", "regex:o.*"), []string{"logs-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, name := range []string{"logs-1", "logs-2", "orders", "a,b"} {
				if (Selection{c.include, c.exclude}).Match(name) {
					got = append(got, name)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	s := Selection{Include: parse("logs-1", "x", "y-*", "regex:z")}
	if got := s.Missing([]string{"logs-1"}); !slices.Equal(got, []string{"x"}) {
		t.Errorf("missing %q", got)
	}
	if !s.Include.Exact("x") || s.Include.Exact("y-*") || s.Include.Exact("z") {
		t.Error("only names are exact")
	}
	if got := s.Include.Strings(); !slices.Equal(got, []string{"logs-1", "x", "y-*", "regex:z"}) {
		t.Errorf("%q", got)
	}
}

// TestSelection_Names: only a selection of given names has them.
func TestSelection_Names(t *testing.T) {
	for _, c := range []struct {
		name             string
		include, exclude []string
		want             []string
	}{
		{"names", []string{"a", "b"}, nil, []string{"a", "b"}},
		{"all", nil, nil, nil},
		{"a pattern among names", []string{"a", "b-*"}, nil, nil},
		{"names without others", []string{"a", "b"}, []string{"b"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			include, err := ParseList(c.include)
			if err != nil {
				t.Fatal(err)
			}
			exclude, err := ParseList(c.exclude)
			if err != nil {
				t.Fatal(err)
			}
			if got := (Selection{include, exclude}).Names(); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
