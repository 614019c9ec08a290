package bulk

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

func TestAStatusOf500IsTriedAgain(t *testing.T) {
	for status, again := range map[int]bool{400: false, 429: true, 499: false, 500: true, 503: true} {
		if got := (Refusal{Status: status}).Retryable(); got != again {
			t.Errorf("%d: %v, want %v", status, got, again)
		}
	}
	if (Refusal{Status: 500, Type: "fail_processor_exception"}).Retryable() {
		t.Error("a document that the fail processor of a pipeline rejects is sent again")
	}
}

func TestNoTypeIsWrittenWhereThereIsNone(t *testing.T) {
	d := doc.Document{Index: []byte("i"), ID: []byte("1")}
	if got := line(t, lines{op: "index", emitType: true}, &d); got != `{"index":{"_index":"i","_id":"1"}}` {
		t.Error(got)
	}
}

func TestCountsHaveTheBytesOfSources(t *testing.T) {
	l := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}})
	add(t, l, 0, 3) // 7 bytes each
	if err := errors.Join(l.Fail(t.Context(), doc.Failure{Ordinal: 3, Source: []byte("xyz")}), l.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if c := l.Counts(); c.Bytes != 24 {
		t.Errorf("%+v", c)
	}
}

func TestReducedDocumentsAreCountedWhenTheTargetTakesThem(t *testing.T) {
	s := &target{answer: func(_ context.Context, ids []string, _ int) (Result, error) {
		return Result{Refused: []Refusal{{Pos: 0, Status: 400, Type: "x"}}}, nil // the first, which is reduced
	}}
	l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 50})
	for i := range int64(6) {
		d := doc.Document{Ordinal: i, Index: []byte("i"), ID: []byte{'a' + byte(i)}, Source: []byte("{}"), Reduced: i%2 == 0}
		if err := l.Add(t.Context(), &d); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, c := l.Settled(); c.Reduced != 2 || c.Indexed != 5 || c.Failed != 1 {
		t.Errorf("%+v, want 2 reduced ones of 5 that were indexed", c)
	}
}

func TestTheBreakerKnowsHowManyDocumentsWereSent(t *testing.T) {
	s := &target{answer: func(_ context.Context, ids []string, _ int) (Result, error) {
		return Result{Refused: []Refusal{{Pos: 0, Status: 400, Type: "x"}}}, nil // one of fifty
	}}
	l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 50, Breaker: NewBreaker(2)})
	add(t, l, 0, 500)
	if err := l.Flush(t.Context()); err != nil || l.Counts().Failed != 10 {
		t.Errorf("%v, %+v", err, l.Counts())
	}
}

func TestFailuresAreRecordedInOrder(t *testing.T) {
	s := &target{answer: func(context.Context, []string, int) (Result, error) {
		return Result{Refused: []Refusal{{Pos: 0, Status: 400, Type: "x"}}}, nil
	}}
	rec := &records{}
	l := New(t.Context(), Options{Sender: s, Recorder: rec})
	add(t, l, 0, 1)
	fail(t, l, 1, 3)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, f := range rec.synced {
		got = append(got, f.Ordinal)
	}
	if !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("recorded %v", got)
	}
}

func TestFilterHonoursItsContextWhenABatchIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := held()
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxInFlight: 1, MaxDocs: 1})
		add(t, l, 0, 2)
		time.Sleep(DefaultMaxAge)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Filter(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		l.Abort()
	})
}
