package cms_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
)

// counted counts the requests to a store; some of several changes fail, before or after they were applied.
type counted struct {
	cms.Store
	mu       sync.Mutex
	requests map[string]int
	fails    func(n int) (lost, applied bool) // of the n-th request of several changes; nil: none
}

func (s *counted) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		s.requests = map[string]int{}
	}
	s.requests[what]++
	return s.requests[what]
}

func (s *counted) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	s.count("apply " + t.Name())
	return s.Store.Apply(ctx, id, t)
}

func (s *counted) ApplyAll(ctx context.Context, changes []cms.Change) ([]cms.Outcome, error) {
	n := s.count("apply all")
	if s.fails != nil {
		if lost, applied := s.fails(n); lost {
			if applied {
				if _, err := s.Store.ApplyAll(ctx, changes); err != nil {
					return nil, err
				}
			}
			return nil, fmt.Errorf("no answer: %w", fault.ErrUnavailable)
		}
	}
	return s.Store.ApplyAll(ctx, changes)
}

func (s *counted) Candidates(ctx context.Context, grace time.Duration, n int) ([]cms.Item, error) {
	s.count("search")
	return s.Store.Candidates(ctx, grace, n)
}

// seeded returns a store with n items and its coordinator.
func seeded(t *testing.T, n int) (*counted, *cms.Coordinator) {
	t.Helper()
	bolt, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bolt.Close() })
	s := &counted{Store: bolt}
	c := cms.New(cms.Config{Store: s, Creator: "test", InitialLease: time.Minute})
	err = c.SeedOnce(t.Context(), "seeder", func(ctx context.Context) error {
		_, err := c.SeedItems(ctx, func(yield func(cms.ItemID) bool) {
			for i := range n {
				if !yield(cms.ItemID{Index: "logs", Shard: i}) {
					return
				}
			}
		})
		return err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// drain completes all items that a slot leases, and returns the number of leases. took is the duration of the work under a lease.
func drain(t *testing.T, c *cms.Coordinator, took func(l *cms.Lease) time.Duration) (leases int) {
	t.Helper()
	g := c.Group("slot", cms.GroupLimits{Items: 8, Bytes: 1 << 20, Size: func(cms.Item) int64 { return 1000 }, More: func() bool { return true }})
	for {
		group, err := g.Acquire(t.Context(), nil)
		switch {
		case errors.Is(err, fault.ErrUnavailable):
			time.Sleep(time.Second)
			continue
		case errors.Is(err, cms.ErrAllDone):
			return leases
		case err != nil:
			t.Fatal(err)
		}
		leases += len(group)
		var all sync.WaitGroup
		for _, l := range group {
			all.Go(func() {
				defer g.Left(t.Context())
				time.Sleep(took(l))
				if err := l.Complete(t.Context(), cms.Work{}); err != nil {
					t.Errorf("complete %s: %v", l.ID.Name(), err)
				}
			})
		}
		all.Wait()
	}
}

// TestSmallItemsShareRequests: one search finds work for several groups, and one request completes a group and acquires the next.
func TestSmallItemsShareRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := seeded(t, 200)
		if n := drain(t, c, func(*cms.Lease) time.Duration { return 20 * time.Millisecond }); n != 200 {
			t.Errorf("%d leases of 200 items", n)
		}
		// 25 groups; the request that completes the last of a search acquires nothing.
		if s.requests["apply all"] > 28 || s.requests["search"] > 4 || s.requests["apply complete"] > 1 || s.requests["apply acquire"] > 1 {
			t.Errorf("requests %v", s.requests) // one completion and one acquisition are those of the setup
		}
	})
}

// TestASlowMemberOfAGroupDelaysNoOther: completions wait a second for each other.
func TestASlowMemberOfAGroupDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := seeded(t, 8)
		g := c.Group("slot", cms.GroupLimits{Items: 8, Bytes: 8000, Size: func(cms.Item) int64 { return 1000 }, More: func() bool { return true }})
		leases, err := g.Acquire(t.Context(), nil)
		if err != nil || len(leases) != 8 {
			t.Fatalf("%d leases, %v", len(leases), err)
		}
		begin := time.Now()
		var all sync.WaitGroup
		for i, l := range leases {
			all.Go(func() {
				defer g.Left(t.Context())
				if i == 0 {
					time.Sleep(20 * time.Second)
				}
				if err := l.Complete(t.Context(), cms.Work{}); err != nil {
					t.Error(err)
				}
				if took := time.Since(begin); i > 0 && took > 2*time.Second {
					t.Errorf("completed after %v", took)
				}
			})
		}
		all.Wait()
	})
}

