package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// stateFile is the file of an export's state, below the export directory.
const stateFile = ".rfsd/coordinator.db"

// unfinished matches the base names of files that an export has not finished.
var unfinished = regexp.MustCompile(`\.ndjson(\.gz|\.zst)?\.tmp-`)

// ErrPartial means that the source does not contain exactly a whole export. It is a fault.ErrConfig.
var ErrPartial = fmt.Errorf("the source is not a whole export: %w", fault.ErrConfig)

// survey is the content of a source: the files to import, and other files of exports.
type survey struct {
	files     []file
	sizes     map[string]int64 // of all files with an extension that is imported, including empty ones
	manifests []string
	temporary []string
	states    []string
	exports   exports // the readable manifests
}

// take adds one blob of the source.
func (s *survey) take(blob repo.Blob) error {
	base := path.Base(blob.Name)
	switch {
	case base == export.ManifestName:
		s.manifests = append(s.manifests, blob.Name)
	case blob.Name == stateFile || strings.HasSuffix(blob.Name, "/"+stateFile):
		s.states = append(s.states, blob.Name)
	case unfinished.MatchString(base):
		s.temporary = append(s.temporary, blob.Name)
	}
	packed, ok := compressionOf(blob.Name)
	if !ok {
		return nil
	}
	if len(s.sizes) == maxFiles {
		return fmt.Errorf("more than %d files; import its folders in sequence: %w", maxFiles, fault.ErrUnsupported)
	}
	s.sizes[blob.Name] = blob.Size
	if blob.Size > 0 {
		s.files = append(s.files, file{blob.Name, blob.Size, packed})
	}
	return nil
}

// expected is the description of a file in a manifest.
type expected struct {
	name, sha256 string
	bytes        int64
}

// finding is a reason why the source is not a whole export.
type finding struct{ place, what string }

// compareManifests compares the files with the manifests. It returns the digests to check, and the reasons why the export is incomplete. It
// removes objects of superseded attempts from the files of the survey.
func (m *Import) compareManifests(ctx context.Context, s *survey) (digests []expected, partial []finding, err error) {
	covered := map[string]bool{} // folders of manifests, "" or with a slash at the end
	known := map[string]bool{}   // files in manifests
	for _, name := range s.manifests {
		folder := strings.TrimSuffix(name, export.ManifestName)
		covered[folder] = true
		x, err := m.readManifest(ctx, name)
		switch {
		case errors.Is(err, fault.ErrCorrupt):
			partial = append(partial, finding{folder, err.Error()})
			continue
		case err != nil:
			return nil, nil, err
		}
		s.exports[folder] = x
		if !x.Complete {
			why := "it still runs, or was interrupted"
			if x.Reason != "" {
				why = x.Reason
			}
			partial = append(partial, finding{folder, "the export is not complete (" + why + ")"})
		}
		for _, e := range x.Files {
			full := folder + e.Name
			known[full] = true
			size, there := s.sizes[full]
			switch {
			case !there:
				partial = append(partial, finding{full, "the file is in the manifest and missing here"})
			case size != e.Bytes:
				partial = append(partial, finding{full, fmt.Sprintf("the file has %d bytes, %d were exported", size, e.Bytes)})
			case e.SHA256 != "":
				digests = append(digests, expected{full, e.SHA256, e.Bytes})
			}
		}
		if !x.Complete && x.Reason == "" { // the manifest lists no files yet
			continue
		}
		unlisted := func(f file) bool {
			return !known[f.name] && strings.HasPrefix(f.name, folder) && !nested(f.name, folder, s.manifests)
		}
		s.files = slices.DeleteFunc(s.files, func(f file) bool { return unlisted(f) && export.OfAttempt(f.name) })
		for _, f := range s.files {
			if x.Complete && unlisted(f) {
				partial = append(partial, finding{f.name, "the file is not in the manifest " + name})
			}
		}
	}
	bare, err := m.checkBare(ctx, s, covered)
	return digests, append(partial, bare...), err
}

// nested reports whether a file below folder lies below the folder of a deeper manifest.
func nested(name, folder string, manifests []string) bool {
	return slices.ContainsFunc(manifests, func(m string) bool {
		deeper := strings.TrimSuffix(m, export.ManifestName)
		return len(deeper) > len(folder) && strings.HasPrefix(name, deeper)
	})
}

