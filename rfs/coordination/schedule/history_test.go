package schedule

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestAHistoryCoversTheWholeRunInBoundedSpace: no work is lost, whatever the length, and the end is at most one step coarse.
func TestAHistoryCoversTheWholeRunInBoundedSpace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, spans := range []int{1, 100, 500, 20_000} {
		var h History
		var sum Sample
		for range spans {
			p := Sample{Begin: 1000 + sum.Took, Took: 10_000 + r.Int64N(10_000), Bytes: r.Int64N(1 << 30), Documents: r.Int64N(1000), Worked: r.Int64N(80_000)}
			h.Add(p)
			sum = sum.merge(p)
		}
		var got Sample
		at := int64(1000)
		for i, p := range h.Samples {
			if p.Begin != at {
				t.Fatalf("%d spans: point %d starts at %d, not %d", spans, i, p.Begin, at)
			}
			if i+1 < len(h.Samples) && (p.Took < h.Step || p.Took > 4*h.Step) {
				t.Errorf("%d spans: point %d covers %d ms at a step of %d", spans, i, p.Took, h.Step)
			}
			at, got = at+p.Took, got.merge(p)
		}
		if sum.Begin = got.Begin; got != sum {
			t.Errorf("%d spans: %+v, want %+v", spans, got, sum)
		}
		b, err := json.Marshal(h)
		if err != nil || len(h.Samples) > MaxSamples || len(b) > 16<<10 {
			t.Errorf("%d spans: %d points, %d bytes, %v", spans, len(h.Samples), len(b), err)
		}
		if spans > 500 && len(h.Samples) < MaxSamples/2 {
			t.Errorf("%d spans: only %d points", spans, len(h.Samples))
		}
	}
}

func TestTheEndIsEstimatedByTheLastQuarterOfAnHour(t *testing.T) {
	var h History
	add := func(minutes int, rate int64) {
		for range minutes * 4 {
			h.Add(Sample{Took: 15_000, Bytes: 15 * rate, Documents: 15, Worked: 30_000})
		}
	}
	add(5, 1000)
	if got := h.Recent(); got != (Throughput{Bytes: 1000, Documents: 1, Worker: 500}) {
		t.Errorf("%+v", got)
	}
	add(14, 2000)
	if got := h.Recent().Bytes; got < 1900 || got >= 2000 {
		t.Errorf("%v: one quiet minute of fifteen", got)
	}
	add(30, 4000)
	if got := h.Recent().Bytes; got != 4000 {
		t.Errorf("%v", got)
	}
	h.Add(Sample{Took: 15_000, Bytes: -5})
	h.Add(Sample{Took: -1, Bytes: 1 << 60})
	if got := h.Recent().Bytes; got != 4000 {
		t.Errorf("%v after what cannot be", got)
	}
	if got := (History{}).Recent(); got != (Throughput{}) {
		t.Errorf("%+v of nothing", got)
	}
	if got := Estimate(8000, 4000); got == nil || *got != 2 {
		t.Errorf("%v", got)
	}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-300} {
		if got := Estimate(8000, rate); got != nil {
			t.Errorf("%v at %v bytes per second", *got, rate)
		}
	}
	if got := h.Last(3); len(got.Samples) != 3 || got.Step != h.Step {
		t.Errorf("%+v", got)
	}
}

func TestAHistoryOfAnyNodeIsReadWithoutHarm(t *testing.T) {
	for _, s := range []string{
		`{}`, `{"step":-5,"points":[{}]}`, `{"step":9223372036854775807,"points":[{"n":9223372036854775807,"b":9223372036854775807,"w":1}]}`,
		`{"points":[{"n":-1,"b":-1,"d":-1,"w":-1},{"n":1,"b":1,"d":1,"w":1}]}`,
	} {
		var h History
		if err := json.Unmarshal([]byte(s), &h); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			h.Add(Sample{Took: int64(time.Hour / time.Millisecond), Bytes: math.MaxInt64 / 2, Worked: 1})
		}
		if got := h.Recent(); got.Bytes < 0 || math.IsInf(got.Bytes, 0) || math.IsNaN(got.Worker) || len(h.Samples) > MaxSamples {
			t.Errorf("%s: %+v, %d points", s, got, len(h.Samples))
		}
	}
}
