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
	Scanned  int64            `json:"scanned"`           // ordinals that were looked at
	Setup    float64          `json:"setup_seconds"`     // until the first document was read
	Copying  float64          `json:"copying_seconds"`   // from then on
	Sending  float64          `json:"sending_seconds"`   // of these: a request was under way
	Requests int64            `json:"requests"`          // to the target
	Body     int64            `json:"body_bytes"`        // of these requests
	Classes  map[string]int64 `json:"classes,omitempty"` // failed documents
}

// Add adds what another part of the trial measured.
func (t *Tried) Add(u Tried) {
	t.Scanned, t.Requests, t.Body = t.Scanned+u.Scanned, t.Requests+u.Requests, t.Body+u.Body
	t.Setup, t.Copying, t.Sending = t.Setup+u.Setup, t.Copying+u.Copying, t.Sending+u.Sending
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

	mu       sync.Mutex
	running  int
	since    time.Duration // when the first of them began
	busy     time.Duration
	requests int64
	body     int64
	classes  map[int64]string // of failed documents, by ordinal
}

// Send passes a request on.
func (t *trying) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	t.mu.Lock()
	if t.running++; t.running == 1 {
		t.since = t.now()
	}
	t.requests, t.body = t.requests+1, t.body+int64(len(body))
	t.mu.Unlock()
	res, err := t.next.Send(ctx, body, n)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running--; t.running == 0 {
		t.busy += t.now() - t.since
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
	r := Tried{Sending: t.busy.Seconds(), Requests: t.requests, Body: t.body, Classes: map[string]int64{}}
	for ordinal, class := range t.classes {
		if ordinal < watermark {
			r.Classes[class]++
		}
	}
	return r
}
