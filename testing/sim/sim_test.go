package sim

import (
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "replay this seed only")
	seedsFlag = flag.Int("seeds", 0, "how many seeds at least; 0 = 3 with -short, else 12")
	forFlag   = flag.Duration("for", 0, "go on with further seeds for so long")
)

// config draws what goes wrong in the world of a seed.
func config(seed uint64) Config {
	cfg := Config{
		Seed: seed, Workers: 50, Shards: 1000, Ordinal: 3000,
		Lease:  []time.Duration{20 * time.Second, 2 * time.Minute, 10 * time.Minute}[seed%3],
		Faults: Faults{Lost: 0.02, Twice: 0.02, Late: 0.01, Die: 0.005, Conflict: 0.02, Bulk: 0.02},
		Quiet:  6 * time.Hour, Limit: 60 * time.Hour,
		Kill: 3 * time.Minute, Stop: 2 * time.Minute,
	}
	switch seed % 4 {
	case 1:
		cfg.Skew = time.Hour
	case 2:
		cfg.Skew, cfg.Refuse = time.Hour, true
	case 3:
		cfg.Jump, cfg.Poison = 20*time.Second, 3
	}
	if seed%5 == 4 {
		cfg.Lose = 5 * time.Second
	}
	if seed%7 == 6 && cfg.Poison == 0 {
		cfg.Foreign = 200
	}
	return cfg
}

func TestNoDocumentIsLostWhateverFails(t *testing.T) {
	first, n := uint64(time.Now().UnixNano()), *seedsFlag
	switch {
	case *seedFlag != 0:
		first, n = *seedFlag, 1
	case n == 0 && testing.Short():
		n = 3
	case n == 0:
		n = 12
	}
	start, done := time.Now(), 0
	for done < n || *seedFlag == 0 && time.Since(start) < *forFlag {
		some := runtime.GOMAXPROCS(0)
		if done < n {
			some = min(some, n-done)
		}
		t.Run("together", func(t *testing.T) { // ends when all of them have
			for range some {
				world(t, first+uint64(done))
				done++
			}
		})
	}
	t.Logf("%d seeds from %d on", done, first)
}

// world runs the world of a seed in parallel.
func world(t *testing.T, seed uint64) {
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		t.Parallel()
		r := Run(config(seed))
		t.Logf("%+v", summaryOf(r))
		for i, p := range r.Problems {
			if i == 10 {
				t.Fatalf("and %d more; replay with -seed=%d", len(r.Problems)-i, seed)
			}
			t.Errorf("%s; replay with -seed=%d", p, seed)
		}
	})
}

func summaryOf(r Report) Report {
	r.History, r.Problems = nil, nil
	return r
}

func TestASeedReplays(t *testing.T) {
	cfg := config(7)
	cfg.Workers, cfg.Shards = 10, 60
	a, b := summaryOf(Run(cfg)), summaryOf(Run(cfg))
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
		t.Errorf("two runs of a seed differ:\n%+v\n%+v", a, b)
	}
}

// TestAWorldLeavesNoGoroutineBehind ends worlds with processes that are dead or stopped,
// and one whose time is over before its work.
func TestAWorldLeavesNoGoroutineBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, limit := range []time.Duration{60 * time.Hour, time.Minute} {
		cfg := config(11)
		cfg.Workers, cfg.Shards, cfg.Kill, cfg.Stop = 20, 60, 20*time.Second, 20*time.Second
		cfg.Limit = limit
		if r := Run(cfg); r.Ended != (limit > time.Hour) || r.Ended && r.Kills == 0 {
			t.Errorf("ended %v after %v with %d kills", r.Ended, r.Virtual, r.Kills)
		}
	}
	for n := 0; runtime.NumGoroutine() > before; n++ { // the last ones have said so and are on their way out
		if n == 1_000_000 {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
		runtime.Gosched()
	}
}

func TestLeaseHistoriesAreThoseOfARegister(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		cfg := config(seed)
		cfg.Workers, cfg.Shards, cfg.Lose, cfg.Foreign = 20, 100, 0, 0
		r := Run(cfg)
		ops := r.History.operations()
		grace := cms.Grace(cfg.Lease)
		if got := porcupine.CheckOperationsTimeout(leases(grace), ops, time.Minute); got != porcupine.Ok {
			t.Errorf("seed %d: %d operations: %v", seed, len(ops), got)
		}
	}
}

func TestAWrongHistoryIsRefused(t *testing.T) {
	h := &History{}
	for _, holder := range []string{"a", "b"} { // both get the item at the same time
		o := h.begin(0, "x", cms.Acquire{Holder: holder})
		h.effect(o)
		it := cms.Item{Holder: holder, AcquiredAt: 1_000_000, Expiration: 1600}
		h.end(o, 0, it, cms.Applied)
	}
	if got := porcupine.CheckOperations(leases(time.Second), h.operations()); got {
		t.Error("two holders at a time were accepted")
	}
}

func TestCountingFinishedDocumentsLosesSome(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		cfg := config(seed)
		cfg.Workers, cfg.Shards, cfg.CountCursor, cfg.Ordinal = 10, 100, true, 30_000
		for _, p := range Run(cfg).Problems {
			if strings.Contains(p, "lost ordinal") {
				t.Logf("seed %d: %s", seed, p)
				return
			}
		}
	}
	t.Error("the simulation does not notice a cursor that counts finished documents")
}

func TestTheFileIsARegisterForManyClients(t *testing.T) {
	s, err := boltcms.Open(filepath.Join(t.TempDir(), "cms.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n, fits, err := Hammer(t.Context(), s, 32, 40, 12, 1)
	if err != nil || !fits {
		t.Errorf("%d operations: fits %v, %v", n, fits, err)
	}
}
