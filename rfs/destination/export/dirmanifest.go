package export

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// readManifest reads the manifest of the directory. For a new export it writes one durably, before any document is exported.
func (d *dir) readManifest() error {
	b, err := d.files.ReadFile(filepath.Join(d.path, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return d.writeManifest(newManifest(rand.Text()))
	}
	if err == nil {
		d.manifest, err = ParseManifest(b)
	}
	return err
}

func (d *dir) writeManifest(m Manifest) error {
	b, err := m.encode()
	if err != nil {
		return err
	}
	if err := replace(d.files, filepath.Join(d.path, ManifestName), b); err != nil {
		return err
	}
	d.manifest = m
	return nil
}

// published returns the finished files on disk, described by the records of their items. strict requires that records and
// files agree; they differ for an item that failed between the two.
func (d *dir) published(_ context.Context, strict bool) ([]Entry, error) {
	there := map[string]int64{}
	noted := map[string]Entry{}
	records := filepath.Join(d.path, filepath.FromSlash(notes))
	err := d.files.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			return nil
		}
		if strings.HasPrefix(path, records+string(filepath.Separator)) {
			if !strings.HasSuffix(path, noteExtension) {
				return nil
			}
			n, err := d.readNote(path)
			for _, e := range n.Files {
				noted[e.Name] = e.Entry
			}
			return err
		}
		rel, err := filepath.Rel(d.path, path)
		if err != nil {
			return err
		}
		if rel = filepath.ToSlash(rel); !finished(rel) {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		there[rel] = info.Size()
		return nil
	})
	if err != nil {
		return nil, err
	}
	files := make([]Entry, 0, len(there))
	for name, size := range there {
		e, ok := noted[name]
		if !ok || !strict && e.Bytes != size {
			e = Entry{Name: name, Bytes: size}
		}
		if e.Bytes != size {
			return nil, fmt.Errorf("%s has %d bytes, %d were written; export into another directory: %w", name, size, e.Bytes, fault.ErrCorrupt)
		}
		delete(noted, name)
		files = append(files, e)
	}
	for name := range noted {
		if !strict {
			break
		}
		return nil, fmt.Errorf("%s is missing; export into another directory: %w", name, fault.ErrCorrupt)
	}
	slices.SortFunc(files, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return files, nil
}

// readNote returns the record in a file, or the zero value if the file does not exist.
func (d *dir) readNote(path string) (note, error) {
	b, err := d.files.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return note{}, nil
	}
	if err != nil {
		return note{}, err
	}
	return parseNote(path, b)
}
