package metadata

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/pattern"
)

// StreamPart describes the ordinary index that a backing index of a data stream becomes.
type StreamPart struct {
	Stream string `json:"name"`             // at the source
	Alias  string `json:"alias,omitempty"`  // the stream's name; "" if it is not free on the target
	Writes bool   `json:"writes,omitempty"` // the newest: the alias writes to it
}

// StreamParts returns a StreamPart for each backing index, by its name. taken reports whether
// the target, or another index of the migration, already has a name.
func StreamParts(g Globals, taken func(name string) bool) map[string]StreamPart {
	parts := map[string]StreamPart{}
	for _, stream := range keys(g.DataStreams) {
		backing := g.DataStreams[stream]
		for i, name := range backing {
			p := StreamPart{Stream: stream, Alias: stream, Writes: i == len(backing)-1}
			if taken(stream) {
				p.Alias, p.Writes = "", false
			}
			parts[name] = p
		}
	}
	return parts
}

// BackingName returns the name of a backing index on the target. It is unchanged, unless the target rejects names with
// a leading dot; then the dot is removed (.ds-logs-2024.01.01-000001 becomes ds-logs-2024.01.01-000001). OpenSearch
// rejects .ds-logs-000001 while it has a data stream logs, whose next backing index might get that name.
func BackingName(name string, dotsRefused bool) string {
	if dotsRefused {
		return strings.TrimLeft(name, ".")
	}
	return name
}

// With returns a backing index with the alias that replaces its stream. The newest index is the write index of the
// alias, as it was for the stream.
func (p StreamPart) With(x Index) (Index, error) {
	if p.Alias == "" {
		return x, nil
	}
	all := map[string]any{}
	if len(x.Aliases) > 0 && string(x.Aliases) != "null" {
		var err error
		if all, err = DecodeObject(x.Aliases); err != nil {
			return x, fmt.Errorf("aliases of %s: %w", x.Name, err)
		}
	}
	all[p.Alias] = map[string]any{"is_write_index": p.Writes}
	raw, err := json.Marshal(all)
	x.Aliases = raw
	return x, err
}

// StreamTemplate is the part of an index template that affects data streams.
type StreamTemplate struct {
	Patterns []string        `json:"index_patterns"`
	Priority int             `json:"priority"`
	Stream   json.RawMessage `json:"data_stream"`
}

// MakesStream reports whether the matching template with the highest priority creates a data stream.
func MakesStream(templates []StreamTemplate, stream string) bool {
	best, makes := -1, false
	for _, t := range templates {
		fits := slices.ContainsFunc(t.Patterns, func(p string) bool { return pattern.Star(p, stream) })
		if fits && t.Priority > best {
			best, makes = t.Priority, t.makes()
		}
	}
	return makes
}

// makes reports whether the template creates data streams.
func (t StreamTemplate) makes() bool { return len(t.Stream) > 0 && string(t.Stream) != "null" }

// MakesStream reports whether an index template of the plan will create a data stream with the name.
func (p GlobalPlan) MakesStream(stream string) bool {
	var all []StreamTemplate
	for _, o := range p.Objects {
		var t StreamTemplate
		if o.Kind == IndexTemplate && json.Unmarshal(o.Body, &t) == nil {
			all = append(all, t)
		}
	}
	return MakesStream(all, stream)
}
