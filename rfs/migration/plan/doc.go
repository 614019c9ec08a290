// Package plan decides what a migration does: which indices of a snapshot it reads, which names they get on the target, and how
// their documents are read.
//
// [New] reads the snapshot and returns a [Plan] for a [Request]. Its [Entry] of an index is stored in the coordination store, where
// it is all that a process needs to read a shard; [Request.Differs] and [DiffersFromPlan] compare such an entry, which is input,
// with the snapshot and the settings of the process. The package writes nothing, neither to the target nor to the store.
package plan
