// Package export writes documents to files instead of a cluster: bulk bodies as they
// would be sent, in a folder per index and a file per work item.
package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// Compression of export files: a method, or a method with a level ("zstd:3").
type Compression string

// The compression methods, with the extension that each adds to .ndjson.
const (
	None Compression = "none" // no extension
	Gzip Compression = "gzip" // .gz
	Zstd Compression = "zstd" // .zst
)

// extensions of all finished files of an item.
var extensions = [...]string{".ndjson", ".ndjson.gz", ".ndjson.zst"}

// Method returns the compression without its level. It determines the extension of files.
func (c Compression) Method() Compression {
	method, _, _ := strings.Cut(string(c), ":")
	if method == "" {
		return None
	}
	return Compression(method)
}

// level returns the requested level, from 1 to highest, or 0 for the default.
func (c Compression) level(highest int) (int, error) {
	_, level, given := strings.Cut(string(c), ":")
	if !given {
		return 0, nil
	}
	n, err := strconv.Atoi(level)
	if err != nil || n < 1 || n > highest {
		return 0, fmt.Errorf("want a level from 1 to %d after %s: %w", highest, c.Method(), fault.ErrConfig)
	}
	return n, nil
}

// The highest levels.
const (
	maxGzip = 9
	maxZstd = 22
)

// parse returns the file extension and the requested level, or an error for an unknown compression.
func (c Compression) parse() (extension string, level int, err error) {
	switch c.Method() {
	case None:
		level, err = c.level(0)
		return extensions[0], level, err
	case Gzip:
		level, err = c.level(maxGzip)
		return extensions[1], level, err
	case Zstd:
		level, err = c.level(maxZstd)
		return extensions[2], level, err
	}
	return "", 0, fmt.Errorf("want none, gzip or zstd, or gzip:LEVEL or zstd:LEVEL: %w", fault.ErrConfig)
}

// Check returns a fault.ErrConfig error if c is invalid.
func (c Compression) Check() error {
	_, _, err := c.parse()
	return err
}

// private is the folder of rfsd itself in an export directory: locks, coordination store, records of items.
const private = ".rfsd"

// unfinished matches the temporary files of items.
var unfinished = regexp.MustCompile(`^[0-9]+-[0-9]+\.ndjson(\.gz|\.zst)?\.tmp-`)

// Dir is an export directory that this process writes to, alone or, if it is shared, together with others. Create may be
// called concurrently.
type Dir struct {
	path, writer string
	method       Compression // without its level
	level        int         // 0: the default
	extension    string
	files        Files
	lock         io.Closer
	shared       bool
	own          io.Closer // lock of this writer in a shared directory

	mu        sync.Mutex       // also held while the files of an attempt are renamed
	attempts  int64            // how often Create was called
	current   map[string]*File // the latest attempt of each item in progress, by item
	manifest  Manifest         // as it is on disk; its ID never changes
	accounted bool             // the manifest lists the current files
}

// Open creates dir (0700) if it is missing, locks it against a second writer, and removes
// the temporary files of dead writers. A new export gets a manifest. Errors are fault.ErrConfig; if the directory is locked,
// the error names the holder.
func Open(dir, writer string, c Compression) (*Dir, error) { return OpenOn(system{}, dir, writer, c) }

// OpenOn does what Open does, on another file system.
func OpenOn(on Files, dir, writer string, c Compression) (*Dir, error) {
	return open(on, dir, writer, c, false)
}

func open(on Files, dir, writer string, c Compression, shared bool) (*Dir, error) {
	ext, level, err := c.parse()
	if err != nil {
		return nil, err
	}
	if writer != filepath.Base(writer) {
		return nil, fmt.Errorf("writer id %q is not a file name: %w", writer, fault.ErrConfig)
	}
	if err := makeDurable(on, dir); err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	how := files.Alone
	if shared {
		how = files.Together
	}
	lock, err := on.Lock(filepath.Join(dir, private, "lock"), writer, how)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: dir, writer: writer, method: c.Method(), level: level, extension: ext, files: on, lock: lock, shared: shared, current: map[string]*File{}}
	if shared {
		if err := d.join(); err != nil {
			return nil, errors.Join(fmt.Errorf("export directory %s: %w: %w", dir, err, fault.ErrConfig), d.Close())
		}
		return d, nil
	}
	if err := d.clean(); err != nil {
		return nil, errors.Join(fmt.Errorf("remove unfinished files: %w: %w", err, fault.ErrConfig), d.Close())
	}
	if err := d.readManifest(); err != nil {
		return nil, errors.Join(fmt.Errorf("export directory %s: %w: %w", dir, err, fault.ErrConfig), d.Close())
	}
	return d, nil
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
func (d *Dir) clean() error {
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
func (d *Dir) Close() error { return errors.Join(d.releaseWriter(), d.lock.Close()) }

// folder returns the path of an index's folder.
func (d *Dir) folder(index string) string {
	return filepath.Join(d.path, filepath.FromSlash(EncodeName(index)))
}
