package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// File takes the documents of one work item. Documents of the item's own index go to the folder
// of the index; a document of another index (mapping types that were split into
// indices of their own) goes to that index's folder. All are finished together.
type File struct {
	export *Export
	item   item
	out    output

	mu   sync.Mutex
	own  []byte // prefix of the action lines of the item's own index
	err  error  // of a write, after which the content of the files is unknown
	done bool
}

// Send appends a body. An error is final for the File, since part of
// the body may have been written.
func (f *File) Send(ctx context.Context, body []byte, _ int) (bulk.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return bulk.Result{}, ctx.Err()
	case f.err != nil:
		return bulk.Result{}, f.err
	case f.done:
		return bulk.Result{}, fs.ErrClosed
	}
	if err := f.split(ctx, body); err != nil {
		f.err = fmt.Errorf("export index %s: %w", f.item.index, err)
		return bulk.Result{}, f.err
	}
	return bulk.Result{}, nil
}

// split writes each run of documents of one index to that index's file.
func (f *File) split(ctx context.Context, body []byte) error {
	from, run, documents := 0, "", int64(0) // body[from:at], documents of the index run, is yet to be written
	for at := 0; at < len(body); {
		action := bytes.IndexByte(body[at:], '\n') + 1
		source := bytes.IndexByte(body[at+action:], '\n') + 1
		if source == 0 { // also if there was no action line
			return errors.New("body is not pairs of lines")
		}
		index, err := f.indexOf(body[at : at+action])
		if err != nil {
			return err
		}
		if index != run {
			if err := f.write(ctx, run, body[from:at], documents); err != nil {
				return err
			}
			from, run, documents = at, index, 0
		}
		at += action + source
		documents++
	}
	return f.write(ctx, run, body[from:], documents)
}

// indexOf returns the index in an action line.
func (f *File) indexOf(line []byte) (string, error) {
	if f.own != nil && bytes.HasPrefix(line, f.own) {
		return f.item.index, nil
	}
	var a struct {
		Index struct {
			Index string `json:"_index"`
		} `json:"index"`
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return "", fmt.Errorf("action line: %w", err)
	}
	if a.Index.Index == "" {
		return "", errors.New("action line names no index")
	}
	if a.Index.Index == f.item.index {
		if i := bytes.Index(line, []byte(`","`)); i >= 0 { // quotes within a name are escaped
			f.own = bytes.Clone(line[:i+3])
		}
	}
	return a.Index.Index, nil
}

func (f *File) write(ctx context.Context, index string, b []byte, documents int64) error {
	if len(b) == 0 {
		return nil
	}
	return f.out.write(ctx, index, b, documents)
}

// Commit makes the files durable and publishes them in place of the files that earlier attempts at the item published, so that no document
// is duplicated if the item was handed off earlier this time. Commit may be repeated, also by a later run of the item after a crash.
func (f *File) Commit(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.err != nil:
		return f.err
	case f.done:
		return nil
	}
	if err := f.commit(ctx); err != nil {
		return fmt.Errorf("export index %s, %s: %w", f.item.index, f.item.name, err)
	}
	f.done = true
	f.export.forget(f)
	return nil
}

func (f *File) commit(ctx context.Context) error {
	if err := f.out.finish(ctx); err != nil {
		return err
	}
	f.export.mu.Lock()
	defer f.export.mu.Unlock()
	if f.export.current[f.item] != f {
		return ErrSuperseded
	}
	return f.out.publish(ctx)
}

// Abort discards an uncommitted File.
func (f *File) Abort() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = true
	f.export.forget(f)
	return f.out.remove()
}
