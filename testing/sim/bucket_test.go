package sim

import (
	"fmt"
	"testing"
	"time"
)

// inBucket is the world of a seed whose state is in a bucket, without what no bucket does: forget, or hold the work of another
// engine.
func inBucket(seed uint64) Config {
	cfg := config(seed)
	cfg.Bucket, cfg.Lose, cfg.Foreign = true, 0, 0
	return cfg
}

// TestNoDocumentIsLostWithTheStateInABucket runs random worlds whose processes meet in a bucket.
func TestNoDocumentIsLostWithTheStateInABucket(t *testing.T) {
	first, n := uint64(time.Now().UnixNano()), 12
	switch {
	case *seedFlag != 0:
		first, n = *seedFlag, 1
	case testing.Short():
		n = 2
	}
	for seed := first; seed < first+uint64(n); seed++ {
		if config(seed).File {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := Run(t, inBucket(seed))
			t.Logf("%+v", summaryOf(r))
			problems(t, seed, r)
		})
	}
}

// TestEveryRequestToABucketMayFailInEveryWay puts each fate on each request of a migration whose state is in a bucket, among
// them the death of the process before and after.
func TestEveryRequestToABucketMayFailInEveryWay(t *testing.T) {
	cfg := small()
	cfg.Bucket = true
	fair := check(t, cfg, nil)
	if fair.Verdicts["successors applied"] < 2 || fair.Verdicts["complete applied"] < 4 {
		t.Fatalf("the migration hands nothing off: %v", fair.Verdicts)
	}
	step, runs := 1, 0
	if testing.Short() {
		step = 53
	}
	for n := 1; n <= fair.Requests && !t.Failed(); n++ {
		for f := LostBefore; f < fates; f++ {
			if (n+int(f))%step == 0 {
				check(t, cfg, map[int]Fate{n: f})
				runs++
			}
		}
	}
	t.Logf("%d requests, %d runs", fair.Requests, runs)
}
