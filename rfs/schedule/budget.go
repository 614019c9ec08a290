package schedule

import (
	"math"
	"math/bits"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// What a whole fleet may ask of the coordination store, in operations per second. Everything that nodes and workers do again and
// again is stretched so that they keep to it together, however many they are; small fleets never notice. A fleet that hears
// nothing of itself cannot, and asks as often as its nodes would alone.
const (
	startBudget  = 3 // workers that begin a lease; each comes with some 20 operations from its start to its end
	recordBudget = 50
	// soloNodes is a number of nodes that may do as each would alone.
	soloNodes = 4
)

// Rate is how many times per second all nodes together do something.
type Rate float64

// What daemons do again and again.
const (
	IntentRate    Rate = 5   // reading of the operator's wish; a change is told by gossip, too
	RaftProbeRate Rate = 2.5 // looks whether the hints have begun anew
	EventRate     Rate = 2   // readings of the store's events
	HeartbeatRate Rate = 3   // a node's words in the list of nodes, where nothing depends on them
	ElectionRate  Rate = 2   // looks whether the leader's lock is free
)

// Interval is how often one node does something that it would do after least if it were alone. least without a hint.
func (p NodePosition) Interval(least time.Duration, all Rate) time.Duration {
	return max(least, seconds(float64(p.clamp().Nodes)/float64(all)))
}

// maxReadInterval bounds how old what a node knows of the migration may be when nobody asks it.
const maxReadInterval = 15 * time.Minute

// ReadInterval is how long a node waits before it reads the whole state of the work again, which took so long: one in a fleet reads
// at a time. Whoever is asked by an operator reads sooner.
func (p NodePosition) ReadInterval(least, took time.Duration) time.Duration {
	return max(least, min(seconds(float64(p.clamp().Nodes)*took.Seconds()), maxReadInterval))
}

// minRecordInterval is how often one worker alone records its progress.
const minRecordInterval = 10 * time.Second

// RecordInterval is how often a worker records its progress: what it has done since then is done again when it dies.
func (p NodePosition) RecordInterval() time.Duration {
	return min(max(minRecordInterval, seconds(float64(p.clamp().Workers)/recordBudget)), maxReadInterval)
}

// StartInterval is how long one node waits between two starts of workers, so that a whole fleet that starts at once keeps within its
// budget. 0 without a hint.
func (p NodePosition) StartInterval() time.Duration {
	return min(seconds(float64(p.clamp().Nodes-soloNodes)/startBudget), maxStartInterval)
}

// maxStartInterval bounds how long a node leaves a worker out: hints may be wrong.
const maxStartInterval = 5 * time.Minute

// StartDelay is how long a node waits before its first start, so that nodes that start at once ask one after the other.
func (p NodePosition) StartDelay() time.Duration {
	p = p.clamp()
	if p.Nodes == 0 {
		return 0
	}
	return p.StartInterval() * time.Duration(p.Position) / time.Duration(p.Nodes)
}

// MinExponent is the least lease exponent of a new item: leases are so long that no more workers begin one than may. 0 without a
// hint.
func (p NodePosition) MinExponent(initial time.Duration) int {
	if p = p.clamp(); p.Workers == 0 || initial <= 0 {
		return 0
	}
	wanted := float64(p.Workers) / startBudget // seconds
	return min(bits.Len(uint(math.Ceil(wanted/initial.Seconds())-1)), cms.MaxExponent)
}

// contentionThreshold is how many nodes are too many to try whatever a search finds: they all find the same.
const contentionThreshold = 16

// MaxTries is how many items that a search found a worker tries before it gives up for now; 0: as many as it likes.
func (p NodePosition) MaxTries() int {
	if n := p.clamp().Nodes; n > contentionThreshold {
		return max(32*contentionThreshold/n, 2)
	}
	return 0
}

// seconds is a duration that is never negative, nor longer than a day.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(s, 0), 24*3600) * float64(time.Second))
}
