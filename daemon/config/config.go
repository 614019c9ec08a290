// Package config reads the configuration file of a node: strict TOML whose keys are the names of
// the program's flags, in sections. Nothing in it is a secret.
package config

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/secret"
)

// Kind is what a key takes.
type Kind int

// The kinds. A Text takes numbers, too.
const (
	Text Kind = iota
	Number
	Bool
	List
)

func (k Kind) String() string {
	return [...]string{"a string", "a whole number", "true or false", "an array of strings"}[k]
}

// Key is one setting.
type Key struct {
	Name   string
	Kind   Kind
	Usage  string
	Secret bool // it does not belong in the file; shown as *** where it comes from elsewhere
}

// Section is a table of the file.
type Section struct {
	Name string
	Keys []Key
}

// Values are settings by name; a List has any number of them, anything else one.
type Values map[string][]string

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// Load reads a file. Errors are fault.ErrConfig and name file, line and key.
func Load(name string, sections []Section) (Values, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w: %w", err, fault.ErrConfig)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("configuration %s: %w: %w", name, err, fault.ErrConfig)
	case len(text) > maxFile:
		return nil, fmt.Errorf("configuration %s is larger than %d bytes: %w", name, maxFile, fault.ErrConfig)
	}
	return Parse(name, string(text), sections)
}

// Parse reads the text of a file of that name.
func Parse(name, text string, sections []Section) (Values, error) {
	var tables map[string]any
	if _, err := toml.Decode(text, &tables); err != nil {
		var at string
		if perr, ok := err.(toml.ParseError); ok { //nolint:errorlint // the library gives it as it is
			at = ":" + strconv.Itoa(perr.Position.Line)
			err = fmt.Errorf("%s", perr.Message)
			if perr.Message == "" {
				err = perr
			}
		}
		return nil, fmt.Errorf("configuration %s%s: %w: %w", name, at, err, fault.ErrConfig)
	}
	p := parser{file: name, lines: lines(text), sections: sections, values: Values{}}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		if err := p.table(table, tables[table]); err != nil {
			return nil, err
		}
	}
	return p.values, nil
}

type parser struct {
	file     string
	lines    map[string]int // section.key → line
	sections []Section
	values   Values
}

func (p *parser) fail(section, key, format string, args ...any) error {
	place := p.file
	if n := p.lines[section+"."+key]; n > 0 {
		place += ":" + strconv.Itoa(n)
	}
	what := "[" + section + "]"
	if key != "" {
		what += " " + key
	}
	return fmt.Errorf("configuration %s: %s: %s: %w", place, what, fmt.Sprintf(format, args...), fault.ErrConfig)
}

func (p *parser) table(name string, content any) error {
	keys, ok := content.(map[string]any)
	if !ok {
		return p.outside(name)
	}
	i := slices.IndexFunc(p.sections, func(s Section) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range p.sections {
			names = append(names, s.Name)
		}
		return p.fail(name, "", "unknown section%s", suggest(name, names, "; the sections are "+strings.Join(names, ", ")))
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := p.key(p.sections[i], key, keys[key]); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) outside(key string) error {
	place := p.file
	if n := p.lines["."+key]; n > 0 {
		place += ":" + strconv.Itoa(n)
	}
	hint := ""
	if s := p.sectionOf(key); s != "" {
		hint = "; it belongs in [" + s + "]"
	}
	return fmt.Errorf("configuration %s: %s: a key outside of every section%s: %w", place, key, hint, fault.ErrConfig)
}

func (p *parser) sectionOf(key string) string {
	for _, s := range p.sections {
		if slices.ContainsFunc(s.Keys, func(k Key) bool { return k.Name == key }) {
			return s.Name
		}
	}
	return ""
}

func (p *parser) key(s Section, name string, value any) error {
	i := slices.IndexFunc(s.Keys, func(k Key) bool { return k.Name == name })
	if i < 0 {
		if other := p.sectionOf(name); other != "" {
			return p.fail(s.Name, name, "it belongs in [%s]", other)
		}
		var names []string
		for _, k := range s.Keys {
			if !k.Secret {
				names = append(names, k.Name)
			}
		}
		return p.fail(s.Name, name, "unknown key%s", suggest(name, names, ""))
	}
	k := s.Keys[i]
	if k.Secret {
		return p.fail(s.Name, name, "a secret does not belong in this file: use %s-file, or the variable RFS_%s", name, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
	texts, ok := textsOf(k.Kind, value)
	if !ok {
		return p.fail(s.Name, name, "takes %s", k.Kind)
	}
	for _, text := range texts {
		if secret.In(name, text) {
			return p.fail(s.Name, name, "a user, password or key does not belong in this file: use the variable RFS_%s, or options ending in -file", strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		}
	}
	p.values[name] = texts
	return nil
}

func textsOf(k Kind, value any) ([]string, bool) {
	switch v := value.(type) {
	case string:
		return []string{v}, k == Text
	case int64:
		return []string{strconv.FormatInt(v, 10)}, k == Number || k == Text
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}, k == Text
	case bool:
		return []string{strconv.FormatBool(v)}, k == Bool
	case []any:
		texts := make([]string, 0, len(v))
		for _, x := range v {
			s, ok := x.(string)
			if !ok {
				return nil, false
			}
			texts = append(texts, s)
		}
		return texts, k == List
	}
	return nil, false
}

// lines finds where sections and keys stand, for messages. A line inside a string of several
// lines may look like a key; the text was parsed before, so that only a number may be wrong.
func lines(text string) map[string]int {
	at := map[string]int{}
	section, n := "", 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok && !strings.HasPrefix(name, "[") {
			section, _, _ = strings.Cut(name, "]")
			section = strings.Trim(strings.TrimSpace(section), `"'`)
			note(at, section+".", n)
			continue
		}
		if key, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			note(at, section+"."+strings.Trim(strings.TrimSpace(key), `"'`), n)
		}
	}
	return at
}

func note(at map[string]int, key string, line int) {
	if at[key] == 0 {
		at[key] = line
	}
}

// suggest names what was probably meant, or gives otherwise.
func suggest(name string, names []string, otherwise string) string {
	best, least := "", len(name)/2+1
	for _, n := range names {
		if d := distance(name, n); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return otherwise
	}
	return "; did you mean " + best + "?"
}

// distance is how many letters have to be changed, added or taken away.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			last, row[j+1] = row[j+1], min(last+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
