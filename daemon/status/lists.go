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

// Item is one work item of the store.
type Item struct {
	ID         string     `json:"id"`
	Index      string     `json:"index"`
	Shard      int        `json:"shard"`
	Cursor     int64      `json:"cursor"` // first ordinal
	State      string     `json:"state"`  // open, leased, done, handed off, failed
	Holder     string     `json:"holder,omitempty"`
	Expiry     *time.Time `json:"lease_expiry,omitempty"`
	Attempts   int        `json:"attempts,omitempty"` // in a row without progress
	Watermark  int64      `json:"watermark,omitempty"`
	Indexed    int64      `json:"documents_indexed"`
	Failed     int64      `json:"documents_failed"`
	Filtered   int64      `json:"documents_filtered"`
	Reduced    int64      `json:"documents_reduced,omitempty"`
	Kept       int64      `json:"documents_kept,omitempty"`
	Failure    string     `json:"failure,omitempty"`
	Successors []string   `json:"successors,omitempty"`
}

// ItemFilter selects items; zero values select all.
type ItemFilter struct {
	Index string
	State string
	Limit int // at most so many; 0: 1000
}

// Select returns the items that f selects, in their order.
func (f ItemFilter) Select(items []Item) []Item {
	limit := f.Limit
	if limit <= 0 {
		limit = 1000
	}
	out := []Item{}
	for _, x := range items {
		if f.Index != "" && x.Index != f.Index || f.State != "" && x.State != f.State {
			continue
		}
		if out = append(out, x); len(out) == limit {
			break
		}
	}
	return out
}

// LogLine is one line of the node's JSON log, and its workers'.
type LogLine = json.RawMessage
