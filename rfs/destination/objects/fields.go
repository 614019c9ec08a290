package objects

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// FieldDifference is a field that an index of the target maps to another type than requested, or lacks.
type FieldDifference struct {
	Field string // its full name
	Want  string // its type in the requested mapping
	Has   string // its type in the index; "" if the index lacks the field
	// Path is the path of the field's values in a document. A field of "fields" has the path of its parent, and an alias the path of
	// its target.
	Path []string
}

// maxFieldDifferences limits the fields that FieldDifferences returns.
const maxFieldDifferences = 1000

// FieldDifferences compares the field types in the body of a request that creates an index (metadata.Converted.Body) with the mapping
// of an index. It returns at most 1000 differences, sorted by name. It ignores fields that only the index has, and properties that are
// not fields, such as _meta and dynamic. It also ignores fields that the index lacks only because it maps no further fields (dynamic:
// false). It returns fault.ErrCorrupt if either argument is not a JSON object.
func FieldDifferences(asked, mapping []byte) ([]FieldDifference, error) {
	want, err := metadata.DecodeObject(asked)
	if err != nil {
		return nil, fmt.Errorf("the requested definition: %w", err)
	}
	have := map[string]any{}
	if len(mapping) > 0 {
		if have, err = metadata.DecodeObject(mapping); err != nil {
			return nil, fmt.Errorf("what the target has: %w", err)
		}
	}
	var c fieldComparison
	c.compare(nil, expanded(metadata.Part(want, "mappings")), expanded(untyped(have)), dynamics{})
	return c.found, nil
}

// FieldTypes returns the types of all fields, by full name, in the body of a request that creates an index (metadata.Converted.Body).
// It returns fault.ErrCorrupt if asked is not a JSON object.
func FieldTypes(asked []byte) (map[string]string, error) {
	body, err := metadata.DecodeObject(asked)
	if err != nil {
		return nil, fmt.Errorf("the requested definition: %w", err)
	}
	all := map[string]string{}
	var collect func(prefix string, object map[string]any, key string)
	collect = func(prefix string, object map[string]any, key string) {
		for name, v := range metadata.Part(object, key) {
			if f, ok := v.(map[string]any); ok {
				all[prefix+name] = fieldType(f)
				collect(prefix+name+".", f, "properties")
				collect(prefix+name+".", f, "fields")
			}
		}
	}
	collect("", expanded(metadata.Part(body, "mappings")), "properties")
	return all, nil
}

// untyped returns the mapping of the only type if the target has mapping types, else mapping.
func untyped(mapping map[string]any) map[string]any {
	if len(mapping) == 1 {
		for name, v := range mapping {
			if inner, ok := v.(map[string]any); ok && name != "properties" && name != "runtime" && metadata.Part(inner, "properties") != nil {
				return inner
			}
		}
	}
	return mapping
}

type fieldComparison struct{ found []FieldDifference }

func (c *fieldComparison) add(d FieldDifference) {
	if len(c.found) < maxFieldDifferences {
		c.found = append(c.found, d)
	}
}

// dynamics states whether an object ignores unmapped fields (dynamic: false), as requested and on the target.
type dynamics struct{ want, have bool }

// of returns the dynamics of a nested object; without settings of its own it inherits d from the outer object.
func (d dynamics) of(want, have map[string]any) dynamics {
	for _, x := range []struct {
		object map[string]any
		is     *bool
	}{{want, &d.want}, {have, &d.have}} {
		if v, ok := x.object["dynamic"]; ok {
			*x.is = fmt.Sprint(v) == "false"
		}
	}
	return d
}

// compare compares the fields of an object. It ignores missing fields if only the target has dynamic: false.
func (c *fieldComparison) compare(prefix []string, wanted, had map[string]any, outer dynamics) {
	is := outer.of(wanted, had)
	want, have := metadata.Part(wanted, "properties"), metadata.Part(had, "properties")
	for _, name := range keys(want) {
		w, ok := want[name].(map[string]any)
		if !ok {
			continue
		}
		path := append(slices.Clip(prefix), name)
		d := FieldDifference{Field: strings.Join(path, "."), Want: fieldType(w), Path: path}
		if to, alias := w["path"].(string); alias && d.Want == "alias" {
			d.Path = strings.Split(to, ".")
		}
		h, there := have[name].(map[string]any)
		if there {
			d.Has = fieldType(h)
		}
		if d.Has != d.Want {
			if there || is.want || !is.have {
				c.add(d)
			}
			continue
		}
		c.compare(path, w, h, is)
		c.multi(path, metadata.Part(w, "fields"), metadata.Part(h, "fields"))
	}
}

// multi compares the subfields ("fields") of a field.
func (c *fieldComparison) multi(path []string, want, have map[string]any) {
	for _, name := range keys(want) {
		w, ok := want[name].(map[string]any)
		if !ok {
			continue
		}
		d := FieldDifference{Field: strings.Join(path, ".") + "." + name, Want: fieldType(w), Path: path}
		if h, there := have[name].(map[string]any); there {
			d.Has = fieldType(h)
		}
		if d.Has != d.Want {
			c.add(d)
		}
	}
}

// fieldType returns the type of a field; the default is object.
func fieldType(f map[string]any) string {
	if t, ok := f["type"].(string); ok {
		return t
	}
	return "object"
}
