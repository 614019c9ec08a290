package worker

import (
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/rebuild"
	"github.com/rfsd/rfsd/rfs/snapshot"
)

// SourceState is in what form a snapshot holds the documents of an index.
type SourceState string

// The states.
const (
	SourcesStored  SourceState = "stored"  // whole
	SourcesRebuilt SourceState = "rebuilt" // not stored; put together out of other fields
	SourcesReduced SourceState = "reduced" // stored without parts of what was indexed
	SourcesMissing SourceState = "missing" // neither stored nor rebuilt
	SourcesUnknown SourceState = "unknown" // the index mode is not known
)

// Sources is in what form a snapshot holds the documents of an index, as far as settings and mappings decide it.
type Sources struct {
	State  SourceState          `json:"state"`
	Reason string               `json:"reason,omitempty"` // why they are not stored whole
	Fields []rebuild.FieldState `json:"fields,omitempty"` // of rebuilt ones
	Remedy string               `json:"remedy,omitempty"`
}

// The remedies, by state.
const (
	remedyLost = "documents with a value of a lost field have no source: they fail (no_source) and are listed among the failed documents; " +
		"export them from the running source cluster, or accept that they are missing"
	remedyReduced = "what was left out is sent where the snapshot still holds the original of a document and the target leaves out the same; all other documents " +
		"arrive as they are stored and count as reduced (exit code 6): --accept-reduced-sources accepts that"
	remedyMissing = "only documents whose original (_recovery_source) no merge has removed yet arrive; all others fail (no_source): index them again from where they came from, " +
		"or leave the index out with --index-exclude"
	remedyUnknown = "this version of rfsd does not know how documents of that mode are stored: what has a source arrives and counts as reduced, all else fails (no_source); " +
		"compare with rfsd verify, or leave the index out with --index-exclude"
)

// SourcesOf returns in what form the snapshot holds the documents of an index.
func SourcesOf(x *snapshot.Index) Sources {
	s := Sources{State: SourcesReduced, Reason: reducedSource(x), Remedy: remedyReduced}
	how := rebuilds(x)
	switch {
	case s.Reason == "":
		return Sources{State: SourcesStored}
	case !knownMode(x):
		s.State, s.Remedy = SourcesUnknown, remedyUnknown
	case how != "":
		return s.rebuilt(x, how)
	case !storesSources(x):
		s.State, s.Remedy = SourcesMissing, remedyMissing
	}
	return s
}

// rebuilt adds how well the sources are rebuilt.
func (s Sources) rebuilt(x *snapshot.Index, how Rebuild) Sources {
	var err error
	if how == RebuildDerived {
		s.Fields, err = rebuild.StatesDerived(onlyMapping(x))
	} else {
		s.Fields, err = rebuild.States(onlyMapping(x), x.Locator.Created)
	}
	if err != nil {
		s.State, s.Remedy, s.Reason = SourcesMissing, remedyMissing, s.Reason+"; not rebuilt: "+fault.Text(err)
		return s
	}
	s.State, s.Remedy = SourcesRebuilt, ""
	if len(s.lost()) > 0 {
		s.Remedy = remedyLost
	}
	return s
}

func (s Sources) lost() (fields []string) {
	for _, f := range s.Fields {
		if f.State == rebuild.Lost {
			fields = append(fields, f.Field+" ("+f.Type+")")
		}
	}
	return fields
}

// maxLost bounds the fields that String names.
const maxLost = 20

// String returns state and reason in one line.
func (s Sources) String() string {
	switch s.State {
	case SourcesStored:
		return "stored"
	case SourcesRebuilt:
		lost := s.lost()
		text := fmt.Sprintf("%s; rebuilt as the cluster answers it: %d fields exact", s.Reason, len(s.Fields)-len(lost))
		if len(lost) > maxLost {
			lost = append(lost[:maxLost], fmt.Sprintf("%d more", len(lost)-maxLost))
		}
		if len(lost) > 0 {
			text += ", lost: " + strings.Join(lost, ", ")
		}
		return text
	}
	return s.Reason
}

// storesSources reports whether settings and mappings leave anything of _source to be stored.
func storesSources(x *snapshot.Index) bool {
	switch x.Settings["index.mapping.source.mode"] {
	case "synthetic", "disabled":
		return false
	case "":
		if mode := x.Settings["index.mode"]; mode == "logsdb" || mode == "time_series" || x.Settings["index.derived_source.enabled"] == "true" {
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
