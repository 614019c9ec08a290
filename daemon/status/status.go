// Package status describes a node and the migration: the response of the API, which rfsctl and the page read.
package status

import (
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// Report is the complete response of a node.
type Report struct {
	Node      Node                `json:"node"`
	Migration *progress.Migration `json:"migration,omitempty"` // nil until the store was read once
	// Stale is the age of Migration in seconds. The store may be unreachable while a node still answers.
	Stale float64 `json:"stale_seconds"`
	// StoreError is the reason why the last read of the store failed.
	StoreError string `json:"store_error,omitempty"`
	// Progress is the node's view of the migration.
	Progress progress.View `json:"progress"`
	Workers  []Worker      `json:"workers"`
	Nodes    []Node        `json:"nodes,omitempty"` // of the fleet, if gossip runs
	// Machines are the machines that the fleet starts and terminates itself; absent without --scale-driver, and before the scaler's first
	// round.
	Machines *Machines `json:"machines,omitempty"`
}

// Machines is the last state of a fleet's scaler. Times are by the clock of the store.
type Machines struct {
	Leader  string     `json:"leader"` // node that drives
	Wanted  int        `json:"machines_wanted"`
	Running int        `json:"machines_running"` // as the driver reported
	Reason  string     `json:"reason"`           // of the wanted number
	Error   string     `json:"error,omitempty"`  // of the driver
	At      time.Time  `json:"at"`
	Changed *time.Time `json:"changed,omitempty"` // when the wanted number last changed
	Hours   float64    `json:"instance_hours"`    // used so far
	// Final states that the driver has applied the number that holds when the work is complete.
	Final bool `json:"final,omitempty"`
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
	// Order is the version of the intent that the node follows; 0: not reported yet.
	Order int64 `json:"order,omitempty"`
}

// Ordered is the response to an order that is in force.
type Ordered struct {
	Intent progress.Intent `json:"intent"` // after the order
	// NotFollowing are the live nodes that have not reported that they follow the order.
	NotFollowing []string `json:"not_following,omitempty"`
}

// Worker is a lease in progress on this node, or a slot between two leases.
type Worker struct {
	Slot  int    `json:"slot"`
	PID   int    `json:"pid,omitempty"` // 0 for a slot inside the daemon
	State string `json:"state"`         // starting, working, handing off, waiting, backing off, stopped
	// Phase is the phase in which the worker is (snapshot, metadata, indices, documents; import; consume), and PhaseState the state of that
	// phase's record when the worker read it; "" before it has read one.
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
	LastExit   string     `json:"last_exit,omitempty"` // reason of the last unclean end
}
