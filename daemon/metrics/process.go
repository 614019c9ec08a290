package metrics

import (
	"bytes"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
)

// processFamilies returns the metrics of this process, with the names used by Prometheus client libraries. Unknown values are omitted.
func processFamilies() []family {
	return []family{
		process("process_start_time_seconds", "Time at which the process started, in seconds since 1970.", func(s state) float64 { return float64(s.started.UnixMilli()) / 1000 }),
		{"process_cpu_seconds_total", "CPU time of the process, user and system, in seconds.", nil, func(emit emitter, _ state) {
			if used, ok := cpuTime(); ok {
				emit(counter, used.Seconds())
			}
		}},
		process("process_resident_memory_bytes", "Resident memory of the process.", func(state) float64 { return float64(Resident(os.Getpid())) }),
		process("process_open_fds", "Open file descriptors.", func(state) float64 {
			open, _ := os.ReadDir("/proc/self/fd")
			return float64(len(open))
		}),
		process("process_max_fds", "Limit of open file descriptors.", func(state) float64 { return float64(maxFiles()) }),
		process("go_goroutines", "Goroutines that exist.", func(state) float64 { return float64(runtime.NumGoroutine()) }),
		process("go_memstats_heap_alloc_bytes", "Bytes of the heap that objects take.", func(state) float64 {
			heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
			metrics.Read(heap)
			return float64(heap[0].Value.Uint64())
		}),
	}
}

// process returns a gauge of this process. read returns 0 for an unknown value.
func process(name, help string, read func(state) float64) family {
	return family{name, help, nil, func(emit emitter, s state) {
		if v := read(s); v > 0 {
			emit(gauge, v)
		}
	}}
}

// Resident returns the resident memory of a process in bytes; 0 if unknown.
func Resident(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm") // in pages: size resident shared …
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
