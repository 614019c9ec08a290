//go:build !unix

package files

import (
	"io/fs"
	"os"
)

// owner is empty on systems without file owners of this kind.
type owner struct{}

func isRoot() bool { return false }

// syncNames does nothing: Windows flushes no directories, and its file systems keep a journal of names.
func syncNames(*os.File) error { return nil }

func trusted(fs.FileInfo) bool { return true }

func mayWrite(string, fs.FileInfo) (owner, error) { return owner{}, nil }

func (owner) mayOpen(string, fs.FileInfo) error { return nil }

func (o owner) of(fs.FileInfo) owner { return o }

func (owner) give(*os.File) error { return nil }

func (owner) giveName(*os.Root, string) error { return nil }
