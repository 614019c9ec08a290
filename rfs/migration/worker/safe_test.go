package worker_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

func TestQuietWaitsForWhateverMayStillBeSent(t *testing.T) {
	const begin = 1_000_000
	at := func(s int64) time.Time { return time.Unix(begin+s, 0) }
	for _, c := range []struct {
		name  string
		items []cms.Item
		until time.Time // when it is safe; zero: never while an item is open
	}{
		{"ended item: its last request may be a repetition", []cms.Item{{ID: "a", CompletedAt: begin, AcquiredAt: begin * 1000}}, at(121)},
		{"ended late", []cms.Item{{ID: "a", CompletedAt: begin + 50}, {ID: "b", CompletedAt: begin}}, at(171)},
		{"stolen item: the former holder sent until the acquisition", []cms.Item{{ID: "a", CompletedAt: begin, AcquiredAt: (begin + 10) * 1000}}, at(130)},
		{"lease of the one who seeds", []cms.Item{{ID: cms.SetupID, Holder: "x", Expiration: begin}}, at(140)},
		{"open item without a holder", []cms.Item{{ID: "a"}}, time.Time{}},
		{"lease that is long over", []cms.Item{{ID: "a", Holder: "x", Expiration: begin - 100_000}}, time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q progress.WriteBarrier
			for _, it := range c.items {
				q.Add(it)
			}
			if c.until.IsZero() {
				if q.Open == 0 {
					t.Error("safe although an item may be leased")
				}
				return
			}
			if q.Open != 0 || !q.SafeFrom.Equal(c.until) {
				t.Errorf("quiet from %v on, want %v", q.SafeFrom, c.until)
			}
		})
	}
}

func TestSummaryTellsWhenOthersMayWrite(t *testing.T) {
	repository := filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo")
	dir := t.TempDir()
	s := &migrationtest.Sink{Docs: map[string][32]byte{}}
	if sum, err := runOnce(t, dir, repository, "state.db", s, 1); err == nil || sum.SafeFrom != nil {
		t.Errorf("interrupted: %v, safe to write from %v", err, sum.SafeFrom)
	}
	sum, err := runOnce(t, dir, repository, "state.db", s, 0)
	if err != nil || sum.SafeFrom == nil {
		t.Fatalf("%+v, %v", sum, err)
	}
	if left := time.Until(*sum.SafeFrom); left < time.Second || left > progress.RequestTimeout+2*time.Second {
		t.Errorf("safe to write in %v", left)
	}
}
