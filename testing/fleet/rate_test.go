package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// mortalStore is the store as a node sees it that may be killed.
type mortalStore struct {
	primitive.Store
	dead context.Context
}

func (s mortalStore) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if s.dead.Err() != nil {
		return cms.Revision{}, fault.ErrUnavailable
	}
	return s.Store.Put(ctx, r)
}

const rate = 6_000_000 // bytes per second of all nodes

// rateNode sends documents with a permit.
type rateNode struct {
	*throttle.Bucket
	die context.CancelFunc
}

func (rateNode) Weight() int  { return 2 }
func (rateNode) Limit() int64 { return rate }

// arrival is what the target counts.
type arrival struct {
	at    time.Duration
	bytes int
}

// TestKilledNodesLeaveTheRateToTheOthers plays three nodes at 6 MB/s with 240 documents, which are killed twelve times in the first
// 72 s, each time to start again a second later.
func TestKilledNodesLeaveTheRateToTheOthers(t *testing.T) {
	const documents, size, kills = 240, 1_000_000, 12
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				queue := make(chan int, documents)
				for i := range documents {
					queue <- i
				}
				var mu sync.Mutex
				var arrived []arrival
				var running sync.WaitGroup
				start := func() *rateNode {
					dead, die := context.WithCancel(t.Context())
					n := &rateNode{throttle.New(0), die}
					permits := primitive.Permits{Store: mortalStore{store, dead}, Clock: cmstest.Clock{Start: begin}, Option: "max-rate", Log: slog.New(slog.DiscardHandler)}
					n.Allow(0, nil)
					running.Go(func() {
						if err := permits.Hold(dead, n); err != nil {
							t.Error(err)
						}
					})
					for range 2 {
						running.Go(func() {
							for {
								select {
								case <-dead.Done():
									return
								case d := <-queue:
									if n.Take(dead, size) != nil {
										queue <- d
										return
									}
									mu.Lock()
									arrived = append(arrived, arrival{time.Since(begin), size})
									mu.Unlock()
								}
							}
						})
					}
					return n
				}
				nodes := []*rateNode{start(), start(), start()}
				rng := rand.New(rand.NewPCG(seed, 3))
				for range kills {
					time.Sleep(5 * time.Second)
					i := rng.IntN(len(nodes))
					nodes[i].die()
					time.Sleep(time.Second)
					nodes[i] = start()
				}
				count := func() int { mu.Lock(); defer mu.Unlock(); return len(arrived) }
				for count() < documents && time.Since(begin) < 10*time.Minute {
					time.Sleep(100 * time.Millisecond)
				}
				took := time.Since(begin)
				for _, n := range nodes {
					n.die()
				}
				running.Wait()
				if err := store.Close(); err != nil {
					t.Error(err)
				}
				most := busiest(arrived, rate)
				t.Logf("%d documents after %v; at most %d bytes beyond the rate in a window", len(arrived), took, most)
				if took > 112*time.Second {
					t.Errorf("it took %v, want 40 s and those of the kills", took)
				}
				if most > rate+size { // a second of the rate may be kept, and a document is one arrival
					t.Errorf("a window had %d bytes more than %d per second", most, rate)
				}
			})
		})
	}
}

// busiest returns by how much the arrivals of any window exceed what the rate allows in it.
func busiest(all []arrival, rate int) (most int) {
	for i := range all {
		sum := 0
		for _, x := range all[i:] {
			sum += x.bytes
			most = max(most, sum-int((x.at-all[i].at).Seconds()*float64(rate)))
		}
	}
	return most
}
