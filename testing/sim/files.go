package sim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
	"github.com/rfsd/rfsd/rfs/destination/export"
)

// disk is a file system that loses names and bytes that were not synced when its machine crashes.
type disk struct {
	mu      sync.Mutex
	names   map[string]*inode // files and folders as processes see them
	durable map[string]*inode // state after a crash
	locked  bool
}

type inode struct {
	folder bool
	data   []byte
	synced int
}

func newDisk() *disk {
	root := &inode{folder: true}
	return &disk{names: map[string]*inode{"/": root}, durable: map[string]*inode{"/": root}}
}

// crash discards everything that was not synced.
func (d *disk) crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = map[string]*inode{}
	for name, n := range d.durable {
		up := filepath.Dir(name)
		for d.durable[up] != nil && up != "/" {
			up = filepath.Dir(up)
		}
		if up != "/" {
			continue // a parent directory is missing
		}
		n.data = n.data[:min(n.synced, len(n.data))]
		d.names[name] = n
	}
	d.durable = map[string]*inode{}
	for name, n := range d.names {
		d.durable[name] = n
	}
}

// content returns all files.
func (d *disk) content() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]string{}
	for name, n := range d.names {
		if !n.folder {
			all[name] = string(n.data)
		}
	}
	return all
}

// mount is the disk as seen by one process: its calls have no effect after its death.
type mount struct {
	d *disk
	m *machine
}

var _ export.Files = mount{}

func (x mount) do(f func(d *disk) error) error {
	if x.m.isDead() {
		return errDead
	}
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	return f(x.d)
}

// MkdirAll makes folders.
func (x mount) MkdirAll(path string, _ fs.FileMode) error {
	return x.do(func(d *disk) error {
		for at := path; d.names[at] == nil; at = filepath.Dir(at) {
			d.names[at] = &inode{folder: true}
		}
		return nil
	})
}

// OpenFile opens a file for writing from its start.
func (x mount) OpenFile(path string, _ int, _ fs.FileMode) (export.Handle, error) {
	h := &handle{x: x, path: path}
	err := x.do(func(d *disk) error {
		if d.names[filepath.Dir(path)] == nil {
			return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		h.n = d.names[path]
		if h.n == nil {
			h.n = &inode{}
			d.names[path] = h.n
		}
		h.n.data, h.n.synced = nil, 0
		return nil
	})
	return h, err
}

// ReadFile reads a file.
func (x mount) ReadFile(path string) (b []byte, err error) {
	err = x.do(func(d *disk) error {
		n := d.names[path]
		if n == nil {
			return &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
		}
		b = slices.Clone(n.data)
		return nil
	})
	return b, err
}

// Rename renames a file.
func (x mount) Rename(from, to string) error {
	return x.do(func(d *disk) error {
		n := d.names[from]
		if n == nil {
			return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
		}
		delete(d.names, from)
		d.names[to] = n
		return nil
	})
}

// Remove removes a file.
func (x mount) Remove(path string) error {
	return x.do(func(d *disk) error {
		if d.names[path] == nil {
			return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
		}
		delete(d.names, path)
		return nil
	})
}

// SyncDir makes the names in a folder durable.
func (x mount) SyncDir(path string) error {
	return x.do(func(d *disk) error {
		if path == "." {
			return nil
		}
		if d.names[path] == nil {
			return &fs.PathError{Op: "sync", Path: path, Err: fs.ErrNotExist}
		}
		for name := range d.durable {
			if name != path && filepath.Dir(name) == path {
				delete(d.durable, name)
			}
		}
		for name, n := range d.names {
			if name != path && filepath.Dir(name) == path {
				d.durable[name] = n
			}
		}
		return nil
	})
}

// WalkDir visits the files in the order of their names.
func (x mount) WalkDir(root string, visit fs.WalkDirFunc) error {
	var all []string
	kinds := map[string]bool{}
	err := x.do(func(d *disk) error {
		for name, n := range d.names {
			if name == root || strings.HasPrefix(name, root+"/") {
				all = append(all, name)
				kinds[name] = n.folder
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(all)
	for _, name := range all {
		err := visit(name, entry{filepath.Base(name), kinds[name]}, nil)
		if err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	return nil
}

// Lock locks the folder.
func (x mount) Lock(path, holder string, _ files.Locking) (io.Closer, error) {
	err := x.do(func(d *disk) error {
		if d.locked {
			return fmt.Errorf("%s is locked, %s: %w", path, holder, fault.ErrConfig)
		}
		d.locked = true
		return nil
	})
	return unlock{x.d}, err
}

type unlock struct{ d *disk }

// Close unlocks.
func (u unlock) Close() error {
	u.d.mu.Lock()
	defer u.d.mu.Unlock()
	u.d.locked = false
	return nil
}

type entry struct {
	name   string
	folder bool
}

func (e entry) Name() string               { return e.name }
func (e entry) IsDir() bool                { return e.folder }
func (e entry) Info() (fs.FileInfo, error) { return info{e}, nil }
func (e entry) Type() fs.FileMode {
	if e.folder {
		return fs.ModeDir
	}
	return 0
}

type info struct{ entry }

func (i info) Size() int64        { return 0 }
func (i info) Mode() fs.FileMode  { return i.Type() }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }

// handle is an open file.
type handle struct {
	x    mount
	path string
	n    *inode
}

// Write appends.
func (h *handle) Write(b []byte) (int, error) {
	err := h.x.do(func(*disk) error {
		h.n.data = append(h.n.data, b...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// Sync makes written bytes durable.
func (h *handle) Sync() error {
	return h.x.do(func(*disk) error {
		h.n.synced = len(h.n.data)
		return nil
	})
}

// Close closes the file.
func (h *handle) Close() error { return h.x.do(func(*disk) error { return nil }) }
