package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// SourceState is the form in which a snapshot holds the documents of an index.
type SourceState string

// States of sources.
const (
	SourcesStored  SourceState = "stored"  // complete
	SourcesRebuilt SourceState = "rebuilt" // not stored; rebuilt from other fields
	SourcesReduced SourceState = "reduced" // stored without some indexed parts
	SourcesMissing SourceState = "missing" // neither stored nor rebuilt
	SourcesUnknown SourceState = "unknown" // the index mode is unknown
)

// Sources describes the form in which a snapshot holds the documents of an index, according to its settings and mappings.
type Sources struct {
	State  SourceState          `json:"state"`
	Reason string               `json:"reason,omitempty"` // why they are not stored completely
	Fields []rebuild.FieldState `json:"fields,omitempty"` // of rebuilt sources
	Remedy string               `json:"remedy,omitempty"`
}

// Remedies by state.
const (
	remedyLost = "documents with a value of a lost field have no source: they fail (no_source) and are listed among the failed documents; " +
		"export them from the running source cluster, or accept that they are missing"
	remedyReduced = "the left-out parts are sent where the snapshot still holds the original of a document and the target leaves out the same; all other documents " +
		"arrive as they are stored and count as reduced (exit code 6): --accept-reduced-sources accepts that"
	remedyMissing = "only documents whose original (_recovery_source) no merge has removed yet arrive; all others fail (no_source): index them again from where they came from, " +
		"or leave the index out with --index-exclude"
	remedyRebuild = "--rebuild-sources sends the values of stored fields and doc values, as the mapping defines; with --rebuild-text-from-terms lost text fields arrive as their terms, approximately"
	remedyFields  = "documents have the values that their fields had: in normal form sorted, each once, normalized; approximate text is the output of its analyzer; values of lost fields and values outside the mapping are missing. " +
		"They count as reduced (exit code 6): --accept-reduced-sources accepts that"
	remedyVectors = "a document whose vectors cannot be put back arrives without them and counts as reduced (exit code 6): --accept-reduced-sources accepts that"
	remedyUnknown = "this version of rfsd does not know how documents of that mode are stored: documents with a source arrive and count as reduced, all others fail (no_source); " +
		"compare with rfsd verify, or leave the index out with --index-exclude"
)

// SourcesOf returns the form in which the snapshot holds the documents of an index. asked is the method requested for disabled or filtered
// sources (--rebuild-sources: RebuildFields; with --rebuild-text-from-terms: RebuildTerms); if it is "", Fields states how well they would
// be rebuilt.
func SourcesOf(x *snapshot.Index, asked Rebuild) Sources {
	s := Sources{State: SourcesReduced, Reason: ReducedSource(x), Remedy: remedyReduced}
	how := rebuilds(x, asked)
	switch {
	case s.Reason == "":
		return Sources{State: SourcesStored}
	case !knownMode(x):
		s.State, s.Remedy = SourcesUnknown, remedyUnknown
		return s
	case how != "":
		return s.rebuilt(x, how)
	case !storesSources(x):
		s.State, s.Remedy = SourcesMissing, remedyMissing
	}
	if how = rebuilds(x, RebuildFields); how != "" {
		if would := s.rebuilt(x, how); would.State == SourcesRebuilt {
			s.Fields, s.Remedy = would.Fields, s.Remedy+"; "+remedyRebuild
		}
	}
	return s
}

// rebuilt adds how well the sources are rebuilt.
func (s Sources) rebuilt(x *snapshot.Index, how Rebuild) Sources {
	mappings := RebuiltMappings(x, how)
	for _, name := range slices.Sorted(maps.Keys(mappings)) {
		fields, err := how.states(mappings[name], x.Locator.Created)
		if err != nil {
			s.State, s.Remedy, s.Reason, s.Fields = SourcesMissing, remedyMissing, s.Reason+"; not rebuilt: "+fault.Text(err), nil
			return s
		}
		for _, f := range fields {
			if name != "" {
				f.Field = name + "/" + f.Field
			}
			s.Fields = append(s.Fields, f)
		}
	}
	s.State, s.Remedy = SourcesRebuilt, ""
	switch {
	case how.UsesFields():
		s.Remedy = remedyFields
	case how == RebuildVectors:
		s.Remedy = remedyVectors
	case len(s.lost()) > 0:
		s.Remedy = remedyLost
	}
	return s
}

