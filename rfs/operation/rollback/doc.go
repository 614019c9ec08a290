// Package rollback maintains the list of objects that a session created on its target, and removes exactly these objects.
//
// A [Ledger] records each object before and after its creation: Intend, the creating request with the mark of the session (Ledger.Mark) in
// its body, Confirm. [Undo] compares the records with the target: List returns each [Entry] with its state, Run removes the objects
// with the mark. [Scratch] records and removes indices that only serve a measurement. [ReadMarks] returns the sequence numbers at the
// end of the migration.
package rollback
