// Package phase holds the state machine of a migration: snapshot, metadata, indices, documents.
//
// The table ([Machine]) defines the next action of a worker for each phase and state of its record. A [Session] is one process of a
// migration: it holds the coordination store and, as interfaces, what each phase needs of the clusters ([Snapshots], [Indices], [Targets],
// [Tuner], [Ledger]). [Session.RunOne] performs one step or one lease; [Session.Through] performs all phases before the documents. The
// decisions about an index are stored in its entry, and are derived again from the snapshot and the settings before they are used.
package phase
