package rules

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/pattern"
)

// patterns are one or more patterns in the syntax of package pattern.
type patterns []string

// UnmarshalTOML accepts a string or a list of strings.
func (p *patterns) UnmarshalTOML(v any) error {
	switch v := v.(type) {
	case string:
		*p = patterns{v}
		return nil
	case []any:
		for _, x := range v {
			s, ok := x.(string)
			if !ok {
				return fmt.Errorf("%v is not a string", x)
			}
			*p = append(*p, s)
		}
		return nil
	}
	return fmt.Errorf("%v is neither a string nor a list of strings", v)
}

// matcher matches the names to which a rule applies.
type matcher pattern.List

func newMatcher(p patterns) (matcher, error) {
	if len(p) == 0 {
		return nil, errors.New(`match is missing ("*" matches every name)`)
	}
	m := make(matcher, 0, len(p))
	for _, s := range p {
		one, err := pattern.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("match: %w", err)
		}
		m = append(m, one)
	}
	return m, nil
}

func (m matcher) matches(name string) bool { return pattern.List(m).Match(name) }

// expand replaces references ($1, ${name}) in a text by the groups of the first matching pattern; false if none matches.
func (m matcher) expand(name, text string) (string, bool) {
	for _, p := range m {
		re := p.Regexp()
		if at := re.FindStringSubmatchIndex(name); at != nil {
			return string(re.ExpandString(nil, text, name, at)), true
		}
	}
	return "", false
}

// reference is a reference to a group in the text of a rule, in the syntax of regexp.Expand.
var reference = regexp.MustCompile(`\$(\$|\{\w+\}|\w+)`)

// checkGroups returns an error for references to groups that a pattern does not have, which would expand to nothing.
func (m matcher) checkGroups(text string) error {
	for _, ref := range reference.FindAllStringSubmatch(text, -1) {
		name := strings.Trim(ref[1], "{}")
		if name == "$" {
			continue
		}
		for _, p := range m {
			re := p.Regexp()
			const mark = "\x00"
			at := make([]int, 2*(re.NumSubexp()+1))
			for i := range at {
				at[i] = i % 2
			}
			if string(re.ExpandString(nil, "${"+name+"}", mark, at)) != mark {
				return fmt.Errorf("%q refers to a group %s that %s does not have (write ${1} before letters and digits)", text, name, re)
			}
		}
	}
	return nil
}
