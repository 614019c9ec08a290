package worker_test

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// hotIndex has five shards, and is refused for a while.
const hotIndex = "five-shards"

type partlyBusy struct {
	engine.Destination
	until time.Time

	mu   sync.Mutex
	last time.Time // when a body of another index was accepted
}

func (p *partlyBusy) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	out, err := p.Destination.Open(ctx, id, mayStart)
	return partlyBusyOutput{out, p}, err
}

type partlyBusyOutput struct {
	engine.Output
	p *partlyBusy
}

func (o partlyBusyOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	time.Sleep(50 * time.Millisecond)
	switch {
	case string(bulk.FirstIndex(body)) != hotIndex:
		time.Sleep(50 * time.Millisecond)
		o.p.mu.Lock()
		o.p.last = time.Now()
		o.p.mu.Unlock()
	case time.Now().Before(o.p.until):
		var all []bulk.Refusal
		for i := range n {
			all = append(all, bulk.Refusal{Pos: i, Status: 429, Type: "es_rejected_execution_exception"})
		}
		return bulk.Result{Refused: all}, nil
	}
	return o.Output.Send(ctx, body, n)
}

// TestMigration_OverloadedIndicesComeLast: an index that is refused for minutes, and has more shards than there are slots, holds one
// slot while there is other work, although it is wanted before the rest.
func TestMigration_OverloadedIndicesComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-multi-index"))
		if err != nil {
			t.Fatal(err)
		}
		w.blobs, w.req.Sizes = blobs, false // small shards would be leased together
		busy := &partlyBusy{until: time.Now().Add(5 * time.Minute)}
		w.wrap = func(to engine.Destination) engine.Destination { busy.Destination = to; return busy }
		w.with = func(m *worker.Migration) {
			m.Slots, m.Runner.Bulk.Recovery = 2, &bulk.Recovery{}
			m.Order = func(items []cms.Item) { // one other index, then the one that is refused
				slices.SortStableFunc(items, func(a, b cms.Item) int { return wanted(a) - wanted(b) })
			}
		}
		begin := time.Now()
		sum, err := w.run(t, 1, &migrationtest.Life{})
		if err != nil || !sum.Complete {
			t.Fatalf("%+v, %v", sum, err)
		}
		if took := busy.last.Sub(begin); took > 20*time.Second {
			t.Errorf("the documents of other indices arrived after %v", took)
		}
		if took := time.Since(begin); took < 5*time.Minute {
			t.Errorf("the whole migration took %v: nothing was refused", took)
		}
	})
}

func wanted(item cms.Item) int {
	switch id, _ := item.Range(); id.Index {
	case "applogs-2024.01.01":
		return 0
	case hotIndex:
		return 1
	}
	return 2
}
