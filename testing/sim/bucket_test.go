package sim

import (
	"os"
	"testing"
)

// TestEveryRequestToABucketMayFailInEveryWay puts each fate on each request of a migration whose state is in a bucket, among
// them the death of the process before and after.
func TestEveryRequestToABucketMayFailInEveryWay(t *testing.T) {
	cfg := small()
	cfg.Bucket = true
	fair := check(t, cfg, nil)
	if fair.Results["successors applied"] < 2 || fair.Results["complete applied"] < 4 {
		t.Fatalf("the migration hands nothing off: %v", fair.Results)
	}
	step, runs := 11, 0
	switch {
	case os.Getenv("RFSD_TEST_FLEET") != "":
		step = 1
	case testing.Short():
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
