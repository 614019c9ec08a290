package main

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/shards"
)

// What a process holds besides bodies, in bytes.
const (
	memoryOfProcess = 48 << 20 // program, plans, connections and their answers
	memoryOfSlot    = 24 << 20 // window, raw chunk and chunks read ahead of a reader, buffers of a compressor
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

// limitMemory makes the budget, less the program, the soft limit of the runtime, which then collects garbage more often
// instead of growing beyond it, unless GOMEMLIMIT is set. Giant documents may still take more.
func limitMemory(budget int64, getenv func(string) string) {
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(budget - memoryOfProgram)
	}
}

// memoryOfProgram is how much of the budget the program itself takes, in bytes, which the runtime does not count.
const memoryOfProgram = 20 << 20

// What a process holds of long documents, large metadata and long answers together, in bytes: what is left of a half
// gigabyte at default settings.
const (
	memoryOfInput = 480 << 20
	leastOfInput  = 192 << 20
	// answersOfInput is the part of it that only answers may take.
	answersOfInput = 64 << 20
)

// newBudget returns the budget of the process for what others wrote. Where longer documents are read than by default, it
// grows with them, so that it bounds them still.
func newBudget(o options) *budget.Budget {
	return budget.New(max(memoryOfInput-memoryBudget(o, false), leastOfInput)+max(0, 2*(o.maxDocument-shards.DefaultMaxDocument)), answersOfInput)
}

// maxBody returns what asks the target, once it is needed, for the longest body of a request that it takes; 0 when that is
// not known.
func maxBody(client *target.Client, log *slog.Logger) func(ctx context.Context) int64 {
	return func(ctx context.Context) int64 {
		most, err := client.MaxBody(ctx)
		if err != nil {
			log.DebugContext(ctx, "size of requests unknown", "error", err)
		}
		return most
	}
}