// states returns how well the fields of a mapping are rebuilt.
func (how Rebuild) states(mapping json.RawMessage, created int64) ([]rebuild.FieldState, error) {
	switch how {
	case RebuildColumnar:
		return rebuild.StatesColumnar(mapping, created)
	case RebuildColumnarStored:
		return rebuild.StatesStored(mapping)
	case RebuildDerived:
		return rebuild.StatesDerived(mapping)
	case RebuildVectors:
		return rebuild.StatesPatched(mapping, created)
	case RebuildFields, RebuildTerms:
		return rebuild.StatesFields(mapping, created, how == RebuildTerms)
	}
	return rebuild.States(mapping)
}

func (s Sources) lost() (fields []string) {
	for _, f := range s.Fields {
		if f.State == rebuild.Lost {
			fields = append(fields, f.Field+" ("+f.Type+")")
		}
	}
	return fields
}

func (s Sources) count(state rebuild.State) (n int) {
	for _, f := range s.Fields {
		if f.State == state {
			n++
		}
	}
	return n
}

// unconfirmed returns the number of exact fields whose rebuilding is derived from source code only.
func (s Sources) unconfirmed() (n int) {
	for _, f := range s.Fields {
		if f.State == rebuild.Exact && f.Unconfirmed {
			n++
		}
	}
	return n
}

// maxLost is the maximum number of fields that String names.
const maxLost = 20

// String returns the state and the reason in one line.
func (s Sources) String() string {
	switch {
	case s.State == SourcesStored:
		return "stored"
	case len(s.Fields) == 0 && s.State != SourcesRebuilt:
		return s.Reason
	}
	text := s.Reason + "; "
	switch {
	case s.State != SourcesRebuilt:
		text += "--rebuild-sources rebuilds"
	case s.Remedy == remedyVectors:
		text += "put back as the cluster answers them, where their place in the source is known"
	case s.Remedy == remedyFields:
		text += "rebuilt from stored fields and doc values"
	default:
		text += "rebuilt as the cluster answers it"
	}
	text += fmt.Sprintf(": %d fields exact", s.count(rebuild.Exact))
	if n := s.unconfirmed(); n > 0 {
		text += fmt.Sprintf(" (%d by the source code of Elasticsearch only)", n)
	}
	if n := s.count(rebuild.Normal); n > 0 {
		text += fmt.Sprintf(", %d in normal form", n)
	}
	if n := s.count(rebuild.Approximate); n > 0 {
		text += fmt.Sprintf(", %d approximate (text out of its terms)", n)
	}
	lost := s.lost()
	if len(lost) > maxLost {
		lost = append(lost[:maxLost], fmt.Sprintf("%d more", len(lost)-maxLost))
	}
	if len(lost) > 0 {
		text += ", lost: " + strings.Join(lost, ", ")
	}
	return text
}

// storesSources reports whether settings and mappings leave any part of _source stored.
func storesSources(x *snapshot.Index) bool {
	switch x.Settings["index.mapping.source.mode"] {
	case "synthetic", "disabled":
		return false
	case "":
		if synthesizes(x) || x.Settings["index.derived_source.enabled"] == "true" {
			return false
		}
	}
	for _, m := range x.Mappings {
		source := storedSourceOf(m.Body)
		if strings.Trim(string(source.Enabled), `"`) == "false" || source.Mode == "synthetic" || source.Mode == "disabled" {
			return false
		}
	}
	return true
}
