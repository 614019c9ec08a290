// Package interruption counts the signals that end a process.
package interruption

import "time"

// Same is the time after a signal during which further signals belong to the same interruption: timeout(1) sends its signal to the command
// and to the process group, so the command receives it twice.
const Same = 500 * time.Millisecond

// Counter counts interruptions.
type Counter struct {
	count int
	last  time.Time // first signal of the last interruption
}

// Add counts a signal that arrives at a time, and returns the number of interruptions.
func (c *Counter) Add(at time.Time) int {
	if c.count == 0 || at.Sub(c.last) > Same {
		c.count, c.last = c.count+1, at
	}
	return c.count
}
