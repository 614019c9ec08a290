// Package consume brings the messages of a stream into a cluster, for as long as it runs. The stream has partitions; the item of each is
// leased, processed by the engine of a migration (rfs/migration/worker), and released with its watermark, repeatedly. A leader, elected
// in the coordination store, assigns partitions to the processes of the session that are alive.
//
// A [Task] is the part of one process in a session: its Run leases the partitions that the [Plan] of the leader assigns to it, reads their
// [Messages] from the [Stream], turns each [Message] into a document by the [Format], and returns the [Account] of all processes. [Read]
// returns that account from the store of the session.
package consume
