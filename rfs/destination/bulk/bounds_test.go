package bulk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

func TestBodiesAreFilledToTheByte(t *testing.T) {
	const size = len(`{"index":{"_index":"i","_id":"0"}}`) + len(`{"n":0}`) + 2
	for _, c := range []struct {
		name     string
		maxBytes int
		each     int // documents of a body
	}{
		{"two that fit exactly", 2 * size, 2},
		{"one when a byte is missing", 2*size - 1, 1},
		{"three", 3*size + 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &target{}
			l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxBytes: c.maxBytes, MaxInFlight: 1})
			add(t, l, 0, 6)
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(s.requests) != 6/c.each || len(s.requests[0]) != c.each {
				t.Errorf("requests %v", s.requests)
			}
		})
	}
}

func TestFailuresAloneAreRecordedInBatches(t *testing.T) {
	for _, c := range []struct {
		name     string
		source   int // bytes
		maxBytes int
		failures int64
		recorded int64 // before the Flush
	}{
		{"of a thousand", 0, 0, maxFailures + 1, maxFailures},
		{"a thousand wait for more", 0, 0, maxFailures, 0},
		{"of as many bytes as a body", 60, 120, 3, 2},
		{"cut before they are more", 61, 120, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}, MaxBytes: c.maxBytes})
				for o := range c.failures {
					if err := l.Fail(t.Context(), doc.Failure{Ordinal: o, Source: make([]byte, c.source)}); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				wantSettled(t, l, c.recorded, Counts{Live: c.recorded, Failed: c.recorded})
				if err := l.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				wantSettled(t, l, c.failures, Counts{Live: c.failures, Failed: c.failures})
			})
		})
	}
}

func TestTheClockIsNotReadForEachFastDocument(t *testing.T) {
	for _, c := range []struct {
		name string
		each time.Duration
		most int // readings for 2,560 documents
		less int
	}{
		{"fast ones", 0, 15, 10},
		{"slow ones each time", fastDocument, 2565, 2560},
	} {
		t.Run(c.name, func(t *testing.T) {
			now, readings := time.Now(), 0
			l := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}, Now: func() time.Time {
				readings++
				now = now.Add(c.each)
				return now
			}})
			add(t, l, 0, 2560)
			if readings > c.most || readings < c.less {
				t.Errorf("%d readings, want %d to %d", readings, c.less, c.most)
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPoolKeepsBodiesUpToItsBounds(t *testing.T) {
	for _, c := range []struct {
		name              string
		size, most, there int
		kept              bool
	}{
		{"as large as may be", 100, 100, 0, true},
		{"a byte larger", 101, 100, 0, false},
		{"that fill the pool", 100, 100, maxIdle - 100, true},
		{"that do not fit", 100, 100, maxIdle - 99, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Pool{idle: c.there}
			p.put(&batch{body: make([]byte, 0, c.size)}, c.most)
			if kept := len(p.free) == 1; kept != c.kept {
				t.Errorf("kept: %v", kept)
			}
		})
	}
}

// TestNothingIsDoneAfterAStop repeats what is left to chance when two channels are ready.
func TestNothingIsDoneAfterAStop(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for range 20 {
		s, rec := &target{}, &records{}
		l := New(t.Context(), Options{Sender: s, Recorder: rec, MaxDocs: 1})
		add(t, l, 0, 1)
		if err := l.Add(ended, document(1)); !errors.Is(err, context.Canceled) {
			t.Fatalf("add with a context that has ended: %v", err)
		}
		l.Abort()
		if len(s.requests) != 0 {
			t.Fatalf("requests %v", s.requests)
		}
		l = New(t.Context(), Options{Sender: s, Recorder: rec})
		fail(t, l, 0, 1)
		l.Abort()
		if err := l.Flush(t.Context()); !errors.Is(err, errStopped) || len(rec.synced) != 0 {
			t.Fatalf("flush after an abort: %v, recorded %v", err, rec.synced)
		}
	}
}

// TestABatchThatWaitsForItsTurnIsNotDone: the target is overloaded, one request of two is left, and it hangs.
func TestABatchThatWaitsForItsTurnIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		s := &target{answer: func(ctx context.Context, _ []string, _ int) (Result, error) {
			if first {
				first = false
				return Result{}, fmt.Errorf("busy: %w", fault.ErrUnavailable)
			}
			<-ctx.Done()
			return Result{}, ctx.Err()
		}}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 1, MaxInFlight: 2, Jitter: func() float64 { return 0 }})
		add(t, l, 0, 2) // 0 is sent again and hangs
		synctest.Wait()
		add(t, l, 2, 3) // 1 waits for its end
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.Drain(ctx)
		wantSettled(t, l, 0, Counts{})
		if c := l.Counts(); c.Live != 0 || len(s.requests) != 2 {
			t.Errorf("%+v after requests %v", c, s.requests)
		}
		if err := l.Flush(t.Context()); !errors.Is(err, errStopped) { // that the request was cancelled is no error of its own
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestALoaderThatIsStoppedGivesItsSlotsBack(t *testing.T) {
	l := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}, MaxInFlight: 1, MayStart: func() error { return fault.ErrLeaseLost }})
	add(t, l, 0, 1)
	if err := l.Flush(t.Context()); !errors.Is(err, fault.ErrLeaseLost) || l.limiter.inFlight != 0 {
		t.Errorf("%v, %d requests in flight", err, l.limiter.inFlight)
	}
}

func TestAGapBeforeTheFirstDocumentIsDone(t *testing.T) {
	l := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}})
	add(t, l, 5, 6)
	wantSettled(t, l, 5, Counts{})
	l.Abort()
}

func TestFilteredDocumentsBehindARequestAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := held()
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxAge: time.Second})
		add(t, l, 0, 1)
		time.Sleep(time.Second)
		filter(t, l, 1, 10) // sends the document off
		if c := l.Counts(); c.Live != 9 || c.Filtered != 9 {
			t.Errorf("with the request in progress: %+v", c)
		}
		close(release)
		synctest.Wait()
		if c := l.Counts(); c.Live != 10 || c.Filtered != 9 || c.Indexed != 1 {
			t.Errorf("afterwards: %+v", c)
		}
		wantSettled(t, l, 10, Counts{Live: 10, Indexed: 1, Filtered: 9})
	})
}

func TestRebuiltDocumentsAreCounted(t *testing.T) {
	l := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}})
	for o := range int64(3) {
		d := document(o)
		d.Rebuilt = o != 1
		if err := l.Add(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSettled(t, l, 3, Counts{Live: 3, Indexed: 3, Rebuilt: 2})
}

func TestATargetThatTakesNothingIsGivenUpAtTheStallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := &target{answer: func(context.Context, []string, int) (Result, error) { return Result{}, fault.ErrUnavailable }}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, StallTimeout: time.Minute, Pause: func(ctx context.Context, _ time.Duration) error { return wait.For(ctx, 30*time.Second) }})
		add(t, l, 0, 1)
		if err := l.Flush(t.Context()); !errors.Is(err, fault.ErrUnavailable) || time.Since(begin) != time.Minute {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

func TestADocumentThatIsTooLargeIsRecordedWithItsSize(t *testing.T) {
	size := 0
	s := &target{answer: func(_ context.Context, _ []string, bytes int) (Result, error) {
		size = bytes
		return Result{}, ErrTooLarge
	}}
	rec := &records{}
	l := New(t.Context(), Options{Sender: s, Recorder: rec, From: 7})
	add(t, l, 7, 9)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(rec.synced) != 2 || !strings.HasPrefix(rec.synced[1].Detail, fmt.Sprintf("%d bytes: ", size)) {
		t.Errorf("recorded %+v, want %d bytes", rec.synced, size)
	}
}

func TestAnIndexThatForbidsDocumentsBlocks(t *testing.T) {
	for status, blocks := range map[int]bool{400: false, 401: true, 403: true, 404: false} {
		if got := concernsIndex(Refusal{Status: status, Type: "some_exception"}); got != blocks {
			t.Errorf("%d: %v, want %v", status, got, blocks)
		}
	}
}

func TestAFailureWithoutANameIsNotRecorded(t *testing.T) {
	s := &refusing{}
	rec := &records{}
	l := New(t.Context(), Options{Sender: s, Recorder: rec})
	add(t, l, 0, 1)
	l.cur.body[0] = '?' // memory that went bad
	if err := l.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "action line") || len(rec.synced) != 0 || l.Watermark() != 0 {
		t.Errorf("%v, recorded %+v, watermark %d", err, rec.synced, l.Watermark())
	}
}

// refusing refuses the first document of each body, unread.
type refusing struct{}

func (refusing) Send(context.Context, []byte, int) (Result, error) {
	return Result{Refused: []Refusal{{Pos: 0, Status: 400, Type: "mapper_parsing_exception"}}}, nil
}

func TestAnAnswerThatArrivesInAnAbortCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(t.Context(), Options{MaxDocs: 1, Recorder: &records{}, Sender: &target{answer: func(ctx context.Context, _ []string, _ int) (Result, error) {
			<-ctx.Done()
			return Result{}, nil // it was taken all the same
		}}})
		add(t, l, 0, 2)
		synctest.Wait()
		l.Abort()
		wantSettled(t, l, 1, Counts{Live: 1, Indexed: 1})
	})
}

func TestAnAddThatWaitsForRoomEndsWithTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(t.Context(), Options{MaxDocs: 1, MaxInFlight: 1, Recorder: &records{}, Sender: &target{answer: func(ctx context.Context, _ []string, _ int) (Result, error) {
			return Result{}, errors.Join(fault.ErrRejected, wait.For(ctx, time.Second))
		}}})
		add(t, l, 0, 2) // 0 is under way, 1 waits for its body
		if err := l.Add(t.Context(), document(2)); !errors.Is(err, fault.ErrRejected) {
			t.Errorf("%v", err)
		}
	})
}

func TestTheBreakerNamesTheMostFrequentReason(t *testing.T) {
	reasons := func(counts map[doc.Reason]int) (all []doc.Failure) {
		for r, n := range counts {
			for range n {
				all = append(all, doc.Failure{Reason: r, Detail: "message of " + string(r)})
			}
		}
		return all
	}
	for _, c := range []struct {
		name   string
		sent   int64
		counts map[doc.Reason]int
		want   string // in the error; empty: it does not trip
	}{
		{"the first by name", 20, map[doc.Reason]int{"a": 3, "b": 2, "c": 1}, "(3 times) with a: message of a"},
		{"the last by name", 20, map[doc.Reason]int{"a": 1, "b": 2, "c": 3}, "(3 times) with c: message of c"},
		{"one in the middle", 20, map[doc.Reason]int{"a": 2, "b": 4, "c": 3}, "(4 times) with b: message of b"},
		{"a tenth does not trip", 60, map[doc.Reason]int{"a": 6}, ""},
		{"nor as many as are tolerated", 6, map[doc.Reason]int{"a": 5}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := NewBreaker(5).observe("i", c.sent, reasons(c.counts))
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
