package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// partlyBusy refuses the requests of the index h for which refuse returns true, and accepts all others after 20 ms.
type partlyBusy struct {
	refuse func(n int, since time.Duration) bool // n: requests of h before
	whole  bool                                  // it refuses the request as a whole, not its items
	asked  time.Duration                         // Retry-After

	begin    time.Time
	mu       sync.Mutex
	requests map[string]int
	at       []time.Duration // of the requests of h
}

func (s *partlyBusy) Send(ctx context.Context, body []byte, n int) (Result, error) {
	index := "a"
	if bytes.Contains(body, []byte(`"_index":"h"`)) {
		index = "h"
	}
	s.mu.Lock()
	before := s.requests[index]
	s.requests[index]++
	if index == "h" {
		s.at = append(s.at, time.Since(s.begin))
	}
	s.mu.Unlock()
	if index == "a" || !s.refuse(before, time.Since(s.begin)) {
		return Result{}, wait.For(ctx, 20*time.Millisecond)
	}
	if err := wait.For(ctx, 2*time.Millisecond); err != nil {
		return Result{}, err
	}
	if s.whole {
		return Result{RetryAfter: s.asked, NoneTaken: true}, fmt.Errorf("429: %w", fault.ErrUnavailable)
	}
	res := Result{RetryAfter: s.asked}
	for i := range n {
		res.Refused = append(res.Refused, Refusal{Pos: i, Status: 429, Type: "es_rejected_execution_exception"})
	}
	return res, nil
}

