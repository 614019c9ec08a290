package creation

import (
	"encoding/json"
)

// Made is the result of creating an index.
type Made struct {
	Created []string                   // indices created by this call, as acknowledged by the target
	Late    map[string]json.RawMessage // target index → aliases withheld until its documents are complete
	Differs []string                   // differences from the request
	// Originals means that the target filters sources as the source did, so originals can be sent.
	Originals bool
}

// GlobalLeftOut is an object that was not migrated.
type GlobalLeftOut struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// GlobalsResult is the outcome for objects that belong to no index (templates, pipelines, scripts, policies). Names are "<kind> <name>".
type GlobalsResult struct {
	Created []string        `json:"created,omitempty"`
	Existed []string        `json:"existed,omitempty"` // not changed
	LeftOut []GlobalLeftOut `json:"left_out,omitempty"`
	Warning string          `json:"warning,omitempty"`
}
