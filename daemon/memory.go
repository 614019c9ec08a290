package daemon

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// resident is the resident memory of a process in bytes; 0 when it is not known.
func resident(pid int) int64 {
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

// oomKills counts the processes that the kernel has killed for lack of memory since it booted.
func oomKills() int64 { return procNumber("/proc/vmstat", "oom_kill", 1) }

// totalMemory is what this machine, or the control group of this process, may use at most, in
// bytes; 0 when it is not known.
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

// procNumber finds "name value" in a file of /proc and gives value × unit, or 0.
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
