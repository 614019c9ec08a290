package progress_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// stepClock is moved by the test.
type stepClock struct{ mono time.Duration }

func (c *stepClock) Read() timing.Reading { return timing.Reading{Mono: c.mono} }

func (c *stepClock) Sleep(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// follow reads the store once.
func follow(t *testing.T, w world, own *progress.Work) (*progress.Follower, *stepClock) {
	t.Helper()
	clock := &stepClock{}
	f := &progress.Follower{Clock: clock, Read: func(ctx context.Context) (*progress.Migration, error) { return read(ctx, w.Coordinator) }}
	if own != nil {
		f.Own = func() progress.Work { return *own }
	}
	f.Refresh(t.Context())
	return f, clock
}

func seconds(left *float64) float64 {
	if left == nil {
		return -1
	}
	return *left
}

// A process that continues the work of another includes the other's work, and estimates the end from its own rate.
func TestTheViewOfAResumedMigrationIsTrue(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "logs", progress.Completed, 1000, 3000)
	must(t, w.lease(t, cms.ItemID{Index: "logs"}).Complete(t.Context(), cms.Work{Counts: cms.Counts{Ordinals: 100, Live: 100, Indexed: 99, Failed: 1}}))
	own := &progress.Work{}
	f, clock := follow(t, w, own)
	if v := f.View(); v.Share != 0.25 || v.Documents != 100 || v.Failed != 1 || v.Left != nil || v.Phase.Name != "documents" {
		t.Errorf("at the start: %+v", v)
	}
	clock.mono = 10 * time.Second
	*own = progress.Work{Documents: 100, SourceBytes: 5000, Bytes: 1000, Running: 1}
	v := f.View()
	if v.Share != 0.5 || v.Documents != 200 || v.Rate != 10 || v.Mean != 10 || v.SourceRate != 500 || v.ByteRate != 100 || seconds(v.Left) != 20 || v.Quiet != 0 {
		t.Errorf("after 10 s: %+v", v)
	}
}

// The end is estimated from the last minute, not from a slow start.
func TestTheRateIsThatOfTheLastMinute(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "logs", progress.Completed, 10_000)
	own := &progress.Work{Running: 1}
	f, clock := follow(t, w, own)
	f.View()
	for range 120 { // two slow minutes, then one that is ten times as fast
		clock.mono += time.Second
		own.Documents, own.Bytes = own.Documents+1, own.Bytes+10
		f.View()
	}
	var v progress.View
	for range 60 {
		clock.mono += time.Second
		own.Documents, own.Bytes = own.Documents+10, own.Bytes+100
		v = f.View()
	}
	if math.Abs(v.Rate-10) > 0.2 || math.Abs(v.Mean-4) > 0.01 || v.Share != 0.72 || math.Abs(seconds(v.Left)-28) > 1 {
		t.Errorf("%+v", v)
	}
}

func TestTimeWithoutDocumentsIsReported(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "logs", progress.Completed, 10_000)
	own := &progress.Work{Documents: 5, Running: 1}
	f, clock := follow(t, w, own)
	for _, c := range []struct {
		name string
		at   time.Duration
		own  progress.Work
		want time.Duration
	}{
		{"documents arrived", 0, progress.Work{Documents: 5, Running: 1}, 0},
		{"a short pause", 9 * time.Second, progress.Work{Documents: 5, Running: 1}, 0},
		{"a long one", 40 * time.Second, progress.Work{Documents: 5, Running: 1}, 40 * time.Second},
		{"documents again", 41 * time.Second, progress.Work{Documents: 6, Running: 1}, 0},
		{"no item in progress", 90 * time.Second, progress.Work{Documents: 6}, 0},
		{"ordinals without documents", 95 * time.Second, progress.Work{Documents: 6, Bytes: 7, Running: 1}, 0},
		{"and none", 106 * time.Second, progress.Work{Documents: 6, Bytes: 7, Running: 1}, 11 * time.Second},
	} {
		clock.mono, *own = c.at, c.own
		if v := f.View(); v.Quiet != c.want.Seconds() {
			t.Errorf("%s: %v, want %v", c.name, v.Quiet, c.want)
		}
	}
}

// Without an answer from the store, the process's own work remains.
func TestAViewWithoutAStore(t *testing.T) {
	w := newWorld(t)
	must(t, w.store.Close())
	f, clock := follow(t, w, &progress.Work{Documents: 7, Running: 1})
	clock.mono = time.Second
	if v := f.View(); v.Documents != 7 || v.Share != 0 || v.Left != nil || v.Phase.Name != "" || v.State != progress.StateUnknown {
		t.Errorf("%+v", v)
	}
}

