package progress_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/progress"
)

// stepClock is moved by the test; Sleep ends when the context does.
type stepClock struct {
	mono  time.Duration
	slept chan struct{} // closed at the first Sleep
}

func (c *stepClock) Read() cms.Reading { return cms.Reading{Mono: c.mono} }

func (c *stepClock) Sleep(ctx context.Context, _ time.Duration) error {
	close(c.slept)
	<-ctx.Done()
	return ctx.Err()
}

// follow reads the store once.
func follow(t *testing.T, w world, own *progress.Own) (*progress.Follower, *stepClock) {
	t.Helper()
	clock := &stepClock{slept: make(chan struct{})}
	f := &progress.Follower{Store: w.Coordinator, Clock: clock, Own: func() progress.Own { return *own }}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { f.Run(ctx); close(ended) }()
	<-clock.slept
	end()
	<-ended
	return f, clock
}

// A process that goes on with the work of another counts what that one did, and estimates the end from its own rate.
func TestTheViewOfAResumedMigrationIsTrue(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "logs", progress.Completed, 1000, 3000)
	must(t, w.lease(t, cms.ItemID{Index: "logs"}).Complete(t.Context(), cms.Work{Counts: cms.Counts{Ordinals: 100, Live: 100, Indexed: 99, Failed: 1}}))
	own := &progress.Own{}
	f, clock := follow(t, w, own)
	if v := f.View(); v.Share != 0.25 || v.Documents != 100 || v.Failed != 1 || v.Left != 0 || v.Phase.Name != "documents" {
		t.Errorf("at the start: %+v", v)
	}
	clock.mono = 10 * time.Second
	*own = progress.Own{Documents: 100, Bytes: 5000, ShardBytes: 1000, Running: 1}
	v := f.View()
	if v.Share != 0.5 || v.Documents != 200 || v.Rate != 10 || v.Mean != 10 || v.ByteRate != 500 || v.Left != 20*time.Second || v.Quiet != 0 {
		t.Errorf("after 10 s: %+v", v)
	}
}

// The end is estimated from the last minute, not from a slow begin.
func TestTheRateIsThatOfTheLastMinute(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "logs", progress.Completed, 10_000)
	own := &progress.Own{Running: 1}
	f, clock := follow(t, w, own)
	f.View()
	for range 120 { // two slow minutes, then one that is ten times as fast
		clock.mono += time.Second
		own.Documents, own.ShardBytes = own.Documents+1, own.ShardBytes+10
		f.View()
	}
	var v progress.View
	for range 60 {
		clock.mono += time.Second
		own.Documents, own.ShardBytes = own.Documents+10, own.ShardBytes+100
		v = f.View()
	}
	if math.Abs(v.Rate-10) > 0.2 || math.Abs(v.Mean-4) > 0.01 || v.Share != 0.72 || math.Abs(v.Left.Seconds()-28) > 1 {
		t.Errorf("%+v", v)
	}
}

func TestTimeWithoutDocumentsIsReported(t *testing.T) {
	w := newWorld(t)
	w.entry(t, "logs", progress.Completed, 10_000)
	own := &progress.Own{Documents: 5, Running: 1}
	f, clock := follow(t, w, own)
	for _, c := range []struct {
		name string
		at   time.Duration
		own  progress.Own
		want time.Duration
	}{
		{"documents arrived", 0, progress.Own{Documents: 5, Running: 1}, 0},
		{"a short pause", 9 * time.Second, progress.Own{Documents: 5, Running: 1}, 0},
		{"a long one", 40 * time.Second, progress.Own{Documents: 5, Running: 1}, 40 * time.Second},
		{"documents again", 41 * time.Second, progress.Own{Documents: 6, Running: 1}, 0},
		{"no item in work", 90 * time.Second, progress.Own{Documents: 6}, 0},
		{"ordinals without documents", 95 * time.Second, progress.Own{Documents: 6, ShardBytes: 7, Running: 1}, 0},
		{"and none", 106 * time.Second, progress.Own{Documents: 6, ShardBytes: 7, Running: 1}, 11 * time.Second},
	} {
		clock.mono, *own = c.at, c.own
		if v := f.View(); v.Quiet != c.want {
			t.Errorf("%s: %v, want %v", c.name, v.Quiet, c.want)
		}
	}
}

// A store that does not answer leaves what the process itself did.
func TestAViewWithoutAStore(t *testing.T) {
	w := newWorld(t)
	must(t, w.store.Close())
	f, clock := follow(t, w, &progress.Own{Documents: 7, Running: 1})
	clock.mono = time.Second
	if v := f.View(); v.Documents != 7 || v.Share != 0 || v.Left != 0 || v.Phase.Name != "" {
		t.Errorf("%+v", v)
	}
}
