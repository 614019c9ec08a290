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

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/secret"
)

// maxFile bounds the file, in bytes.
const maxFile = 1 << 20

// Load reads a file. Errors are fault.ErrConfig and name file, line and key.
func Load(name string, settings []Setting) (Values, error) {
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
	return Parse(name, string(text), settings)
}

// Parse reads the text of a file of that name: strict TOML whose keys are the names of settings, in their sections.
func Parse(name, text string, settings []Setting) (Values, error) {
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
	p := parser{file: name, lines: lines(text), settings: settings, values: Values{}}
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
	settings []Setting
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
	if names := Tables(p.settings); !slices.Contains(names, name) {
		return p.fail(name, "", "unknown section%s", Suggest(name, names, "; the sections are "+strings.Join(names, ", ")))
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := p.key(name, key, keys[key]); err != nil {
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

// Tables returns the names of the tables of the file, in their order.
func Tables(settings []Setting) (names []string) {
	for _, s := range settings {
		if s.Section != "" && !slices.Contains(names, s.Section) {
			names = append(names, s.Section)
		}
	}
	return names
}

func (p *parser) sectionOf(key string) string {
	s, _ := Find(p.settings, key)
	return s.Section
}

func (p *parser) key(section, name string, value any) error {
	k, ok := Find(p.settings, name)
	switch {
	case !ok || k.Section == "":
		var names []string
		for _, s := range p.settings {
			if s.Section == section && !s.Secret {
				names = append(names, s.Name)
			}
		}
		return p.fail(section, name, "unknown key%s", Suggest(name, names, ""))
	case k.Section != section:
		return p.fail(section, name, "it belongs in [%s]", k.Section)
	case k.Secret:
		return p.fail(section, name, "a secret does not belong in this file: use %s-file, or the variable %s", name, k.Variable())
	}
	texts, ok := textsOf(k.Kind, value)
	if !ok {
		return p.fail(section, name, "takes %s", k.Kind)
	}
	for _, text := range texts {
		if secret.In(name, text) {
			return p.fail(section, name, "a user, password or key does not belong in this file: use the variable %s, or options ending in -file", k.Variable())
		}
	}
	if err := k.Valid(texts); err != nil {
		return p.fail(section, name, "%s", fault.Text(err))
	}
	p.values[name] = texts
	return nil
}

func textsOf(k Kind, value any) ([]string, bool) {
	switch v := value.(type) {
	case string:
		return []string{v}, k == Text || k == List
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

// lines returns the line numbers of sections and keys, for messages. A line inside a string of several lines
// may look like a key. The text was parsed before, so this can only make a line number wrong.
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
