package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// unfinished matches the temporary files of items.
var unfinished = regexp.MustCompile(`^[0-9]+-[0-9]+\.ndjson(\.gz|\.zst)?\.tmp-`)

// dir is an export directory that this process writes to, alone or, if it is shared, together with others.
type dir struct {
	path, writer string
	format       format
	files        Files
	lock         io.Closer
	shared       bool
	own          io.Closer // lock of this writer in a shared directory
	attempts     int64     // how often start was called
	manifest     Manifest  // as it is on disk; its ID never changes
}

// Open creates dir (0700) if it is missing, locks it against a second writer, and removes
// the temporary files of dead writers. A new export gets a manifest. Errors are fault.ErrConfig; if the directory is locked,
// the error names the holder.
func Open(dir, writer string, c Compression) (*Export, error) {
	return OpenOn(system{}, dir, writer, c)
}

// OpenOn does what Open does, on another file system.
func OpenOn(on Files, dir, writer string, c Compression) (*Export, error) {
	return open(on, dir, writer, c, false)
}

func open(on Files, path, writer string, c Compression, shared bool) (*Export, error) {
	f, err := c.parse()
	if err != nil {
		return nil, err
	}
	if writer != filepath.Base(writer) {
		return nil, fmt.Errorf("writer id %q is not a file name: %w", writer, fault.ErrConfig)
	}
	if err := makeDurable(on, path); err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	how := files.TryExclusive
	if shared {
		how = files.TryShared
	}
	lock, err := on.Lock(filepath.Join(path, private, "lock"), writer, how)
	if err != nil {
		return nil, err
	}
	d := &dir{path: path, writer: writer, format: f, files: on, lock: lock, shared: shared}
	if err := d.enter(); err != nil {
		return nil, errors.Join(fmt.Errorf("export directory %s: %w: %w", path, err, fault.ErrConfig), d.Close())
	}
	x, err := newExport(context.Background(), d, !shared)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("export directory %s: %w: %w", path, err, fault.ErrConfig), d.Close())
	}
	return x, nil
}

// enter removes the files of dead writers and reads the manifest, or writes the first one.
func (d *dir) enter() error {
	if d.shared {
		return d.join()
	}
	if err := d.clean(); err != nil {
		return fmt.Errorf("remove unfinished files: %w", err)
	}
	return d.readManifest()
}

// makeDurable creates the folder of rfsd in an export directory, and syncs the directory and its parents, so that the
// contents survive a crash of the machine. Errors of higher parents are ignored: those existed before.
func makeDurable(files Files, dir string) error {
	if err := files.MkdirAll(filepath.Join(dir, private), 0o700); err != nil {
		return err
	}
	for at, above := dir, 0; ; at, above = filepath.Dir(at), above+1 {
		if err := files.SyncDir(at); err != nil && above < 2 && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// sign writes the name of the holder to a locked file.
func sign(f *os.File, holder string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text := fmt.Sprintf("%s, process %d on %s, since %s\n", holder, os.Getpid(), host, time.Now().UTC().Format(time.RFC3339))
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(text), 0)
	}
	return err
}

// clean removes all temporary files. Their writers are dead, since this process holds the lock.
func (d *dir) clean() error {
	return d.files.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Type().IsRegular() && unfinished.MatchString(e.Name()) {
			return d.files.Remove(path)
		}
		return nil
	})
}

// Close releases the locks of the directory.
func (d *dir) Close() error { return errors.Join(d.releaseWriter(), d.lock.Close()) }

// folder returns the path of an index's folder.
func (d *dir) folder(index string) string {
	return filepath.Join(d.path, filepath.FromSlash(EncodeName(index)))
}

// start starts an attempt; its files are created by the first documents.
func (d *dir) start(_ context.Context, it item, may func() error) (output, error) {
	d.attempts++
	return &attempt{dir: d, item: it, number: d.attempts, may: may, parts: map[string]*part{}}, nil
}

// change edits the manifest, in a shared directory under the publish lock.
func (d *dir) change(_ context.Context, edit func(m *Manifest) (bool, error)) error {
	return d.exclusively(func() error {
		if d.shared { // other writers may have changed it
			if err := d.readManifest(); err != nil {
				return err
			}
		}
		m := d.manifest
		changed, err := edit(&m)
		if err != nil || !changed {
			return err
		}
		return d.writeManifest(m)
	})
}
