package worker

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/failed/classes"
)

// Tried is what a trial run measured. Seconds of a slot are summed over the shards.
type Tried struct {
	Scanned  int64   `json:"scanned"`         // ordinals that were looked at
	Setup    float64 `json:"setup_seconds"`   // until the first document was read
	Copying  float64 `json:"copying_seconds"` // from then on
	Sending  float64 `json:"sending_seconds"` // of these: a request was under way
	Requests int64   `json:"requests"`        // to the target
	Body     int64   `json:"body_bytes"`      // of these requests
	// WarmSending and WarmBody are those of all requests but the first of each lease, which opens connections and shards.
	WarmSending float64 `json:"warm_sending_seconds,omitempty"`
	WarmBody    int64   `json:"warm_body_bytes,omitempty"`
	// First is the shortest time of a first request, FirstBody its bytes.
	First     float64          `json:"first_seconds,omitempty"`
	FirstBody int64            `json:"first_body_bytes,omitempty"`
	Classes   map[string]int64 `json:"classes,omitempty"` // failed documents
}

// Add adds what another part of the trial measured.
func (t *Tried) Add(u Tried) {
	t.Scanned, t.Requests, t.Body = t.Scanned+u.Scanned, t.Requests+u.Requests, t.Body+u.Body
	t.Setup, t.Copying, t.Sending = t.Setup+u.Setup, t.Copying+u.Copying, t.Sending+u.Sending
	t.WarmSending, t.WarmBody = t.WarmSending+u.WarmSending, t.WarmBody+u.WarmBody
	if u.First > 0 && (t.First == 0 || u.First < t.First) {
		t.First, t.FirstBody = u.First, u.FirstBody
	}
	if t.Classes = maps.Clone(t.Classes); t.Classes == nil && len(u.Classes) > 0 {
		t.Classes = map[string]int64{}
	}
	for class, n := range u.Classes {
		t.Classes[class] += n
	}
}

// IndexTried is what a trial run measured of an index, and what the whole index has by it.
type IndexTried struct {
	Tried
	Documents int64 `json:"whole_documents"`
	Bytes     int64 `json:"whole_bytes"`         // of the sources that are sent
	Largest   int64 `json:"largest_shard_bytes"` // likewise, of the shard with most
}

// trying measures one lease of a trial run. It is its bulk.Sender and its bulk.Recorder.
type trying struct {
	bulk.Recorder
	next bulk.Sender
	now  func() time.Duration // monotonic

	mu        sync.Mutex
	all, warm underWay
	requests  int64
	first     time.Duration
	firstBody int64
	classes   map[int64]string // of failed documents, by ordinal
}

// underWay measures how long at least one request is under way.
type underWay struct {
	running int
	since   time.Duration // when the first of them began
	busy    time.Duration
	body    int64
}

func (u *underWay) begin(now time.Duration, body int64) {
	if u.running++; u.running == 1 {
		u.since = now
	}
	u.body += body
}

func (u *underWay) end(now time.Duration) {
	if u.running--; u.running == 0 {
		u.busy += now - u.since
	}
}

// Send passes a request on.
func (t *trying) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	t.mu.Lock()
	begin, first := t.now(), t.requests == 0
	t.requests++
	t.all.begin(begin, int64(len(body)))
	if !first {
		t.warm.begin(begin, int64(len(body)))
	}
	t.mu.Unlock()
	res, err := t.next.Send(ctx, body, n)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.all.end(now)
	if first {
		t.first, t.firstBody = now-begin, int64(len(body))
	} else {
		t.warm.end(now)
	}
	return res, err
}

// Record notes the classes of failures and passes them on.
func (t *trying) Record(ctx context.Context, failures []doc.Failure) error {
	t.mu.Lock()
	for _, f := range failures {
		t.classes[f.Ordinal] = classes.Of(f.Reason, f.Detail).Name
	}
	t.mu.Unlock()
	return t.Recorder.Record(ctx, failures)
}

// tried returns what the lease measured up to a watermark.
func (t *trying) tried(watermark int64) Tried {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Tried{Sending: t.all.busy.Seconds(), Requests: t.requests, Body: t.all.body, WarmSending: t.warm.busy.Seconds(), WarmBody: t.warm.body,
		First: t.first.Seconds(), FirstBody: t.firstBody, Classes: map[string]int64{}}
	for ordinal, class := range t.classes {
		if ordinal < watermark {
			r.Classes[class]++
		}
	}
	return r
}
