// Package rollback keeps the list of what a session created on its target, and removes exactly that.
//
// A [Ledger] records each object before and after its creation: Intend, the creating request with the mark of the session (Ledger.Mark) in
// its body, Confirm. [Undo] compares the records with the target: List reports each [Entry] and its state, Run removes the objects that
// carry the mark. [Scratch] does both for indices that only serve a measurement, and [ReadMarks] returns the sequence numbers at the end
// of the migration.
package rollback
