package creation

import (
	"encoding/json"
)

// Made is the work left after an index was created.
type Made struct {
	Created []string                   // by this call, as the target acknowledged
	Late    map[string]json.RawMessage // target index → aliases that wait for its documents
	Differs []string                   // what the target made of it that was not asked
	// Originals means that the target filters sources as the source did, so that originals can be sent.
	Originals bool
}

// GlobalLeftOut is an object that was not migrated.
type GlobalLeftOut struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// GlobalsResult states what became of everything that belongs to no index (templates, pipelines, scripts, policies). Names are "<kind> <name>".
type GlobalsResult struct {
	Created []string        `json:"created,omitempty"`
	Existed []string        `json:"existed,omitempty"` // left as they are
	LeftOut []GlobalLeftOut `json:"left_out,omitempty"`
	Warning string          `json:"warning,omitempty"`
}
