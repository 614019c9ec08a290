package bulk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// target is a Sender that keeps what it took; answer decides about each request.
type target struct {
	mu       sync.Mutex
	answer   func(ctx context.Context, ids []string, bytes int) (Result, error)
	requests [][]string
	taken    map[string]int // by id
	busy     int
	peak     int
}

// underWay returns the number of requests that wait for an answer.
func (s *target) underWay() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

func (s *target) Send(ctx context.Context, body []byte, n int) (Result, error) {
	ids := idsOf(body, n)
	s.mu.Lock()
	s.requests = append(s.requests, ids)
	s.busy++
	s.peak = max(s.peak, s.busy)
	s.mu.Unlock()
	var res Result
	var err error
	if s.answer != nil {
		res, err = s.answer(ctx, ids, len(body))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if err != nil {
		return res, err
	}
	if s.taken == nil {
		s.taken = map[string]int{}
	}
	refused := map[int]bool{}
	for _, r := range res.Refused {
		refused[r.Pos] = true
	}
	for i, id := range ids {
		if !refused[i] {
			s.taken[id]++
		}
	}
	return res, nil
}

// idsOf reads the ids of a body and checks its form.
func idsOf(body []byte, n int) []string {
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	if len(lines) != 2*n || !bytes.HasSuffix(body, []byte("\n")) {
		panic(fmt.Sprintf("%d lines for %d documents", len(lines), n))
	}
	var ids []string
	for i := 0; i < len(lines); i += 2 {
		a, err := parseAction(lines[i])
		if err != nil {
			panic(err)
		}
		ids = append(ids, a.ID)
	}
	return ids
}

// records is a Recorder.
type records struct {
	mu      sync.Mutex
	pending []doc.Failure
	synced  []doc.Failure
	err     error
	syncErr error
}

func (r *records) Record(_ context.Context, f []doc.Failure) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, f...)
	return r.err
}

func (r *records) Sync(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.syncErr != nil {
		return r.syncErr
	}
	r.synced = append(r.synced, r.pending...)
	r.pending = nil
	return nil
}

func document(ordinal int64) *doc.Document {
	return &doc.Document{Ordinal: ordinal, Index: []byte("i"), ID: fmt.Appendf(nil, "%d", ordinal), Source: fmt.Appendf(nil, `{"n":%d}`, ordinal)}
}

func add(t testing.TB, l *Loader, from, to int64) {
	t.Helper()
	for o := from; o < to; o++ {
		if err := l.Add(t.Context(), document(o)); err != nil {
			t.Fatal(err)
		}
	}
}

// line returns the action line of a document without its line break.
func line(t *testing.T, l lines, d *doc.Document) string {
	t.Helper()
	return strings.TrimSuffix(string(l.append(nil, d)), "\n")
}

