package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Times of the benchmark of an overloaded index.
const (
	healthyIndices = 3
	overloaded     = 20 * time.Second // after the first bulk request; the other indices take longer
	overloadRounds = 3                // the sums of all rounds are used: rejected requests are few, and their pauses random
)

// hotIndex is the index whose requests are rejected.
var hotIndex = copyName(healthyIndices - 1)

// overloadFigures measures a migration in which the requests of one index are rejected for a while, and separately the requests to that
// index and the throughput of the others.
func overloadFigures(ctx context.Context, o options) ([]figure, error) {
	return press(ctx, o, deflated, func(l *pressed) ([]figure, error) {
		dir, err := os.MkdirTemp("", "rfsd-bench-overload-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		repo := filepath.Join(dir, "repo")
		if err := multiply(l.s, repo, healthyIndices+1, true); err != nil {
			return nil, err
		}
		part := func(indices int, more ...string) func() (*gate, error) {
			s := *l.s
			s.Repo, s.Documents, s.Bytes, s.Copies = repo, s.Documents*indices, s.Bytes*int64(indices), healthyIndices+1
			return func() (*gate, error) { return l.overload(ctx, &s, more...) }
		}
		parts := []func() (*gate, error){part(1, "--index-allowlist", hotIndex), part(healthyIndices, "--index-exclude", hotIndex), part(healthyIndices + 1)}
		refused, rates := make([]int, len(parts)), make([]float64, len(parts))
		rounds := min(o.rounds, overloadRounds)
		for range rounds {
			for i, measure := range parts {
				g, err := measure()
				if err != nil {
					return nil, err
				}
				refused[i] += g.refused
				rates[i] += g.healthy() / float64(rounds) / mega
			}
		}
		name := fmt.Sprintf("one index of %d answers 429 for %v: ", healthyIndices+1, overloaded)
		return []figure{
			{Name: name + "requests to it", Measured: strconv.Itoa(refused[2]), Beside: fmt.Sprintf("without the others: %d", refused[0]),
				Value: float64(refused[2]) / float64(max(refused[0], 1)), Goal: 1.1, AtMost: true},
			{Name: name + "throughput of the others", Measured: fmt.Sprintf("%.1f MB/s", rates[2]), Beside: fmt.Sprintf("without it: %.1f", rates[1]),
				Value: rates[2] / rates[1], Goal: 0.9},
		}, nil
	})
}

// overload migrates through a gate that rejects the requests of one index at first, and returns the gate. Each shard may use a slot.
func (l *pressed) overload(ctx context.Context, s *source, more ...string) (*gate, error) {
	g, err := newGate(l.node.URL, &gate{delay: delayed, to: overloaded, only: hotIndex})
	if err != nil {
		return nil, err
	}
	defer g.Close()
	slots := strconv.Itoa((healthyIndices + 1) * deflated.Shards)
	_, err = l.runFrom(ctx, s, g.URL, append([]string{"--slots", slots, "--documents-size-per-bulk-request", strconv.Itoa(small) + "B"}, more...)...)
	return g, err
}

// healthy returns the bytes per second that the other indices accepted during the rejections.
func (g *gate) healthy() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	var sum int64
	for _, a := range g.accepted {
		if a.index != g.only && a.at < g.to {
			sum += a.bytes
		}
	}
	return float64(sum) / g.to.Seconds()
}