// TestWhatARequestForSeveralDoesNotSettleIsSettledOneByOne loses requests and answers: every item is completed once, no item stays leased
// without a worker until its lease ends, and no attempt is counted.
func TestWhatARequestForSeveralDoesNotSettleIsSettledOneByOne(t *testing.T) {
	for _, applied := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, c := seeded(t, 40)
			s.fails = func(n int) (bool, bool) { return n%2 == 1, applied }
			begin := time.Now()
			if n := drain(t, c, func(*cms.Lease) time.Duration { return 0 }); n != 40 {
				t.Errorf("applied %v: %d leases of 40 items", applied, n)
			}
			if took := time.Since(begin); took > 40*time.Second {
				t.Errorf("applied %v: it took %v, a lease is a minute", applied, took)
			}
			for it, err := range c.Items(t.Context()) {
				if err != nil || it.Open() || it.Attempts != 0 {
					t.Errorf("applied %v: %+v, %v", applied, it, err)
				}
			}
		})
	}
}

// TestWhatIsNotLeasedTogether: items of unknown size, and items whose last holder made no progress.
func TestWhatIsNotLeasedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, own := seeded(t, 10)
		died := cms.ItemID{Index: "logs", Shard: 3}
		if l, err := own.AcquireOneOf(t.Context(), "dead", []string{died.String()}); l == nil || err != nil {
			t.Fatalf("%v, %v", l, err)
		}
		time.Sleep(2 * time.Minute)
		small := cms.GroupLimits{Items: 8, Bytes: 8000, More: func() bool { return true }, Size: func(it cms.Item) int64 {
			id, _ := it.Range()
			return int64(id.Shard % 2 * 1000)
		}}
		sizes := map[int]int{}
		for g := own.Group("slot", small); ; {
			leases, err := g.Acquire(t.Context(), nil)
			if errors.Is(err, cms.ErrAllDone) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			sizes[len(leases)]++
			var all sync.WaitGroup
			for _, l := range leases {
				if alone := l.ID.Shard%2 == 0 || l.ID == died; alone == l.Grouped() {
					t.Errorf("%s is leased with %d others", l.ID.Name(), len(leases)-1)
				}
				all.Go(func() {
					defer g.Left(t.Context())
					if err := l.Complete(t.Context(), cms.Work{}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		if sizes[1] != 6 || sizes[4] != 1 {
			t.Errorf("groups by their size: %v", sizes)
		}
	})
}

// TestWhatComesNextIsTriedFirst: a slot prepares for the items that Upcoming returns, so it leases these next, even if the search that
// found them is old. Each item that others leased meanwhile costs one request.
func TestWhatComesNextIsTriedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := seeded(t, 40)
		g := c.Group("slot", cms.GroupLimits{Items: 1, More: func() bool { return true }})
		acquire := func() string {
			t.Helper()
			leases, err := g.Acquire(t.Context(), nil)
			if err != nil || len(leases) != 1 {
				t.Fatalf("%d leases, %v", len(leases), err)
			}
			if err := leases[0].Complete(t.Context(), cms.Work{}); err != nil {
				t.Fatal(err)
			}
			g.Left(t.Context())
			return leases[0].Item.ID
		}
		acquire()
		next := g.Upcoming(t.Context(), nil, 3)
		if len(next) != 3 {
			t.Fatalf("%d items come next", len(next))
		}
		if l, err := c.AcquireOneOf(t.Context(), "another", []string{next[1].ID}); l == nil || err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		searches := s.requests["search"]
		if id := acquire(); id != next[0].ID {
			t.Errorf("%s was leased instead of %s", id, next[0].ID)
		}
		if id := acquire(); id != next[2].ID || s.requests["search"] != searches {
			t.Errorf("%s was leased instead of %s, after %d searches", id, next[2].ID, s.requests["search"]-searches)
		}
		if acquire(); s.requests["search"] != searches+1 {
			t.Errorf("%d searches after what came next", s.requests["search"]-searches)
		}
		time.Sleep(time.Minute)
		again := g.Upcoming(t.Context(), nil, 8)
		if len(again) != 8 || s.requests["search"] != searches+2 {
			t.Errorf("%d items come next, after %d searches", len(again), s.requests["search"]-searches)
		}
		time.Sleep(time.Minute)
		more := g.Upcoming(t.Context(), nil, 8)
		for i := range again {
			if more[i].ID != again[i].ID {
				t.Errorf("item %d that comes next is %s, it was %s", i, more[i].ID, again[i].ID)
			}
		}
	})
}
