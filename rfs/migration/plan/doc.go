// Package plan decides what a migration does: which indices of a snapshot it reads, which names they get on the target, and how
// their documents are read.
//
// [New] reads the snapshot and returns a [Plan] for a [Request]. The [Entry] of each index is stored in the coordination store; a process
// needs nothing else to read a shard. Stored entries are not trusted: [Request.Differs] and [DiffersFromPlan] compare them with the
// snapshot and the settings of the process. The package writes nothing, neither to the target nor to the store.
package plan
