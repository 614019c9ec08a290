package bulk

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

func TestBreakerTripsOnlyOnManyAndLarge(t *testing.T) {
	refusals := func(n int) []doc.Failure {
		return slices.Repeat([]doc.Failure{{Reason: "mapper_parsing_exception", Detail: "no date"}}, n)
	}
	k := NewBreaker(100)
	for _, c := range []struct {
		index         string
		sent, refused int
		trips         bool
	}{
		{"a", 100, 100, false}, {"a", 1, 1, true},
		{"b", 5000, 101, false}, {"b", 0, 400, true},
		{"c", 10, 0, false},
	} {
		err := k.observe(c.index, int64(c.sent), refusals(c.refused))
		if errors.Is(err, ErrTooManyRefusals) != c.trips {
			t.Errorf("%+v: %v", c, err)
		}
		if c.trips && !strings.Contains(err.Error(), "index "+c.index) || c.trips && !strings.Contains(err.Error(), "no date") {
			t.Errorf("message %q", err)
		}
	}
	if err := NewBreaker(math.MaxInt64).observe("a", 1e6, refusals(1e5)); err != nil {
		t.Errorf("unlimited: %v", err)
	}
}

func TestBreakerStopsALoaderAfterTheRecord(t *testing.T) {
	s := &target{answer: func(_ context.Context, ids []string, _ int) (Result, error) {
		var res Result
		for i := range ids {
			res.Refused = append(res.Refused, Refusal{Pos: i, Status: 400, Type: "strict_dynamic_mapping_exception"})
		}
		return res, nil
	}}
	rec := &records{}
	l := New(t.Context(), Options{Sender: s, Recorder: rec, MaxDocs: 5, MaxInFlight: 1, Breaker: NewBreaker(12)})
	var err error
	for o := int64(0); err == nil; o++ {
		err = l.Add(t.Context(), document(o))
	}
	l.Drain(t.Context())
	if !errors.Is(err, ErrTooManyRefusals) || int64(len(rec.synced)) != l.Watermark() || len(rec.synced) < 13 {
		t.Errorf("%v; %d recorded, watermark %d", err, len(rec.synced), l.Watermark())
	}
}
