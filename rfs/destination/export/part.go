package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// attempt is the output of an attempt at an item to a directory.
type attempt struct {
	dir    *dir
	item   item
	number int64            // unique in the dir
	may    func() error     // see Export.Create
	parts  map[string]*part // by index
}

func (a *attempt) write(_ context.Context, index string, b []byte, documents int64) error {
	p := a.parts[index]
	if p == nil {
		var err error
		if p, err = a.dir.createPart(index, a.item.name, a.number); err != nil {
			return err
		}
		a.parts[index] = p
	}
	return p.write(b, documents)
}

// finish makes the content durable under temporary names.
func (a *attempt) finish(context.Context) error {
	for _, p := range a.parts {
		if err := p.finish(); err != nil {
			return err
		}
	}
	return nil
}

// publish records the item's files, renames them to their final names, syncs their folders, and removes the files that earlier attempts left
// elsewhere. In a shared directory it holds the publish lock, so that the next holder of the item publishes after this one; a writer that
// lost the item publishes nothing.
func (a *attempt) publish(context.Context) error {
	return a.dir.exclusively(func() error {
		if a.dir.shared {
			if err := a.may(); err != nil {
				return err
			}
		}
		former, err := a.note()
		if err != nil {
			return err
		}
		for _, p := range a.parts {
			if err := p.publish(); err != nil {
				return err
			}
		}
		for _, index := range former {
			if err := a.dir.removeOthers(index, a.item.name, a.parts[index]); err != nil {
				return err
			}
		}
		return nil
	})
}

// note records the files of an item in DIR/.rfsd before they appear under their final names. It
// returns all indices whose folders may contain files of this or an earlier run of the item.
func (a *attempt) note() ([]string, error) {
	path := filepath.Join(a.dir.path, filepath.FromSlash(noteName(a.item)))
	n, err := a.dir.readNote(path)
	if err != nil {
		return nil, err
	}
	indices := append(n.Former, a.item.index)
	for _, e := range n.Files {
		indices = append(indices, e.Index)
	}
	slices.Sort(indices)
	indices = slices.Compact(indices)
	if len(a.parts) == 0 && len(n.Files) == 0 {
		return indices, nil
	}
	n = note{Files: []noted{}, Former: indices}
	for _, index := range slices.Sorted(maps.Keys(a.parts)) {
		n.Files = append(n.Files, noted{Entry: a.parts[index].entry(a.parts[index].name), Index: index})
	}
	b, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	if err := a.dir.makeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return indices, replace(a.dir.files, path, b)
}

// remove removes the temporary files of an attempt that is not published.
func (a *attempt) remove() error {
	var err error
	for _, p := range a.parts {
		err = errors.Join(err, p.remove())
	}
	a.parts = map[string]*part{}
	return err
}

// part is the file of one item in one index's folder, under its temporary name until it is published.
type part struct {
	*encoder
	files      Files
	name       string // slash-separated, below the export directory
	tmp, final string
	published  bool
}

// makeFolder creates a folder below the export directory, and syncs its parents.
func (d *dir) makeFolder(folder string) error {
	if err := d.files.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for dir := filepath.Dir(folder); ; dir = filepath.Dir(dir) {
		if err := d.files.SyncDir(dir); err != nil {
			return err
		}
		if len(dir) <= len(d.path) {
			return nil
		}
	}
}

// createPart creates the temporary file of a part.
func (d *dir) createPart(index, name string, attempt int64) (*part, error) {
	folder := d.folder(index)
	if err := d.makeFolder(folder); err != nil {
		return nil, err
	}
	p := &part{files: d.files, name: path.Join(EncodeName(index), name+d.format.extension), final: filepath.Join(folder, name+d.format.extension)}
	p.tmp = fmt.Sprintf("%s.tmp-%s-%d", p.final, d.writer, attempt)
	f, err := d.files.OpenFile(p.tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if p.encoder, err = newEncoder(f, d.format, f.Sync, f.Close); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// publish durably renames the file to its final name.
func (p *part) publish() error {
	if !p.published {
		if err := p.files.Rename(p.tmp, p.final); err != nil {
			return err
		}
		p.published = true
	}
	return p.files.SyncDir(filepath.Dir(p.final))
}

// remove removes the temporary file of a part that is not published.
func (p *part) remove() error {
	if p.published {
		return nil
	}
	p.abandon()
	if n := len(p.closers); n > 0 {
		// Close only the file, without flushing the buffers.
		p.closers[n-1]() //nolint:errcheck // the file is removed anyway
	}
	if err := p.files.Remove(p.tmp); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeOthers removes the finished files of an item in an index's folder, except the one just published.
func (d *dir) removeOthers(index, name string, keep *part) error {
	folder := d.folder(index)
	removed := false
	for _, ext := range extensions {
		path := filepath.Join(folder, name+ext)
		if keep != nil && keep.final == path {
			continue
		}
		err := d.files.Remove(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = removed || err == nil
	}
	if removed {
		return d.files.SyncDir(folder)
	}
	return nil
}
