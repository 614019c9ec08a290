package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// bodies is a Sender that keeps what it was sent, byte for byte.
type bodies struct {
	mu  sync.Mutex
	all []byte
}

func (s *bodies) Send(_ context.Context, body []byte, _ int) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, body...)
	return Result{}, nil
}

func TestSourcesAreSentByteForByte(t *testing.T) {
	sources := []string{
		`{"b":1,"a":2}`, `{"a": 1, "b":\t2}`, `{ "a" : [ 1 , 2 ] }`, `{"a":1,"a":2}`, `{"a":"<b>&amp;</b>"}`, `{"n":1.0,"m":1e400,"k":-0,"big":12345678901234567890123}`,
		`{"u":"\u00e9\/\ud83d\ude00","v":"é"}`, "{\"tab\":\"\\t\"}\t", `{}`, "{\"bad\":\"\xff\"}",
	}
	s := &bodies{}
	l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxInFlight: 1})
	var want bytes.Buffer
	for i, source := range sources {
		d := document(int64(i))
		d.Source = []byte(source)
		if err := l.Add(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "{\"index\":{\"_index\":\"i\",\"_id\":\"%d\"}}\n%s\n", i, source)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.all, want.Bytes()) {
		t.Errorf("sent\n%s\nwant\n%s", s.all, want.Bytes())
	}
}

func TestDocumentsOfSeveralIndicesKeepTheirs(t *testing.T) {
	s := &bodies{}
	l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxInFlight: 1})
	var want strings.Builder
	for i, index := range []string{"a", "b", "b", "a", "ab"} {
		d := document(int64(i))
		d.Index = []byte(index)
		if err := l.Add(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "{\"index\":{\"_index\":%q,\"_id\":\"%d\"}}\n{\"n\":%d}\n", index, i, i)
	}
	if err := l.Flush(t.Context()); err != nil || string(s.all) != want.String() {
		t.Errorf("%v; sent\n%s\nwant\n%s", err, s.all, want.String())
	}
}

func TestFatalErrorsStopTheLoadAndHoldTheWatermark(t *testing.T) {
	tooLarge := func(n int, of func(ids []string) error) func(context.Context, []string, int) (Result, error) {
		return func(_ context.Context, ids []string, _ int) (Result, error) {
			if len(ids) > n {
				return Result{}, ErrTooLarge
			}
			return Result{}, of(ids)
		}
	}
	rejects := func(id string) func([]string) error {
		return func(ids []string) error {
			if slices.Contains(ids, id) {
				return fmt.Errorf("no: %w", fault.ErrRejected)
			}
			return nil
		}
	}
	for _, c := range []struct {
		name   string
		answer func(context.Context, []string, int) (Result, error)
		rec    *records
		want   error
	}{
		{"of a whole request", tooLarge(9, rejects("0")), &records{}, fault.ErrRejected},
		{"of the first half of a request that is too large", tooLarge(4, rejects("1")), &records{}, fault.ErrRejected},
		{"of the second half", tooLarge(4, rejects("7")), &records{}, fault.ErrRejected},
		{"of a first quarter", tooLarge(2, rejects("0")), &records{}, fault.ErrRejected},
		{"of the record of failures", func(context.Context, []string, int) (Result, error) {
			return Result{Refused: []Refusal{{Pos: 3, Status: 400, Type: "x"}}}, nil
		}, &records{err: errDisk}, errDisk},
		{"of the sync of failures", func(context.Context, []string, int) (Result, error) {
			return Result{Refused: []Refusal{{Pos: 3, Status: 400, Type: "x"}}}, nil
		}, &records{syncErr: errDisk}, errDisk},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := New(t.Context(), Options{Sender: &target{answer: c.answer}, Recorder: c.rec, Index: "logs", Shard: 3})
			add(t, l, 0, 8)
			err := l.Flush(t.Context())
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "index logs, shard 3") {
				t.Errorf("flush: %v, want %v", err, c.want)
			}
			if w, n := l.Settled(); w != 0 || n.Live != 0 || l.Counts().Indexed != 0 {
				t.Errorf("watermark %d, settled %+v, %+v", w, n, l.Counts())
			}
			for name, err := range map[string]error{
				"add": l.Add(t.Context(), document(8)), "fail": l.Fail(t.Context(), doc.Failure{Ordinal: 8}), "filter": l.Filter(t.Context(), 8), "flush": l.Flush(t.Context()),
			} {
				if !errors.Is(err, c.want) {
					t.Errorf("%s afterwards: %v", name, err)
				}
			}
		})
	}
}

