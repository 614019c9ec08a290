package status

import (
	"encoding/json"
	"time"
)

// Event is one thing that happened once: to an item, an index, a phase or the fleet. Events of the
// store have the id of their record; events of a node (a worker that crashed, say) have none.
type Event struct {
	ID      string    `json:"id,omitempty"`
	Time    time.Time `json:"time"`
	Node    string    `json:"node,omitempty"` // "" for events of the store
	Subject string    `json:"subject"`        // index and shard, index, phase, worker or node, in words
	Item    string    `json:"item,omitempty"` // id of the work item that it is about, as `rfsctl items show` takes it
	Code    string    `json:"code"`           // failed, audit_repair, clock_skew, worker_crashed, …
	Detail  string    `json:"detail,omitempty"`
}

// LogLine is one line of the node's JSON log, and its workers'.
type LogLine = json.RawMessage
