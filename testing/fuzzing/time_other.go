//go:build !unix

package fuzzing

import "time"

// processorTime is the time of the day: it is more than what the processors were used.
func processorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
