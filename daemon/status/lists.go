package status

import (
	"encoding/json"
	"time"
)

// Event is something that happened once: to an item, an index, a phase or the fleet. Events of the store have the id of their record;
// events of a node, such as a crashed worker, have none.
type Event struct {
	ID      string    `json:"id,omitempty"`
	Time    time.Time `json:"time"`
	Node    string    `json:"node,omitempty"` // "" for events of the store
	Subject string    `json:"subject"`        // text: index and shard, index, phase, worker or node
	Item    string    `json:"item,omitempty"` // id of the work item concerned, for `rfsctl items show`
	Code    string    `json:"code"`           // failed, audit_repair, clock_skew, worker_crashed, …
	Detail  string    `json:"detail,omitempty"`
}

// LogLine is one line of the node's JSON log, and its workers'.
type LogLine = json.RawMessage
