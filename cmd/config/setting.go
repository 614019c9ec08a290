// Package config declares the settings of rfsd and rfsctl. A group of settings is a struct (Repository, Cluster, Bulk …); a
// struct tag of each field declares its flag, default, bounds and help. A command is a struct of groups (Migrate, Estimate
// …). From these structs reflection derives the flags of a command, their RFS_ variables, the keys of the configuration
// file, the settings that a fleet shares, the masked values, and docs/SETTINGS.md.
package config

import (
	"fmt"
	"reflect"
	"slices"
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

// Settings returns what the groups in a command's struct declare, in their order. It panics on a declaration that is wrong.
func Settings(options any) []Setting {
	t := reflect.TypeOf(options)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return declared(t, "", "", nil, nil)
}

// declared collects the settings of a struct. What a field does not declare is taken from the marker of its group, then from
// the field that holds the group, so that one struct (Cluster) can be the target, the source, or the coordinator.
func declared(t reflect.Type, prefix, help string, outer []reflect.StructTag, index []int) (all []Setting) {
	if marker, ok := t.FieldByName("_"); ok {
		outer = append(slices.Clone(outer), marker.Tag)
	}
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clone(index), i)
		name, isSetting := f.Tag.Lookup("flag")
		switch {
		case f.Name == "_" || !f.IsExported():
		case isSetting:
			all = append(all, newSetting(f, prefix+name, help, outer, at))
		case f.Type.Kind() == reflect.Struct:
			tags := outer
			if _, ok := f.Tag.Lookup("group"); ok {
				tags = append(slices.Clone(outer), f.Tag)
			}
			all = append(all, declared(f.Type, prefix+f.Tag.Get("prefix"), f.Tag.Get("help"), tags, at)...)
		}
	}
	return all
}

func newSetting(f reflect.StructField, name, help string, outer []reflect.StructTag, index []int) Setting {
	tag := func(key string) string {
		if v, ok := f.Tag.Lookup(key); ok {
			return v
		}
		for _, t := range slices.Backward(outer) {
			if v, ok := t.Lookup(key); ok {
				return v
			}
		}
		return ""
	}
	s := Setting{
		Name: name, Alias: f.Tag.Get("alias"), Group: tag("group"), Section: tag("section"), Kind: kindOf(f.Type),
		Default: f.Tag.Get("default"), Help: f.Tag.Get("help"), Secret: secret.Option(name),
		Hidden: f.Tag.Get("hidden") == "yes",
		min:    f.Tag.Get("min"), max: f.Tag.Get("max"), oneOf: f.Tag.Get("oneof"), check: f.Tag.Get("check"), want: f.Tag.Get("want"),
		noVariable: tag("variable") == "none", offLine: f.Tag.Get("line") == "no", field: f.Type, index: index,
	}
	if s.Help == "" {
		s.Help = help
	}
	if strings.Contains(s.Help, "{") {
		s.Help = strings.NewReplacer("{variable}", strings.TrimSuffix(s.Variable(), "_FILE"), "{prefix}", strings.TrimSuffix(name, f.Tag.Get("flag"))).Replace(s.Help)
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
