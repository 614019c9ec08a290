package metadata

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Unsupported records the features that a target reported as unsupported. Field types, options
// and settings depend on its version and plugins, so only the target itself knows them.
type Unsupported struct {
	types    map[string]bool // field type
	options  map[string]bool // "<field type> <option>"
	fields   map[string]bool // "<last component of the field's name> <option>"
	root     map[string]bool // top-level key of the mapping
	settings map[string]bool // "index.x"

	pipelines map[string]bool // rejected by the target
}

// NewUnsupported returns an empty record.
func NewUnsupported() *Unsupported {
	return &Unsupported{
		types: map[string]bool{}, options: map[string]bool{}, fields: map[string]bool{},
		root: map[string]bool{}, settings: map[string]bool{}, pipelines: map[string]bool{},
	}
}

// Error messages of OpenSearch 1–3 and Elasticsearch 7–9.
var (
	noHandler      = regexp.MustCompile(`(?i)no handler for type \[([^\]]+)\] declared on field`)
	unknownOption  = regexp.MustCompile(`unknown parameter \[([^\]]+)\] on mapper \[[^\]]*\] of type \[([^\]]+)\]`)
	unsupported    = regexp.MustCompile(`Mapping definition for \[([^\]]*)\] has unsupported parameters:\s+(.*)`)
	unsupportedTop = regexp.MustCompile(`Root mapping definition has unsupported parameters:\s+(.*)`)
	parameter      = regexp.MustCompile(`\[(\w+) : `)
	unknownCodec   = regexp.MustCompile(`unknown value for \[index\.codec\]`)
	unknownSetting = regexp.MustCompile(`unknown setting \[([^\]]+)\]`)
)

// OfOneObject returns a new record that shares the pipelines of l.
func (l *Unsupported) OfOneObject() *Unsupported {
	one := NewUnsupported()
	one.pipelines = l.pipelines
	return one
}

// RecordPipeline records a pipeline that the target rejected.
func (l *Unsupported) RecordPipeline(name string) { l.pipelines[name] = true }

// Record adds the unsupported features that a rejection names. It returns false if none of them is new.
func (l *Unsupported) Record(err error) bool {
	var refused *fault.StatusError
	if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
		return false
	}
	learned := false
	note := func(known map[string]bool, what string) {
		learned = learned || !known[what]
		known[what] = true
	}
	for _, m := range noHandler.FindAllStringSubmatch(refused.Reason, -1) {
		note(l.types, m[1])
	}
	for _, m := range unknownOption.FindAllStringSubmatch(refused.Reason, -1) {
		note(l.options, m[2]+" "+m[1])
	}
	for _, m := range unknownSetting.FindAllStringSubmatch(refused.Reason, -1) {
		note(l.settings, m[1])
	}
	if unknownCodec.MatchString(refused.Reason) {
		note(l.settings, "index.codec")
	}
	for _, m := range unsupportedTop.FindAllStringSubmatch(refused.Reason, -1) {
		for _, p := range parameter.FindAllStringSubmatch(m[1], -1) {
			note(l.root, p[1])
		}
	}
	for _, m := range unsupported.FindAllStringSubmatch(refused.Reason, -1) {
		field := m[1][strings.LastIndexByte(m[1], '.')+1:]
		for _, p := range parameter.FindAllStringSubmatch(m[2], -1) {
			note(l.fields, field+" "+p[1])
		}
	}
	return learned
}

// unknownOptions drops options of a field that the target does not know.
func (e *edit) unknownOptions(path string, f map[string]any) {
	typ := orDefault(Text(f["type"]), "object")
	name := path[strings.LastIndexByte(path, '.')+1:]
	for _, k := range keys(f) {
		if k != "type" && k != "properties" && (e.unsupported.options[typ+" "+k] || e.unsupported.fields[name+" "+k]) {
			e.note("unknown-option", path, "dropped, the target does not know it for %s: %s: %s", typ, k, Brief(f[k]))
			delete(f, k)
		}
	}
}
