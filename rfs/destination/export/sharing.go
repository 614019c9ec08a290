package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// Files of an export directory that several processes write to.
const (
	writersFolder = "writers" // DIR/.rfsd/writers/<writer> is locked as long as the writer lives
	publishFile   = "publish" // DIR/.rfsd/publish is locked while names and manifest change
)

// OpenShared is Open for a directory that other processes, also on other machines, write to at the same time. The files of an item
// are published under a lock of the directory, if the writer still holds the item.
func OpenShared(dir, writer string, c Compression) (*Export, error) {
	return open(system{}, dir, writer, c, true)
}

// join acquires the lock of this writer and removes the temporary files of dead writers.
func (d *dir) join() error {
	return d.exclusively(func() error {
		if err := d.files.MkdirAll(filepath.Join(d.path, private, writersFolder), 0o700); err != nil {
			return err
		}
		if err := d.cleanDead(); err != nil {
			return fmt.Errorf("remove unfinished files: %w", err)
		}
		own, err := d.files.Lock(filepath.Join(d.path, private, writersFolder, d.writer), d.writer, files.TryExclusive)
		if err != nil {
			return err
		}
		d.own = own
		return d.readManifest()
	})
}

// exclusively runs f while no other writer publishes: in a shared directory under the publish lock, for which it waits.
func (d *dir) exclusively(f func() error) error {
	if !d.shared {
		return f()
	}
	lock, err := d.files.Lock(filepath.Join(d.path, private, publishFile), d.writer, files.Exclusive)
	if err != nil {
		return err
	}
	return errors.Join(f(), lock.Close())
}

// cleanDead removes the temporary files of writers that have ended without removing them.
func (d *dir) cleanDead() error {
	dead := map[string]bool{}
	folder := filepath.Join(d.path, private, writersFolder)
	err := d.files.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		lock, err := d.files.Lock(path, d.writer, files.TryExclusive)
		if errors.Is(err, fault.ErrConfig) {
			return nil //nolint:nilerr // the writer lives
		}
		if err != nil {
			return err
		}
		dead[e.Name()] = true
		return lock.Close()
	})
	if err != nil || len(dead) == 0 {
		return err
	}
	err = d.files.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Type().IsRegular() && unfinished.MatchString(e.Name()) && dead[writerOf(e.Name())] {
			return d.files.Remove(path)
		}
		return nil
	})
	for writer := range dead {
		err = errors.Join(err, d.files.Remove(filepath.Join(folder, writer)))
	}
	return err
}

// writerOf returns the writer of a temporary file: <item>.tmp-<writer>-<attempt>.
func writerOf(name string) string {
	_, rest, _ := strings.Cut(name, ".tmp-")
	return rest[:max(0, strings.LastIndexByte(rest, '-'))]
}

// releaseWriter removes the lock file of this writer in a shared directory, and releases the lock.
func (d *dir) releaseWriter() error {
	if d.own == nil {
		return nil
	}
	err := d.files.Remove(filepath.Join(d.path, private, writersFolder, d.writer))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.own.Close())
}

// acquire opens the file at path and locks it. An exclusive lock writes the name of its holder into the file.
func acquire(path, holder string, how files.Locking) (io.Closer, error) {
	f, err := files.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	if err := files.Lock(f, how); errors.Is(err, files.ErrLocked) {
		by, _ := os.ReadFile(path)
		if len(by) == 0 {
			by = []byte("another process")
		}
		f.Close()
		return nil, fmt.Errorf("%s is locked by %s: %w", filepath.Dir(filepath.Dir(path)), strings.TrimSpace(string(by)), fault.ErrConfig)
	} else if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w: %w", path, err, fault.ErrConfig), f.Close())
	}
	if how == files.TryExclusive {
		if err := sign(f, holder); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", err, fault.ErrConfig), f.Close())
		}
	}
	return f, nil
}
