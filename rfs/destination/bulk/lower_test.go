package bulk

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/wait"
)

// lower are bounds that change.
type lower struct{ bytes, inFlight atomic.Int64 }

func (b *lower) Bytes() int    { return int(b.bytes.Load()) }
func (b *lower) InFlight() int { return int(b.inFlight.Load()) }

// TestALoaderKeepsToBoundsThatChange: fewer and shorter bodies when they are lowered, those of before when they are raised, one
// always.
func TestALoaderKeepsToBoundsThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		longest := 0
		var mu sync.Mutex
		s := &target{}
		s.answer = func(ctx context.Context, _ []string, bytes int) (Result, error) {
			mu.Lock()
			longest = max(longest, bytes)
			mu.Unlock()
			return Result{}, wait.For(ctx, time.Second)
		}
		var b lower
		size := len(`{"index":{"_index":"i","_id":"1000"}}`) + len(document(1000).Source) + 2
		section := func(from int64, bytes, inFlight int64, wantBytes, wantPeak int) {
			b.bytes.Store(bytes)
			b.inFlight.Store(inFlight)
			l := New(t.Context(), Options{Sender: s, Recorder: &records{}, From: from, MaxBytes: 8 * size, MaxInFlight: 4, Bounds: &b})
			s.peak, longest = 0, 0
			add(t, l, from, from+200)
			if err := l.Flush(t.Context()); err != nil || l.Counts().Indexed != 200 {
				t.Errorf("%v, %+v", err, l.Counts())
			}
			if s.peak != wantPeak || longest > wantBytes || longest < wantBytes-size {
				t.Errorf("bounds of %d bytes and %d: bodies of %d bytes, %d at the same time", bytes, inFlight, longest, s.peak)
			}
		}
		section(1000, 1<<30, 100, 8*size, 4)
		section(2000, int64(3*size), 2, 3*size, 2)
		section(3000, 1, 0, size, 1) // a document that is longer goes alone
		section(4000, int64(8*size), 4, 8*size, 4)
	})
}
