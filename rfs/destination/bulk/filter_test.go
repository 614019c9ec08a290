package bulk

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

func filter(t testing.TB, l *Loader, from, to int64) {
	t.Helper()
	for o := from; o < to; o++ {
		if err := l.Filter(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// held returns a target that answers when release is closed.
func held() (s *target, release chan struct{}) {
	release = make(chan struct{})
	return &target{answer: func(ctx context.Context, _ []string, _ int) (Result, error) {
		select {
		case <-release:
			return Result{}, nil
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}}, release
}

func wantSettled(t testing.TB, l *Loader, watermark int64, want Counts) {
	t.Helper()
	w, c := l.Settled()
	c.Bytes, c.Requests = 0, 0
	if w != watermark || c != want {
		t.Errorf("watermark %d with %+v, want %d with %+v", w, c, watermark, want)
	}
}

func TestFilteredDocumentsMoveTheWatermark(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"immediately when nothing is before them", func(t *testing.T) {
			l := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}, From: 20})
			filter(t, l, 20, 674)
			wantSettled(t, l, 674, Counts{Live: 654, Filtered: 654})
			if c := l.Counts(); c.Filtered != 654 || c.Live != 654 {
				t.Errorf("counts %+v", c)
			}
			l.Abort()
			wantSettled(t, l, 674, Counts{Live: 654, Filtered: 654})
		}},
		{"with the batch in progress before them", func(t *testing.T) {
			s, release := held()
			l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxDocs: 1, MaxAge: time.Hour})
			add(t, l, 0, 2) // 0 is under way, 1 is buffered
			filter(t, l, 2, 50)
			add(t, l, 50, 51)
			synctest.Wait()
			wantSettled(t, l, 0, Counts{})
			close(release)
			synctest.Wait()
			wantSettled(t, l, 50, Counts{Live: 50, Indexed: 2, Filtered: 48})
			l.Abort()
		}},
		{"behind a batch that is cut by its age", func(t *testing.T) {
			l := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}, MaxAge: 10 * time.Second})
			add(t, l, 0, 1)
			filter(t, l, 1, 100)
			time.Sleep(9 * time.Second)
			filter(t, l, 100, 200)
			synctest.Wait()
			wantSettled(t, l, 0, Counts{})
			time.Sleep(time.Second)
			filter(t, l, 200, 264) // of fast documents every 64th is timed
			synctest.Wait()
			wantSettled(t, l, 264, Counts{Live: 264, Indexed: 1, Filtered: 263})
			l.Abort()
		}},
		{"several runs of them behind one request", func(t *testing.T) {
			s, release := held()
			l := New(t.Context(), Options{Sender: s, Recorder: &records{}, MaxAge: time.Second})
			add(t, l, 0, 1)
			time.Sleep(time.Second)
			filter(t, l, 1, 10) // cuts
			l.Advance(12)
			filter(t, l, 12, 20)
			synctest.Wait()
			wantSettled(t, l, 0, Counts{})
			close(release)
			synctest.Wait()
			wantSettled(t, l, 20, Counts{Live: 18, Indexed: 1, Filtered: 17})
			l.Abort()
		}},
		{"in a shard where little is kept, at most an age is lost by a drain", func(t *testing.T) {
			l := New(t.Context(), Options{Sender: &target{}, Recorder: &records{}, MaxAge: 10 * time.Second})
			o := int64(0)
			for ; o < 1000; o++ { // one a second, each 20th is kept
				if o%20 == 0 {
					add(t, l, o, o+1)
				} else {
					filter(t, l, o, o+1)
				}
				time.Sleep(time.Second)
			}
			l.Drain(t.Context())
			if w := l.Watermark(); w < o-20 {
				t.Errorf("watermark %d after %d documents", w, o)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, c.test) })
	}
}

func TestBatchesAreCutByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{}
		l := New(t.Context(), Options{Sender: s, Recorder: &records{}})
		for o := range int64(4) {
			add(t, l, o, o+1)
			time.Sleep(DefaultMaxAge / 2)
		}
		synctest.Wait()
		wantSettled(t, l, 2, Counts{Live: 2, Indexed: 2})
		l.Abort()
	})
}

func TestDrainRecordsWhatNeedsNoRequest(t *testing.T) {
	for _, c := range []struct {
		name     string
		fill     func(t *testing.T, l *Loader)
		mark     int64
		counts   Counts
		recorded int
	}{
		{"failures alone", func(t *testing.T, l *Loader) {
			fail(t, l, 0, 3)
			filter(t, l, 3, 9)
		}, 9, Counts{Live: 9, Failed: 3, Filtered: 6}, 3},
		{"not behind a document that was not sent", func(t *testing.T, l *Loader) {
			add(t, l, 0, 1)
			fail(t, l, 1, 3)
		}, 0, Counts{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, rec := &target{}, &records{}
			l := New(t.Context(), Options{Sender: s, Recorder: rec})
			c.fill(t, l)
			l.Drain(t.Context())
			wantSettled(t, l, c.mark, c.counts)
			if len(rec.synced) != c.recorded || len(s.requests) != 0 {
				t.Errorf("recorded %d, requests %v", len(rec.synced), s.requests)
			}
		})
	}
}

func fail(t testing.TB, l *Loader, from, to int64) {
	t.Helper()
	for o := from; o < to; o++ {
		if err := l.Fail(t.Context(), doc.Failure{Index: "i", Ordinal: o, Reason: doc.NoSource}); err != nil {
			t.Fatal(err)
		}
	}
}
