// Package progress reads the progress of a migration from its coordination store: phases, indices,
// shards, documents, bytes and failures. Daemons, rfsctl and the status page show the same.
package progress

import (
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Migration is the state of one session at one time.
type Migration struct {
	Session    string    `json:"session"`
	Repository string    `json:"repository,omitempty"`
	Snapshot   string    `json:"snapshot,omitempty"`
	ReadAt     time.Time `json:"read_at"` // by the store's clock
	Intent     Intent    `json:"intent"`
	Phases     []Phase   `json:"phases"`
	Totals     Counts    `json:"totals"`
	Indices    []Index   `json:"indices"`
	// Failures are the failed items, indices and phases, grouped by reason.
	Failures []Failure `json:"failures,omitempty"`
	Complete bool      `json:"complete"` // every phase has ended and no item is open
	Seeded   bool      `json:"seeded"`   // every item exists
	// LastReport is the time, by the store's clock, when a worker last acquired, advanced or ended an item; absent if none did.
	LastReport *time.Time `json:"last_report,omitempty"`
	// Holders are the holders of unexpired leases, longest leases first; at most ten.
	Holders []Holder `json:"holders,omitempty"`
	// SafeFrom is the time from which others may write to the migrated indices; absent until every item exists, and while one is open.
	SafeFrom *time.Time `json:"safe_to_write_from,omitempty"`
	// Foreign are the ids of documents among the items that are not items.
	Foreign []string `json:"foreign_documents,omitempty"`
	// Following means that rounds may still change what the session sent: others must not write to the target, and SafeFrom is absent.
	Following bool `json:"following,omitempty"`
	// Undone means that what the session created was removed, or is being removed, by rfsctl undo.
	Undone bool `json:"undone,omitempty"`
	// Rounds are the snapshots of a cluster that is followed from this session on; absent when it is not followed.
	Rounds *Following `json:"rounds,omitempty"`
	// Lag is the delay of the target of a followed session behind the source at ReadAt, in seconds: the age of the last snapshot that
	// arrived. It is absent before one has arrived, and after following has finished.
	Lag *float64 `json:"lag_seconds,omitempty"`
	// Cutover is the last order to cut over; absent before the first one.
	Cutover *Cutover `json:"cutover,omitempty"`
	// Stream is the progress of a session that consumes a stream; absent for other sessions.
	Stream *Stream `json:"stream,omitempty"`
}

// Stream is the progress of consuming a stream.
type Stream struct {
	Topic       string   `json:"topic"`
	Group       string   `json:"group"`
	Lag         int64    `json:"lag"`         // offsets between the consumed position and the ends of the partitions
	Nodes       int64    `json:"nodes"`       // participating processes
	Assignments int64    `json:"assignments"` // how often partitions were assigned
	Idle        []string `json:"idle"`        // processes without a partition
}

// Intent is the desired state of the fleet, set by the operator. The store is authoritative.
type Intent struct {
	State   string `json:"state"`             // run, pause or drain
	Workers *int   `json:"workers,omitempty"` // desired number of workers of the fleet; nil: each node decides
	// Set are the limits that override options.
	Set      session.Limits `json:"set,omitzero"`
	By       string         `json:"by,omitempty"`       // issuer of the last order
	At       *time.Time     `json:"at,omitempty"`       // time of the last order, by the store's clock; nil without one
	Revision int64          `json:"revision,omitempty"` // of the record; grows with each order
}

// NewIntent returns an intent for display.
func NewIntent(i session.Intent) Intent {
	shown := Intent{State: strings.ToLower(string(i.State)), Workers: i.Workers, Set: i.Set, By: i.Who, Revision: i.Revision.Seq}
	if !i.When.IsZero() {
		at := i.When.UTC()
		shown.At = &at
	}
	return shown
}

// Phase is one of snapshot, metadata, indices, documents.
type Phase struct {
	Name     string     `json:"name"`
	State    string     `json:"state"` // the record's: NOT_STARTED, SETUP, IN_PROGRESS, AUDIT, COMPLETED, FAILED, SKIPPED
	Attempts int        `json:"attempts,omitempty"`
	Holder   string     `json:"holder,omitempty"`
	Error    string     `json:"error,omitempty"`
	Done     int64      `json:"done,omitempty"`  // in Unit
	Total    int64      `json:"total,omitempty"` // in Unit; 0 if unknown
	Unit     string     `json:"unit,omitempty"`  // bytes, templates, indices, items
	Started  *time.Time `json:"started,omitempty"`
	Finished *time.Time `json:"finished,omitempty"`
}

// Counts are sums. When everything is done, live = indexed + kept + failed + filtered.
type Counts struct {
	Items      int64 `json:"items"`
	ItemsOpen  int64 `json:"items_open"`
	Leased     int64 `json:"items_leased"`
	Expired    int64 `json:"items_expired,omitempty"` // the lease is over: the worker is dead, or cut off
	ItemsBad   int64 `json:"items_failed"`
	Shards     int64 `json:"shards"`
	ShardsDone int64 `json:"shards_done"` // every document was processed
	// ShardsFailed counts the shards that ended without all of their documents.
	ShardsFailed int64 `json:"shards_failed,omitempty"`
	// Undelivered is an upper bound of the documents that did not arrive, because of ShardsFailed or of indices that lost documents on the
	// target; it includes nested documents. Uncounted is the number of failed shards whose number of documents is unknown.
	Undelivered int64 `json:"documents_not_delivered,omitempty"`
	Uncounted   int64 `json:"shards_uncounted,omitempty"`
	Indexed     int64 `json:"documents_indexed"`
	Failed      int64 `json:"documents_failed"` // not delivered since
	Filtered    int64 `json:"documents_filtered"`
	Kept        int64 `json:"documents_kept,omitempty"` // the target had them already
	// Redriven is the part of Indexed that first failed and was delivered by rfsd redrive.
	Redriven int64 `json:"documents_redriven,omitempty"`
	// Reduced is the part of Indexed whose source may lack parts of the indexed document.
	Reduced int64 `json:"documents_reduced,omitempty"`
	// Retried is the number of documents sent again in retries, Resent the number sent again after a hand-off, and Replaced the part of
	// Indexed that replaced a document from before the session.
	Retried  int64 `json:"documents_retried,omitempty"`
	Resent   int64 `json:"documents_resent,omitempty"`
	Replaced int64 `json:"documents_replaced,omitempty"`
	// Bytes is the size of the shards in the repository; BytesDone is estimated from the ordinals below the watermark.
	Bytes     int64 `json:"bytes"`
	BytesDone int64 `json:"bytes_done"`
	BytesLost int64 `json:"bytes_lost,omitempty"` // of ShardsFailed, not done
	// SourceBytes is the size of the sources of the indexed documents.
	SourceBytes int64 `json:"source_bytes"`
}

// BytesLeft returns the bytes of the repository still to be read.
func (c Counts) BytesLeft() int64 { return max(c.Bytes-c.BytesDone-c.BytesLost, 0) }

// Holder is a worker that holds leases.
type Holder struct {
	Name   string    `json:"name"`
	Items  int       `json:"items"`
	Expiry time.Time `json:"lease_expiry"` // of the lease that ends last
}

// Index is one index of the snapshot.
type Index struct {
	Name    string   `json:"name"`
	Targets []string `json:"targets"`
	State   string   `json:"state"` // NOT_STARTED, IN_PROGRESS, COMPLETED, FAILED
	Error   string   `json:"error,omitempty"`
	Reduced string   `json:"reduced_source,omitempty"`
	Counts  Counts   `json:"counts"`
	// OnTarget is the state of the target after all documents were sent; absent until then.
	OnTarget *Arrival `json:"on_target,omitempty"`
	Shards   []Shard  `json:"shards"`
}

// Shard is derived from the chain of its items. It is not stored.
type Shard struct {
	Number   int        `json:"shard"`
	State    string     `json:"state"` // NOT_STARTED, IN_PROGRESS, COMPLETED, FAILED
	Bytes    int64      `json:"bytes"`
	Fraction float64    `json:"fraction"` // done, 0 to 1
	Counts   Counts     `json:"counts"`
	Attempts int        `json:"attempts,omitempty"`
	Holder   string     `json:"holder,omitempty"`
	Expiry   *time.Time `json:"lease_expiry,omitempty"`
	Error    string     `json:"error,omitempty"`
}

// Failure is a group of failures with one reason.
type Failure struct {
	Reason   string   `json:"reason"`
	Count    int64    `json:"count"`
	Examples []string `json:"examples,omitempty"` // at most five: shards, indices or phases
}
