package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
	"github.com/rfsd/rfsd/testing/repotest"
)

const farAway = 50 * time.Millisecond

// timed notes how long each item after the first has waited for its documents: from the last answer about the one before to its own
// first request. A request takes as long as four round trips to the repository.
type timed struct {
	engine.Destination
	seen   map[string]bool
	waited *[]time.Duration
	last   *time.Time
}

func (d timed) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	out, err := d.Destination.Open(ctx, id, mayStart)
	return timedOutput{out, d, id.String()}, err
}

type timedOutput struct {
	engine.Output
	d  timed
	id string
}

func (o timedOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if !o.d.seen[o.id] && len(o.d.seen) > 0 {
		*o.d.waited = append(*o.d.waited, time.Since(*o.d.last))
	}
	o.d.seen[o.id] = true
	time.Sleep(4 * farAway)
	*o.d.last = time.Now()
	return o.Output.Send(ctx, body, n)
}

// TestTheNextShardIsOpenedAhead: only the first shard waits for a repository with latency; each of the others did for two round
// trips, and where it had to read the list of its files for three.
func TestTheNextShardIsOpenedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.blobs = repotest.Distant{Reader: w.blobs, Delay: farAway}
		to := timed{seen: map[string]bool{}, waited: &[]time.Duration{}, last: &time.Time{}}
		w.wrap = func(d engine.Destination) engine.Destination {
			to.Destination = d
			return to
		}
		w.plan = func(p *plan.Plan) {
			multiply(p, 10)
			for i := range p.Indices {
				p.Indices[i].Entry.Bytes = []int64{1 << 20, 1 << 20} // too large for a group
			}
		}
		sum, err := w.run(t, 1, &migrationtest.Life{})
		if err != nil || !sum.Complete {
			t.Fatalf("%.300v, %v", sum, err)
		}
		if len(*to.waited) != 19 {
			t.Fatalf("%d shards after the first", len(*to.waited))
		}
		for i, d := range *to.waited {
			if n := d / farAway; n != 0 {
				t.Errorf("%d round trips between shard %d and the next", n, i+1)
			}
		}
	})
}
