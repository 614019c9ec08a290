// Package engine runs leases: the work on one item from the moment it is leased until it is complete, handed off or released.
//
// A [Source] opens what an item covers, such as a part of a shard, a file or a partition of a stream; its [Reading] passes documents to
// a [Sink], which sends them in bodies to the [Output] of a [Destination]. A [Runner] holds the state shared by all leases of a process
// and runs one lease with [Runner.Run]. A [Meter] reads how far the leases of a process are.
//
// The package reads no snapshot and knows no phases: a migration, an import and a task that follows a stream use it alike.
package engine