// checkBare checks files without a manifest, such as files of other tools.
func (m *Import) checkBare(ctx context.Context, s *survey, covered map[string]bool) (partial []finding, err error) {
	bare := func(name string) bool {
		for folder := range covered {
			if strings.HasPrefix(name, folder) {
				return false
			}
		}
		return true
	}
	for _, name := range s.temporary {
		if bare(name) {
			partial = append(partial, finding{name, "the file is unfinished"})
		}
	}
	for _, name := range s.states {
		folder := strings.TrimSuffix(name, stateFile)
		if covered[folder] {
			continue
		}
		partial = append(partial, finding{name, "the export is not complete: it has no manifest"})
	}
	if err := m.refuseFailed(ctx, s.files, bare); err != nil {
		return nil, err
	}
	for _, f := range s.files {
		if bare(f.name) {
			m.Log.Warn("files without a manifest: missing files cannot be detected", "source", m.Source.URI(), "such_as", f.name)
			break
		}
	}
	return partial, nil
}

// Limits of the search for files of failed documents: bytes of each file, and number of files.
const (
	failedHead  = 8 << 10
	failedFiles = 100
)

// refuseFailed returns fault.ErrConfig for a file without a manifest that starts like a file of failed documents.
func (m *Import) refuseFailed(ctx context.Context, files []file, bare func(name string) bool) error {
	looked := 0
	for _, f := range files {
		if looked == failedFiles {
			return nil
		}
		if f.packed != plain || !bare(f.name) {
			continue
		}
		looked++
		r, err := m.Source.Open(ctx, f.name, 0, min(f.size, failedHead))
		if err != nil {
			return err
		}
		head, err := io.ReadAll(io.LimitReader(r, failedHead))
		if err = errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("read %s: %w", f.name, err)
		}
		if failed.IsLine(head) {
			return fmt.Errorf("%s in %s holds failed documents, not documents of an export; send them again with `rfsd redrive --failed-documents %s`: %w",
				f.name, m.Source.URI(), m.Source.URI(), fault.ErrConfig)
		}
	}
	return nil
}

// refuse returns ErrPartial for findings, or logs them with AllowPartial.
func (m *Import) refuse(partial []finding) error {
	if len(partial) == 0 {
		return nil
	}
	if m.AllowPartial {
		for _, f := range partial[:min(len(partial), 10)] {
			m.Log.Warn("the source is not a whole export", "place", f.place, "finding", f.what, "findings", len(partial))
		}
		return nil
	}
	f := partial[0]
	if f.place == "" {
		f.place = m.Source.URI()
	}
	return fmt.Errorf("%s: %s (%d such findings); finish the export with the command that started it and copy all of it, or import the files that are here with --allow-partial: %w",
		f.place, f.what, len(partial), ErrPartial)
}

func (m *Import) readManifest(ctx context.Context, name string) (export.Manifest, error) {
	r, err := m.Source.Open(ctx, name, 0, -1)
	if err != nil {
		return export.Manifest{}, err
	}
	b, err := io.ReadAll(io.LimitReader(r, export.MaxManifest+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return export.Manifest{}, fmt.Errorf("read %s: %w", name, err)
	}
	x, err := export.ParseManifest(b)
	if err != nil {
		return x, fmt.Errorf("%s: %w", strings.TrimSuffix(name, export.ManifestName), err)
	}
	return x, nil
}

// checkDigests reads every file that a manifest describes, and returns ErrPartial for the first that differs.
func (m *Import) checkDigests(ctx context.Context) error {
	if len(m.digests) == 0 || m.AllowPartial {
		return nil
	}
	m.Log.Info("files are compared with the digests of the manifest", "files", len(m.digests))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(2, m.Workers))
	for _, e := range m.digests {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r, err := m.Source.Open(ctx, e.name, 0, e.bytes)
			if err != nil {
				return err
			}
			h := sha256.New()
			if _, err = io.Copy(h, r); err != nil {
				return errors.Join(fmt.Errorf("read %s: %w", e.name, err), r.Close())
			}
			if got := hex.EncodeToString(h.Sum(nil)); got != e.sha256 {
				return errors.Join(m.refuse([]finding{{e.name, "the content differs from the exported content (SHA-256 " + got + ", the manifest has " + e.sha256 + ")"}}), r.Close())
			}
			return r.Close()
		})
	}
	return g.Wait()
}
