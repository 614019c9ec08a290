// Package consume sends the messages of a stream to a cluster continuously. The stream has partitions; the item of each is
// leased, processed by the engine of a migration (rfs/migration/engine), and released with its watermark, repeatedly. A leader, elected
// in the coordination store, assigns partitions to the live processes of the session.
//
// A [Task] is the work of one process in a session: its Run leases the partitions that the [Plan] of the leader assigns to it, reads their
// [Messages] from the [Stream], turns each [Message] into a document by the [Format], and returns the [Account] of all processes. [Read]
// returns that account from the store of the session.
package consume
