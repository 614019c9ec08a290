// Package worker runs a migration to its end in one process.
//
// A [Migration] takes a session of package phase through its phases, then lets its slots lease items until no work is left: one large
// item or several small ones at a time. It pauses indices whose documents the target rejects, waits for other workers, and returns the
// summary of the session. [IndexPriority] orders items so that preferred indices come first.
package worker
