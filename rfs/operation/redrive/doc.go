// Package redrive sends failed documents again, from the files that a migration or an import has kept or from what a
// control index has recorded, and removes those that arrived there. Sources that are not in the files are read again
// from the snapshot, or from the files of the import. A file is replaced when the fate of its documents is known, so that a process that
// is killed before leaves it as it was.
//
// A [Redrive] takes the files of a [Place] (a [Folder] of a file system, or [Objects] of a bucket) or what a session has [Recorded], sends
// their documents with package bulk, and returns a [Report]. A [Source] reads documents again whose sources are not in the files.
package redrive
