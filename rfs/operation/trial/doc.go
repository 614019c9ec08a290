// Package trial estimates how long a whole migration takes and what it costs, from a trial run: a sample of each shard, and one
// measurement at full speed (Meter). Of returns the estimate with the range in which the time lies. The package sends nothing.
package trial
