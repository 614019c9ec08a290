// Package files creates and replaces files. It follows no links, neither at the last element of a path nor at a directory that another user
// could have created, and writes a replacement under a random name first.
//
// Root also writes into directories of other users, such as a service's. There it opens only files that belong to the directory's owner or
// to root and have one name, and gives created files to the directory's owner: no user gains the rights of root, or loses access. A
// world-writable directory without the sticky bit is refused, and so is a directory of root that a group can write.
package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// folder is an opened directory.
type folder struct {
	*os.Root

	path  string
	owner owner // of the directory
}

// open opens the directory of a path.
func open(path string) (*folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	root, err := enter(path)
	if err != nil {
		return nil, err
	}
	f := &folder{Root: root, path: path}
	info, err := root.Stat(".")
	if err == nil {
		f.owner, err = mayWrite(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

// maxLinks limits the links in a path.
const maxLinks = 40

// enter opens a directory. A process running as root follows links only where no other user could have created them.
func enter(path string) (*os.Root, error) {
	if !isRoot() {
		return os.OpenRoot(path)
	}
	volume := filepath.VolumeName(path) + string(filepath.Separator)
	at, err := os.OpenRoot(volume)
	rest := parts(path[len(volume)-1:])
	for links := 0; err == nil && len(rest) > 0; {
		var link string
		if at, link, err = step(at, rest[0]); err != nil {
			break
		}
		if rest = rest[1:]; link == "" {
			continue
		}
		if links++; links > maxLinks {
			err = fmt.Errorf("%s: more than %d links: %w", path, maxLinks, fault.ErrConfig)
			break
		}
		rest = append(parts(link), rest...)
		err = at.Close()
		if err == nil {
			at, err = os.OpenRoot(volume)
		}
	}
	if err != nil {
		if at != nil {
			err = errors.Join(err, at.Close())
		}
		return nil, err
	}
	return at, nil
}

// step opens a directory in at and closes at. For a link it returns at and the absolute target of the link.
func step(at *os.Root, name string) (next *os.Root, link string, err error) {
	info, err := at.Lstat(name)
	if err != nil {
		return at, "", whole(at, err)
	}
	path := filepath.Join(at.Name(), name)
	if info.Mode()&fs.ModeSymlink == 0 {
		if next, err = at.OpenRoot(name); err != nil {
			return at, "", whole(at, err)
		}
		is, err := next.Stat(".")
		return next, "", errors.Join(unchanged(path, info, is, err), at.Close())
	}
	dir, err := at.Stat(".")
	if err != nil {
		return at, "", err
	}
	if !trusted(dir) {
		return at, "", fmt.Errorf("%s is a link that another user may have made: root does not follow it; give the path where it leads: %w", path, fault.ErrConfig)
	}
	if link, err = at.Readlink(name); err != nil {
		return at, "", whole(at, err)
	}
	if !filepath.IsAbs(link) {
		link = filepath.Join(at.Name(), link)
	}
	return at, link, nil
}

// unchanged returns an error unless a file is the same before and after it was opened. err is the error of the second stat.
func unchanged(path string, was, is fs.FileInfo, err error) error {
	if err == nil && !os.SameFile(was, is) {
		return fmt.Errorf("%s was replaced while it was opened: %w", path, fault.ErrConfig)
	}
	return err
}

// whole returns an error of a Root with the complete path.
func whole(at *os.Root, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		return &fs.PathError{Op: of.Op, Path: filepath.Join(at.Name(), of.Path), Err: of.Err}
	}
	return err
}

func parts(path string) []string {
	return strings.FieldsFunc(filepath.Clean(path), func(r rune) bool { return r == filepath.Separator })
}

// OpenFile opens a file like os.OpenFile, but follows no link. An existing file has to be a regular one.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	dir, err := open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	f, err := dir.openFile(filepath.Base(path), flag, perm)
	return f, errors.Join(err, dir.Close())
}

// tries limits the attempts to open a file that other processes create and remove concurrently.
const tries = 100

func (d *folder) openFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	for range tries {
		f, err := d.existing(name, flag)
		if flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if f, err = d.create(name, flag, perm, d.owner); !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s is created and removed all the time: %w", filepath.Join(d.path, name), fault.ErrUnavailable)
}

// create adds a file that belongs to an owner.
func (d *folder) create(name string, flag int, perm fs.FileMode, to owner) (*os.File, error) {
	f, err := d.Root.OpenFile(name, flag|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, d.named(err)
	}
	if err := to.give(f); err != nil {
		return nil, errors.Join(d.named(err), f.Close(), d.Remove(name))
	}
	return f, nil
}

// existing opens an existing file.
func (d *folder) existing(name string, flag int) (*os.File, error) {
	was, err := d.Lstat(name)
	if err != nil {
		return nil, d.named(err)
	}
	path := filepath.Join(d.path, name)
	if flag&os.O_EXCL != 0 && flag&os.O_CREATE != 0 {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	if !was.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file, and links are not followed: %w", path, fault.ErrConfig)
	}
	if err := d.owner.mayOpen(path, was); err != nil {
		return nil, err
	}
	f, err := d.Root.OpenFile(name, flag&^(os.O_CREATE|os.O_TRUNC), 0)
	if err != nil {
		return nil, d.named(err)
	}
	is, err := f.Stat()
	err = unchanged(path, was, is, err)
	if err == nil && flag&os.O_TRUNC != 0 {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// named returns an error of the folder with the complete path.
func (d *folder) named(err error) error {
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return &os.LinkError{Op: link.Op, Old: filepath.Join(d.path, link.Old), New: filepath.Join(d.path, link.New), Err: link.Err}
	}
	return whole(d.Root, err)
}

// MkdirAll creates a directory and its missing parents, durably.
func MkdirAll(path string, perm fs.FileMode) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: errors.New("it is not a directory")}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(path)
	if err := MkdirAll(above, perm); err != nil {
		return err
	}
	dir, err := open(above)
	if err != nil {
		return err
	}
	return errors.Join(dir.mkdir(filepath.Base(path), perm), dir.Close())
}

