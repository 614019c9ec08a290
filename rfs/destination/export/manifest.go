package export

import (
	"encoding/json"
	"fmt"
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

// newManifest returns the manifest of an export that is in progress.
func newManifest(id string) Manifest {
	return Manifest{Format: manifestFormat, ID: id, Files: []Entry{}}
}

// encode returns the manifest as it is stored.
func (m *Manifest) encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", " ")
	return append(b, '\n'), err
}

// finished reports whether a name below the directory is the name of a finished file.
func finished(name string) bool {
	if strings.HasPrefix(name, private+"/") {
		return false
	}
	return slices.ContainsFunc(extensions[:], func(ext string) bool { return strings.HasSuffix(name, ext) })
}

// note is the record of an item in .rfsd/items: its published files. In a directory it also names all indices that may have files of this or
// an earlier attempt in their folders, in a bucket the latest attempt that has started and all attempts before it.
type note struct {
	Files      []noted  `json:"files"`
	Former     []string `json:"former,omitempty"`
	Attempt    string   `json:"attempt,omitempty"`
	Superseded []string `json:"superseded,omitempty"`
}

type noted struct {
	Entry
	Index   string `json:"index"`
	Version string `json:"version,omitempty"` // of the object
}

// noteName returns the name of an item's record, slash-separated, below the export.
func noteName(it item) string {
	return notes + EncodeName(it.index) + "/" + it.name + noteExtension
}

const (
	notes         = private + "/items/"
	noteExtension = ".json"
)

// parseNote parses the record of an item. Errors are fault.ErrCorrupt.
func parseNote(name string, b []byte) (note, error) {
	var n note
	if err := json.Unmarshal(b, &n); err != nil {
		return n, fmt.Errorf("%s: %w: %w", name, err, fault.ErrCorrupt)
	}
	return n, nil
}
