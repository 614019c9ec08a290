package export

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// crew is several workers that share the items of one export. Any of them may lose the lease of an item without a notice, or die.
type crew struct {
	t    *testing.T
	home bucketHome

	mu    sync.Mutex
	r     *rand.Rand
	lease map[int]int // worker by item
	done  map[int]bool
	ended int // attempts that ended without success
}

// chance reports whether an event of a percentage happens.
func (c *crew) chance(percent int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(100) < percent
}

// take leases an item that is not done, perhaps from another worker; -1: all are done.
func (c *crew) take(worker, items int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.r.Perm(items) {
		if !c.done[n] {
			c.lease[n] = worker
			return n
		}
	}
	return -1
}

// work exports items until none is left or the worker dies.
func (c *crew) work(worker, items int) {
	ctx, die := context.WithCancel(context.Background())
	defer die()
	x, err := c.home.enter(ctx, "w", None, false)
	if err != nil {
		if !errors.Is(err, fault.ErrUnavailable) {
			c.t.Error(err)
		}
		return
	}
	for n := c.take(worker, items); n >= 0; n = c.take(worker, items) {
		may := func() error {
			c.mu.Lock()
			defer c.mu.Unlock()
			return when(c.lease[n] != worker, fault.ErrLeaseLost)
		}
		f, err := x.Create(ctx, "i", n, 0, may)
		for i := 0; i < 3 && err == nil; i++ {
			if c.chance(5) {
				die()
			}
			_, err = f.Send(ctx, []byte(pair("i", fmt.Sprintf("%d-%d", n, i))), 1)
		}
		if err == nil {
			err = f.Commit(ctx)
		}
		c.mu.Lock()
		if err == nil && c.lease[n] == worker {
			c.done[n] = true
		}
		if err != nil {
			c.ended++
		}
		c.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if err != nil && f != nil {
			if err := f.Abort(); err != nil && !errors.Is(err, fault.ErrUnavailable) {
				c.t.Error(err)
			}
		}
	}
	if err := x.Finish(ctx, ""); err != nil && !errors.Is(err, fault.ErrUnavailable) {
		c.t.Error(err)
	}
}

// wantTidy fails if a superseded attempt has left objects. Workers that died after their successor was done may have been the last ones to start.
func (c *crew) wantTidy() {
	c.t.Helper()
	last, published := map[string]bool{}, map[string]bool{}
	raw := c.home.raw(c.t)
	for name, b := range raw {
		if !strings.HasPrefix(name, notes) {
			continue
		}
		n, err := parseNote(name, b)
		if err != nil {
			c.t.Fatal(err)
		}
		last[n.Attempt] = true
		for _, f := range n.Files {
			published[f.Name] = true
		}
	}
	for name := range raw {
		if of := attemptOf(name); of != "" && !published[name] && !last[of] {
			c.t.Errorf("%s is left", name)
		}
	}
}

// TestBucket_ACrewExportsEachDocumentOnce: four workers take items from one another, die and are replaced, and one request of ten fails, before
// or after it took effect.
func TestBucket_ACrewExportsEachDocumentOnce(t *testing.T) {
	const items, workers = 6, 4
	failed := 0
	for seed := range uint64(150) {
		m := newMemory()
		c := &crew{t: t, home: bucketHome{m, 1, quick}, r: rand.New(rand.NewPCG(seed, 1)), lease: map[int]int{}, done: map[int]bool{}}
		fails := func(int, string, string) error { return when(c.chance(5), fault.ErrUnavailable) }
		m.before, m.after = fails, fails
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				for life := 0; c.take(-1, items) >= 0; life++ {
					c.work(1+i+workers*life, items)
				}
			})
		}
		wg.Wait()
		m.before, m.after = nil, nil
		finish(t, share(t, c.home, "last"), "")
		want, counts := map[string]string{}, map[string]int64{}
		for n := range items {
			name := fmt.Sprintf("i/%d-0.ndjson", n)
			counts[name] = 3
			for i := range 3 {
				want[name] += pair("i", fmt.Sprintf("%d-%d", n, i))
			}
		}
		wantTree(t, c.home, want)
		wantManifest(t, c.home, true, counts)
		c.wantTidy()
		if failed += c.ended; t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if failed < 150 {
		t.Errorf("only %d attempts failed", failed)
	}
	t.Logf("%d attempts failed", failed)
}
