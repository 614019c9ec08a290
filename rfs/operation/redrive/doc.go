// Package redrive sends failed documents again, from the files of a migration or an import, or from the records of a
// control index, and removes the documents that arrived from there. Sources that are not in the files are read again
// from the snapshot, or from the files of the import. A file is replaced when the results of its documents are known, so that a process
// that is killed earlier leaves the file unchanged.
//
// A [Redrive] reads the files of a [Storage] (a [Folder] of a file system, [Objects] of a bucket, or the [Recorded] failures of a
// session), sends their documents with package bulk, and returns a [Report]. A [Source] reads documents whose sources are not in
// the files.
package redrive
