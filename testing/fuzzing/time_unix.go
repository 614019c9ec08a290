//go:build unix

package fuzzing

import (
	"syscall"
	"time"
)

// processorTime is what this process used of the processors, outside of the kernel.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano())
}
