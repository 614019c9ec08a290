// Package fuzzing holds every fuzz target to one promise: an input, whatever it is, takes
// neither much memory nor much time.
package fuzzing

import (
	"flag"
	"runtime/metrics"
	"testing"
	"time"
)

// What one run of a target may take for an input below Small bytes.
const (
	Small     = 1 << 20
	MaxMemory = 64 << 20 // bytes allocated, also those that were freed again
	MaxTime   = time.Second
)

// beside is how much more a target may take that is run on its seeds only, among other tests: what is measured is the process's,
// the race detector makes it slower, and caches are emptied at any time.
const beside = 4

// Bounded begins to measure; the function that it gives ends that and fails the test when too
// much was taken. input is the length of the input in bytes. It is the first line of a target:
//
//	defer fuzzing.Bounded(t, len(b))()
//
// Time is the processor's, so that a busy machine makes no finding; who waits for nothing at all
// is ended by Go's own watch.
func Bounded(t testing.TB, input int) func() {
	t.Helper()
	factor := 1
	if f := flag.Lookup("test.fuzz"); f == nil || f.Value.String() == "" {
		factor = beside
	}
	memory, began := allocated(), processorTime()
	return func() {
		t.Helper()
		if input >= Small {
			return
		}
		if took := processorTime() - began; took > time.Duration(factor)*MaxTime {
			t.Errorf("%d bytes of input took %v", input, took)
		}
		if took := allocated() - memory; took > uint64(factor)*MaxMemory {
			t.Errorf("%d bytes of input took %d bytes of memory", input, took)
		}
	}
}

// allocated is how many bytes the process took so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