func (d *folder) mkdir(name string, perm fs.FileMode) error {
	err := d.Mkdir(name, perm)
	if errors.Is(err, fs.ErrExist) { // another process has created it, or another file exists, which is noticed later
		return nil
	}
	if err != nil {
		return d.named(err)
	}
	if err := d.owner.giveName(d.Root, name); err != nil {
		return errors.Join(d.named(err), d.Remove(name))
	}
	return d.sync()
}

func (d *folder) sync() error {
	f, err := d.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(syncNames(f), f.Close())
}

// SyncDir makes the names in a directory durable.
func SyncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(syncNames(f), f.Close())
}

// Rename renames a file within its directory, replacing an existing file of that name.
func Rename(from, to string) error {
	if filepath.Dir(from) != filepath.Dir(to) {
		return fmt.Errorf("rename %s to %s: another directory: %w", from, to, fault.ErrConfig)
	}
	dir, err := open(filepath.Dir(from))
	if err != nil {
		return err
	}
	return errors.Join(dir.named(dir.Root.Rename(filepath.Base(from), filepath.Base(to))), dir.Close())
}

// Remove removes a file, durably. For a link it removes the link.
func Remove(path string) error {
	dir, err := open(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err = dir.named(dir.Root.Remove(filepath.Base(path))); err == nil {
		err = dir.sync()
	}
	return errors.Join(err, dir.Close())
}

// RemoveDrafts removes the drafts of a file that killed processes left. The caller ensures that no other process has one.
func RemoveDrafts(path string) error {
	dir, err := open(filepath.Dir(path))
	if err != nil {
		return err
	}
	entries, err := fs.ReadDir(dir.FS(), ".")
	prefix := "." + filepath.Base(path) + "."
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), prefix); ok && len(rest) == len(rand.Text()) && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "" {
			err = errors.Join(err, dir.named(dir.Root.Remove(e.Name())))
		}
	}
	return errors.Join(err, dir.Close())
}

// Draft is the replacement of a file, written before it takes effect.
type Draft struct {
	*os.File

	dir  *folder
	name string // of the file
	temp string
}

// NewDraft returns an empty draft of a file in the file's directory, under a random name that starts with a dot.
func NewDraft(path string, perm fs.FileMode) (*Draft, error) {
	dir, err := open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	d := &Draft{dir: dir, name: filepath.Base(path)}
	d.temp = "." + d.name + "." + rand.Text()
	to := dir.owner
	was, err := dir.Lstat(d.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && !was.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file, and links are not replaced: %w", path, fault.ErrConfig)
	case err == nil:
		err, to = dir.owner.mayOpen(path, was), dir.owner.of(was)
	default:
		err = dir.named(err)
	}
	if err == nil {
		d.File, err = dir.create(d.temp, os.O_RDWR, perm, to)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return d, nil
}

// Commit replaces the file, durably. The draft is closed even after an error.
func (d *Draft) Commit() error {
	err := errors.Join(d.Sync(), d.File.Close())
	if err == nil {
		err = d.dir.named(d.dir.Root.Rename(d.temp, d.name))
	}
	if err != nil {
		return errors.Join(err, d.dir.Remove(d.temp), d.dir.Close())
	}
	return errors.Join(d.dir.sync(), d.dir.Close())
}

// Drop removes the draft. After Commit it does nothing.
func (d *Draft) Drop() error {
	err := d.File.Close()
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return errors.Join(err, d.dir.Remove(d.temp), d.dir.Close())
}

// Replace writes a file in place of an existing one, durably: after a crash the path has either the old or the new content.
func Replace(path string, perm fs.FileMode, write func(w io.Writer) error) error {
	d, err := NewDraft(path, perm)
	if err != nil {
		return err
	}
	if err := write(d); err != nil {
		return errors.Join(err, d.Drop())
	}
	return d.Commit()
}
