package sim

import (
	"os"
	"testing"
	"time"
)

// small is a world of one process and three small indices, of which two need several leases; nothing fails by chance.
func small() Config {
	return Config{
		Seed: 3, Processes: 1, Indices: 3, Documents: 2, Lease: 20 * time.Second, Trip: 5 * time.Second,
		StoreTrip: 40 * time.Millisecond, Limit: 30 * time.Hour,
	}
}

// check runs the world with the fates given by request number.
func check(t *testing.T, cfg Config, fates map[int]Fate) Report {
	t.Helper()
	cfg.AtCall = func(_ *world, n int, _ string) Fate { return fates[n] }
	r := Run(t, cfg)
	for _, p := range r.Problems {
		t.Errorf("seed %d, %v: %s", cfg.Seed, fates, p)
	}
	return r
}

// TestEveryRequestMayFailInEveryWay puts each fate on each request of a migration, among them the three that make up a
// hand-off.
func TestEveryRequestMayFailInEveryWay(t *testing.T) {
	fair := check(t, small(), nil)
	if fair.Results["successors applied"] < 2 || fair.Results["complete applied"] < 4 {
		t.Fatalf("the migration hands nothing off: %v", fair.Results)
	}
	step, runs := 1, 0
	if testing.Short() {
		step = 23
	}
	for n := 1; n <= fair.Requests && !t.Failed(); n++ {
		for f := LostBefore; f < fates; f++ {
			if (n+int(f))%step == 0 {
				check(t, small(), map[int]Fate{n: f})
				runs++
			}
		}
	}
	t.Logf("%d requests, %d runs", fair.Requests, runs)
}

// TestEveryPairOfFailuresInARow adds a second failure to one of the requests that follow the first.
func TestEveryPairOfFailuresInARow(t *testing.T) {
	step := 29 // a prime: all combinations take their turn
	switch {
	case testing.Short():
		step = 307
	case os.Getenv("RFSD_DRAW") == "all":
		step = 7
	}
	requests, runs, pair := check(t, small(), nil).Requests, 0, 0
	for n := 1; n <= requests && !t.Failed(); n++ {
		for f := LostBefore; f < fates; f++ {
			for m := n + 1; m <= n+3; m++ {
				for g := LostBefore; g < fates; g++ {
					if pair++; pair%step == 0 {
						check(t, small(), map[int]Fate{n: f, m: g})
						runs++
					}
				}
			}
		}
	}
	t.Logf("%d requests, %d runs", requests, runs)
}

// TestSplittingAShardMayBeStoppedAnywhere puts each fate on each of the first requests of two processes that split a shard.
func TestSplittingAShardMayBeStoppedAnywhere(t *testing.T) {
	cfg := small()
	cfg.Processes, cfg.Indices, cfg.Long, cfg.Documents, cfg.Split = 2, 1, 1, 100, splitOver
	if fair := check(t, cfg, nil); fair.Parts < 4 {
		t.Fatalf("%d items of parts: nothing is split", fair.Parts)
	}
	step, runs := 5, 0
	if testing.Short() {
		step = 29
	}
	for n := 1; n <= 50 && !t.Failed(); n++ {
		for f := LostBefore; f < fates; f++ {
			if (n+int(f))%step == 0 {
				check(t, cfg, map[int]Fate{n: f})
				runs++
			}
		}
	}
	t.Logf("%d runs", runs)
}
