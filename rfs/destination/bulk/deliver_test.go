package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

func TestOnlyWhatFailedIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		s := &target{answer: func(context.Context, []string, int) (Result, error) {
			if !first {
				return Result{}, nil
			}
			first = false
			return Result{Refused: []Refusal{{Pos: 1, Status: 429}, {Pos: 2, Status: 400, Type: "mapper_parsing_exception", Reason: "no"}, {Pos: 4, Status: 503}}}, nil
		}}
		rec := &records{}
		l := New(t.Context(), Options{Sender: s, Recorder: rec, Shard: 7})
		add(t, l, 0, 6)
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(s.requests) != 2 || !slices.Equal(s.requests[1], []string{"1", "4"}) {
			t.Errorf("requests %v", s.requests)
		}
		want := doc.Failure{Index: "i", ID: "2", Shard: 7, Ordinal: 2, Reason: "mapper_parsing_exception", Detail: "no", Status: 400, Source: []byte(`{"n":2}`)}
		if len(rec.synced) != 1 || fmt.Sprint(rec.synced[0]) != fmt.Sprint(want) {
			t.Errorf("recorded %+v", rec.synced)
		}
		if c := l.Counts(); c.Indexed != 5 || c.Failed != 1 || c.Requests != 2 || c.Retries != 1 || c.Resent != 2 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestATooLargeBodyIsSplitDownToTheDocument(t *testing.T) {
	s := &target{answer: func(_ context.Context, ids []string, size int) (Result, error) {
		if size > 150 || slices.Contains(ids, "5") {
			return Result{}, ErrTooLarge
		}
		return Result{}, nil
	}}
	rec := &records{}
	l := New(t.Context(), Options{Sender: s, Recorder: rec})
	add(t, l, 0, 16)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.taken) != 15 || len(rec.synced) != 1 || rec.synced[0].ID != "5" || rec.synced[0].Reason != doc.TooLarge || l.Watermark() != 16 {
		t.Errorf("taken %v, recorded %+v, watermark %d", s.taken, rec.synced, l.Watermark())
	}
}

func TestAnOverloadedTargetIsRelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var late, during int
		s := &target{}
		s.answer = func(ctx context.Context, ids []string, _ int) (Result, error) {
			if err := wait.For(ctx, 100*time.Millisecond); err != nil {
				return Result{}, err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if e := time.Since(start); e > 10*time.Second && e < 40*time.Second {
				during++
				return Result{}, fmt.Errorf("429: %w", fault.ErrUnavailable)
			} else if e > 100*time.Second {
				late = max(late, s.busy)
			}
			return Result{}, nil
		}
		rec := &records{}
		l := New(t.Context(), Options{Sender: s, Recorder: rec, MaxDocs: 1})
		for o := int64(0); time.Since(start) < 110*time.Second; o++ {
			add(t, l, o, o+1)
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := l.Counts()
		if len(rec.synced) != 0 || c.Failed != 0 || c.Indexed != c.Live {
			t.Errorf("lost documents: %+v", c)
		}
		if late < 8 {
			t.Errorf("%d requests immediately a minute later, want at least 8 of 10", late)
		}
		if during > 150 || float64(c.Requests) > 1.3*float64(c.Live) {
			t.Errorf("%d requests against an overloaded target, %d for %d documents", during, c.Requests, c.Live)
		}
	})
}

func TestATargetThatStaysAwayEndsTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &target{answer: func(context.Context, []string, int) (Result, error) {
			return Result{}, fmt.Errorf("no route: %w", fault.ErrUnavailable)
		}}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}, StallTimeout: time.Minute})
		add(t, l, 0, 3)
		err := l.Flush(t.Context())
		if !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "no route") {
			t.Errorf("error %v", err)
		}
		if d := time.Since(start); d < time.Minute || d > 2*time.Minute {
			t.Errorf("after %v", d)
		}
		if l.Watermark() != 0 {
			t.Errorf("watermark %d", l.Watermark())
		}
		if err := l.Add(t.Context(), document(9)); !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("a stopped loader takes a document: %v", err)
		}
	})
}

func TestFailuresAreDurableBeforeTheWatermarkPasses(t *testing.T) {
	rec := &records{err: errors.New("disk full")}
	l := New(t.Context(), Options{Sender: &target{}, Recorder: rec, From: 3})
	if err := l.Fail(t.Context(), doc.Failure{Ordinal: 3, Reason: doc.NoSource}); err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "disk full") || l.Watermark() != 3 {
		t.Errorf("%v, watermark %d", err, l.Watermark())
	}
}

func TestABlockedIndexIsNotTheDocumentsFault(t *testing.T) {
	for _, r := range []Refusal{{Status: 403, Type: "cluster_block_exception", Reason: "index [a] blocked by: [FORBIDDEN/8/index write (api)];"},
		{Status: 404, Type: "index_not_found_exception"}, {Status: 400, Type: "index_closed_exception"},
		{Status: 403, Type: "security_exception", Reason: "no permissions for [indices:data/write/bulk[s]] and User [name=u, backend_roles=[]]"}} {
		s := &target{answer: func(context.Context, []string, int) (Result, error) { return Result{Refused: []Refusal{r}}, nil }}
		rec := &records{}
		l := New(t.Context(), Options{Sender: s, Recorder: rec})
		add(t, l, 0, 2)
		if err := l.Flush(t.Context()); !errors.Is(err, ErrIndexBlocked) || !errors.Is(err, fault.ErrRejected) || len(rec.synced) != 0 || l.Watermark() != 0 {
			t.Errorf("%s: %v, recorded %v, watermark %d", r.Type, err, rec.synced, l.Watermark())
		} else if text, remedy := fault.Explain(r.Status, r.Type, r.Reason); !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v, want %s; %s", r.Type, err, text, remedy)
		}
	}
}

func TestAnAnswerThatDoesNotFitIsAnError(t *testing.T) {
	for _, refused := range [][]Refusal{{{Pos: 2, Status: 400}}, {{Pos: 1, Status: 400}, {Pos: 1, Status: 400}}, {{Pos: -1, Status: 429}}} {
		s := &target{answer: func(context.Context, []string, int) (Result, error) { return Result{Refused: refused}, nil }}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}})
		add(t, l, 0, 2)
		if err := l.Flush(t.Context()); err == nil || l.Watermark() != 0 {
			t.Errorf("%v: %v, watermark %d", refused, err, l.Watermark())
		}
	}
}
