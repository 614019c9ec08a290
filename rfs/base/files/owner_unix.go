//go:build unix

package files

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// owner is the user who gets the files that root creates in a directory.
type owner struct {
	root     bool // this process runs as root
	shared   bool // others can create names in the directory
	uid, gid int
}

func isRoot() bool { return os.Geteuid() == 0 }

// syncNames makes the names in an open directory durable.
func syncNames(dir *os.File) error { return dir.Sync() }

// trusted reports whether only root can have created a link in a directory.
func trusted(info fs.FileInfo) bool {
	return statOf(info).Uid == 0 && !othersWrite(info)
}

// statOf returns the system's stat of a file.
func statOf(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// othersWrite reports whether users other than the owner can write a directory.
func othersWrite(info fs.FileInfo) bool {
	return info.Mode().Perm()&0o002 != 0 || info.Mode().Perm()&0o020 != 0 && statOf(info).Gid != 0
}

// mayWrite returns the owner of a directory, or an error if root must not create files in it.
func mayWrite(path string, info fs.FileInfo) (owner, error) {
	if !isRoot() {
		return owner{}, nil
	}
	is := statOf(info)
	o := owner{root: true, uid: int(is.Uid), gid: int(is.Gid)}
	o.shared = o.uid != 0 || othersWrite(info)
	sticky := info.Mode()&fs.ModeSticky != 0
	if !sticky && (info.Mode().Perm()&0o002 != 0 || o.uid == 0 && othersWrite(info)) {
		return o, fmt.Errorf("%s can be written by others than its owner: root creates no files in it; take that permission away (chmod go-w), or choose another directory: %w", path, fault.ErrConfig)
	}
	return o, nil
}

// mayOpen returns an error for a file that belongs neither to the directory's owner nor to root, or that has further names.
func (o owner) mayOpen(path string, info fs.FileInfo) error {
	if !o.root {
		return nil
	}
	is := statOf(info)
	if uid := int(is.Uid); uid != 0 && uid != o.uid {
		return fmt.Errorf("%s belongs to user %d, and its directory to user %d: root does not write to it; run as that user, or remove the file: %w", path, uid, o.uid, fault.ErrConfig)
	}
	if is.Nlink > 1 && o.shared {
		return fmt.Errorf("%s has another name elsewhere (a hard link), and others than root can write its directory: root does not write to it; remove the file: %w", path, fault.ErrConfig)
	}
	return nil
}

// of returns the owner of an existing file, for its replacement.
func (o owner) of(info fs.FileInfo) owner {
	if o.root {
		o.uid, o.gid = int(statOf(info).Uid), int(statOf(info).Gid)
	}
	return o
}

// give changes the owner of a file to the directory's owner.
func (o owner) give(f *os.File) error {
	if !o.root || o.uid == 0 {
		return nil
	}
	return f.Chown(o.uid, o.gid)
}

// giveName changes the owner of a new directory to the owner of its parent.
func (o owner) giveName(in *os.Root, name string) error {
	if !o.root || o.uid == 0 {
		return nil
	}
	return in.Lchown(name, o.uid, o.gid)
}
