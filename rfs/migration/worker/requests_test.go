package worker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// tally counts the requests of a migration from the first search for items until none is open.
type tally struct {
	cms.Store
	mu       sync.Mutex
	counting bool
	n        map[string]int
}

func (c *tally) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counting {
		c.n[what]++
	}
}

func (c *tally) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	c.count(t.Name())
	return c.Store.Apply(ctx, id, t)
}

func (c *tally) ApplyAll(ctx context.Context, changes []cms.Change) ([]cms.Outcome, error) {
	c.count("several changes")
	return c.Store.ApplyAll(ctx, changes)
}

func (c *tally) Get(ctx context.Context, id string) (cms.Item, error) {
	c.count("item")
	return c.Store.Get(ctx, id)
}

func (c *tally) Record(ctx context.Context, id string) (cms.Record, error) {
	c.count("record")
	return c.Store.Record(ctx, id)
}

func (c *tally) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	c.count("write of a record")
	return c.Store.Put(ctx, r)
}

func (c *tally) Candidates(ctx context.Context, grace time.Duration, n int) ([]cms.Item, error) {
	c.mu.Lock()
	c.counting = true
	c.mu.Unlock()
	c.count("search")
	return c.Store.Candidates(ctx, grace, n)
}

func (c *tally) Open(ctx context.Context) (cms.Open, error) {
	c.count("refresh")
	c.count("count of open items")
	o, err := c.Store.Open(ctx)
	if err == nil && o.Items == 0 {
		c.mu.Lock()
		c.counting = false
		c.mu.Unlock()
	}
	return o, err
}

// distant is a target whose requests take their time.
type distant struct {
	engine.Destination
	c *tally
}

func (d distant) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	out, err := d.Destination.Open(ctx, id, mayStart)
	return tallied{out, d.c}, err
}

type tallied struct {
	engine.Output
	c *tally
}

func (o tallied) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	o.c.count("documents")
	time.Sleep(50 * time.Millisecond)
	return o.Output.Send(ctx, body, n)
}

// TestRequestsPerSmallShard runs 200 tiny shards of 100 indices and bounds the requests to store and target, besides those
// of documents, to one for four shards. There were eight for each.
func TestRequestsPerSmallShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := &tally{Store: w.store, n: map[string]int{}}
		w.store = c
		w.wrap = func(d engine.Destination) engine.Destination { return distant{d, c} }
		w.asked = func(string) { c.count("look at an index") }
		w.plan = func(p *plan.Plan) { multiply(p, 100) }
		sum, err := w.run(t, 1, &migrationtest.Life{})
		if err != nil || !sum.Complete {
			t.Fatalf("%.300v, %v", sum, err)
		}
		leases, coordination := 0, 0
		for _, x := range sum.Indices {
			leases += x.Shards
		}
		for what, n := range c.n {
			if what != "documents" {
				coordination += n
			}
		}
		t.Logf("%d leases: %v", leases, c.n)
		if leases != 200 || c.n["documents"] < 200 || coordination > leases/4 {
			t.Errorf("%d leases took %d requests besides those of documents: %v", leases, coordination, c.n)
		}
	})
}
