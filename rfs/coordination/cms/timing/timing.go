// Package timing has the clocks by which a lease holder measures time, and the lengths of leases.
package timing

import (
	"math"
	"time"
)

// Limits of leases. Margin and grace scale with the length of the initial lease.
const (
	DefaultInitialLease = 10 * time.Minute
	DefaultMaxLease     = 6 * time.Hour
	DefaultTolerance    = 15 * time.Second // allowed difference of clocks
	DefaultMaxAttempts  = 5
	MaxExponent         = 10

	setupLease = 5 * time.Minute
	maxMargin  = 15 * time.Second
	maxGrace   = 5 * time.Second
	lastPart   = 4*time.Minute + 30*time.Second // kept for the hand-off at the end of a long lease
)

// LeaseLength returns min(2^k × initial, limit); k is clamped to 0..MaxExponent.
func LeaseLength(initial time.Duration, k int, limit time.Duration) time.Duration {
	return time.Duration(LeaseMs(initial.Milliseconds(), k, limit.Milliseconds())) * time.Millisecond
}

// LeaseMs is LeaseLength in milliseconds.
func LeaseMs(initial int64, k int, limit int64) int64 {
	k = max(0, min(k, MaxExponent))
	if initial > limit>>k {
		return limit
	}
	return initial << k
}

// Margin returns the time before the end of a lease at which its holder stops: min(15 s, lease/10).
func Margin(lease time.Duration) time.Duration { return min(maxMargin, lease/10) }

// Grace returns the time that others wait after the end of a lease: min(5 s, initial lease/20).
func Grace(initial time.Duration) time.Duration { return min(maxGrace, initial/20) }

// TriggerAfter returns the time after which a holder starts to hand off: max(¾ lease, lease − 4 min 30 s).
func TriggerAfter(lease time.Duration) time.Duration { return max(lease*3/4, lease-lastPart) }

// SetupLease returns the lease for seeding: min(5 min, initial lease).
func SetupLease(initial time.Duration) time.Duration { return min(setupLease, initial) }

// RightSize returns the exponent for successors from the length of the ending lease and the time its holder needed before the first
// document: under 2.5 % of the lease the successor's lease is halved, over 10 % doubled.
func RightSize(lease, initial, setup time.Duration) int {
	if lease <= 0 || initial <= 0 {
		return 0
	}
	k := int(max(0, math.Round(math.Log2(float64(lease)/float64(initial)))))
	switch {
	case setup*1000 < lease*25:
		k--
	case setup*10 > lease:
		k++
	}
	return max(0, min(k, MaxExponent))
}
