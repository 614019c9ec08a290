package trial

import (
	"fmt"
	"time"
)

// Measured is what a trial run took.
type Measured struct {
	Wall    time.Duration // of the whole run, without Load and Alone; 0: a part of it was done by an earlier run, so that it is not known
	Refused time.Duration // of Wall: the target or the coordination store answered no request, because it was busy or away
	Slots   int           // shards that are worked on at the same time, at most
	Shards  int           // of the whole, all of which were worked on
	Busy    time.Duration // at least one shard was in work
	Leases  time.Duration // how long shards were in work, summed over them
	Setup   time.Duration // of Leases: until the first document was read
	Copying time.Duration // of Leases: from then on
	// Load is the rate of new documents that were sent with all slots, Alone that of one slot; in bytes of sources. Zero: not known.
	Load, Alone Sustained
	WarmUps     int           // measurements before that of Load
	Gain        float64       // how many times as fast as the last warm-up Load began
	Warmed      float64       // how many times as fast as the first warm-up Load began; 0: not known
	Refresh     time.Duration // of what was sent for Load
	Reading     time.Duration // of ReadBytes from the largest shard, one after the other
	// ReadBytes are bytes of sources that were decompressed and converted without being sent.
	ReadBytes int64
}

// Whole is what a migration has to do, as the trial run and the manifests show it.
type Whole struct {
	Documents          int64 `json:"documents"`
	Bytes              int64 `json:"bytes"`               // of the sources that are sent
	Largest            int64 `json:"largest_shard_bytes"` // likewise, of the shard with most
	RepositoryBytes    int64 `json:"repository_bytes"`
	RepositoryRequests int64 `json:"repository_requests"`
}

// Estimate is how long the whole takes, and why.
type Estimate struct {
	Whole
	Seconds      float64  `json:"seconds,omitempty"` // 0: not known, since Warming
	Least        float64  `json:"seconds_least"`     // at the fastest rate that was measured, and less what a trial run cannot know
	Most         float64  `json:"seconds_most"`      // at the slowest, likewise, and with refusals as in the trial run
	Warming      bool     `json:"warming"`           // the target still got much faster when the measurement ended
	WarmUps      int      `json:"warm_ups"`          // measurements before the one that counts; more than 1: the target got faster
	Fixed        float64  `json:"fixed_seconds"`     // what does not grow with documents: indices, set-up of shards, leases, the last refresh, the end
	FixedKnown   bool     `json:"fixed_known"`       // false: Fixed is the set-up of the shards and the last refresh alone
	Refused      float64  `json:"refused_seconds"`   // of the trial run, in which no request was answered; not part of Fixed
	Setup        float64  `json:"setup_seconds_per_shard"`
	Slots        int      `json:"slots"`
	ReadRate     float64  `json:"read_bytes_per_second"` // decompressed and converted by one slot; 0: not known
	SendRate     float64  `json:"send_bytes_per_second"` // by all slots, mean of the whole
	RequestRate  float64  `json:"requests_per_second"`   // to the target
	RequestBytes float64  `json:"request_bytes"`         // mean
	Bound        string   `json:"bound"`                 // what takes longest: Reading, Sending or OneShard
	Cost         *Cost    `json:"cost,omitempty"`
	Basis        []string `json:"basis"`
}

// What a migration waits for.
const (
	Reading  = "reading"
	Sending  = "sending"
	OneShard = "the largest shard"
)

// Cost is what the whole costs by a file of prices.
type Cost struct {
	Requests float64 `json:"s3_requests"`
	Egress   float64 `json:"egress"`
	Instance float64 `json:"instance"`
	Total    float64 `json:"total"`
}

// What a trial run cannot know: how the segments of the whole are merged, what caches still hold then, and how much quicker or
// slower a node gets. Measured on real nodes, migrations took up to so much less or more.
const (
	quicker = 1.2
	slower  = 1.25
)

// Short is the time below which an estimate states no more than that, in seconds: indices, shards and leases decide then.
const Short = 10

// near is how much faster the reading of all slots may be than what they read and sent, for reading to be what takes longest.
const near = 1.25

