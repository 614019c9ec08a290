// Package metadata converts the metadata of a snapshot to a form that the target accepts: settings, mappings and aliases of indices,
// and templates, pipelines, scripts and policies of Elasticsearch 1.x–9.x and OpenSearch 1–3. It applies small named rules, and reports
// every change and omission. The package sends no requests.
package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/rules"
)

// Index is the metadata of one index in a snapshot.
type Index struct {
	Name     string
	Settings map[string]string // flat, every key starts with "index."; elements of lists end in ".0", ".1", …
	Mappings []Mapping
	Aliases  json.RawMessage // object by alias name; nil for none
}

// Mapping is the mapping of one type; Body is the value of the type's name.
type Mapping struct {
	Type string
	Body json.RawMessage
}

// Wanted describes an index to create on the target.
type Wanted struct {
	Name  string // on the target
	Index Index
	// Type selects the mapping of one type; "" selects the union of all.
	Type string
	// Join is the field that relates documents of several types; nil: none.
	Join *Join
	// Overrides are the user's overrides for all indices, except for renaming: the caller sets Name (Overrides.Names).
	Overrides Overrides
	// Rules are the user's own changes, which are applied last; nil: none.
	Rules *rules.Set
}

// Change is one difference between the index in the snapshot and the created index.
type Change struct {
	Index  string // on the target
	Rule   string // stable name of the rule, such as string-to-text
	Path   string // of a field (a.b), a setting (index.codec) or an alias
	Detail string // the change that was made
	// Lossy means that because of this change searches may find less, or something else.
	Lossy bool
}

// Loses reports whether searches may find less, or something else, than at the source.
func (c Change) Loses() bool { return c.Lossy || losing(c.Rule) }

// Converted is the converted form of an index.
type Converted struct {
	Body    []byte          // of the request that creates it, with the aliases that are set immediately
	Late    json.RawMessage // aliases by name that wait for the documents; nil: none
	Changes []Change
}

// ConvertIndex returns the request that creates an index, and the changes. It sends no request: types of
// plugins stay, and objects.Ensure replaces them if the target rejects them.
func ConvertIndex(v target.Version, w Wanted) (Converted, error) {
	return ConvertFor(v, w, NewUnsupported())
}

// ConvertFor is ConvertIndex without the features that the target reported as unsupported.
func ConvertFor(v target.Version, w Wanted, unsupported *Unsupported) (Converted, error) {
	e := newEdit(v, w.Name, w.Index.Settings["index.version.created"], w.Overrides.Without, unsupported)
	settings := e.settings(w.Index.Settings)
	e.sourceOnly = w.Index.Settings[sourceOnly] == "true"
	e.joined = w.Join != nil
	mapping, err := e.mapping(w)
	if err != nil {
		return Converted{}, err
	}
	mapping = e.join(mapping, w.Join)
	aliases, err := e.aliases(w.Index.Aliases)
	if err != nil {
		return Converted{}, err
	}
	out := e.body(settings, mapping, aliases)
	out["settings"] = settings
	e.override(w.Overrides, w.Index.Name, settings)
	e.ofTarget(settings)
	for _, done := range w.Rules.EditIndex(w.Index.Name, out) {
		e.note("user-rule", done.Path, "%s", done.Detail)
	}
	var done Converted
	if all, ok := out["aliases"].(map[string]any); ok {
		early, late := splitAliases(all, w.Overrides.Aliases)
		if delete(out, "aliases"); len(early) > 0 {
			out["aliases"] = early
		}
		if len(late) > 0 {
			if done.Late, err = json.Marshal(late); err != nil {
				return done, fmt.Errorf("encode: %w", err)
			}
		}
	}
	if done.Body, err = json.Marshal(out); err != nil {
		return done, fmt.Errorf("encode: %w", err)
	}
	done.Changes = e.changes
	return done, nil
}

// body assembles the converted parts of an index or a template, without empty parts. It also applies the changes that one part
// requires in another (vectors require a setting).
func (e *edit) body(settings, mapping, aliases map[string]any) map[string]any {
	if settings == nil {
		settings = map[string]any{}
	}
	e.betweenParts(settings)
	e.malformedBooleans(settings, mapping)
	out := map[string]any{}
	for name, part := range map[string]map[string]any{"settings": settings, "mappings": mapping, "aliases": aliases} {
		if len(part) > 0 {
			out[name] = part
		}
	}
	return out
}

// edit collects the changes to one index or template.
type edit struct {
	version     target.Version
	index       string
	unsupported *Unsupported
	joined      bool // a join field replaces _parent
	sourceOnly  bool // the index comes from a source-only snapshot
	created     int  // major version of Elasticsearch that created the index
	exactly     int  // the number in index.version.created; 0 if unknown
	without     map[string]bool
	changes     []Change
	details     map[string]string // of the changes, each once

	vectors bool           // the index has searchable vectors
	moved   map[string]any // settings that move to the mapping
	gone    []string       // similarities whose definitions were dropped
}

// newEdit starts an edit; created is the setting index.version.created.
func newEdit(v target.Version, name, created string, without []string, unsupported *Unsupported) *edit {
	e := &edit{version: v, index: name, unsupported: unsupported, created: createdMajor(created), without: map[string]bool{}, moved: map[string]any{}}
	e.exactly, _ = strconv.Atoi(created) //nolint:errcheck // 0 if it is not a number
	for _, rule := range without {
		e.without[rule] = true
	}
	return e
}

// on reports whether a rule is applied.
func (e *edit) on(rule string) bool { return !e.without[rule] }

// createdMajor returns the major version in index.version.created: 2040699 is 2.4.6. Since Elasticsearch 8.11 the number is a version
// of the index format (8500003). OpenSearch, forked from version 7, sets bit 27.
func createdMajor(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1_000_000 || n&(1<<27) != 0 {
		return 7
	}
	return n / 1_000_000
}

func (e *edit) note(rule, path, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	if known, ok := e.details[detail]; ok {
		detail = known // shared by up to 300,000 fields with the same change
	} else if e.details == nil {
		e.details = map[string]string{detail: detail}
	} else {
		e.details[detail] = detail
	}
	e.changes = append(e.changes, Change{Index: e.index, Rule: rule, Path: path, Detail: detail})
}

// lose is note for a change that may make searches find less, or something else.
func (e *edit) lose(rule, path, format string, args ...any) {
	e.note(rule, path, format, args...)
	e.changes[len(e.changes)-1].Lossy = true
}

// since reports whether the target is an OpenSearch of at least that version.
func (e *edit) since(major, minor int) bool {
	v := e.version
	return v.Distribution == "opensearch" && (v.Major > major || v.Major == major && v.Minor >= minor)
}

// DecodeObject returns a JSON object with exact numbers, or a fault.ErrCorrupt error.
func DecodeObject(raw json.RawMessage) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return nil, fault.Corrupt("", "", -1, "not a JSON object: %w", err)
	}
	return m, nil
}
