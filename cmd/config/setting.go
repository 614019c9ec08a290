// Package config declares the settings of rfsd and rfsctl. A group of settings is a struct (Repository, Cluster, Bulk …); a
// struct tag of each field declares its flag, default, bounds and help. A command is a struct of groups (Migrate, Estimate
// …). From these structs reflection derives the flags of a command, their RFS_ variables, the keys of the configuration
// file, the settings that a fleet shares, the masked values, and docs/SETTINGS.md.
package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/secret"
)

// Kind is the type of a setting's value.
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

// Setting is the declaration of a setting by a field of a group.
type Setting struct {
	Name    string // of the flag, and the key in the file
	Alias   string // one letter, or ""
	Group   string // heading under which help and docs list it
	Section string // table of the configuration file; "": the file does not take it
	Kind    Kind
	Default string // as it would be given; "": none
	Help    string
	Secret  bool // never shown, shared, or taken from the file
	Hidden  bool

	min, max, oneOf, check, want string
	empty                        string // name of the empty value
	noVariable                   bool
	offLine                      bool // refused on the command line, which other users of the machine see
	field                        reflect.Type
	index                        []int
}

// Variable returns the environment variable of a name.
func Variable(name string) string {
	return "RFS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Variable returns the environment variable of the setting, "" for none.
func (s Setting) Variable() string {
	if s.noVariable {
		return ""
	}
	return Variable(s.Name)
}

// Placeholder returns the word that represents a value of the type of the setting.
func (s Setting) Placeholder() string {
	switch {
	case s.field == durationType:
		return "DURATION"
	case s.Kind == Number, s.field == reflect.TypeFor[Limit]():
		return "N"
	case s.Kind == Text && s.field.Kind() == reflect.Int64:
		return "SIZE"
	case s.check == "url", s.check == "file":
		return strings.ToUpper(s.check)
	}
	return "VALUE"
}

// Choices returns the values that a setting may have; nil: any.
func (s Setting) Choices() []string {
	return slices.DeleteFunc(s.alternatives(), func(text string) bool { return text == "" })
}

// Settings returns what the groups in a command's struct declare, in their order. It panics on a declaration that is wrong.
func Settings(options any) []Setting {
	t := reflect.TypeOf(options)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	all := make([]Setting, 0, count(t))
	return declared(all, t, "", "", nil, nil)
}

// count returns how many settings a struct declares.
func count(t reflect.Type) (n int) {
	for i := range t.NumField() {
		f := t.Field(i)
		if _, isSetting := f.Tag.Lookup("flag"); isSetting {
			n++
		} else if f.Type.Kind() == reflect.Struct && f.IsExported() {
			n += count(f.Type)
		}
	}
	return n
}

// tags are the keys and values of a struct tag, which is parsed once.
type tags []struct{ key, value string }

// parseTags returns the pairs of a tag up to the first mistake, which go vet reports.
func parseTags(tag reflect.StructTag) (all tags) {
	for rest := strings.TrimLeft(string(tag), " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, quoted, ok := strings.Cut(rest, ":")
		if !ok {
			break
		}
		text, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			break
		}
		value, err := strconv.Unquote(text)
		if err != nil {
			break
		}
		all = append(all, struct{ key, value string }{key, value})
		rest = quoted[len(text):]
	}
	return all
}

func (t tags) lookup(key string) (string, bool) {
	for _, x := range t {
		if x.key == key {
			return x.value, true
		}
	}
	return "", false
}

// get returns the value of a key, or "" without it.
func (t tags) get(key string) string {
	value, _ := t.lookup(key)
	return value
}

// declared appends the settings of a struct to all. What a field does not declare is taken from the marker of its group, then from
// the field that holds the group, so that one struct (Cluster) can be the target, the source, or the coordinator.
func declared(all []Setting, t reflect.Type, prefix, help string, outer []tags, index []int) []Setting {
	for i := range t.NumField() {
		if f := t.Field(i); f.Name == "_" {
			outer = append(slices.Clone(outer), parseTags(f.Tag))
			break
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(index), i)
		own := parseTags(f.Tag)
		name, isSetting := own.lookup("flag")
		switch {
		case f.Name == "_" || !f.IsExported():
		case isSetting:
			all = append(all, newSetting(f, own, prefix+name, help, outer, at))
		case f.Type.Kind() == reflect.Struct:
			inner := outer
			if _, ok := own.lookup("group"); ok {
				inner = append(slices.Clone(outer), own)
			}
			all = declared(all, f.Type, prefix+own.get("prefix"), own.get("help"), inner, at)
		}
	}
	return all
}

func newSetting(f reflect.StructField, own tags, name, help string, outer []tags, index []int) Setting {
	tag := func(key string) string {
		if v, ok := own.lookup(key); ok {
			return v
		}
		for _, t := range slices.Backward(outer) {
			if v, ok := t.lookup(key); ok {
				return v
			}
		}
		return ""
	}
	s := Setting{
		Name: name, Alias: own.get("alias"), Group: tag("group"), Section: tag("section"), Kind: kindOf(f.Type),
		Default: own.get("default"), Help: own.get("help"), Secret: secret.Option(name),
		Hidden: own.get("hidden") == "yes",
		min:    own.get("min"), max: own.get("max"), oneOf: own.get("oneof"), check: own.get("check"), want: own.get("want"), empty: own.get("empty"),
		noVariable: tag("variable") == "none", offLine: own.get("line") == "no", field: f.Type, index: index,
	}
	if s.Help == "" {
		s.Help = help
	}
	if strings.Contains(s.Help, "{") {
		s.Help = strings.NewReplacer("{variable}", strings.TrimSuffix(s.Variable(), "_FILE"), "{prefix}", strings.TrimSuffix(name, own.get("flag"))).Replace(s.Help)
	}
	if s.Section == "none" {
		s.Section = ""
	}
	if s.Default != "" {
		if err := s.set(reflect.New(f.Type).Elem(), []string{s.Default}); err != nil {
			panic(fmt.Sprintf("the default of --%s: %v", name, err))
		}
	}
	return s
}

// Find returns the setting of a name.
func Find(all []Setting, name string) (Setting, bool) {
	i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })
	if i < 0 {
		return Setting{}, false
	}
	return all[i], true
}

// Values are settings by name as texts; a List has any number of them, anything else one.
type Values map[string][]string

// Over returns v with what only lower has.
func (v Values) Over(lower Values) Values {
	all := make(Values, len(v)+len(lower))
	for _, layer := range []Values{lower, v} {
		for name, texts := range layer {
			all[name] = texts
		}
	}
	return all
}

// Of returns those values that are of one of the settings.
func (v Values) Of(settings []Setting) Values {
	all := Values{}
	for _, s := range settings {
		if texts, ok := v[s.Name]; ok {
			all[s.Name] = texts
		}
	}
	return all
}

// Text returns the single value of a name, "" when it is not given.
func (v Values) Text(name string) string {
	if texts := v[name]; len(texts) > 0 {
		return texts[0]
	}
	return ""
}