func TestActionLinesCarryWhatTheDocumentHas(t *testing.T) {
	for _, c := range []struct {
		d    doc.Document
		emit bool
		want string
	}{
		{doc.Document{Index: []byte("i"), ID: []byte("1")}, false, `{"index":{"_index":"i","_id":"1"}}`},
		{doc.Document{Index: []byte("i"), Type: []byte("t"), ID: []byte("1"), Routing: []byte("r")}, true, `{"index":{"_index":"i","_type":"t","_id":"1","routing":"r"}}`},
		{doc.Document{Index: []byte("i"), Type: []byte("t"), ID: []byte("a\"\\\n\x00ü\xFF")}, false, `{"index":{"_index":"i","_id":"a\"\\\u000a\u0000ü` + "\uFFFD" + `"}}`},
	} {
		got := line(t, lines{op: "index", emitType: c.emit}, &c.d)
		if got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestASourceThatLooksLikeActionsStaysOneLine(t *testing.T) {
	source, err := doc.AppendLine(nil, []byte("{\"a\":1\n}\n{\"delete\":{\"_index\":\"i\",\"_id\":\"victim\"}}\n{\"index\":{\"_id\":\"evil\"}}\n{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := &target{}
	l := New(t.Context(), Options{Sender: s, Recorder: &records{}})
	d := document(0)
	d.Source = source
	if err := errors.Join(l.Add(t.Context(), d), l.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if len(s.requests) != 1 || !slices.Equal(s.requests[0], []string{"0"}) {
		t.Errorf("requests %v", s.requests)
	}
}

// TestAnIDThatNoTargetTakesFailsItsDocumentOnly: sent, it would have the whole request rejected.
func TestAnIDThatNoTargetTakesFailsItsDocumentOnly(t *testing.T) {
	for most, want := range map[int]int{3: 1, 0: 0} {
		s, r := &target{}, &records{}
		l := New(t.Context(), Options{Sender: s, Recorder: r, MaxID: most, Shard: 7})
		for i, id := range []string{"abc", "abcd", "x"} {
			d := document(int64(i))
			d.ID = []byte(id)
			if err := l.Add(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := l.Counts(); c.Failed != int64(want) || c.Indexed != int64(3-want) || c.Live != 3 || len(r.synced) != want || l.Watermark() != 3 {
			t.Errorf("at most %d: %+v, %+v", most, c, r.synced)
		}
		if want > 0 && (r.synced[0].ID != "abcd" || r.synced[0].Reason != doc.LongID || r.synced[0].Status != 0 || r.synced[0].Shard != 7 || r.synced[0].Ordinal != 1 || r.synced[0].Source == nil) {
			t.Errorf("%+v", r.synced[0])
		}
	}
}

func TestBodiesAreCutByBytesAndDocuments(t *testing.T) {
	s := &target{}
	l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 3, MaxBytes: 200, MaxInFlight: 1})
	add(t, l, 0, 7)
	big := document(7)
	big.Source = []byte(`{"x":"` + strings.Repeat("y", 500) + `"}`)
	if err := l.Add(t.Context(), big); err != nil {
		t.Fatal(err)
	}
	add(t, l, 8, 9)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"0", "1", "2"}, {"3", "4", "5"}, {"6"}, {"7"}, {"8"}}
	if !slices.EqualFunc(s.requests, want, func(a, b []string) bool { return slices.Equal(a, b) }) {
		t.Errorf("requests %v, want %v", s.requests, want)
	}
}

// The heart of it: whatever completes in whatever order, everything below the
// watermark is taken or recorded, and the counts describe just that.
func TestWatermarkIsTheContiguousPrefix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		n := rapid.IntRange(1, 80).Draw(rt, "documents")
		perBody := rapid.IntRange(1, 7).Draw(rt, "per body")
		inFlight := rapid.IntRange(1, 6).Draw(rt, "in flight")
		stopAt := rapid.IntRange(0, 2*n).Draw(rt, "stop at")
		synctest.Test(t, func(t *testing.T) { checkWatermark(t, seed, n, perBody, inFlight, stopAt) })
	})
}

func checkWatermark(t *testing.T, seed uint64, n, perBody, inFlight, stopAt int) {
	r := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	random := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	s := &target{}
	s.answer = func(ctx context.Context, ids []string, _ int) (Result, error) {
		select {
		case <-time.After(time.Duration(random(1000)) * time.Millisecond):
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
		switch random(8) {
		case 0:
			return Result{}, fmt.Errorf("busy: %w", fault.ErrUnavailable)
		case 1:
			return Result{}, ErrTooLarge
		}
		var res Result
		for pos := range ids {
			switch random(6) {
			case 0:
				res.Refused = append(res.Refused, Refusal{Pos: pos, Status: 429})
			case 1:
				res.Refused = append(res.Refused, Refusal{Pos: pos, Status: 400, Type: "mapper_parsing_exception"})
			}
		}
		return res, nil
	}
	rec := &records{}
	l := New(t.Context(), Options{Sender: s, Recorder: rec, From: 10, MaxDocs: perBody, MaxInFlight: inFlight})
	live := map[int64]string{} // ordinal: what it is
	check := func() {
		w, c := l.Settled()
		s.mu.Lock()
		defer s.mu.Unlock()
		rec.mu.Lock()
		defer rec.mu.Unlock()
		failed := map[int64]bool{}
		for _, f := range rec.synced {
			failed[f.Ordinal] = true
		}
		var want Counts
		for o, kind := range live {
			if o >= w {
				continue
			}
			want.Live++
			switch {
			case kind == "filtered":
				want.Filtered++
			case failed[o]:
				want.Failed++
			case kind == "added" && s.taken[fmt.Sprint(o)] > 0:
				want.Indexed++
			default:
				t.Errorf("ordinal %d (%s) lies below the watermark %d and is not done", o, kind, w)
			}
		}
		if c.Live != want.Live || c.Filtered != want.Filtered || c.Failed != want.Failed || c.Indexed != want.Indexed {
			t.Errorf("watermark %d: counts %+v, want %+v", w, c, want)
		}
	}
	o := int64(10)
	for i := range n {
		if i == stopAt {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random(2000))*time.Millisecond)
			defer cancel()
			l.Drain(ctx)
			check()
			return
		}
		o += int64(random(3))
		var err error
		switch random(10) {
		case 0:
			live[o], err = "failed", l.Fail(t.Context(), doc.Failure{Ordinal: o, Reason: doc.NoSource})
		case 1:
			live[o], err = "filtered", l.Filter(t.Context(), o)
		default:
			live[o], err = "added", l.Add(t.Context(), document(o))
		}
		if err != nil {
			t.Fatal(err)
		}
		o++
		check()
	}
	l.Advance(o + 5)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	check()
	if w := l.Watermark(); w != o+5 {
		t.Errorf("watermark %d at the end of %d", w, o+5)
	}
	if c := l.Counts(); c.Live != int64(n) || c.Live != c.Indexed+c.Failed+c.Filtered {
		t.Errorf("%d documents, counts %+v", n, c)
	}
	l.Abort()
}

func TestOutOfOrderCompletionHoldsTheWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &target{answer: func(_ context.Context, ids []string, _ int) (Result, error) {
			if ids[0] == "0" {
				<-release
			}
			return Result{}, nil
		}}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 2})
		add(t, l, 0, 7)
		synctest.Wait()
		if w, c := l.Settled(); w != 0 || c.Live != 0 || l.Counts().Indexed != 4 {
			t.Errorf("watermark %d, settled %+v, all %+v", w, c, l.Counts())
		}
		close(release)
		synctest.Wait()
		if w, c := l.Settled(); w != 6 || c.Indexed != 6 {
			t.Errorf("watermark %d, settled %+v", w, c)
		}
		l.Abort()
	})
}

func TestNoRequestStartsAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deadline := time.Now().Add(time.Second)
		started := 0
		s := &target{answer: func(ctx context.Context, _ []string, _ int) (Result, error) {
			started++
			if time.Now().After(deadline) {
				t.Error("started after the deadline")
			}
			return Result{}, wait.For(ctx, 300*time.Millisecond)
		}}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 1, MaxInFlight: 1, MayStart: func() error {
			if !time.Now().Before(deadline) {
				return fault.ErrLeaseLost
			}
			return nil
		}})
		var err error
		for o := int64(0); err == nil; o++ {
			err = l.Add(t.Context(), document(o))
		}
		if !errors.Is(err, fault.ErrLeaseLost) || started != 4 || l.Watermark() < 3 {
			t.Errorf("%v after %d requests, watermark %d", err, started, l.Watermark())
		}
		l.Drain(t.Context())
	})
}

func TestDrainWaitsForWhatIsUnderWayAndStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{answer: func(ctx context.Context, ids []string, _ int) (Result, error) {
			if ids[0] == "4" {
				<-ctx.Done() // never answers
				return Result{}, ctx.Err()
			}
			return Result{}, wait.For(ctx, 5*time.Second)
		}}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 2})
		add(t, l, 0, 7)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		l.Drain(ctx)
		if w, c := l.Settled(); w != 4 || c.Indexed != 4 || len(s.requests) != 3 || s.busy != 0 {
			t.Errorf("watermark %d, %+v, requests %v, %d in progress", w, c, s.requests, s.busy)
		}
	})
}

func TestAddHonoursItsContextWhileTheWindowIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{answer: func(ctx context.Context, _ []string, _ int) (Result, error) {
			return Result{}, wait.For(ctx, time.Hour)
		}}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 1, MaxInFlight: 2})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		o := int64(0)
		for ; err == nil; o++ {
			err = l.Add(ctx, document(o))
		}
		if !errors.Is(err, context.DeadlineExceeded) || o != 4 {
			t.Errorf("%v at document %d", err, o)
		}
		l.Abort()
		if s.busy != 0 || l.Watermark() != 0 {
			t.Errorf("%d requests survive, watermark %d", s.busy, l.Watermark())
		}
	})
}

type sink struct{}

func (sink) Send(context.Context, []byte, int) (Result, error) { return Result{}, nil }

func BenchmarkAdd(b *testing.B) {
	d := &doc.Document{Index: []byte("logs-2026"), ID: []byte("AVx3kq9XyZ0123456789"), Source: []byte(`{"m":"` + strings.Repeat("x", 316) + `"}`)}
	l := New(b.Context(), Options{Sender: sink{}, Recorder: &records{}, Breaker: NewBreaker(1000)})
	b.SetBytes(int64(len(d.Source)))
	b.ReportAllocs()
	for b.Loop() {
		d.Ordinal++
		if err := l.Add(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}
