package budget

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestMemory_Budget(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      Process
		bucket bool
		least  int64
		most   int64
	}{
		{"dry run", Process{Slots: 2, Connections: 10, Body: 5 << 20}, false, 90 << 20, 130 << 20},
		{"cluster", Process{Slots: 2, Connections: 10, Body: 5 << 20, Cluster: true}, false, 150 << 20, 200 << 20},
		{"cluster from a bucket", Process{Slots: 2, Connections: 10, Body: 5 << 20, Cluster: true}, true, 214 << 20, 264 << 20},
		{"the largest bodies", Process{Slots: 64, Connections: 1000, Body: 1 << 30, Cluster: true}, true, 1064 << 30, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.o.Budget(c.bucket); got < c.least || got > c.most {
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
			LimitMemory(1<<40, func(string) string { return c.variable })
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

func TestSaveMemory(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for _, c := range []struct {
		variable string
		want     int
	}{{"200", 100}, {"", 50}} {
		SaveMemory(func(string) string { return c.variable })
		if got := debug.SetGCPercent(100); got != c.want {
			t.Errorf("GOGC=%s: %d, want %d", c.variable, got, c.want)
		}
	}
}
