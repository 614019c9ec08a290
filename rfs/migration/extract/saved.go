package extract

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// savedType describes a type of saved objects that OpenSearch Dashboards imports.
type savedType struct {
	// version is the last migration version that OpenSearch Dashboards accepts; "": it accepts none. It rejects an object with a later one.
	version string
	// attributes are the attributes in the mapping of OpenSearch Dashboards; nil: any.
	attributes []string
}

// savedTypes are the types of OpenSearch Dashboards 1.0 and later, which was forked from Kibana 7.10.2.
var savedTypes = map[string]savedType{
	"index-pattern": {version: "7.6.0"},
	"visualization": {"7.10.0", []string{"description", "kibanaSavedObjectMeta", "savedSearchRefName", "title", "uiStateJSON", "version", "visState"}},
	"dashboard": {"7.9.3", []string{
		"description", "hits", "kibanaSavedObjectMeta", "optionsJSON", "panelsJSON", "refreshInterval", "timeFrom", "timeRestore", "timeTo", "title", "version",
	}},
	"search": {"7.9.3", []string{"columns", "description", "hits", "kibanaSavedObjectMeta", "sort", "title", "version"}},
	"query":  {"", []string{"description", "filters", "query", "timefilter", "title"}},
	"url":    {"", []string{"accessCount", "accessDate", "createDate", "url"}},
}

// saved is a line of a file that OpenSearch Dashboards imports.
type saved struct {
	ID               string                     `json:"id"`
	Type             string                     `json:"type"`
	Attributes       map[string]json.RawMessage `json:"attributes"`
	References       []reference                `json:"references"`
	MigrationVersion map[string]string          `json:"migrationVersion"`
	UpdatedAt        string                     `json:"updated_at,omitempty"`

	space   string   // Kibana space; "": the default space
	dropped []string // attributes left out
}

type reference struct {
	Name string `json:"name"`
	Type string `json:"type"`
	ID   string `json:"id"`
}

// stored is a document of an index of Kibana or OpenSearch Dashboards, without the attributes, which are stored under the name of the type.
type stored struct {
	Type       string            `json:"type"`
	Space      string            `json:"namespace"`
	References []reference       `json:"references"`
	Migrated   map[string]string `json:"migrationVersion"`
	MigratedTo string            `json:"typeMigrationVersion"` // Kibana 8.8 and later
	UpdatedAt  string            `json:"updated_at"`
}

// readSaved returns the saved object in a document and its type. s is nil if the type is not imported. Up to Kibana 5 the mapping type is
// the object's type and the whole source holds its attributes. Errors: fault.ErrCorrupt.
func readSaved(id, mappingType string, source []byte) (kind string, s *saved, err error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(source, &all); err != nil {
		return "", nil, fmt.Errorf("saved object %.200q: %w: %w", id, err, fault.ErrCorrupt)
	}
	in, attributes := stored{Type: mappingType}, all
	if _, old := savedTypes[mappingType]; !old {
		in.Type = ""
		if err := json.Unmarshal(source, &in); err != nil {
			return "", nil, fmt.Errorf("saved object %.200q: %w: %w", id, err, fault.ErrCorrupt)
		}
		id = strings.TrimPrefix(strings.TrimPrefix(id, in.Space+":"), in.Type+":")
	}
	known, imported := savedTypes[in.Type]
	if !imported {
		return in.Type, nil, nil
	}
	if in.Type != mappingType {
		attributes = nil
		if raw := all[in.Type]; len(raw) == 0 || json.Unmarshal(raw, &attributes) != nil {
			return in.Type, nil, fmt.Errorf("saved object %.200q has no attributes: %w", id, fault.ErrCorrupt)
		}
	}
	s = &saved{ID: id, Type: in.Type, Attributes: attributes, References: in.References, UpdatedAt: in.UpdatedAt, space: in.Space}
	if s.References == nil {
		s.References = []reference{}
	}
	for name := range attributes {
		if known.attributes != nil && !slices.Contains(known.attributes, name) {
			delete(attributes, name)
			s.dropped = append(s.dropped, in.Type+"."+name)
		}
	}
	s.MigrationVersion = map[string]string{}
	if is := cmp.Or(in.MigratedTo, in.Migrated[in.Type]); is != "" && known.version != "" {
		s.MigrationVersion[in.Type] = is
		if later(is, known.version) {
			s.MigrationVersion[in.Type] = known.version
		}
	}
	return in.Type, s, nil
}

// later reports whether version a, such as 7.10.0, is later than b. A version that is not numeric counts as later.
func later(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, err := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if err != nil || m != n {
			return err != nil || m > n
		}
	}
	return len(x) > len(y)
}

// line returns the object as a line of NDJSON.
func (s *saved) line() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("saved object %.200q: %w", s.ID, err)
	}
	return b.Bytes(), nil
}
