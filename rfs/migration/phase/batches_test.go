package phase_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// counted is a store whose requests take a moment. It counts the index entries that a process reads.
type counted struct {
	cms.Store
	entries *atomic.Int64
}

func (c counted) Record(ctx context.Context, id string) (cms.Record, error) {
	time.Sleep(2 * time.Millisecond)
	if strings.HasPrefix(id, "index:") {
		c.entries.Add(1)
	}
	return c.Store.Record(ctx, id)
}

func (c counted) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	time.Sleep(5 * time.Millisecond)
	return c.Store.Put(ctx, r)
}

func (c counted) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return func(yield func(cms.Record, error) bool) {
		for r, err := range c.Store.List(ctx, kind) {
			if kind == "index" {
				c.entries.Add(1)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// manyIndices is a snapshot with so many indices of one shard.
func manyIndices(n int) *plan.Plan {
	p := &plan.Plan{Snapshot: "rfs-s", UUID: "uuid of rfs-s"}
	for i := range n {
		name := fmt.Sprintf("i%04d", i)
		p.Indices = append(p.Indices, plan.Index{Name: name, Source: &snapshot.Index{Name: name}, Entry: plan.Entry{
			Locator: snapshot.Locator{IndexName: name}, Naming: plan.Naming{Index: name}, Shards: 1,
		}})
	}
	return p
}

// TestNoWorkerReadsEveryEntry: 40 processes create 1,000 indices, two of them die meanwhile. Each index is created once, and a
// process reads the entries that it works on.
func TestNoWorkerReadsEveryEntry(t *testing.T) {
	indices, processes := 1000, 40
	if testing.Short() {
		indices, processes = 400, 20
	}
	synctest.Test(t, func(t *testing.T) {
		m, x := newMemory(), migrationtest.NewOutside()
		reads := make([]atomic.Int64, processes)
		var all sync.WaitGroup
		dead := 0
		for n := range processes {
			l := &migrationtest.Life{}
			if n == 3 || n == 17 {
				l.Dies, l.After = 150, n == 17
				dead++
			}
			s := process(t, counted{m, &reads[n]}, x, n, l)
			plans(s, manyIndices(indices))
			all.Go(func() {
				if err := toItems(t.Context(), s); err != nil && !l.Dead {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for i := range indices {
			if name := fmt.Sprintf("index i%04d", i); x.Created[name] != 1 {
				t.Errorf("%s was created %d times", name, x.Created[name])
			}
		}
		if len(m.Items) != indices+1 {
			t.Errorf("%d items", len(m.Items))
		}
		var sum, most int64
		for n := range reads {
			sum, most = sum+reads[n].Load(), max(most, reads[n].Load())
		}
		t.Logf("%d reads of entries, at most %d by one process", sum, most)
		if sum > int64(8*indices) || most > int64(2*indices) { // one process reads all when it makes the items
			t.Errorf("%d reads of %d entries, %d by one process", sum, indices, most)
		}
		for _, err := range m.Strange {
			t.Error(err)
		}
	})
}

// TestAFailedIndexOfManyIsCreatedWhenItIsRunAgain: its batch is worked on again.
func TestAFailedIndexOfManyIsCreatedWhenItIsRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, x := newMemory(), migrationtest.NewOutside()
		x.Refuse["i0100"] = "no"
		for run := range 2 {
			s := process(t, m, x, run, &migrationtest.Life{})
			plans(s, manyIndices(150))
			if run == 1 {
				delete(x.Refuse, "i0100")
				if err := s.Join(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := s.ReopenFailed(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := toItems(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if got := x.Created["index i0100"]; got != run || len(x.Created) != 151+run {
				t.Errorf("run %d: created %d times, %d things in all", run, got, len(x.Created))
			}
		}
	})
}

// TestSession_BatchesThatTheStoreLost: the entries are there, and some of them are done; the batches are not there.
func TestSession_BatchesThatTheStoreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *migrationtest.Memory
		var x *migrationtest.Outside
		for dies := 200; m == nil || m.Records["phase:index"].State != session.PhaseInProgress; dies += 100 {
			m, x = newMemory(), migrationtest.NewOutside()
			s := process(t, m, x, 1, &migrationtest.Life{Dies: dies})
			plans(s, manyIndices(150))
			if err := toItems(t.Context(), s); err == nil {
				t.Fatal("the phase was over before it was seen")
			}
		}
		time.Sleep(time.Hour) // the leases of the dead process are over
		for id, r := range m.Records {
			if strings.HasPrefix(r.Kind, "indexbatch") {
				delete(m.Records, id)
			}
		}
		s := process(t, m, x, 2, &migrationtest.Life{})
		plans(s, manyIndices(150))
		if err := toItems(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for i := range 150 {
			if name := fmt.Sprintf("index i%04d", i); x.Created[name] != 1 {
				t.Errorf("%s was created %d times", name, x.Created[name])
			}
		}
		if m.Records["indexbatches:all"].Kind == "" {
			t.Error("the session was not divided")
		}
	})
}
