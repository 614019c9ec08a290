//go:build unix

package metrics

import (
	"syscall"
	"time"
)

// cpuTime returns the user and system CPU time of this process, and whether it is known.
func cpuTime() (time.Duration, bool) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err == nil
}

// maxFiles returns the limit of this process's open files; 0 if unknown.
func maxFiles() uint64 {
	var most syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most) != nil {
		return 0
	}
	return most.Cur
}
