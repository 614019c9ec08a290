// Package status describes a node and the migration: the response of the API, read
// by rfsctl and by the page.
package status

import (
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// Report is the whole answer of a node.
type Report struct {
	Node      Node                `json:"node"`
	Migration *progress.Migration `json:"migration,omitempty"` // nil until the store was read once
	// Stale is the age of Migration in seconds; the store may be out of reach while a node still answers.
	Stale float64 `json:"stale_seconds"`
	// StoreError describes why the store could not be read last time.
	StoreError string `json:"store_error,omitempty"`
	// Progress is the view of the node on the migration.
	Progress progress.View `json:"progress"`
	Workers  []Worker      `json:"workers"`
	Nodes    []Node        `json:"nodes,omitempty"` // of the fleet, when gossip runs
	// Machines are those that the fleet starts and ends itself; absent without --scale-driver, and before its first turn.
	Machines *Machines `json:"machines,omitempty"`
}

// Machines is what the scaler of a fleet did last. Times are by the clock of the store.
type Machines struct {
	Leader  string     `json:"leader"` // the node that drives
	Wanted  int        `json:"machines_wanted"`
	Running int        `json:"machines_running"` // as the driver reported
	Reason  string     `json:"reason"`           // of the wanted number
	Error   string     `json:"error,omitempty"`  // of the driver
	At      time.Time  `json:"at"`
	Changed *time.Time `json:"changed,omitempty"` // when another number was wanted last
	Hours   float64    `json:"instance_hours"`    // used so far
}

// Node is one daemon.
type Node struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Started time.Time `json:"started,omitzero"`
	State   string    `json:"state"` // starting, running, paused, draining, drained, waiting (for the next round), done, stopping, failed
	Reason  string    `json:"reason,omitempty"`
	Wanted  int       `json:"workers_wanted"`
	Running int       `json:"workers_running"`
	Address string    `json:"address,omitempty"`
	Zone    string    `json:"zone,omitempty"`
	// Order is the version of the intent that the node follows; 0: it has not reported one.
	Order int64 `json:"order,omitempty"`
}

// Ordered is the answer to an order that is in force.
type Ordered struct {
	Intent progress.Intent `json:"intent"` // after the order
	// NotFollowing are the live nodes that have not reported that they follow the order.
	NotFollowing []string `json:"not_following,omitempty"`
}

// Worker is one lease in work on this node, or a slot between two.
type Worker struct {
	Slot  int    `json:"slot"`
	PID   int    `json:"pid,omitempty"` // 0 for a slot inside the daemon
	State string `json:"state"`         // starting, working, handing off, waiting, backing off, stopped
	// Phase is the phase that the worker acts on (snapshot, metadata, indices, documents; import; consume), and PhaseState the state of
	// that phase's record when the worker read it; "" before it has read one.
	Phase      string     `json:"phase,omitempty"`
	PhaseState string     `json:"phase_state,omitempty"`
	Item       string     `json:"item,omitempty"`
	Index      string     `json:"index,omitempty"`
	Shard      int        `json:"shard,omitempty"`
	Started    time.Time  `json:"started,omitzero"`
	Expiry     *time.Time `json:"lease_expiry,omitempty"`
	Indexed    int64      `json:"documents_indexed"`
	Rate       float64    `json:"documents_per_second"`
	Resident   int64      `json:"resident_bytes,omitempty"`
	Restarts   int        `json:"restarts,omitempty"`
	LastExit   string     `json:"last_exit,omitempty"` // reason of the last end that was not clean
}
