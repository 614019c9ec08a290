// Package phase holds the state machine of a migration: snapshot, metadata, indices, documents.
//
// The table ([Machine]) states for each phase and state of its record what a worker does next. A [Session] is one process of a migration:
// the coordination store, and what each phase needs of the clusters as interfaces ([Snapshots], [Indices], [Targets], [Tuner],
// [Ledger]). [Session.RunOne] performs one step or one lease; [Session.Through] performs all phases before the documents. What is
// decided of an index lies in its entry in the store, and is derived again from the snapshot and the settings before it is used.
package phase