// Of estimates a whole migration with the slots of the trial run, on machines as busy as during it. It returns false when the rate
// is not known.
func Of(m Measured, w Whole, p *Price) (*Estimate, bool) {
	if m.Load.Rate <= 0 || m.Shards < 1 {
		return nil, false
	}
	slots := max(1, min(m.Slots, m.Shards))
	e := &Estimate{Whole: w, Slots: slots, FixedKnown: m.Wall > 0, Refused: m.Refused.Seconds(), Warming: m.Gain > quicker, WarmUps: m.WarmUps, Setup: m.Setup.Seconds() / float64(m.Shards), Bound: Sending}
	if e.Fixed = m.Setup.Seconds() / float64(slots); e.FixedKnown {
		e.Fixed = m.fixed()
	}
	cold := e.Fixed - e.Fixed/max(1, m.Warmed) // it was measured before the target had warmed up
	e.Fixed += m.Refresh.Seconds() - cold
	e.SendRate = m.Load.Rate
	if w.Bytes > 0 {
		e.SendRate = float64(w.Bytes) / m.Load.Seconds(float64(w.Bytes), m.Load.Rate)
	}
	e.RequestRate, e.RequestBytes = e.SendRate/m.Load.Rate*m.Load.Requests, m.Load.Body
	if m.ReadBytes > 0 && m.Reading > 0 {
		e.ReadRate = float64(m.ReadBytes) / m.Reading.Seconds()
		if e.ReadRate*float64(slots) < near*e.SendRate {
			e.Bound = Reading
		}
	}
	of := func(all, alone float64) float64 {
		took := m.Load.Seconds(float64(w.Bytes), all)
		if alone > 0 {
			took = max(took, m.Alone.Seconds(float64(w.Largest), alone))
		}
		return e.Fixed + took
	}
	if e.Seconds = of(m.Load.Rate, m.Alone.Rate); e.Seconds > of(m.Load.Rate, 0) {
		e.Bound = OneShard
	}
	least, most := e.Seconds, e.Seconds
	if m.Load.Least > 0 {
		least, most = min(least, of(m.Load.Most, m.Alone.Most)), max(most, of(m.Load.Least, m.Alone.Least))
	}
	if Faster(m.Gain) { // it may get as much faster once more
		least = e.Fixed + (least-e.Fixed)/m.Gain
	}
	e.Least, e.Most = least/quicker, (most+cold)*slower+e.Refused
	if e.Seconds < Short {
		e.Least, e.Most = 0, max(e.Most, Short)
	}
	e.Cost, e.Basis = p.of(w, e.Seconds), basis(m, e)
	if e.Warming {
		e.Cost, e.Seconds = p.of(w, e.Most), 0
	}
	return e, true
}

// fixed returns the seconds of the run in which no documents were copied, without those of refusals. While shards were in work,
// that is the part of their time.
func (m Measured) fixed() float64 {
	copying := 0.0
	if m.Leases > 0 {
		copying = m.Busy.Seconds() * min(1, m.Copying.Seconds()/m.Leases.Seconds())
	}
	return max(0, m.Wall.Seconds()-copying-m.Refused.Seconds())
}

// of returns what a migration costs; nil without prices.
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

// basis states what the estimate rests on, and what it does not know.
func basis(m Measured, e *Estimate) []string {
	b := []string{"one process with the options of the trial run, and a target that is as busy as during it"}
	if !m.Load.Steady || m.Alone.Rate > 0 && !m.Alone.Steady {
		b = append(b, "the rate of sending had not settled when the measurement ended: something else took the target's time, or it writes in bursts; a second trial run is more exact")
	}
	switch {
	case e.Warming:
		b = append(b, fmt.Sprintf("the target still got faster when the measurement ended (%.1f times as fast as just before), as a node does after its start: the time is not more precise than the range; an immediate second trial run finds the target warm", m.Gain))
	case e.WarmUps > 1:
		b = append(b, "the target got faster at first, as a node does after its start: the rate was measured afterwards; the fixed part was measured before, and counts as shorter by the same factor")
	}
	if e.Refused >= 1 {
		b = append(b, fmt.Sprintf("the target refused all requests for %.0f s of the trial run (429), or did not answer; what the migration waits like that is part of the longest time alone", e.Refused))
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
