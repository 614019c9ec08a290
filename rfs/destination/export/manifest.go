package export

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

const (
	// ManifestName is the file of an export directory that describes the export.
	ManifestName = "rfsd-export.json"
	// MaxManifest is the maximum size of a manifest in bytes.
	MaxManifest = 512 << 20
	// manifestFormat is the version of the manifest format.
	manifestFormat = 1
)

// Manifest describes an export. It is written as incomplete when the export starts, and again when every item is
// done and all files are durable.
type Manifest struct {
	Format   int    `json:"rfsd_export"`
	ID       string `json:"id"` // of the directory; it never changes
	Complete bool   `json:"complete"`
	// Reason states why the export is incomplete; empty while it runs.
	Reason    string  `json:"reason,omitempty"`
	Documents int64   `json:"documents"`
	Bytes     int64   `json:"bytes"`
	Files     []Entry `json:"files"` // in order of their names
}

// Entry describes a finished file.
type Entry struct {
	Name  string `json:"name"` // slash-separated, below the export directory
	Bytes int64  `json:"bytes"`
	// Documents and SHA256 (hexadecimal, of the file as stored) are absent if the item has no record of the file.
	Documents int64  `json:"documents,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
}

var sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)

// ParseManifest parses a manifest. Errors are fault.ErrCorrupt, or fault.ErrUnsupported if a later rfsd wrote it.
func ParseManifest(b []byte) (Manifest, error) {
	var m Manifest
	if len(b) > MaxManifest {
		return m, fmt.Errorf("%s is longer than %d bytes: %w", ManifestName, MaxManifest, fault.ErrCorrupt)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s: %w: %w", ManifestName, err, fault.ErrCorrupt)
	}
	switch {
	case m.Format > manifestFormat:
		return m, fmt.Errorf("%s has format %d, this rfsd knows up to %d; use the rfsd that wrote it, or a later one: %w", ManifestName, m.Format, manifestFormat, fault.ErrUnsupported)
	case m.Format < 1 || m.ID == "":
		return m, fmt.Errorf("%s has no format or no id: %w", ManifestName, fault.ErrCorrupt)
	}
	for i, e := range m.Files {
		switch {
		case e.Name != path.Clean(e.Name) || !filepath.IsLocal(filepath.FromSlash(e.Name)),
			e.Bytes < 0 || e.Documents < 0, e.SHA256 != "" && !sha256Text.MatchString(e.SHA256):
			return m, fmt.Errorf("%s: entry %d (%q) is not a file: %w", ManifestName, i, e.Name, fault.ErrCorrupt)
		case i > 0 && m.Files[i-1].Name >= e.Name:
			return m, fmt.Errorf("%s: entry %d (%q) is out of order: %w", ManifestName, i, e.Name, fault.ErrCorrupt)
		}
	}
	return m, nil
}

// readManifest reads the manifest of the directory. For a new export it writes one durably, before any document is exported.
func (d *Dir) readManifest() error {
	b, err := d.files.ReadFile(filepath.Join(d.path, ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		d.manifest = Manifest{Format: manifestFormat, ID: rand.Text(), Files: []Entry{}}
		return d.writeManifest()
	}
	if err == nil {
		d.manifest, err = ParseManifest(b)
	}
	return err
}

func (d *Dir) writeManifest() error {
	b, err := json.MarshalIndent(d.manifest, "", " ")
	if err != nil {
		return err
	}
	return replace(d.files, filepath.Join(d.path, ManifestName), append(b, '\n'))
}

// ID returns the id of the export directory, which was generated when it was first opened.
func (d *Dir) ID() string { return d.manifest.ID }

// resume marks the export as incomplete before one of its files may change. d.mu is held.
func (d *Dir) resume() error {
	d.accounted = false
	if err := d.reloadManifest(); err != nil {
		return err
	}
	if !d.manifest.Complete && d.manifest.Reason == "" {
		return nil
	}
	before := d.manifest
	d.manifest = Manifest{Format: manifestFormat, ID: before.ID, Files: []Entry{}}
	if err := d.writeManifest(); err != nil {
		d.manifest = before
		return fmt.Errorf("mark the export as incomplete: %w", err)
	}
	return nil
}

// Finish writes the manifest of all finished files. missing is the reason why the export is incomplete
// although no work is left. If it is empty, the export is complete, and Finish returns fault.ErrCorrupt for a committed file that is
// missing or has another size. Finish may be repeated; it checks the files again if Create was called since.
func (d *Dir) Finish(missing string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shared && d.accounted && d.manifest.Reason == missing {
		return nil
	}
	return d.exclusively(func() error { return d.finish(missing) })
}

func (d *Dir) finish(missing string) error {
	if err := d.reloadManifest(); err != nil {
		return fmt.Errorf("finish export %s: %w", d.path, err)
	}
	m := Manifest{Format: manifestFormat, ID: d.manifest.ID, Complete: missing == "", Reason: missing}
	var err error
	if m.Files, err = d.account(m.Complete); err != nil {
		return fmt.Errorf("finish export %s: %w", d.path, err)
	}
	for _, e := range m.Files {
		m.Documents += e.Documents
		m.Bytes += e.Bytes
	}
	d.accounted = true
	if m.Complete == d.manifest.Complete && m.Reason == d.manifest.Reason && slices.Equal(m.Files, d.manifest.Files) {
		return nil
	}
	before := d.manifest
	d.manifest = m
	if err := d.writeManifest(); err != nil {
		d.manifest, d.accounted = before, false
		return fmt.Errorf("finish export %s: %w", d.path, err)
	}
	return nil
}

// account returns the finished files on disk, described by the records of their items. strict requires that records and
// files agree; they differ for an item that failed between the two.
func (d *Dir) account(strict bool) ([]Entry, error) {
	there := map[string]int64{}
	noted := map[string]Entry{}
	notes := filepath.Join(d.path, private, "items")
	err := d.files.WalkDir(d.path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			return nil
		}
		if strings.HasPrefix(path, notes+string(filepath.Separator)) {
			if !strings.HasSuffix(path, ".json") {
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

// finished reports whether a name below the directory is the name of a finished file.
func finished(name string) bool {
	if strings.HasPrefix(name, private+"/") {
		return false
	}
	return slices.ContainsFunc(extensions[:], func(ext string) bool { return strings.HasSuffix(name, ext) })
}

// note is the record of an item in DIR/.rfsd/items: its finished files, and all indices that may have files of this or an earlier
// attempt in their folders.
type note struct {
	Files  []noted  `json:"files"`
	Former []string `json:"former,omitempty"`
}

type noted struct {
	Entry
	Index string `json:"index"`
}

// readNote returns the record in a file, or the zero value if the file does not exist.
func (d *Dir) readNote(path string) (note, error) {
	var n note
	b, err := d.files.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return n, fmt.Errorf("%s: %w: %w", path, err, fault.ErrCorrupt)
	}
	return n, nil
}

// entry returns the manifest entry of a finished part.
func (p *part) entry() Entry {
	return Entry{Name: p.name, Bytes: p.sum.n, Documents: p.documents, SHA256: hex.EncodeToString(p.sum.hash.Sum(nil))}
}