var errDisk = errors.New("disk full")

func TestStoppedLoadersSaySo(t *testing.T) {
	for _, c := range []struct {
		name string
		stop func(t *testing.T, l *Loader)
	}{
		{"drain", func(t *testing.T, l *Loader) { l.Drain(t.Context()) }},
		{"abort", func(_ *testing.T, l *Loader) { l.Abort() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &target{}
			l := New(t.Context(), Options{Sender: s, Recorder: &records{}})
			add(t, l, 0, 3)
			c.stop(t, l)
			for name, err := range map[string]error{
				"add": l.Add(t.Context(), document(8)), "fail": l.Fail(t.Context(), doc.Failure{Ordinal: 8}), "filter": l.Filter(t.Context(), 8), "flush": l.Flush(t.Context()),
			} {
				if !errors.Is(err, errStopped) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if len(s.requests) != 0 || l.Watermark() != 0 {
				t.Errorf("requests %v, watermark %d", s.requests, l.Watermark())
			}
		})
	}
}

func TestFlushHonoursItsContext(t *testing.T) {
	for _, c := range []struct {
		name     string
		buffered bool // a document waits for its body
	}{{"while requests are in progress", false}, {"while the window is full", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, release := held()
				l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 1, MaxInFlight: 1})
				add(t, l, 0, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("flush: %v", err)
				}
				if c.buffered {
					add(t, l, 1, 2)
				}
				ended, end := context.WithCancel(t.Context())
				end()
				if err := l.Flush(ended); !errors.Is(err, context.Canceled) {
					t.Errorf("flush with a context that has ended: %v", err)
				}
				if l.Watermark() != 0 {
					t.Errorf("watermark %d", l.Watermark())
				}
				close(release)
				if err := l.Flush(t.Context()); err != nil || l.Counts().Indexed != l.Watermark() || l.Watermark() == 0 {
					t.Errorf("%v, %+v", err, l.Counts())
				}
			})
		})
	}
}

func TestDrainEndsTriesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{answer: func(context.Context, []string, int) (Result, error) {
			return Result{RetryAfter: time.Hour}, fmt.Errorf("busy: %w", fault.ErrUnavailable)
		}}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 1, MaxInFlight: 2})
		add(t, l, 0, 3)
		synctest.Wait()
		begin := time.Now()
		l.Drain(t.Context())
		if d := time.Since(begin); d > time.Second || len(s.requests) != 2 || l.Watermark() != 0 {
			t.Errorf("drained after %v, requests %v, watermark %d", d, s.requests, l.Watermark())
		}
	})
}

