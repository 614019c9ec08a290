package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// File takes the documents of one work item. Documents of the item's own index go to
// DIR/<index>/<shard>-<cursor>.ndjson; a document of another index (mapping types that were split into
// indices of their own) goes to the file of the same name in that index's folder. All are finished together.
type File struct {
	dir     *Dir
	index   string
	name    string       // <shard>-<cursor>
	attempt int64        // unique in the Dir
	may     func() error // see Dir.Create

	mu    sync.Mutex
	own   []byte           // prefix of the action lines of the item's own index
	parts map[string]*part // by index
	err   error            // of a write, after which the content of the files is unknown
	done  bool
}

// ErrSuperseded means that a later attempt at the same item has started, which will publish its files.
var ErrSuperseded = errors.New("a later attempt at the item has started")

// Create starts an attempt to write the files of an item; the first document creates the first of them. After Create, an earlier File
// of the item no longer publishes. In a shared directory, Commit calls may, which returns an error if this process no longer holds
// the item.
func (d *Dir) Create(index string, shard int, cursor int64, may func() error) (*File, error) {
	if shard < 0 || cursor < 0 {
		return nil, fmt.Errorf("item of shard %d and cursor %d", shard, cursor)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.exclusively(d.resume); err != nil {
		return nil, err
	}
	d.attempts++
	f := &File{dir: d, index: index, name: fmt.Sprintf("%d-%d", shard, cursor), attempt: d.attempts, may: may, parts: map[string]*part{}}
	d.current[f.item()] = f
	return f, nil
}

// item returns the key of the work item in Dir.current.
func (f *File) item() string { return f.name + " " + f.index }

// forget removes an attempt that has ended from the attempts in progress.
func (d *Dir) forget(f *File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current[f.item()] == f {
		delete(d.current, f.item())
	}
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
	if err := f.split(body); err != nil {
		f.err = fmt.Errorf("export index %s: %w", f.index, err)
		return bulk.Result{}, f.err
	}
	return bulk.Result{}, nil
}

// split writes each run of documents of one index to that index's file.
func (f *File) split(body []byte) error {
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
			if err := f.write(run, body[from:at], documents); err != nil {
				return err
			}
			from, run, documents = at, index, 0
		}
		at += action + source
		documents++
	}
	return f.write(run, body[from:], documents)
}

// indexOf returns the index in an action line.
func (f *File) indexOf(line []byte) (string, error) {
	if f.own != nil && bytes.HasPrefix(line, f.own) {
		return f.index, nil
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
	if a.Index.Index == f.index {
		if i := bytes.Index(line, []byte(`","`)); i >= 0 { // quotes within a name are escaped
			f.own = bytes.Clone(line[:i+3])
		}
	}
	return a.Index.Index, nil
}

func (f *File) write(index string, b []byte, documents int64) error {
	if len(b) == 0 {
		return nil
	}
	p := f.parts[index]
	if p == nil {
		var err error
		if p, err = f.dir.createPart(index, f.name, f.attempt); err != nil {
			return err
		}
		f.parts[index] = p
	}
	return p.write(b, documents)
}

// Commit flushes, syncs and renames the files, and syncs their folders. It removes the files that an
// earlier run of the same item left elsewhere, so that no document is duplicated if the item was
// handed off earlier this time. Commit may be repeated, also by a later run of the item after a crash.
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
	if err := f.commit(); err != nil {
		return fmt.Errorf("export index %s, %s: %w", f.index, f.name, err)
	}
	f.done = true
	f.dir.forget(f)
	return nil
}

func (f *File) commit() error {
	for _, p := range f.parts {
		if err := p.finish(); err != nil {
			return err
		}
	}
	f.dir.mu.Lock()
	defer f.dir.mu.Unlock()
	if f.dir.current[f.item()] != f {
		return ErrSuperseded
	}
	return f.dir.exclusively(f.publish)
}

// publish records the item's files and renames them to their final names. In a shared directory the caller holds the publish lock,
// so that the next holder of the item publishes after this one; a writer that lost the item publishes nothing.
func (f *File) publish() error {
	if f.dir.shared {
		if err := f.may(); err != nil {
			return err
		}
	}
	former, err := f.note()
	if err != nil {
		return err
	}
	for _, p := range f.parts {
		if err := p.publish(); err != nil {
			return err
		}
	}
	for _, index := range former {
		if err := f.dir.removeOthers(index, f.name, f.parts[index]); err != nil {
			return err
		}
	}
	return nil
}

// note records the files of an item in DIR/.rfsd before they appear under their final names. It
// returns all indices whose folders may contain files of this or an earlier run of the item.
func (f *File) note() ([]string, error) {
	path := filepath.Join(f.dir.path, private, "items", filepath.FromSlash(EncodeName(f.index)), f.name+".json")
	n, err := f.dir.readNote(path)
	if err != nil {
		return nil, err
	}
	indices := append(n.Former, f.index)
	for _, e := range n.Files {
		indices = append(indices, e.Index)
	}
	slices.Sort(indices)
	indices = slices.Compact(indices)
	if len(f.parts) == 0 && len(n.Files) == 0 {
		return indices, nil
	}
	n = note{Files: []noted{}, Former: indices}
	for _, index := range slices.Sorted(maps.Keys(f.parts)) {
		n.Files = append(n.Files, noted{Entry: f.parts[index].entry(), Index: index})
	}
	b, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	if err := f.dir.makeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return indices, replace(f.dir.files, path, b)
}

// replace durably writes a small file in an existing folder. After a crash the file has the old or the new content.
func replace(files Files, path string, b []byte) error {
	tmp := path + ".new"
	t, err := files.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = t.Write(b); err == nil {
		err = t.Sync()
	}
	if err = errors.Join(err, t.Close()); err != nil {
		return err
	}
	if err := files.Rename(tmp, path); err != nil {
		return err
	}
	return files.SyncDir(filepath.Dir(path))
}

// Abort discards an uncommitted File.
func (f *File) Abort() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for _, p := range f.parts {
		err = errors.Join(err, p.remove())
	}
	f.parts = map[string]*part{}
	f.done = true
	f.dir.forget(f)
	return err
}
