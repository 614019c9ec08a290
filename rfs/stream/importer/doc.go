// Package importer brings NDJSON files, as exports and the bulk interface have them, into a cluster. Its items are parts of
// files: the process that starts a session makes them, and workers of any number of processes lease, hand off and complete
// them as they do the items of shards (rfs/coordination/cms, rfs/migration/worker).
//
// An [Import] is the part of one process in a session: its Run lists the files of the [Source], creates the items, leases them until no
// item is left, and returns the [Status] of all processes. [Indices] is asked before the first document goes to an index. [Read] returns
// the account of a session from its store, and [Comparison] the files as units for package verify.
package importer