func TestAdvanceSettlesWhatHoldsNoDocuments(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, l *Loader, release chan struct{})
	}{
		{"immediately when nothing is in progress, never back", func(t *testing.T, l *Loader, _ chan struct{}) {
			l.Advance(30)
			l.Advance(20)
			wantSettled(t, l, 30, Counts{})
		}},
		{"with what is buffered", func(t *testing.T, l *Loader, release chan struct{}) {
			close(release)
			add(t, l, 10, 11)
			l.Advance(30)
			l.Advance(20)
			wantSettled(t, l, 10, Counts{})
			add(t, l, 40, 41) // sends the one before off
			synctest.Wait()
			wantSettled(t, l, 40, Counts{Live: 1, Indexed: 1})
			if err := l.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			wantSettled(t, l, 41, Counts{Live: 2, Indexed: 2})
		}},
		{"with the last batch in progress", func(t *testing.T, l *Loader, release chan struct{}) {
			add(t, l, 10, 12) // 10 is under way
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) { // now 11, too
				t.Error(err)
			}
			l.Advance(30)
			wantSettled(t, l, 10, Counts{})
			close(release)
			synctest.Wait()
			wantSettled(t, l, 30, Counts{Live: 2, Indexed: 2})
		}},
		{"what is buffered ends where it was advanced to", func(t *testing.T, l *Loader, release chan struct{}) {
			close(release)
			add(t, l, 10, 11)
			l.Advance(30)
			if err := l.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			wantSettled(t, l, 30, Counts{Live: 1, Indexed: 1})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, release := held()
				l := New(t.Context(), Options{Sender: s, Recorder: &records{}, From: 10, MaxDocs: 1})
				c.test(t, l, release)
				l.Abort()
			})
		})
	}
}

func TestGivingUpCountsFromTheLastDocumentTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := &target{}
		s.answer = func(_ context.Context, ids []string, _ int) (Result, error) {
			if len(ids) == 1 { // the last is never taken
				return Result{Refused: []Refusal{{Pos: 0, Status: 429, Type: "busy"}}}, nil
			}
			var res Result
			for i := 1; i < len(ids); i++ { // one is taken each time
				res.Refused = append(res.Refused, Refusal{Pos: i, Status: 429, Type: "busy"})
			}
			return res, nil
		}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, StallTimeout: time.Minute, Pause: func(ctx context.Context, _ time.Duration) error { return wait.For(ctx, 25*time.Second) }})
		add(t, l, 0, 10)
		err := l.Flush(t.Context())
		// Nine are taken by 200 s, the tenth is refused for a minute from then on.
		if d := time.Since(begin); !errors.Is(err, fault.ErrUnavailable) || d != 8*25*time.Second+75*time.Second || len(s.taken) != 9 {
			t.Errorf("after %v with %d taken: %v", d, len(s.taken), err)
		}
		if !strings.Contains(err.Error(), "1 of 1 documents refused for now, such as status 429: busy") {
			t.Error(err)
		}
	})
}

// Pauses double from half a second to half a minute, or to 3 s of the one that tries more often; what the target asks for is
// the least.
func TestPausesGrowAndHonourTheTarget(t *testing.T) {
	for _, probes := range []bool{false, true} {
		pausesGrow(t, probes)
	}
}

func pausesGrow(t *testing.T, probes bool) {
	t.Helper()
	var pauses []time.Duration
	tries := 0
	s := &target{answer: func(context.Context, []string, int) (Result, error) {
		tries++
		switch {
		case tries == 9:
			return Result{RetryAfter: 45 * time.Second}, fault.ErrUnavailable
		case tries <= 10:
			return Result{}, fault.ErrUnavailable
		}
		return Result{}, nil
	}}
	l := New(t.Context(), Options{Sender: s, Recorder: &records{}, Recovery: &Recovery{probing: !probes}, Jitter: func() float64 { return 1 }, StallTimeout: time.Hour, Pause: func(_ context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return nil
	}})
	add(t, l, 0, 1)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second, 45 * time.Second, 30 * time.Second}
	if probes {
		want = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second, 45 * time.Second, 3 * time.Second}
	}
	if !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	if c := l.Counts(); c.Requests != 11 || c.Retries != 10 || c.Resent != 10 || c.Indexed != 1 {
		t.Errorf("%+v", c)
	}
}

func TestReasonOf(t *testing.T) {
	const full = "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];"
	for _, c := range []struct{ name, kind, reason, want string }{
		{"full disks are named with what to do", "cluster_block_exception", full, "status 429: a disk of the cluster is above its flood stage, so that the index takes no documents (free space there"},
		{"a full queue", "rejected_execution_exception", "queue is full", "status 429: rejected_execution_exception: queue is full"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := reasonOf(429, c.kind, c.reason); !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