// Work read from a store grows in steps, because workers record it periodically: the rate is measured over whole steps.
func TestTheRateOfRecordedWork(t *testing.T) {
	m := progress.Measure{Lag: progress.RecordLag}
	session := &progress.Migration{Totals: progress.Counts{Bytes: 100_000, Leased: 1, ItemsOpen: 1}}
	done := func(at int64) progress.Work {
		recorded := at / 10 * 10
		return progress.Work{Documents: 10 * recorded, Bytes: 100 * recorded, Running: 1}
	}
	for at := int64(0); at <= 300; at += 3 {
		m.Add(time.Duration(at)*time.Second, done(at))
		v := m.View(time.Duration(at)*time.Second, session)
		if at < 60 {
			continue
		}
		if v.Rate < 9.4 || v.Rate > 10.6 || v.Quiet != 0 {
			t.Errorf("after %d s: %v documents/s, quiet for %v s", at, v.Rate, v.Quiet)
		}
		if left := float64(100_000-done(at).Bytes) / 100; math.Abs(seconds(v.Left)-left) > 0.07*left {
			t.Errorf("after %d s: %v s left, want %v", at, seconds(v.Left), left)
		}
	}
	if v := m.View(360*time.Second, session); v.Quiet < 59 || v.Rate > 8 {
		t.Errorf("a minute later: %v documents/s, quiet for %v s", v.Rate, v.Quiet)
	}
}

// A single reading has the mean since the documents phase started; items in progress determine whether work is being done.
func TestTheViewOfASingleReading(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "logs", progress.Completed, 1000, 3000)
	w.put(t, cms.Record{ID: "phase:docs", Kind: "phase", State: progress.InProgress})
	lease := w.lease(t, cms.ItemID{Index: "logs"})
	must(t, lease.Complete(t.Context(), cms.Work{Counts: cms.Counts{Ordinals: 100, Live: 100, Indexed: 90, Kept: 10, Bytes: 5000}}))
	f, _ := follow(t, w, nil)
	if v := f.View(); v.State != progress.StateWaiting || v.Documents != 100 || v.Share != 0.25 {
		t.Errorf("no lease is held: %+v", v)
	}
	w.lease(t, cms.ItemID{Index: "logs", Shard: 1})
	f.Refresh(t.Context())
	if v := f.View(); v.State != progress.StateWorking {
		t.Errorf("a lease is held: %+v", v)
	}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &progress.Migration{
		ReadAt: began.Add(100 * time.Second), Phases: []progress.Phase{{Name: "documents", State: progress.InProgress, Started: &began}},
		Totals: progress.Counts{Leased: 1, ItemsOpen: 1, Bytes: 4000, BytesDone: 1000, Indexed: 500},
	}
	measure := progress.Measure{Lag: progress.RecordLag}
	measure.Add(0, m.Totals.Work())
	if v := measure.View(0, m); v.Rate != 0 || v.Mean != 5 || seconds(v.Left) != 300 {
		t.Errorf("the mean: %+v, %v s left", v, seconds(v.Left))
	}
}

// Before the work is known, no end is estimated.
func TestNoEndIsEstimatedOfUnknownWork(t *testing.T) {
	var m progress.Measure
	m.Add(0, progress.Work{Running: 1})
	m.Add(time.Second, progress.Work{Documents: 100, Bytes: 1000, Running: 1})
	if v := m.View(time.Second, &progress.Migration{}); v.Left != nil || v.Share != 0 || v.Rate != 100 {
		t.Errorf("%+v, %v s left", v, seconds(v.Left))
	}
}

// TestMeasure_NoEndWithoutDocuments: bytes of deleted documents are passed while the target takes none, and say nothing about the end.
func TestMeasure_NoEndWithoutDocuments(t *testing.T) {
	for _, c := range []struct {
		name      string
		documents int64
		known     bool
	}{{"documents arrive", 10, true}, {"none arrives", 0, false}} {
		t.Run(c.name, func(t *testing.T) {
			var m progress.Measure
			m.Add(0, progress.Work{Running: 1})
			m.Add(time.Second, progress.Work{Documents: c.documents, Bytes: 10, Running: 1})
			if v := m.View(time.Second, &progress.Migration{Totals: progress.Counts{Bytes: 1000, Leased: 1}}); (v.Left != nil) != c.known {
				t.Errorf("%+v, %v s left", v, seconds(v.Left))
			}
		})
	}
}

func TestWhatWasGivenUpIsSeen(t *testing.T) {
	m := &progress.Migration{Failures: []progress.Failure{
		{Reason: "checksum", Count: 7, Examples: []string{"shard 0 of logs", "shard 1 of logs"}}, {Reason: "no mapping", Count: 1, Examples: []string{"index orders", "index more"}},
	}}
	var measure progress.Measure
	if v := measure.View(0, m); v.GivenUp != 8 || !slices.Equal(v.GivenUpNames, []string{"shard 0 of logs", "shard 1 of logs", "index orders"}) {
		t.Errorf("%+v", v)
	}
}