// loadBeside loads the index h for a time, and a healthy index beside it if healthy is set.
func loadBeside(t *testing.T, s *partlyBusy, healthy bool, d time.Duration) {
	t.Helper()
	s.begin, s.requests = time.Now(), map[string]int{}
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	recovery, indices := &Recovery{}, []string{"h"}
	if healthy {
		indices = append(indices, "a")
	}
	var all sync.WaitGroup
	for i, index := range indices {
		jitter := rand.New(rand.NewPCG(1, uint64(i)))
		var mu sync.Mutex
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, Recovery: recovery, Index: index, MaxDocs: 1, MaxInFlight: 4, StallTimeout: 24 * time.Hour, Jitter: func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return jitter.Float64()
		}})
		all.Go(func() {
			defer l.Abort()
			for n := int64(0); ctx.Err() == nil; n++ {
				if err := l.Add(ctx, &doc.Document{Ordinal: n, Index: []byte(index), ID: fmt.Append(nil, n), Source: []byte("{}")}); err != nil && !errors.Is(err, ctx.Err()) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestRecovery_OverloadOfOneIndex: beside a healthy index an overloaded one gets no more requests than alone, and the healthy one is
// as fast as alone.
func TestRecovery_OverloadOfOneIndex(t *testing.T) {
	for _, c := range []struct {
		name   string
		whole  bool
		refuse func(n int, since time.Duration) bool
	}{
		{"refuses every item", false, func(int, time.Duration) bool { return true }},
		{"refuses every request", true, func(int, time.Duration) bool { return true }},
		{"takes one request of three", false, func(n int, _ time.Duration) bool { return n%3 != 0 }},
		{"takes none for 30 s of each minute", false, func(_ int, since time.Duration) bool { return since%time.Minute < 30*time.Second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const d = 2 * time.Minute
				alone, beside := &partlyBusy{refuse: c.refuse, whole: c.whole}, &partlyBusy{refuse: c.refuse, whole: c.whole}
				loadBeside(t, alone, false, d)
				loadBeside(t, beside, true, d)
				if got, most := beside.requests["h"], alone.requests["h"]*11/10; got > most {
					t.Errorf("%d requests to the overloaded index beside a healthy one, %d alone", got, alone.requests["h"])
				}
				if got, full := beside.requests["a"], int(d/(20*time.Millisecond))*4; got < full*9/10 {
					t.Errorf("%d requests to the healthy index, want nine tenths of %d", got, full)
				}
			})
		})
	}
}

// TestRecovery_FollowsOtherIndices: whatever index the target accepts first after an outage, all others follow at once. During the
// outage one request of the process tries every 3 s. Which one may change: a pause that ends at the same time as the short one can
// take its place.
func TestRecovery_FollowsOtherIndices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recovery, begin := &Recovery{}, time.Now()
		tries := map[string][]time.Duration{}
		var mu sync.Mutex
		var all sync.WaitGroup
		load := func(index string, jitter float64, ends time.Duration) {
			s := &target{answer: func(context.Context, []string, int) (Result, error) {
				mu.Lock()
				defer mu.Unlock()
				tries[index] = append(tries[index], time.Since(begin))
				if time.Since(begin) < ends {
					return Result{}, fmt.Errorf("connection refused: %w", fault.ErrUnavailable)
				}
				return Result{}, nil
			}}
			l := New(t.Context(), Options{Sender: s, Recorder: &records{}, Recovery: recovery, MaxDocs: 1, MaxInFlight: 3, StallTimeout: time.Hour, Jitter: func() float64 { return jitter }})
			all.Go(func() {
				for n := range int64(3) {
					if err := l.Add(t.Context(), &doc.Document{Ordinal: n, Index: []byte(index), ID: fmt.Append(nil, n), Source: []byte("{}")}); err != nil {
						t.Error(err)
					}
				}
				if err := l.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		const end = 10*time.Minute + 3*time.Second
		load("a", 1, end)
		load("b", 1, end)
		all.Wait()
		for index, tries := range tries {
			if back := tries[len(tries)-1] - end; back > maxProbeBackoff+10*time.Millisecond {
				t.Errorf("all of %s are accepted %v after the outage", index, back)
			}
		}
		if n, most := len(tries["a"])+len(tries["b"]), 6*(7+int(end/backoff.Max))+int(end/maxProbeBackoff); n > most {
			t.Errorf("%d tries during the outage, want at most %d", n, most)
		}
	})
}

// TestRecovery_RetryAfter: the pause that the target asks for ends when it accepts another request of the same index, not when
// it accepts one of another, and when the stall limit has passed.
func TestRecovery_RetryAfter(t *testing.T) {
	refused := Result{RetryAfter: 40 * time.Second}
	busy := fmt.Errorf("503: %w", fault.ErrUnavailable)
	for _, c := range []struct {
		name  string
		other string // index that is accepted after 1 s; "" for none
		stall time.Duration
		want  time.Duration // the second try
	}{
		{"for as long as asked", "", time.Hour, 40 * time.Second},
		{"until another request of the index is accepted", "h", time.Hour, time.Second},
		{"although another index is accepted", "a", time.Hour, 40 * time.Second},
		{"until the stall limit", "", 10 * time.Second, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				recovery, begin := &Recovery{}, time.Now()
				var tries []time.Duration
				s := &target{answer: func(context.Context, []string, int) (Result, error) {
					if tries = append(tries, time.Since(begin)); len(tries) == 1 {
						return refused, busy
					}
					return Result{}, nil
				}}
				doc := func(index string) *doc.Document {
					return &doc.Document{Index: []byte(index), ID: []byte("1"), Source: []byte("{}")}
				}
				l := New(t.Context(), Options{Sender: s, Recorder: &records{}, Recovery: recovery, StallTimeout: c.stall})
				if err := l.Add(t.Context(), doc("h")); err != nil {
					t.Fatal(err)
				}
				done := make(chan error)
				go func() { done <- l.Flush(t.Context()) }()
				time.Sleep(time.Second)
				if c.other != "" {
					o := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}, Recovery: recovery})
					if err := errors.Join(o.Add(t.Context(), doc(c.other)), o.Flush(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
				if err := <-done; err != nil || len(tries) != 2 || tries[1] != c.want {
					t.Errorf("tries at %v, %v; want the second at %v", tries, err, c.want)
				}
			})
		})
	}
}
