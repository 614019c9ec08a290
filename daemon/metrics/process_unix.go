//go:build unix

package metrics

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of this process, user and system, and whether it is known.
func cpuTime() (time.Duration, bool) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err == nil
}

// maxFiles returns how many files this process may have open; 0 if unknown.
func maxFiles() uint64 {
	var most syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) != nil {
		return 0
	}
	return most.Cur
}
