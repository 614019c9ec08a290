// Package metrics counts the work of workers and exports it. A worker process counts its own work (Counters); its daemon receives Samples
// on the status pipe and adds them up (Registry).
package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// Sample is the work of one process since its start. All numbers only grow.
type Sample struct {
	Documents    int64   `json:"documents,omitempty"` // arrived or recorded as failed
	Failed       int64   `json:"failed,omitempty"`    // part of Documents: recorded as failed
	SourceBytes  int64   `json:"source_bytes,omitempty"`
	Resent       int64   `json:"resent,omitempty"`  // documents sent again because the target was busy
	Retries      int64   `json:"retries,omitempty"` // bulk requests retried, whole or in part
	BulkBytes    int64   `json:"bulk_bytes,omitempty"`
	BulkBusy     int64   `json:"bulk_busy,omitempty"`    // requests answered with 429, as a whole or for documents in them
	BulkErrors   int64   `json:"bulk_errors,omitempty"`  // requests without a usable response
	BulkRefused  int64   `json:"bulk_refused,omitempty"` // documents that the target rejected permanently
	Bulk         Latency `json:"bulk,omitzero"`
	RepoRequests int64   `json:"repo_requests,omitempty"`
	RepoBytes    int64   `json:"repo_bytes,omitempty"`
	RepoErrors   int64   `json:"repo_errors,omitempty"`
	Store        Latency `json:"store,omitzero"`
	StoreErrors  int64   `json:"store_errors,omitempty"`
	Held         string  `json:"held,omitempty"` // why nothing is sent at present; sums and differences have none
}

// Bounds are the upper bounds of the buckets of a Latency, in seconds; the last bucket has none.
var Bounds = [...]float64{0.005, 0.02, 0.1, 0.5, 2, 10}

// Latency is a histogram of durations.
type Latency struct {
	Count   int64                  `json:"n"`
	Seconds float64                `json:"s"`
	Buckets [len(Bounds) + 1]int64 `json:"b"` // not cumulative
}

// Minus returns the difference to an earlier sample of the same process.
func (s Sample) Minus(earlier Sample) Sample {
	return s.with(earlier, func(a, b int64) int64 { return a - b }, func(a, b float64) float64 { return a - b })
}

// Plus returns the sum of both.
func (s Sample) Plus(o Sample) Sample {
	return s.with(o, func(a, b int64) int64 { return a + b }, func(a, b float64) float64 { return a + b })
}

func (s Sample) with(o Sample, f func(a, b int64) int64, g func(a, b float64) float64) Sample {
	return Sample{
		Documents: f(s.Documents, o.Documents), Failed: f(s.Failed, o.Failed), SourceBytes: f(s.SourceBytes, o.SourceBytes),
		Resent: f(s.Resent, o.Resent), Retries: f(s.Retries, o.Retries), BulkBytes: f(s.BulkBytes, o.BulkBytes),
		BulkBusy: f(s.BulkBusy, o.BulkBusy), BulkErrors: f(s.BulkErrors, o.BulkErrors), BulkRefused: f(s.BulkRefused, o.BulkRefused),
		Bulk: s.Bulk.with(o.Bulk, f, g), Store: s.Store.with(o.Store, f, g), StoreErrors: f(s.StoreErrors, o.StoreErrors),
		RepoRequests: f(s.RepoRequests, o.RepoRequests), RepoBytes: f(s.RepoBytes, o.RepoBytes), RepoErrors: f(s.RepoErrors, o.RepoErrors),
	}
}

func (l Latency) with(o Latency, f func(a, b int64) int64, g func(a, b float64) float64) Latency {
	sum := Latency{Count: f(l.Count, o.Count), Seconds: g(l.Seconds, o.Seconds)}
	for i := range l.Buckets {
		sum.Buckets[i] = f(l.Buckets[i], o.Buckets[i])
	}
	return sum
}

// Counters count what a process sends and reads. The zero value is ready.
type Counters struct {
	bulk, store                       latency
	bulkBytes, busy, errored, refused atomic.Int64
	storeErrors                       atomic.Int64
}

// Sample returns the counters. The caller adds the counts of the stages of the work.
func (c *Counters) Sample() Sample {
	return Sample{
		Bulk: c.bulk.read(), BulkBytes: c.bulkBytes.Load(), BulkBusy: c.busy.Load(), BulkErrors: c.errored.Load(), BulkRefused: c.refused.Load(),
		Store: c.store.read(), StoreErrors: c.storeErrors.Load(),
	}
}

// latency is a Latency that is safe for concurrent use.
type latency struct {
	nanos   atomic.Int64
	buckets [len(Bounds) + 1]atomic.Int64
}

func (l *latency) add(d time.Duration) {
	i := 0
	for i < len(Bounds) && d.Seconds() > Bounds[i] {
		i++
	}
	l.buckets[i].Add(1)
	l.nanos.Add(int64(d))
}

func (l *latency) read() Latency {
	out := Latency{Seconds: time.Duration(l.nanos.Load()).Seconds()}
	for i := range l.buckets {
		n := l.buckets[i].Load()
		out.Buckets[i] = n
		out.Count += n
	}
	return out
}

// Sender returns next with its bulk requests counted.
func (c *Counters) Sender(next bulk.Sender) bulk.Sender { return sender{next, c} }

type sender struct {
	next bulk.Sender
	c    *Counters
}

func (s sender) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	begin := time.Now()
	result, err := s.next.Send(ctx, body, n)
	s.c.bulk.add(time.Since(begin))
	s.c.bulkBytes.Add(int64(len(body)))
	if err != nil {
		s.c.errored.Add(1)
	}
	var status *fault.StatusError
	busy := errors.As(err, &status) && status.Status == 429
	for _, r := range result.Refused {
		if r.Retryable() {
			busy = busy || r.Status == 429
		} else {
			s.c.refused.Add(1)
		}
	}
	if busy {
		s.c.busy.Add(1)
	}
	return result, err
}
