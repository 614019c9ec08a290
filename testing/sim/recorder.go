package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Hammer lets clients concurrently apply random transitions to a few items of a real store, and reports whether the responses are
// consistent with a register that has a holder. Leases last up to two seconds, so that some expire meanwhile.
func Hammer(ctx context.Context, s cms.Store, clients, each, items int, seed uint64) (operations int, fits bool, err error) {
	ids := make([]string, items)
	seeds := make([]cms.Item, items)
	for i := range ids {
		ids[i] = cms.ItemID{Index: "hammer", Shard: i}.String()
		seeds[i] = cms.NewItem(ids[i], "hammer", 0)
	}
	if _, err := s.Create(ctx, seeds); err != nil {
		return 0, false, err
	}
	var mu sync.Mutex
	h := &History{}
	var failures []error
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(c)))
			for n := range each {
				id, t := ids[r.IntN(items)], anyTransition(r, fmt.Sprintf("h%d", r.IntN(clients)), n)
				mu.Lock()
				o := h.begin(id, t)
				mu.Unlock()
				it, v, err := s.Apply(ctx, id, t)
				mu.Lock()
				switch {
				case err == nil:
					h.end(o, it, v)
					o.effects = []int64{o.answered}
				case !errors.Is(err, cms.ErrConflict): // a conflict changes nothing; other errors have an unknown outcome
					o.effects = []int64{math.MaxInt64}
					failures = append(failures, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	ops := h.operations()
	got := porcupine.CheckOperationsTimeout(leases(0), ops, time.Minute)
	return len(ops), got == porcupine.Ok, errors.Join(failures...)
}

func anyTransition(r *rand.Rand, holder string, n int) cms.Transition {
	switch succ := fmt.Sprintf("s%d", r.IntN(2)); r.IntN(12) {
	case 0:
		return cms.SetSuccessors{Holder: holder, Successors: succ, Watermark: int64(n)}
	case 1:
		return cms.Complete{Holder: holder, Successors: succ}
	case 2:
		return cms.Complete{Holder: holder}
	case 3, 4:
		return cms.Release{Holder: holder, Cause: "drain"}
	case 5:
		return cms.Progress{Holder: holder, Watermark: int64(n)}
	}
	return cms.Acquire{Holder: holder, InitialMs: r.Int64N(1000), MaxMs: 1000}
}
