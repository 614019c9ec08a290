package trial

import (
	"fmt"
	"time"
)

// Measured is the result of a trial run.
type Measured struct {
	Wall    time.Duration // of the sample; 0: unknown, because an earlier run did a part of it
	Slots   int           // maximum number of concurrent shards
	Shards  int           // number of shards of the whole, all in the sample
	Busy    time.Duration // while at least one shard was active
	Leases  time.Duration // sum of the active times of the shards
	Setup   time.Duration // of Leases: until the first document was read
	Copying time.Duration // of Leases: after that
	Load    Rate          // of new documents sent with all slots, in bytes of sources; zero: unknown
	Refresh time.Duration // of the documents sent for Load
	Reading time.Duration // to read ReadBytes from the largest shard, in sequence
	// ReadBytes is the number of bytes of sources that were decompressed and converted without being sent.
	ReadBytes int64
}

// Whole is the work of a whole migration, from the trial run and the manifests.
type Whole struct {
	Documents          int64 `json:"documents"`
	Bytes              int64 `json:"bytes"`               // of the sources to send
	Largest            int64 `json:"largest_shard_bytes"` // of the sources of the largest shard
	RepositoryBytes    int64 `json:"repository_bytes"`
	RepositoryRequests int64 `json:"repository_requests"`
}

// Estimate is the estimated duration of a whole migration, with its basis.
type Estimate struct {
	Whole
	Seconds      float64  `json:"seconds"`
	Least        float64  `json:"seconds_least"` // at the fastest measured rate, divided by quicker; 0: unknown
	Most         float64  `json:"seconds_most"`  // at the slowest measured rate, multiplied by slower
	Fixed        float64  `json:"fixed_seconds"` // independent of the documents: indices, set-up of shards, leases, the last refresh, the end
	FixedKnown   bool     `json:"fixed_known"`   // false: Fixed is the set-up of the shards and the last refresh alone
	Setup        float64  `json:"setup_seconds_per_shard"`
	Slots        int      `json:"slots"`
	ReadRate     float64  `json:"read_bytes_per_second"` // decompressed and converted by one slot; 0: unknown
	SendRate     float64  `json:"send_bytes_per_second"` // by all slots
	RequestRate  float64  `json:"requests_per_second"`   // to the target
	RequestBytes float64  `json:"request_bytes"`         // mean
	Bound        string   `json:"bound"`                 // the bottleneck: Reading, Sending or OneShard
	Cost         *Cost    `json:"cost,omitempty"`
	Basis        []string `json:"basis"`
}

// The bottlenecks of a migration.
const (
	Reading  = "reading"
	Sending  = "sending"
	OneShard = "the largest shard"
)

// Cost is the cost of a whole migration, by a file of prices.
type Cost struct {
	Requests float64 `json:"s3_requests"`
	Egress   float64 `json:"egress"`
	Instance float64 `json:"instance"`
	Total    float64 `json:"total"`
}

// A trial run cannot measure the merges of the whole, the hit rates of caches, and changes in the speed of nodes
// and indices. On real nodes, migrations were faster or slower by up to these factors.
const (
	quicker = 1.4
	slower  = 1.25
)

// Short is the duration, in seconds, below which an estimate only states that it is shorter: indices, shards and leases dominate then.
const Short = 10

// steady is the gain up to which a difference counts as noise.
const steady = 1.1

// near is the maximum ratio of the read rate of all slots to their send rate at which reading counts as the bottleneck.
const near = 1.25

// Of returns the estimate for a whole migration with the slots of the trial run, on machines as busy as during it. It returns false
// if the rate is unknown.
func Of(m Measured, w Whole, p *Price) (*Estimate, bool) {
	if m.Load.Mean <= 0 || m.Shards < 1 {
		return nil, false
	}
	slots := max(1, min(m.Slots, m.Shards))
	e := &Estimate{Whole: w, Slots: slots, FixedKnown: m.Wall > 0, Setup: m.Setup.Seconds() / float64(m.Shards), Bound: Sending,
		SendRate: m.Load.Mean, RequestRate: m.Load.Requests, RequestBytes: m.Load.Body}
	if e.Fixed = m.Setup.Seconds() / float64(slots); e.FixedKnown {
		e.Fixed = m.fixed()
	}
	e.Fixed += m.Refresh.Seconds()
	if m.ReadBytes > 0 && m.Reading > 0 {
		e.ReadRate = float64(m.ReadBytes) / m.Reading.Seconds()
		if e.ReadRate*float64(slots) < near*e.SendRate {
			e.Bound = Reading
		}
	}
	e.Least = (e.Fixed + float64(w.Bytes)/m.Load.Most) / quicker
	// A slot that works alone on the last shard is at least as fast as its share of the rate of all slots.
	bytes := float64(w.Bytes)
	if one := float64(w.Largest) * float64(slots); one > bytes {
		bytes, e.Bound = one, OneShard
	}
	e.Seconds = e.Fixed + bytes/m.Load.Mean
	e.Most = max(e.Seconds, e.Fixed+bytes/max(m.Load.Least, m.Load.Mean/10)) * slower
	switch {
	case e.Seconds < Short:
		e.Least, e.Most = 0, max(e.Most, Short)
	case m.Load.Gain > steady:
		e.Least = 0
	}
	e.Cost, e.Basis = p.of(w, e.Seconds), e.basis(m)
	return e, true
}

// fixed returns the seconds of the run in which no documents were copied. It assumes that while shards were active, the fraction
// of copying was the same as in the sum of their leases.
func (m Measured) fixed() float64 {
	copying := 0.0
	if m.Leases > 0 {
		copying = m.Busy.Seconds() * min(1, m.Copying.Seconds()/m.Leases.Seconds())
	}
	return max(0, m.Wall.Seconds()-copying)
}

// of returns the cost of a migration; nil without prices.
func (p *Price) of(w Whole, seconds float64) *Cost {
	if p == nil {
		return nil
	}
	times := func(price *float64, n float64) float64 {
		if price == nil {
			return 0
		}
		return *price * n
	}
	c := &Cost{Requests: times(p.Requests, float64(w.RepositoryRequests)/1000), Egress: times(p.Egress, float64(w.RepositoryBytes)/1e9), Instance: times(p.Instance, seconds/3600)}
	c.Total = c.Requests + c.Egress + c.Instance
	return c
}

// basis returns the assumptions and unknowns of the estimate.
func (e *Estimate) basis(m Measured) []string {
	b := []string{"one process with the options of the trial run, and a target that is as busy as during it"}
	if m.Load.Gain > steady {
		b = append(b, fmt.Sprintf("the target still got faster when the measurement ended (%.1f times as fast as shortly before), as a node does after its start: only the longest time is known; a second trial run, or a longer --trial-measure, is more exact", m.Load.Gain))
	}
	if e.Bound == OneShard {
		b = append(b, "one shard has most of the documents: the time assumes that a slot working alone on it is not faster than next to the others; --split-shards-over divides it")
	}
	if e.Seconds < Short {
		b = append(b, "creating indices, opening shards and counting decide about so short a migration, and take longer on a node that has just started")
	}
	if e.ReadRate == 0 {
		b = append(b, "the rate of reading is unknown: no shard could be read")
	}
	if !e.FixedKnown {
		b = append(b, "an earlier run did a part of the trial, so only the set-up of the shards and the last refresh count as fixed: rfsctl cleanup --trial, then the trial again, measures all")
	}
	return b
}
