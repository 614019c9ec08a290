package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// ReducedSource returns the reason why the stored sources of an index differ from the indexed documents; "" if they do not. It only needs
// mapping and settings, so the result is known before the run.
func ReducedSource(x *snapshot.Index) string {
	var why []string
	for key, text := range map[string]string{
		"index.mapping.source.mode":    "source mode %s",
		"index.derived_source.enabled": "derived source: %s",
	} {
		if v := x.Settings[key]; v != "" && v != "stored" && v != "false" {
			why = append(why, fmt.Sprintf(text, v))
		}
	}
	if synthesizes(x) && x.Settings["index.mapping.source.mode"] == "" {
		why = append(why, "synthetic source ("+x.Settings["index.mode"]+")")
	}
	if !knownMode(x) { // its sources may not be stored
		why = append(why, "index mode "+x.Settings["index.mode"]+" is unknown")
	}
	if derivesVectors(x) {
		why = append(why, "vectors are left out (k-NN derived source)")
	}
	for _, m := range x.Mappings {
		if s := reducedMapping(m.Body); s != "" {
			why = append(why, s)
		}
	}
	if leavesOutVectors(x) {
		why = append(why, "vectors are left out of the source")
	}
	slices.Sort(why)
	return strings.Join(slices.Compact(why), "; ")
}

// synthesizes reports whether the index mode rebuilds sources by default.
func synthesizes(x *snapshot.Index) bool {
	return isColumnar(x) || slices.Contains([]string{"logsdb", "time_series"}, x.Settings["index.mode"])
}

// columnarStored is the source mode of a columnar index that stores the source it builds when a document is indexed.
const columnarStored = "columnar_stored"

// isColumnar reports whether an index keeps all fields in doc values.
func isColumnar(x *snapshot.Index) bool {
	return slices.Contains([]string{"columnar", "logsdb_columnar"}, x.Settings["index.mode"])
}

// knownMode reports whether rfsd knows how an index of its mode stores documents. Columnar modes are known with their own source modes
// only.
func knownMode(x *snapshot.Index) bool {
	if isColumnar(x) {
		mode := x.Settings["index.mapping.source.mode"]
		return mode == "" || mode == "synthetic" || mode == columnarStored
	}
	return synthesizes(x) || slices.Contains([]string{"", "standard", "lookup"}, x.Settings["index.mode"])
}

// lacking returns which stored forms of an index's documents lack indexed parts.
func lacking(x *snapshot.Index) doc.Lacking {
	l := doc.Lacking{Source: derivesVectors(x) || !knownMode(x), Vectors: leavesOutVectors(x)}
	for _, m := range x.Mappings {
		f := rebuild.SourceFilterOf(m.Body)
		l.Source = l.Source || !f.Empty()
		l.Original = l.Original || !f.Whole()
	}
	return l
}

// derivesVectors reports whether the k-NN plugin of OpenSearch omits vectors from sources.
func derivesVectors(x *snapshot.Index) bool {
	return x.Settings["index.knn"] == "true" && x.Settings["index.knn.derived_source.enabled"] == "true"
}

// leavesOutVectors reports whether an index of Elasticsearch omits vectors from its stored sources.
func leavesOutVectors(x *snapshot.Index) bool {
	return excludesVectors(x) && storesSources(x) && modeOf(x) == "" && knownMode(x) &&
		slices.ContainsFunc(x.Mappings, func(m snapshot.Mapping) bool { return rebuild.LeavesOut(m.Body, x.Locator.Created) })
}

// excludesVectors reports whether an index excludes vectors from sources: the default for new indices since Elasticsearch 9.2 (index
// version
// 9.035.0.00), unless a setting disables it.
func excludesVectors(x *snapshot.Index) bool {
	switch x.Settings["index.mapping.exclude_source_vectors"] {
	case "true":
		return true
	case "false":
		return false
	}
	created := x.Settings["index.version.created"]
	return len(created) == 7 && created >= "9035000"
}

// storedSource is the _source section of a mapping.
type storedSource struct {
	Enabled  json.RawMessage `json:"enabled"`
	Mode     string          `json:"mode"`
	Includes json.RawMessage `json:"includes"`
	Excludes json.RawMessage `json:"excludes"`
}

// storedSourceOf returns the _source section of a mapping; the zero value if it has none that can be parsed.
func storedSourceOf(body json.RawMessage) storedSource {
	var m struct {
		Source storedSource `json:"_source"`
	}
	if json.Unmarshal(body, &m) != nil {
		return storedSource{}
	}
	return m.Source
}

func reducedMapping(body json.RawMessage) string {
	source := storedSourceOf(body)
	listed := func(b json.RawMessage) bool {
		s := string(bytes.TrimSpace(b))
		return s != "" && s != "[]" && s != "null" && s != `""`
	}
	switch enabled := strings.Trim(string(source.Enabled), `"`); {
	case enabled == "false":
		return "_source is disabled"
	case source.Mode == "synthetic" || source.Mode == "disabled":
		return "_source mode " + source.Mode
	case listed(source.Includes) || listed(source.Excludes):
		return "_source is filtered (includes or excludes)"
	}
	return ""
}

// FilteredSource returns the source filter of an index of the snapshot. The result is false unless the filter omits parts of sources whose
// originals may still be stored.
func FilteredSource(x *snapshot.Index) (rebuild.SourceFilter, bool) {
	if len(x.Mappings) != 1 {
		return rebuild.SourceFilter{}, false
	}
	f := rebuild.SourceFilterOf(x.Mappings[0].Body)
	return f, !f.Empty() && f.Whole()
}
