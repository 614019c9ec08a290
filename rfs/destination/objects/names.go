package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// maxName is the maximum length of the name of an index or a template, in bytes.
const maxName = 255

// CheckName returns fault.ErrConfig if a name in the path of a request could refer to anything but the single object of that name. It
// rejects patterns, lists, exclusions, names with a special meaning to a target, and names that the kind does not allow. kind is
// a metadata.Kind or "index".
func CheckName(kind, name string) error {
	named := kind == "index" || kind == string(metadata.DataStream)
	why := ""
	switch first, _ := utf8.DecodeRuneInString(name); {
	case !named && places[metadata.Kind(kind)].path == "":
		why = "rfsd creates no objects of this kind"
	case name == "":
		why = "it is empty"
	case len(name) > maxName:
		why = fmt.Sprintf("it is longer than %d bytes", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		why = "it has characters that cannot be printed"
	case name == "." || name == ".." || strings.ContainsAny(name, `/\%`):
		why = "it would change the path of the request"
	case strings.ContainsAny(name, `*?,"<>|#`):
		why = "it is a pattern, a list or an expression"
	case strings.ContainsRune("-_+", first):
		why = fmt.Sprintf("it starts with %q", first)
	case named && (name != strings.ToLower(name) || strings.ContainsAny(name, ": ")):
		why = "no index can have it"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("the name %.100q does not identify one %s: %s: %w", name, kind, why, fault.ErrConfig)
}

// Object returns the object itself from answer, the response to a GET request of ObjectPath. It returns fault.ErrRejected if the
// answer contains another object, or several.
func Object(kind metadata.Kind, name string, answer []byte) (json.RawMessage, error) {
	several := func(n int) error {
		return fmt.Errorf("the target answers with %d objects, or another one, when it is asked for the %s %.100q: %w", n, kind, name, fault.ErrRejected)
	}
	var failed error
	decode := func(into any) {
		if err := json.NewDecoder(bytes.NewReader(answer)).Decode(into); err != nil {
			failed = fmt.Errorf("answer about the %s %.100q: %w: %w", kind, name, err, fault.ErrRejected)
		}
	}
	switch kind {
	case metadata.LegacyTemplate, metadata.Pipeline:
		var all map[string]json.RawMessage
		if decode(&all); failed == nil && (len(all) != 1 || all[name] == nil) {
			failed = several(len(all))
		}
		return all[name], failed
	case metadata.ComponentTemplate, metadata.IndexTemplate:
		var all struct {
			Components []struct {
				Name string          `json:"name"`
				Body json.RawMessage `json:"component_template"`
			} `json:"component_templates"`
			Templates []struct {
				Name string          `json:"name"`
				Body json.RawMessage `json:"index_template"`
			} `json:"index_templates"`
		}
		decode(&all)
		switch c, t := all.Components, all.Templates; {
		case failed != nil:
			return nil, failed
		case kind == metadata.ComponentTemplate && len(c) == 1 && c[0].Name == name:
			return c[0].Body, nil
		case kind == metadata.IndexTemplate && len(t) == 1 && t[0].Name == name:
			return t[0].Body, nil
		default:
			return nil, several(len(c) + len(t))
		}
	case metadata.Policy, metadata.StatePolicy, metadata.Script:
		var one struct {
			ID     string          `json:"_id"`
			Policy json.RawMessage `json:"policy"`
			Script json.RawMessage `json:"script"`
		}
		decode(&one)
		switch {
		case failed != nil:
			return nil, failed
		case one.ID != name:
			return nil, several(1)
		case kind != metadata.Script:
			return one.Policy, nil
		}
		return one.Script, nil
	}
	return nil, fmt.Errorf("objects of the kind %.100q are not rfsd's: %w", kind, fault.ErrConfig)
}
