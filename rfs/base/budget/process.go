package budget

import (
	"runtime/debug"
)

// Memory that a process uses in addition to bodies, in bytes.
const (
	memoryOfProcess = 48 << 20 // program, plans, connections and their responses
	memoryOfSlot    = 24 << 20 // window, raw chunk and chunks read ahead of a reader, buffers of a compressor
	memoryAhead     = 64 << 20 // ranges read ahead from a bucket
)

// Process describes the memory use of a process.
type Process struct {
	Slots, Connections int
	Body               int   // of a request, in bytes
	Cluster            bool  // requests go to a cluster
	Output             int   // bytes that a slot buffers of its output
	Longer             int64 // bytes by which the longest source may exceed the default
}

// Budget returns the bytes that a process may hold, without long documents: a body that is filled and another one per slot, and the bodies
// of all requests in flight, which grow by a quarter at a time. bucket adds the ranges that are read ahead from a bucket.
func (p Process) Budget(bucket bool) int64 {
	bodies := 2 * p.Slots
	if p.Cluster {
		bodies = p.Slots + p.Connections
	}
	budget := memoryOfProcess + (memoryOfSlot+int64(p.Output))*int64(p.Slots) + int64(bodies)*int64(p.Body)*5/4
	if bucket {
		budget += memoryAhead
	}
	return budget
}

// LimitMemory sets the runtime's soft memory limit to the budget minus the program, unless GOMEMLIMIT is set. The runtime then collects
// garbage more often instead of growing beyond it. Giant documents may still take more.
func LimitMemory(budget int64, getenv func(string) string) {
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(budget - memoryOfProgram)
	}
}

// SaveMemory makes the runtime collect garbage as soon as the heap has grown by a half since the last collection, instead of by as much
// again, unless GOGC is set: for commands that keep much and allocate more. It costs them about a tenth of their CPU time.
func SaveMemory(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// memoryOfProgram is the part of the budget for the program itself, in bytes, which the runtime does not count.
const memoryOfProgram = 20 << 20

// Limits of long documents, large metadata and long responses together, in bytes: the rest of half a gigabyte at default settings.
const (
	// MemoryOfInput is the limit of a process that reads without sending.
	MemoryOfInput = 480 << 20
	leastOfInput  = 192 << 20
	// answersOfInput is the part of it for responses only.
	answersOfInput = 64 << 20
)

// Input returns the budget of the process for foreign data. It grows with the configured maximum length of documents, so that it still
// limits them.
func (p Process) Input() *Budget {
	return New(max(MemoryOfInput-p.Budget(false), leastOfInput)+max(0, 2*p.Longer), answersOfInput)
}
