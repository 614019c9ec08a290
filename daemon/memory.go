package daemon

import (
	"os"
	"strconv"
	"strings"
)

// oomKills returns the number of processes that the kernel has killed for lack of memory since boot.
func oomKills() int64 { return procNumber("/proc/vmstat", "oom_kill", 1) }

// totalMemory returns the smaller of this machine's memory and the memory limit of this process's control group, in bytes; 0 if unknown.
func totalMemory() int64 {
	total := procNumber("/proc/meminfo", "MemTotal:", 1024)
	own, err := os.ReadFile("/proc/self/cgroup") // version 2: one line, 0::/path
	if err != nil {
		return total
	}
	for line := range strings.Lines(string(own)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		b, err := os.ReadFile("/sys/fs/cgroup" + path + "/memory.max")
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && (total == 0 || limit < total) {
			total = limit
		}
	}
	return total
}

// procNumber returns value × unit for the line "name value" of a file in /proc, or 0.
func procNumber(file, name string, unit int64) int64 {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0
			}
			return n * unit
		}
	}
	return 0
}
