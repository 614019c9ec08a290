package trial

import "time"

// Measured is what a trial run took.
type Measured struct {
	Wall     time.Duration // of the whole run; 0: a part of it was done by an earlier run, so that it is not known
	Slots    int           // shards that were worked on at the same time, at most
	Shards   int           // that were worked on
	Setup    time.Duration // summed over the shards, until the first document was read
	Copying  time.Duration // likewise, from then on
	Sending  time.Duration // of Copying: a request was under way
	Bytes    int64         // of the sources that were sent
	Requests int64         // to the target
	Body     int64         // bytes of these requests
	// WarmSending and WarmBody are those of all requests but the first of each shard; 0: there were none.
	WarmSending time.Duration
	WarmBody    int64
	// First is the shortest time that the first request of a shard took, FirstBody its bytes.
	First     time.Duration
	FirstBody int64
	Reading   time.Duration // of ReadBytes from the largest shard, one after the other
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

// Estimate is how long the whole takes, and why. Rates are those of one slot.
type Estimate struct {
	Whole
	Seconds      float64  `json:"seconds"`
	Fixed        float64  `json:"fixed_seconds"` // what does not grow with documents: indices, set-up of shards, leases, the end
	FixedKnown   bool     `json:"fixed_known"`   // false: Fixed is the set-up of the shards alone
	Setup        float64  `json:"setup_seconds_per_shard"`
	Slots        int      `json:"slots"`
	ReadRate     float64  `json:"read_bytes_per_second"` // decompressed and converted; 0: not known
	SendRate     float64  `json:"send_bytes_per_second"`
	First        float64  `json:"first_request_seconds_per_shard"` // beyond what its bytes take
	RequestRate  float64  `json:"requests_per_second"`             // to the target, while it was sent to
	RequestBytes float64  `json:"request_bytes"`                   // mean
	Bound        string   `json:"bound"`                           // what takes longest: Reading, Sending or OneShard
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

// few is how many bytes are enough for a rate: below it the first requests decide.
const few = 16 << 20

// Of estimates a whole migration with the slots of the trial run, on machines as busy as during it. It returns false when nothing was
// sent, so that nothing is known.
func Of(m Measured, w Whole, p *Price) (*Estimate, bool) {
	if m.Bytes <= 0 || m.Sending <= 0 || m.Shards < 1 {
		return nil, false
	}
	slots := max(1, min(m.Slots, m.Shards))
	side := float64(slots)
	e := &Estimate{Whole: w, Slots: slots, FixedKnown: m.Wall > 0, Setup: m.Setup.Seconds() / float64(m.Shards)}
	if e.Fixed = m.Setup.Seconds() / side; e.FixedKnown {
		e.Fixed = max(0, m.Wall.Seconds()-m.Copying.Seconds()/side)
	}
	e.SendRate, e.First = m.sending()
	e.RequestRate = float64(m.Requests) / m.Sending.Seconds()
	e.RequestBytes = float64(m.Body) / float64(max(1, m.Requests))
	perByte := 1 / e.SendRate
	e.Bound = Sending
	if m.ReadBytes > 0 && m.Reading > 0 {
		e.ReadRate = float64(m.ReadBytes) / m.Reading.Seconds()
		if 1/e.ReadRate > perByte {
			perByte, e.Bound = 1/e.ReadRate, Reading
		}
	}
	work := perByte*float64(w.Bytes)/side + e.First*float64(m.Shards)/side
	if alone := perByte*float64(w.Largest) + e.First; alone > work {
		work, e.Bound = alone, OneShard
	}
	e.Seconds = e.Fixed + work
	e.Cost = p.of(w, e.Seconds)
	e.Basis = basis(m, e)
	return e, true
}

// sending returns the bytes of sources that a slot sends per second, and how much longer the first request of a shard takes. The
// first requests of a run meet a target that has just created the indices, so the rate is that of the others.
func (m Measured) sending() (rate, first float64) {
	if m.WarmBody <= 0 || m.WarmSending <= 0 || m.Body <= 0 {
		return float64(m.Bytes) / m.Sending.Seconds(), 0
	}
	body := float64(m.WarmBody) / m.WarmSending.Seconds()
	first = max(0, m.First.Seconds()-float64(m.FirstBody)/body)
	return body * float64(m.Bytes) / float64(m.Body), first
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
	b := []string{"one process with the options of the trial run; reading and sending side by side; the target as busy as during the trial run"}
	if m.Body < few {
		b = append(b, "few bytes were sent, so the first requests decide: a larger --trial, on a target that has been indexing, is more exact")
	}
	if e.ReadRate == 0 {
		b = append(b, "the rate of reading is not known: no shard could be read")
	}
	if !e.FixedKnown {
		b = append(b, "an earlier run did a part of the trial, so only the set-up of the shards counts as fixed: rfsctl cleanup --trial, then the trial again, measures all")
	}
	return b
}
