package main

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/target"
)

func TestMemoryBudget(t *testing.T) {
	to := target.Config{URL: "https://target:9200"}
	for _, c := range []struct {
		name   string
		o      options
		bucket bool
		least  int64
		most   int64
	}{
		{"dry run", options{slots: 2, connections: 10, bulkBytes: 5 << 20}, false, 90 << 20, 130 << 20},
		{"cluster", options{slots: 2, connections: 10, bulkBytes: 5 << 20, target: to}, false, 150 << 20, 200 << 20},
		{"cluster from a bucket", options{slots: 2, connections: 10, bulkBytes: 5 << 20, target: to}, true, 214 << 20, 264 << 20},
		{"the largest bodies", options{slots: 64, connections: 1000, bulkBytes: 1 << 30, target: to}, true, 1064 << 30, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := memoryBudget(c.o, c.bucket); got < c.least || got > c.most {
				t.Errorf("%d MiB, want %d to %d", got>>20, c.least>>20, c.most>>20)
			}
		})
	}
}

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for name, c := range map[string]struct {
		variable string
		want     int64
	}{
		"the budget by default":     {"", 1<<40 - memoryOfProgram},
		"GOMEMLIMIT has precedence": {"1GiB", before},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(before)
			limitMemory(1<<40, func(string) string { return c.variable })
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
