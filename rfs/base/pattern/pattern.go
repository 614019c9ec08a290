// Package pattern matches names of indices and templates against patterns of the user. Every option that selects names uses it, so that one
// syntax works everywhere:
//
//	logs-2024        exactly this name
//	logs-*           * is any text, ? is one character
//	regex:logs-\d+   a regular expression (RE2) that has to match the whole name
package pattern

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// prefix marks a regular expression.
const prefix = "regex:"

// Pattern is one entry of an option. Its zero value matches nothing.
type Pattern struct {
	text  string
	exact bool
	re    *regexp.Regexp // of the whole name
}

// Parse parses one entry. It returns fault.ErrConfig for an entry that looks like a regular expression but lacks the prefix: as a name it
// would silently match nothing.
func Parse(text string) (Pattern, error) {
	p := Pattern{text: text}
	expr, isRegexp := strings.CutPrefix(text, prefix)
	switch {
	case expr == "":
		return p, fmt.Errorf("a name or pattern is missing: want NAME, a pattern such as logs-*, or regex:PATTERN: %w", fault.ErrConfig)
	case isRegexp:
	case strings.ContainsAny(text, `^$()[]{}|\`):
		return p, fmt.Errorf("pattern %q looks like a regular expression: write %s%s, or use * for any text and ? for one character: %w", text, prefix, text, fault.ErrConfig)
	default:
		p.exact = !strings.ContainsAny(text, "*?")
		expr = strings.NewReplacer(`\*`, `(.*)`, `\?`, `(.)`).Replace(regexp.QuoteMeta(text))
	}
	var err error
	if p.re, err = regexp.Compile("^(?:" + expr + ")$"); err != nil {
		return p, fmt.Errorf("pattern %q: %w: %w", text, err, fault.ErrConfig)
	}
	return p, nil
}

// Star reports whether a name matches a pattern of a template or policy, where only * is special.
func Star(pattern, name string) bool {
	quoted := strings.NewReplacer(`\`, `\\`, `?`, `\?`, `[`, `\[`).Replace(pattern)
	// path.Match stops * at slashes, which names of indices do not contain.
	ok, err := path.Match(quoted, name)
	return ok && err == nil
}

// Match reports whether the pattern matches the whole name.
func (p Pattern) Match(name string) bool { return p.re != nil && p.re.MatchString(name) }

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// MarshalText returns the pattern as it was written.
func (p Pattern) MarshalText() ([]byte, error) { return []byte(p.text), nil }

// UnmarshalText parses a pattern like Parse.
func (p *Pattern) UnmarshalText(text []byte) (err error) {
	*p, err = Parse(string(text))
	return err
}

// Regexp returns the expression that the whole name has to match. Each * and ? is a group in it.
func (p Pattern) Regexp() *regexp.Regexp { return p.re }

// List is a list of patterns.
type List []Pattern

// ParseList parses the entries of an option. An entry may contain several names or patterns separated by commas; a regular expression is
// used unchanged, including commas.
func ParseList(entries []string) (List, error) {
	var l List
	for _, entry := range entries {
		words := strings.Split(entry, ",")
		if strings.HasPrefix(entry, prefix) {
			words = []string{entry}
		}
		for _, word := range words {
			if word = strings.TrimSpace(word); word == "" {
				continue
			}
			p, err := Parse(word)
			if err != nil {
				return nil, err
			}
			l = append(l, p)
		}
	}
	return l, nil
}

// Match reports whether any pattern matches the name.
func (l List) Match(name string) bool {
	for _, p := range l {
		if p.Match(name) {
			return true
		}
	}
	return false
}

// Exact reports whether the name itself is in the list, not only matched by a pattern.
func (l List) Exact(name string) bool {
	for _, p := range l {
		if p.exact && p.text == name {
			return true
		}
	}
	return false
}

// Strings returns the patterns as they were written.
func (l List) Strings() []string {
	var all []string
	for _, p := range l {
		all = append(all, p.text)
	}
	return all
}

// Selection selects names: Include matches and Exclude does not. An empty Include matches every name.
type Selection struct{ Include, Exclude List }

// Match reports whether the name is selected.
func (s Selection) Match(name string) bool {
	return (len(s.Include) == 0 || s.Include.Match(name)) && !s.Exclude.Match(name)
}

// Names returns the selected names if each is given exactly, and nil otherwise.
func (s Selection) Names() []string {
	if len(s.Exclude) > 0 || slices.ContainsFunc(s.Include, func(p Pattern) bool { return !p.exact }) {
		return nil
	}
	return s.Include.Strings()
}

// Missing returns the exact names of Include that are not among names.
func (s Selection) Missing(names []string) []string {
	have := make(map[string]bool, len(names))
	for _, n := range names {
		have[n] = true
	}
	var missing []string
	for _, p := range s.Include {
		if p.exact && !have[p.text] {
			missing = append(missing, p.text)
		}
	}
	return missing
}
