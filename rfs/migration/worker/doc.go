// Package worker wires the stages of a migration: it plans what a snapshot holds, seeds
// the work, runs leases (from the claim of an item to its completion or hand-off), and
// sums up what became of every document.
package worker
