package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Recorded is a Storage with individual records of failed documents, such as a control index. Redrive.Arrived removes the records of
// documents that arrived.
type Recorded struct {
	Name string
	// List yields all records. Failures have no source.
	List func(ctx context.Context) iter.Seq2[Record, error]
	// Note stores the reasons of documents that failed again. They are durable when Note returns.
	Note func(ctx context.Context, failures []doc.Failure) error
	// Drafts is the directory for a copy of the list during the run; "": the directory for temporary files.
	Drafts string
}

// Record is a failed document without its source.
type Record struct {
	Failure doc.Failure
	Class   string
}

// noter is an Edit that stores each document that failed again.
type noter interface {
	note(ctx context.Context, failures []doc.Failure) error
}

// Names returns the name of the Storage.
func (r Recorded) Names(context.Context) ([]string, error) { return []string{r.Name}, nil }

// Edit returns an Edit of the list.
func (r Recorded) Edit(context.Context, string) (Edit, error) { return &recordedEdit{from: r}, nil }

// recordedEdit keeps a copy of the list in an unnamed temporary file, so that it does not change.
type recordedEdit struct {
	from Recorded
	list *os.File // nil before it was read
	size int64
}

func (e *recordedEdit) Open(ctx context.Context) (io.ReadCloser, error) {
	if e.list == nil {
		if err := e.read(ctx); err != nil {
			return nil, err
		}
	}
	return io.NopCloser(io.NewSectionReader(e.list, 0, e.size)), nil
}

// read copies the list to the temporary file.
func (e *recordedEdit) read(ctx context.Context) error {
	f, err := unnamed(e.from.Drafts)
	if err != nil {
		return fmt.Errorf("keep the list of failed documents in %s: %w", e.from.Name, err)
	}
	var buf []byte
	for r, lerr := range e.from.List(ctx) {
		if err = lerr; err != nil {
			break
		}
		buf = failed.AppendRecord(buf[:0], &r.Failure, r.Class)
		var n int
		n, err = f.Write(buf)
		if e.size += int64(n); err != nil {
			break
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	e.list = f
	return nil
}

func (e *recordedEdit) note(ctx context.Context, failures []doc.Failure) error {
	return e.from.Note(ctx, failures)
}

// Write does nothing: documents that stay are still recorded.
func (e *recordedEdit) Write(p []byte) (int, error) { return len(p), nil }

// Commit does nothing: Redrive.Arrived has removed the records of documents that arrived.
func (e *recordedEdit) Commit(context.Context) error { return nil }

func (e *recordedEdit) Close() error {
	if e.list == nil {
		return nil
	}
	return e.list.Close()
}

// unnamed creates a file in a directory ("": the directory for temporary files) that is deleted when it is closed.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "rfsd-redrive-")
	if err != nil {
		return nil, fmt.Errorf("%w; TMPDIR names another directory: %w", err, fault.ErrConfig)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
