package sim

import (
	"testing"
	"time"
)

// small is a world of one shard that needs several leases; nothing fails by chance.
func small() Config {
	return Config{Seed: 3, Workers: 1, Shards: 1, Ordinal: 2500, Lease: 20 * time.Second, Quiet: 0, Limit: 30 * time.Hour}
}

// inherited is a world of two workers whose queue another engine began: each shape it
// leaves a shard in, once.
func inherited() Config {
	return Config{Seed: 5, Workers: 2, Shards: 7, Foreign: 6, Ordinal: 300, Lease: 20 * time.Second, Limit: 30 * time.Hour}
}

// check runs the world with the fates given by request number.
func check(t *testing.T, cfg Config, fates map[int]Fate) Report {
	t.Helper()
	cfg.AtCall = func(n int) Fate { return fates[n] }
	r := Run(cfg)
	for _, p := range r.Problems {
		t.Errorf("seed %d, %v: %s", cfg.Seed, fates, p)
	}
	return r
}

// TestEveryRequestMayFailInEveryWay puts each fate on each request of a migration,
// among them the three that make up a hand-off.
func TestEveryRequestMayFailInEveryWay(t *testing.T) {
	fair := check(t, small(), nil)
	if fair.Verdicts["successors applied"] < 2 || fair.Verdicts["complete applied"] < 4 {
		t.Fatalf("the migration hands nothing off: %v", fair.Verdicts)
	}
	runs := 0
	for n := 1; n <= fair.Requests; n++ {
		for f := LostBefore; f < fates; f++ {
			check(t, small(), map[int]Fate{n: f})
			runs++
		}
	}
	t.Logf("%d requests, %d runs", fair.Requests, runs)
}

// TestEveryPairOfFailuresInARow adds a second failure to one of the requests that
// follow the first.
func TestEveryPairOfFailuresInARow(t *testing.T) {
	window := 12
	if testing.Short() {
		window = 2
	}
	requests, runs := check(t, small(), nil).Requests, 0
	for n := 1; n <= requests && !t.Failed(); n++ {
		for f := LostBefore; f < fates; f++ {
			for m := n + 1; m <= n+window; m++ {
				for g := LostBefore; g < fates; g++ {
					check(t, small(), map[int]Fate{n: f, m: g})
					runs++
				}
			}
		}
	}
	t.Logf("%d requests, %d runs", requests, runs)
}

// TestATakeoverMayBeStoppedAnywhere puts each fate on each request of migrations whose queue
// another engine began.
func TestATakeoverMayBeStoppedAnywhere(t *testing.T) {
	seeds, runs := uint64(6), 0
	if testing.Short() {
		seeds = 2
	}
	for seed := uint64(1); seed <= seeds && !t.Failed(); seed++ {
		cfg := inherited()
		cfg.Seed = seed
		fair := check(t, cfg, nil)
		if fair.Verdicts["restart applied"]+fair.Verdicts["replace applied"] < 3 {
			t.Fatalf("the takeover does nothing: %v", fair.Verdicts)
		}
		for n := 1; n <= fair.Requests && !t.Failed(); n++ {
			for f := LostBefore; f < fates; f++ {
				check(t, cfg, map[int]Fate{n: f})
				runs++
			}
		}
	}
	t.Logf("%d runs", runs)
}
