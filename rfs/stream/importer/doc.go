// Package importer sends NDJSON files, in the form of exports and bulk requests, to a cluster. Its items are parts of
// files: the process that starts a session creates them, and workers of any number of processes lease, hand off and complete
// them like the items of shards (rfs/coordination/cms, rfs/migration/engine).
//
// An [Import] is the work of one process in a session: its Run lists the files of the [Source], creates the items, leases them until no
// item is left, and returns the [Status] of all processes. It calls [Indices] before it sends the first document to an index. [Read]
// returns the data of a session from its store, and [Comparison] the files as units for package verify.
package importer
