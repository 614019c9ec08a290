package schedule

import (
	"math/bits"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Load is the load of a node, as it reports it to the others.
type Load struct {
	Workers           int     `json:"w"`           // running
	MaxWorkers        int     `json:"m"`           // maximum that it could run
	Rate              int64   `json:"r,omitempty"` // source bytes per second, of all its workers
	TargetRejectRatio float64 `json:"b,omitempty"` // ratio of bulk requests that the target rejected because it was overloaded
	RepoThrottleRatio float64 `json:"s,omitempty"` // ratio of repository requests that failed or were throttled
	Intent            int64   `json:"i,omitempty"` // version of the operator's intent that it follows; 0: none
}

// Limits of values in a Load.
const (
	maxWorkers = 1 << 14
	maxRate    = 1 << 50 // bytes per second
)

// Clamp returns l with all values within valid limits, because loads of other nodes are not trusted.
func (l Load) Clamp() Load {
	l.Workers, l.MaxWorkers = min(max(l.Workers, 0), maxWorkers), min(max(l.MaxWorkers, 0), maxWorkers)
	l.Rate, l.TargetRejectRatio, l.RepoThrottleRatio = min(max(l.Rate, 0), maxRate), min(max(l.TargetRejectRatio, 0), 1), min(max(l.RepoThrottleRatio, 0), 1)
	return l
}

// Plan is the leader's proposal, with the loads that nodes report. Zero values propose nothing.
type Plan struct {
	Workers       int           // for the whole fleet, unless the operator has set a number
	ShardDuration time.Duration // of one worker for a shard of average size
	// TargetRejectRatio and RepoThrottleRatio are the ratios of all nodes' requests that the target rejected and the repository throttled.
	TargetRejectRatio, RepoThrottleRatio float64
	// Throughput is the throughput of the fleet, in bytes of the repository per second, from its history. It is only for estimates.
	Throughput float64
}

// Thresholds of the ratio of rejected or throttled requests.
const (
	HighPressure = 0.10 // fewer workers are better
	LowPressure  = 0.01 // one more may be tried
)

// Pressure returns the ratios of requests that the target rejected and that the repository throttled, weighted by workers.
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

// ProposeWorkers returns the next number of workers of a fleet: three quarters of was under high pressure, one more per node under low
// pressure; at most as many as its nodes can run and as items are open. was is 0 at the start; open is -1 if unknown.
func ProposeWorkers(was int, loads []Load, open int) int {
	most := 0
	for _, l := range loads {
		most += max(l.MaxWorkers, 0)
	}
	if open >= 0 {
		most = min(most, open)
	}
	return Next(was, most, loads)
}

// Next returns the next number of workers or machines: three quarters of was while over HighPressure of the requests are rejected or
// throttled, one more per node under LowPressure, and most at the start, when was is 0. It is at most most and, unless that is 0, at least
// 1.
func Next(was, most int, loads []Load) int {
	n := was
	busy, slow := Pressure(loads)
	switch pressure := max(busy, slow); {
	case was == 0:
		n = most
	case pressure > HighPressure:
		n = was * 3 / 4
	case pressure < LowPressure:
		n = was + max(len(loads), 1)
	}
	return max(min(n, most), min(1, most))
}

// TypicalShard returns the time that one worker needs for a shard of average size, from the reported rates or, without any, from the former
// throughput of one worker in bytes per second. It returns 0 if unknown.
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

// maxShardExponent limits the exponent that a typical shard adds to new leases: the item of a dead worker waits for the end of its lease.
const maxShardExponent = 2

// MinExponent returns the minimum lease exponent of a new item, so that a shard of average size needs one lease.
func (p Plan) MinExponent(initial time.Duration) int {
	if p.ShardDuration <= initial || initial <= 0 {
		return 0
	}
	return min(bits.Len64(uint64((p.ShardDuration-1)/initial)), maxShardExponent, timing.MaxExponent)
}
