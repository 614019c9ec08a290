package main

import "runtime/debug"

// What a process holds besides bodies, in bytes.
const (
	memoryOfProcess = 48 << 20 // program, plans, connections and their answers
	memoryOfSlot    = 24 << 20 // window and raw chunk of a reader, buffers of a compressor
	memoryAhead     = 64 << 20 // ranges read ahead from a bucket
)

// memoryBudget returns how much memory the options allow a process to hold: a body being filled and
// one more per slot, and those of all requests under way, which grow by a quarter at a time.
func memoryBudget(o options, bucket bool) int64 {
	bodies := 2 * o.slots
	if o.target.URL != "" {
		bodies = o.slots + o.connections
	}
	budget := memoryOfProcess + memoryOfSlot*int64(o.slots) + int64(bodies)*int64(o.bulkBytes)*5/4
	if bucket {
		budget += memoryAhead
	}
	return budget
}

// limitMemory makes the budget the soft limit of the runtime, which then collects garbage more often
// instead of growing beyond it, unless GOMEMLIMIT is set. Giant documents may still take more.
func limitMemory(budget int64, getenv func(string) string) {
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(budget)
	}
}
