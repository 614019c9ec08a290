package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/export"
)

// Keys of the settings that bind a session to its import, in addition to the keys of the destination.
const (
	taskKey    = "task"         // Kind
	filesKey   = "files"        // number, bytes, and a digest of the names and sizes
	exportKey  = "export"       // ids of the export directories, by their manifests
	contentKey = "export-files" // digest of the files in complete manifests
)

// Keys of settings that change documents.
const (
	typesKey  = "emit-doc-type"
	systemKey = "include-system"
)

// maxNamedExports limits the export directories that an identity lists by name; beyond it the identity contains a digest.
const maxNamedExports = 4

// Session binds a session to its import and its destination. session.Identity is one.
type Session interface {
	Init(ctx context.Context, m session.Meta) (identity map[string]string, err error)
	Bind(ctx context.Context, identity map[string]string) error
}

// bind starts the session or joins it. It returns a *session.ConfigMismatch if the session has other files, another export or another
// destination, or other settings that change documents.
func (m *Import) bind(ctx context.Context) error {
	if m.bound {
		return nil
	}
	is := m.meta()
	if _, err := m.Session.Init(ctx, is); err != nil {
		return err
	}
	if err := m.Session.Bind(ctx, is.Identity); err != nil {
		return err
	}
	m.bound = true
	return nil
}

// meta returns the data to which the session is bound.
func (m *Import) meta() session.Meta {
	identity := map[string]string{exportKey: m.exports.ids(), contentKey: m.exports.content()}
	for key, value := range m.Identity {
		identity[key] = value
	}
	settings := map[string]string{
		taskKey: Kind, typesKey: string(m.Types), systemKey: strconv.FormatBool(m.IncludeSystem), filesKey: describe(m.files),
	}
	return session.Meta{Settings: settings, Identity: identity}
}

// describe returns the number and bytes of files, and a digest of their names and sizes.
func describe(files []file) string {
	var size int64
	h := sha256.New()
	for _, f := range files {
		size += f.size
		fmt.Fprintf(h, "%s\x00%d\n", f.name, f.size)
	}
	return fmt.Sprintf("%d files, %d bytes, digest of names and sizes %.16x", len(files), size, h.Sum(nil))
}

// exports are the manifests of a source by their folders.
type exports map[string]export.Manifest

// hashes returns the digests of all files of the exports by their names.
func (x exports) hashes() map[string]string {
	all := map[string]string{}
	for folder, m := range x {
		for _, e := range m.Files {
			all[folder+e.Name] = e.SHA256
		}
	}
	return all
}

// ids returns the ids of the export directories; "" without a manifest.
func (x exports) ids() string {
	all := make([]string, 0, len(x))
	for folder, m := range x {
		if folder == "" {
			all = append(all, m.ID)
		} else {
			all = append(all, folder+": "+m.ID)
		}
	}
	slices.Sort(all)
	text := strings.Join(all, ", ")
	if len(all) <= maxNamedExports {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%d exports, digest of their ids %s", len(all), hex.EncodeToString(sum[:8]))
}

// content returns a digest of the files in the manifests; "" while they may change, or without a manifest.
func (x exports) content() string {
	folders := make([]string, 0, len(x))
	for folder, m := range x {
		if !m.Complete {
			return ""
		}
		folders = append(folders, folder)
	}
	if len(folders) == 0 {
		return ""
	}
	slices.Sort(folders)
	h := sha256.New()
	for _, folder := range folders {
		for _, e := range x[folder].Files {
			io.WriteString(h, strconv.Quote(folder+e.Name)+" "+strconv.FormatInt(e.Bytes, 10)+" "+e.SHA256+"\n") //nolint:errcheck // a hash does not fail
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
