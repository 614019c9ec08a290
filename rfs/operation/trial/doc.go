// Package trial estimates the duration and the cost of a whole migration from a trial run: a sample of each shard, and one
// measurement at full speed (Meter). Of returns the estimate with the range of the duration. The package sends no requests.
package trial
