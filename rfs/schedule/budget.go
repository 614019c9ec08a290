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
	// alone is a number of nodes that may do as each would alone.
	alone = 4
)

// Often is how many times per second all nodes together do something.
type Often float64

// What daemons do again and again.
const (
	Intents   Often = 5   // reading of the operator's wish; a change is told by gossip, too
	Foundings Often = 2.5 // looks whether the hints have begun anew
	Events    Often = 2   // readings of the store's events
	Beats     Often = 3   // a node's words in the list of nodes, where nothing depends on them
	Elections Often = 2   // looks whether the leader's lock is free
)

// Every is how often one node does something that it would do after least if it were alone. least without a hint.
func (p Place) Every(least time.Duration, all Often) time.Duration {
	return max(least, seconds(float64(p.sane().Nodes)/float64(all)))
}

// maxReading bounds how old what a node knows of the migration may be when nobody asks it.
const maxReading = 15 * time.Minute

// Reading is how long a node waits before it reads the whole state of the work again, which took so long: one in a fleet reads
// at a time. Whoever is asked by an operator reads sooner.
func (p Place) Reading(least, took time.Duration) time.Duration {
	return max(least, min(seconds(float64(p.sane().Nodes)*took.Seconds()), maxReading))
}

// leastRecord is how often one worker alone records its progress.
const leastRecord = 10 * time.Second

// Record is how often a worker records its progress: what it has done since then is done again when it dies.
func (p Place) Record() time.Duration {
	return min(max(leastRecord, seconds(float64(p.sane().Workers)/recordBudget)), maxReading)
}

// Pause is how long one node waits between two starts of workers, so that a whole fleet that starts at once keeps within its
// budget. 0 without a hint.
func (p Place) Pause() time.Duration {
	return min(seconds(float64(p.sane().Nodes-alone)/startBudget), maxPause)
}

// maxPause bounds how long a node leaves a worker out: hints may be wrong.
const maxPause = 5 * time.Minute

// Begin is how long a node waits before its first start, so that nodes that start at once ask one after the other.
func (p Place) Begin() time.Duration {
	p = p.sane()
	if p.Nodes == 0 {
		return 0
	}
	return p.Pause() * time.Duration(p.Position) / time.Duration(p.Nodes)
}

// Exponent is the least lease exponent of a new item: leases are so long that no more workers begin one than may. 0 without a
// hint.
func (p Place) Exponent(initial time.Duration) int {
	if p = p.sane(); p.Workers == 0 || initial <= 0 {
		return 0
	}
	wanted := float64(p.Workers) / startBudget // seconds
	return min(bits.Len(uint(math.Ceil(wanted/initial.Seconds())-1)), cms.MaxExponent)
}

// crowd is how many nodes are too many to try whatever a search finds: they all find the same.
const crowd = 16

// Tries is how many items that a search found a worker tries before it gives up for now; 0: as many as it likes.
func (p Place) Tries() int {
	if n := p.sane().Nodes; n > crowd {
		return max(32*crowd/n, 2)
	}
	return 0
}

// seconds is a duration that is never negative, nor longer than a day.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(s, 0), 24*3600) * float64(time.Second))
}
