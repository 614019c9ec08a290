package schedule

import (
	"math"
	"math/bits"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Limits of a whole fleet's operations on the coordination store, per second. The intervals of nodes and workers grow with the fleet to
// keep within them; small fleets use the minimum intervals. Without gossip the size is unknown, and each node uses the intervals of a
// single node.
const (
	startBudget  = 3 // acquisitions by workers; each worker makes about 20 operations from start to end
	recordBudget = 30
	// soloNodes is the fleet size up to which nodes start workers without delay.
	soloNodes = 4
)

// Rate is the number of operations per second of all nodes together.
type Rate float64

// Rates of the periodic operations of all daemons together.
const (
	IntentRate    Rate = 5   // reads of the intent; changes are also announced by gossip
	RaftProbeRate Rate = 2.5 // reads of the record of the Raft cluster
	EventRate     Rate = 2   // reads of the store's events
	HeartbeatRate Rate = 3   // updates of the node list, unless the rate limit depends on it
	ElectionRate  Rate = 2   // attempts to acquire the leader's lock
)

// Interval returns the time between two operations of one node, so that all nodes together keep to a rate. It is at least least, and
// exactly least without a hint.
func (p NodePosition) Interval(least time.Duration, all Rate) time.Duration {
	return max(least, seconds(float64(p.clamp().Nodes)/float64(all)))
}

// maxReadInterval limits the age of a node's view of the migration while no operator requests it.
const maxReadInterval = 15 * time.Minute

// MirroredReadInterval returns the time between two reads of all items by a node whose leader reads for the fleet: one minute in a small
// fleet, half an hour with 500 nodes.
func (p NodePosition) MirroredReadInterval() time.Duration {
	return min(p.Interval(time.Minute, mirroredReadRate), 2*maxReadInterval)
}

// mirroredReadRate is the number of full reads per second by all nodes of a fleet whose leader reads for it.
const mirroredReadRate Rate = 500.0 / 1800

// ReadInterval returns the time between two reads of all items, given the duration of one, so that about one node of a fleet reads at a
// time. A status request of an operator triggers an earlier read.
func (p NodePosition) ReadInterval(least, took time.Duration) time.Duration {
	return max(least, min(seconds(float64(p.clamp().Nodes)*took.Seconds()), maxReadInterval))
}

// minRecordInterval is the interval at which a single worker records its progress.
const minRecordInterval = 10 * time.Second

// RecordInterval returns the interval at which a worker records its progress. The work after the last record is repeated if the worker
// dies.
func (p NodePosition) RecordInterval() time.Duration {
	return min(max(minRecordInterval, seconds(float64(p.clamp().Workers)/recordBudget)), maxReadInterval)
}

// StartInterval returns the time between two starts of workers on one node, so that a fleet whose nodes start at the same time keeps within
// startBudget. It is 0 without a hint.
func (p NodePosition) StartInterval() time.Duration {
	return min(seconds(float64(p.clamp().Nodes-soloNodes)/startBudget), maxStartInterval)
}

// maxStartInterval limits the delay of a worker's start, since hints may be wrong.
const maxStartInterval = 5 * time.Minute

// StartDelay returns the delay of a node's first start of a worker, which spreads the nodes of a fleet that start at the same time.
func (p NodePosition) StartDelay() time.Duration {
	p = p.clamp()
	if p.Nodes == 0 {
		return 0
	}
	return p.StartInterval() * time.Duration(p.Position) / time.Duration(p.Nodes)
}

// MinExponent returns the minimum lease exponent of a new item. With it leases are long enough that workers acquire at most startBudget of
// them per second. It is 0 without a hint.
func (p NodePosition) MinExponent(initial time.Duration) int {
	if p = p.clamp(); p.Workers == 0 || initial <= 0 {
		return 0
	}
	wanted := float64(p.Workers) / startBudget // seconds
	return min(bits.Len(uint(math.Ceil(wanted/initial.Seconds())-1)), timing.MaxExponent)
}

// contentionThreshold is the number of nodes above which a worker does not try all items that a search finds, because all nodes find the
// same items.
const contentionThreshold = 16

// MaxTries returns how many items of one search a worker tries before it stops for now; 0: all of them.
func (p NodePosition) MaxTries() int {
	if n := p.clamp().Nodes; n > contentionThreshold {
		return max(32*contentionThreshold/n, 2)
	}
	return 0
}

// seconds converts s to a duration between 0 and one day.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(s, 0), 24*3600) * float64(time.Second))
}
