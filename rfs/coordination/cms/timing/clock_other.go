//go:build !linux

package timing

import "time"

// bootTime returns mono, because no boot-time clock is available; the wall clock notices a suspended machine.
func bootTime(mono time.Duration) time.Duration { return mono }
