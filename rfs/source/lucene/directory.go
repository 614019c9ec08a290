package lucene

import (
	"context"
	"io"
)

// Directory opens the files of one Lucene commit by their physical names
// (segments_4, _0.cfs, …). The snapshot package implements it over a shard
// manifest; tests use a map. Implementations are safe for concurrent use.
type Directory interface {
	// List returns the names of all files of the commit, in any order.
	List() []string
	// Open returns a file; an error that is fs.ErrNotExist when the commit has none of that name.
	Open(name string) (File, error)
}

// File is one Lucene file that may lie in several blobs of a repository. Only
// the ranges that are asked for are fetched.
type File interface {
	// Size returns the length of the file in bytes, as the manifest states it.
	Size() int64
	// ReadAt fills p with the bytes from off on; anything less is an error
	// (fault.ErrCorrupt when the blob is missing or shorter than in the manifest,
	// fault.ErrUnavailable when the repository did not answer).
	ReadAt(ctx context.Context, p []byte, off int64) error
	// Stream reads n bytes from off on, in order, with read-ahead. Ending early is
	// an error as in ReadAt, never io.EOF before n bytes.
	Stream(ctx context.Context, off, n int64) (io.ReadCloser, error)
	// Locate returns in which blob, and where in it, the byte at off lies (for errors).
	Locate(off int64) (blob string, blobOff int64)
}
