package schedule

import (
	"math/bits"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// Load is what a node tells the others of itself.
type Load struct {
	Workers           int     `json:"w"`           // running
	MaxWorkers        int     `json:"m"`           // it could bear
	Rate              int64   `json:"r,omitempty"` // source bytes per second, of all its workers
	TargetRejectRatio float64 `json:"b,omitempty"` // part of the bulk requests that the target refused for being busy
	RepoThrottleRatio float64 `json:"s,omitempty"` // part of the requests to the repository that failed or were throttled
	Plan              int64   `json:"p,omitempty"` // number of the plan whose part of the rate it takes; 0: none
}

// Bounds of what a node is believed to be.
const (
	maxWorkers = 1 << 14
	maxRate    = 1 << 50 // bytes per second
)

// Clamp gives what can be true of a load that anybody may have told.
func (l Load) Clamp() Load {
	l.Workers, l.MaxWorkers = min(max(l.Workers, 0), maxWorkers), min(max(l.MaxWorkers, 0), maxWorkers)
	l.Rate, l.TargetRejectRatio, l.RepoThrottleRatio = min(max(l.Rate, 0), maxRate), min(max(l.TargetRejectRatio, 0), 1), min(max(l.RepoThrottleRatio, 0), 1)
	return l
}

// Plan is what the leader proposes and the nodes tell each other. Zero values propose nothing.
type Plan struct {
	Rate          int64         // bytes per second that this node may send
	Workers       int           // of the whole fleet, where nobody has said a number
	ShardDuration time.Duration // that a shard of average size takes one worker
	// TargetRejectRatio and Slow are the parts of all nodes' requests that the target refused and that the repository throttled.
	TargetRejectRatio, RepoThrottleRatio float64
	ListedNodes                          int // living nodes by the list of the coordination store
	// Throughput of the fleet, in bytes of the repository per second, by its history; for what is told of the end only.
	Throughput float64
}

// Parts of the requests that were refused or throttled.
const (
	HighPressure = 0.10 // fewer workers are better
	LowPressure  = 0.01 // one more may be tried
)

// Pressure are the parts of requests that the target refused and that the repository throttled, by nodes' workers.
func Pressure(loads []Load) (busy, slow float64) {
	workers := 0.0
	for _, l := range loads {
		n := float64(max(l.Workers, 0))
		busy, slow, workers = busy+n*l.TargetRejectRatio, slow+n*l.RepoThrottleRatio, workers+n
	}
	if workers == 0 {
		return 0, 0
	}
	return busy / workers, slow / workers
}

// minShare is the part of an equal share that a node without workers keeps, so that it can begin.
const minShare = 0.1

// AllocateShares divides a budget among nodes by their running workers. The parts add up to at most the budget.
func AllocateShares(budget int64, loads []Load) []int64 {
	parts := make([]int64, len(loads))
	workers := 0
	for _, l := range loads {
		workers += max(l.Workers, 0)
	}
	if len(loads) == 0 {
		return parts
	}
	least := int64(minShare * float64(budget) / float64(len(loads)))
	rest := budget - least*int64(len(loads))
	for i, l := range loads {
		parts[i] = least
		if workers == 0 {
			parts[i] += rest / int64(len(loads))
		} else {
			parts[i] += int64(float64(rest) * float64(max(l.Workers, 0)) / float64(workers))
		}
	}
	return parts
}

// ProposeWorkers is how many workers a fleet should have after it had a number of them: no more than its nodes bear or than
// items are open, fewer while too much is refused, more again while nothing is. was is 0 at the begin; open is -1 when it is
// not known.
func ProposeWorkers(was int, loads []Load, open int) int {
	most := 0
	for _, l := range loads {
		most += max(l.MaxWorkers, 0)
	}
	if open >= 0 {
		most = min(most, open)
	}
	n := was
	busy, slow := Pressure(loads)
	switch pressure := max(busy, slow); {
	case was == 0:
		n = most
	case pressure > HighPressure:
		n = was * 3 / 4
	case pressure < LowPressure:
		n = was + len(loads)
	}
	return max(min(n, most), min(1, most))
}

// TypicalShard is how long a shard of average size takes one worker, by what the nodes tell or, while that is nothing, by the
// bytes per second of one worker before; 0 when it is not known.
func TypicalShard(shards []Shard, loads []Load, before float64) time.Duration {
	var bytes, rate float64
	workers := 0
	for _, s := range shards {
		bytes += float64(s.Bytes)
	}
	for _, l := range loads {
		if l.Rate > 0 && l.Workers > 0 {
			rate, workers = rate+float64(l.Rate), workers+l.Workers
		}
	}
	one := before
	if rate > 0 {
		one = rate / float64(workers)
	}
	if len(shards) == 0 || !(one > 0) {
		return 0
	}
	seconds := max(bytes, 0) / float64(len(shards)) / one
	return time.Duration(min(seconds, 24*3600) * float64(time.Second))
}

// maxShardExponent bounds what a typical shard adds to the exponent of new leases: whoever dies is waited for as long.
const maxShardExponent = 2

// MinExponent is the least lease exponent of a new item under a plan: a shard of average size should need one lease.
func (p Plan) MinExponent(initial time.Duration) int {
	if p.ShardDuration <= initial || initial <= 0 {
		return 0
	}
	return min(bits.Len64(uint64((p.ShardDuration-1)/initial)), maxShardExponent, cms.MaxExponent)
}
