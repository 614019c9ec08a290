package fleet

import (
	"fmt"
	"testing"
	"time"
)

// petabyte returns what an operator with 20,000 shards has: 50 GB on average, the biggest many times that.
func petabyte(nodes, workers int, hints bool) Config {
	return Config{
		Nodes: nodes, Workers: workers, Shards: 20_000, Mean: 50 << 30, Skew: 0.8, Rate: 25e6,
		Setup: 5 * time.Second, Lease: 10 * time.Minute, Hints: hints, MaxRate: hints, Seed: 1,
	}
}

func play(t *testing.T, c Config) Result {
	t.Helper()
	r := Play(c)
	for i, p := range r.Problems {
		if i == 5 {
			t.Errorf("and %d more", len(r.Problems)-5)
			break
		}
		t.Error(p)
	}
	t.Logf("| %d | %d | %v | %d | %v | %v | %.3f | %.0f | %.0f | %d | %.2f %% |", c.Nodes, c.Workers, c.Hints, c.Deaths,
		r.Least.Round(time.Second), r.Makespan.Round(time.Second), r.Makespan.Seconds()/r.Least.Seconds(), r.Mean, r.Peak, r.Lost, 100*r.Again)
	return r
}

func TestABigFleetWithHintsIsQuickAndGentle(t *testing.T) {
	if testing.Short() {
		t.Skip("twenty thousand workers; run without -short")
	}
	for _, size := range []struct{ nodes, workers int }{{500, 20_000}, {50, 2_000}} {
		t.Run(fmt.Sprint(size.workers), func(t *testing.T) {
			r := play(t, petabyte(size.nodes, size.workers, true))
			if got := r.Makespan.Seconds() / r.Least.Seconds(); got > 1.05 {
				t.Errorf("%.3f of the least time", got)
			}
			if r.Mean > 200 || r.Peak > 200 {
				t.Errorf("%.0f operations per second, %.0f in the busiest minute", r.Mean, r.Peak)
			}
			play(t, petabyte(size.nodes, size.workers, false)) // reported; it must only end right
		})
	}
}

func TestNodesThatDieForGoodLoseNothing(t *testing.T) {
	for _, hints := range []bool{true, false} {
		c := Config{Nodes: 10, Workers: 100, Shards: 300, Mean: 20 << 30, Skew: 1, Rate: 25e6, Setup: 5 * time.Second, Lease: 10 * time.Minute, Hints: hints, Deaths: 4, Seed: 2}
		play(t, c)
	}
}

func TestASeedReplays(t *testing.T) {
	c := Config{Nodes: 5, Workers: 20, Shards: 100, Mean: 5 << 30, Skew: 1, Rate: 25e6, Setup: time.Second, Lease: time.Minute, Hints: true, Deaths: 1, Seed: 3}
	a, b := Play(c), Play(c)
	if a.Makespan != b.Makespan || a.Lost != b.Lost {
		t.Errorf("%+v and %+v", a, b)
	}
}
