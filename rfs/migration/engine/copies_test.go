package engine_test

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// versioned answers as a cluster does: with the versions of documents. It takes nothing while it is away, and does not answer
// requests that it takes from the first to the last that hangs, counted from 1.
type versioned struct {
	each time.Duration // per body

	mu       sync.Mutex
	versions map[string]int64
	lines    int64 // taken
	away     bool
	requests int
	hang     [2]int
}

func (v *versioned) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return v, nil
}
func (v *versioned) Durable() bool                { return true }
func (v *versioned) Commit(context.Context) error { return nil }
func (v *versioned) Abort() error                 { return nil }

func (v *versioned) set(away bool, hang ...int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.away, v.requests, v.hang = away, 0, [2]int{}
	copy(v.hang[:], hang)
}

func (v *versioned) Send(ctx context.Context, body []byte, _ int) (bulk.Result, error) {
	if err := timing.SystemClock().Sleep(ctx, v.each); err != nil {
		return bulk.Result{}, err
	}
	v.mu.Lock()
	if v.away {
		v.mu.Unlock()
		<-ctx.Done()
		return bulk.Result{}, fault.ErrUnavailable
	}
	var res bulk.Result
	for pos := 0; len(body) > 0; pos++ {
		action, rest, _ := bytes.Cut(body, []byte("\n"))
		_, body, _ = bytes.Cut(rest, []byte("\n"))
		v.lines++
		if v.versions[string(action)]++; v.versions[string(action)] > 1 {
			res.Replaced = append(res.Replaced, bulk.Replacement{Pos: pos, Copies: v.versions[string(action)] - 1})
		}
	}
	v.requests++
	hangs := v.requests >= v.hang[0] && v.requests <= v.hang[1]
	v.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return bulk.Result{}, ctx.Err()
	}
	return res, nil
}

// severed is the store of processes that are killed: what a dead one asks never arrives.
type severed struct {
	*migrationtest.SlowStore
	dead atomic.Bool
}

func (m *severed) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if m.dead.Load() {
		<-ctx.Done()
		return cms.Item{}, 0, fault.ErrUnavailable
	}
	return m.SlowStore.Apply(ctx, id, t)
}

// copies returns how many lines were taken beside the first of each document.
func (v *versioned) copies() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lines - int64(len(v.versions))
}

// TestWhatIsSentAgainAfterAHandOverIsCounted kills two holders in the middle of their requests, lets a third give the item back
// and a fourth hand it off while a request of theirs has arrived without an answer, and holds the account against what the target
// took.
func TestWhatIsSentAgainAfterAHandOverIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &versioned{each: 1500 * time.Millisecond, versions: map[string]int64{}}
		store := &severed{SlowStore: quick(nil)}
		defer store.Under.Wait()
		s := migrationtest.NewShard(t, store, to, time.Minute, 16)
		s.Runner.Bulk.MaxInFlight = 3
		s.Entry.Ours = s.Entry.Naming.Targets()
		for range 2 {
			lease := s.Lease(t)
			done := make(chan struct{})
			go func() { // the holder is killed: neither store nor target hear of it again
				defer close(done)
				_, _ = s.Run(t.Context(), lease)
			}()
			time.Sleep(9200 * time.Millisecond) // bodies of 9 s have arrived, the last record is of 8 s
			store.dead.Store(true)
			to.set(true)
			<-done
			time.Sleep(10 * time.Minute) // the lease ends
			store.dead.Store(false)
			to.set(false)
			// The next process has not seen that the store was silent.
			s.Coordinator = cms.New(cms.Config{Store: store, Creator: "test", Clock: s.Runner.Clock, InitialLease: time.Minute})
		}
		sent := to.copies()
		for _, c := range []struct {
			first, last int // requests without an answer: all that begin together, then a later one
			want        engine.Outcome
		}{{1, 3, engine.Released}, {4, 4, engine.HandedOff}} {
			to.set(false, c.first, c.last)
			signalled, cancel := context.WithTimeout(t.Context(), 6200*time.Millisecond)
			defer cancel()
			if outcome, err := s.Run(signalled, s.Lease(t)); outcome != c.want || err != nil {
				t.Fatalf("%v: %v, want %v", outcome, err, c.want)
			}
		}
		first := s.Item(t)
		s.ID = cms.ItemID{Index: s.ID.Index, Cursor: first.Watermark}
		if outcome, err := s.Run(t.Context(), s.Lease(t)); outcome != engine.Completed || err != nil {
			t.Fatalf("%v: %v", outcome, err)
		}
		is := first.Counts.Add(s.Item(t).Counts)
		if is.Resent != to.copies() || is.Resent == 0 || is.Retried != 0 || is.Replaced != 0 {
			t.Errorf("%+v counted, the target took %d copies", is, to.copies())
		}
		if sent == 0 || first.Counts.Resent == 0 || first.Counts.Resent == is.Resent {
			t.Errorf("%d copies before the hand-over, %+v counted in the first item: no overlap", sent, first.Counts)
		}
	})
}

// TestARepeatedRunIsCountedApart: the first holder of an item finds documents that were there before.
func TestARepeatedRunIsCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &versioned{versions: map[string]int64{}}
		var before int64
		for run := range int64(2) {
			store := quick(nil)
			s := migrationtest.NewShard(t, store, to, time.Minute, 64)
			if outcome, err := s.Run(t.Context(), s.Lease(t)); outcome != engine.Completed || err != nil {
				t.Fatalf("%v: %v", outcome, err)
			}
			if c := s.Item(t).Counts; c.Replaced != run*c.Indexed || c.Replaced != to.copies()-before || c.Resent != 0 {
				t.Errorf("run %d: %+v, the target took %d copies", run, c, to.copies()-before)
			}
			before = to.copies()
			store.Under.Wait()
		}
	})
}
