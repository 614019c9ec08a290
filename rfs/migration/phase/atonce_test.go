package phase_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// slowIndices creates an index in one second. It counts how many it creates at the same time.
type slowIndices struct {
	phase.Indices
	mu         *sync.Mutex
	now, most  *int
	all, fails *int // the attempt that fails; 0: none, -1: all
	err        error
}

func (s slowIndices) Make(ctx context.Context, x plan.Index) (creation.Made, error) {
	s.mu.Lock()
	*s.now++
	*s.all++
	*s.most = max(*s.most, *s.now)
	fails := *s.all == *s.fails || *s.fails < 0
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		*s.now--
		s.mu.Unlock()
	}()
	time.Sleep(time.Second)
	if fails {
		return creation.Made{}, s.err
	}
	return s.Indices.Make(ctx, x)
}

// TestSession_CreatesSeveralIndicesAtOnce creates 40 indices, each of which takes a second.
func TestSession_CreatesSeveralIndicesAtOnce(t *testing.T) {
	for _, c := range []struct {
		name     string
		fails    int
		err      error
		cancel   time.Duration // 0: never
		want     error
		attempts int
		lasts    time.Duration
	}{
		{name: "all succeed", attempts: 40, lasts: 12 * time.Second},
		{name: "one is rejected and attempted again", fails: 6, err: fault.ErrRejected, attempts: 41, lasts: 20 * time.Second},
		{name: "the target is unavailable for a moment", fails: 6, err: fault.ErrUnavailable, attempts: 41, lasts: 20 * time.Second},
		{name: "the target has gone", fails: -1, err: fault.ErrUnavailable, cancel: 2 * time.Second, want: context.Canceled, attempts: 4, lasts: 4 * time.Second},
		{name: "interrupted", cancel: 2500 * time.Millisecond, want: context.Canceled, attempts: 8, lasts: 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, x := newMemory(), migrationtest.NewOutside()
				s := process(t, m, x, 1, &migrationtest.Life{})
				plans(s, manyIndices(40))
				slow := slowIndices{s.Indices, &sync.Mutex{}, new(int), new(int), new(int), &c.fails, c.err}
				s.Indices = slow
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begin := time.Now()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				err := toItems(ctx, s)
				if !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if *slow.most != 4 || *slow.all != c.attempts || time.Since(begin) > c.lasts {
					t.Errorf("%d at once, %d attempts, %s; want 4, %d, at most %s", *slow.most, *slow.all, time.Since(begin), c.attempts, c.lasts)
				}
				if state := m.Records["phase:index"].State; (state == session.PhaseCompleted) != (c.want == nil) {
					t.Errorf("the phase is %s", state)
				}
				if created := len(x.UUIDs); c.want == nil && created != 40 {
					t.Errorf("%d indices exist", created)
				}
			})
		})
	}
}

// listings is a store that counts how often each kind of records is listed.
type listings struct {
	cms.Store
	of map[string]int
}

func (l listings) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	l.of[kind]++
	return l.Store.List(ctx, kind)
}

// TestSession_ListsEntriesOnce: each listing refreshes the control index, so the first process of a session does not read again what it has
// just written.
func TestSession_ListsEntriesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, x := newMemory(), migrationtest.NewOutside()
		for _, c := range []struct {
			name string
			most int
		}{{"the first process", 1}, {"a later one", 2}} {
			l := listings{m, map[string]int{}}
			s := process(t, l, x, 1, &migrationtest.Life{})
			plans(s, manyIndices(5))
			err := errors.Join(s.Join(t.Context()), s.ReopenFailed(t.Context()), toItems(t.Context(), s), s.RetryFailed(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.CheckIndices(t.Context(), atOnce); err != nil {
				t.Fatal(err)
			}
			if n := l.of["index"]; n == 0 || n > c.most {
				t.Errorf("%s lists the entries %d times, at most %d are needed", c.name, n, c.most)
			}
			if entry, known := s.KnownEntry("i0003"); !known || entry.Naming.Index != "i0003" {
				t.Errorf("%s knows %v, %v", c.name, entry.Naming, known)
			}
		}
	})
}
