package verify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxKept bounds a file of a Folder, in bytes: all buckets of an index and its name take less.
const maxKept = 16 << 20

// Folder is a Store: a directory of one comparison, one file for each unit.
type Folder struct{ Dir string }

// Load returns what was saved under a key; nil when there is nothing that can be read.
func (f Folder) Load(key string) []byte {
	file, err := os.Open(filepath.Join(f.Dir, key))
	if err != nil {
		return nil
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxKept))
	if err != nil {
		return nil
	}
	return b
}

// Save writes a file beside its place and moves it there, so that a crash leaves a whole file or none.
func (f Folder) Save(key string, b []byte) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("directory of the comparison: %w", err)
	}
	file, err := os.CreateTemp(f.Dir, ".tmp-*")
	if err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	_, err = file.Write(b)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(f.Dir, key))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep: %w", err), os.Remove(file.Name()))
	}
	return nil
}

// Remove removes the directory.
func (f Folder) Remove() error { return os.RemoveAll(f.Dir) }