// TestMeasure_Losses: a session that has ended without all of its documents is neither complete without losses nor 100 % done.
func TestMeasure_Losses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m *progress.Migration)
		state  string
		share  float64
		says   string
	}{
		{"everything arrived", func(*progress.Migration) {}, progress.StateComplete, 1, "150 documents, complete"},
		{"documents were rejected", func(m *progress.Migration) { m.Totals.Failed = 6 }, progress.StateLosses, 1, "156 documents, complete with losses, 6 failed"},
		{"a shard failed at its start", func(m *progress.Migration) {
			m.Totals.ShardsDone, m.Totals.ShardsFailed, m.Totals.Undelivered, m.Totals.BytesDone, m.Totals.BytesLost = 3, 1, 38, 900, 100
			m.Failures = []progress.Failure{{Reason: "checksum", Count: 1, Examples: []string{"shard 0 of logs"}}}
		}, progress.StateLosses, 0.9, "150 documents, complete with losses, 1 given up (shard 0 of logs): at most 38 documents of failed shards were not delivered"},
		{"a shard failed at its end", func(m *progress.Migration) {
			m.Totals.ShardsDone, m.Totals.ShardsFailed, m.Totals.Uncounted = 3, 1, 1
			m.Failures = []progress.Failure{{Reason: "checksum", Count: 1}}
		}, progress.StateLosses, 0.999, "150 documents, complete with losses, 1 given up: the number of documents of 1 failed shard is unknown"},
		{"an index could not be created", func(m *progress.Migration) { m.Failures = []progress.Failure{{Reason: "no mapping", Count: 1}} },
			progress.StateLosses, 1, "150 documents, complete with losses, 1 given up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &progress.Migration{Complete: true, Phases: []progress.Phase{{Name: "documents", State: progress.Completed}},
				Totals: progress.Counts{Shards: 4, ShardsDone: 4, Indexed: 150, Bytes: 1000, BytesDone: 1000}}
			c.change(m)
			var x progress.Measure
			x.Add(0, m.Totals.Work())
			v := x.View(0, m)
			if v.State != c.state || v.Share != c.share || v.Left != nil || !v.Ended() || v.String() != c.says {
				t.Errorf("%s, share %v, left %v: %q", v.State, v.Share, v.Left, v)
			}
		})
	}
}

// TestMeasure_Silence: a session whose processes ended without a report is shown as silent, without an estimate.
func TestMeasure_Silence(t *testing.T) {
	now := time.Date(2026, 11, 24, 6, 20, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		ago    time.Duration // of the last report
		leased int64
		intent string
		own    bool // the observer works itself
		state  string
		silent float64
		left   bool
	}{
		{"a worker has just reported", 5 * time.Second, 1, "run", false, progress.StateWorking, 0, true},
		{"the last report is old", 45 * time.Second, 1, "run", false, progress.StateSilent, 45, false},
		{"this process works", 45 * time.Second, 1, "run", true, progress.StateWorking, 0, true},
		{"nobody holds a lease", 45 * time.Second, 0, "run", false, progress.StateWaiting, 45, false},
		{"paused, and a worker comes to its end", 5 * time.Second, 1, "pause", false, progress.StatePaused, 0, false},
		{"drained long ago", time.Hour, 0, "drain", false, progress.StatePaused, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			began, last := now.Add(-10*time.Minute), now.Add(-c.ago)
			m := &progress.Migration{ReadAt: now, LastReport: &last, Intent: progress.Intent{State: c.intent},
				Phases: []progress.Phase{{Name: "documents", State: progress.InProgress, Started: &began}},
				Totals: progress.Counts{Items: 4, ItemsOpen: 3, Leased: c.leased, Indexed: 100, Bytes: 1000, BytesDone: 100}}
			x := progress.Measure{Lag: progress.RecordLag}
			x.Add(0, m.Totals.Work())
			at := time.Duration(0)
			if c.own {
				x.Lag, at = 0, time.Second
				more := m.Totals.Work()
				more.Documents, more.Bytes = more.Documents+10, more.Bytes+10
				x.Add(at, more)
			}
			v := x.View(at, m)
			if v.State != c.state || v.Silent != c.silent || (v.Left != nil) != c.left {
				t.Errorf("%s, silent for %v s, left %v", v.State, v.Silent, v.Left)
			}
		})
	}
}

// TestView_Of: the share of a process that is ahead of the store is not replaced by the recorded one.
func TestView_Of(t *testing.T) {
	m := &progress.Migration{Totals: progress.Counts{Indexed: 50, Bytes: 1000, BytesDone: 200}}
	for own, want := range map[float64]float64{0: 0.2, 0.1: 0.2, 0.6: 0.6} {
		if v := (progress.View{Share: own}).Of(m); v.Share != want || v.Documents != 50 {
			t.Errorf("%v: %v, %d documents", own, v.Share, v.Documents)
		}
	}
}
