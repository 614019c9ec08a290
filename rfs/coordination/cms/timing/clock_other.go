//go:build !linux

package timing

import "time"

// bootTime has no clock of its own here; the wall clock notices a suspended machine.
func bootTime(mono time.Duration) time.Duration { return mono }
