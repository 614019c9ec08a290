package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

const extension = ".ndjson"

// Storage holds files of failed documents.
type Storage interface {
	// Names returns the names of the files, sorted.
	Names(ctx context.Context) ([]string, error)
	// Edit opens a file for editing. It returns failed.ErrInUse while a process writes the file.
	Edit(ctx context.Context, name string) (Edit, error)
}

// Edit is a file that is read and then replaced as a whole.
type Edit interface {
	// Open returns the content of the file from its start.
	Open(ctx context.Context) (io.ReadCloser, error)
	// Write appends to the new content.
	io.Writer
	// Commit replaces the file by the new content, atomically and durably. Without new content it removes the file; an object
	// becomes empty.
	Commit(ctx context.Context) error
	// Close ends the edit and drops uncommitted content.
	Close() error
}

// Folder is a directory of failed documents, with its subdirectories.
type Folder string

// Names returns the paths of the files below the folder; none if it does not exist.
func (d Folder) Names(ctx context.Context) ([]string, error) {
	var names []string
	err := filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // the folder is missing, or a directory was removed meanwhile
			return nil
		case err != nil:
			return err
		case e.Type().IsRegular() && strings.HasSuffix(path, extension) && !strings.HasPrefix(e.Name(), "."):
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("failed documents: %w: %w", err, fault.ErrConfig)
	}
	slices.Sort(names)
	return names, nil
}

// Edit opens and locks a file until Close.
func (d Folder) Edit(_ context.Context, name string) (Edit, error) {
	f, err := files.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if err = failed.Reserve(f); err == nil {
		err = files.RemoveDrafts(name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &fileEdit{file: f, name: name}, nil
}

type fileEdit struct {
	file *os.File
	name string
	out  *files.Draft // nil before the first write
}

func (e *fileEdit) Open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(e.file, 0, math.MaxInt64)), nil
}

func (e *fileEdit) Write(p []byte) (int, error) {
	if e.out == nil {
		var err error
		if e.out, err = files.NewDraft(e.name, 0o600); err != nil {
			return 0, err
		}
	}
	return e.out.Write(p)
}

// Commit replaces the file by the draft, or removes the file.
func (e *fileEdit) Commit(context.Context) error {
	if e.out == nil {
		return files.Remove(e.name)
	}
	return e.out.Commit()
}

// Close drops the draft and unlocks the file.
func (e *fileEdit) Close() error {
	var err error
	if e.out != nil {
		err = e.out.Drop()
	}
	return errors.Join(err, e.file.Close())
}

// Bucket reads objects.
type Bucket interface {
	Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
	List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error]
	URI() string
}

// Objects are the failed documents of a session in a bucket.
type Objects struct {
	Read Bucket
	// Put stores an object of size bytes, and replaces an object of the same name.
	Put     func(ctx context.Context, name string, body io.ReadSeeker, size int64) error
	Session string
	// Drafts is the directory for new contents of objects until they are stored; "": the directory for temporary files.
	Drafts string
}

// maxObject is the maximum size of the new content of an object in bytes. rfsd writes objects of 4 MiB plus one document.
const maxObject = 1 << 30

// Names returns the names of the session's objects that are not empty.
func (o Objects) Names(ctx context.Context) ([]string, error) {
	var names []string
	for blob, err := range o.Read.List(ctx, o.Session+"/") {
		if err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", o.Read.URI(), err)
		}
		if strings.HasSuffix(blob.Name, extension) && blob.Size > 0 && !strings.HasPrefix(path.Base(blob.Name), ".") {
			names = append(names, blob.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Edit opens an object for editing. It needs no lock, since a running process only adds objects.
func (o Objects) Edit(_ context.Context, name string) (Edit, error) {
	return &objectEdit{objects: o, name: name}, nil
}

// objectEdit keeps the new content of an object in an unnamed temporary file.
type objectEdit struct {
	objects Objects
	name    string
	draft   *os.File // nil before the first write
	size    int64
}

func (e *objectEdit) Open(ctx context.Context) (io.ReadCloser, error) {
	return e.objects.Read.Open(ctx, e.name, 0, -1)
}

func (e *objectEdit) Write(p []byte) (int, error) {
	if e.draft == nil {
		f, err := unnamed(e.objects.Drafts)
		if err != nil {
			return 0, fmt.Errorf("keep failed documents until %s is replaced: %w", e.name, err)
		}
		e.draft = f
	}
	if e.size += int64(len(p)); e.size > maxObject {
		return 0, fmt.Errorf("%s: more than %d bytes of failed documents in one object: %w", e.name, maxObject, fault.ErrUnsupported)
	}
	return e.draft.Write(p)
}

func (e *objectEdit) Commit(ctx context.Context) error {
	if e.draft == nil {
		return e.objects.Put(ctx, e.name, strings.NewReader(""), 0)
	}
	return e.objects.Put(ctx, e.name, io.NewSectionReader(e.draft, 0, e.size), e.size)
}

func (e *objectEdit) Close() error {
	if e.draft == nil {
		return nil
	}
	return e.draft.Close()
}
