package config

import (
	"path/filepath"
	"strings"

	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Check refuses what a bucket does not need.
func (f *Failed) Check() error {
	if repo.IsBucket(f.Place.Dir) && f.Shared {
		return Usage("--failed-documents-shared is about a directory; a bucket is always shared")
	}
	return nil
}

// outside refuses a sink in the repository, to which nothing is ever written.
func (f Failed) outside(repository string) error {
	if inside(f.Place.Dir, repository) {
		return Usage("--failed-documents %s lies in %s, to which nothing is ever written", f.Place.Dir, repository)
	}
	return nil
}

// inside reports whether a place is a bucket's prefix in the repository.
func inside(place, repository string) bool {
	return repo.IsBucket(place) && strings.HasPrefix(strings.TrimRight(place, "/")+"/", strings.TrimRight(repository, "/")+"/")
}

// OutsideData refuses a sink that goes when the node's data directory is wiped, which may happen any time.
func OutsideData(sink, dataDir string) error {
	if dataDir == "" || sink == "" || repo.IsBucket(sink) {
		return nil
	}
	absSink, err := resolved(sink)
	if err != nil {
		return Usage("--failed-documents: %w", err)
	}
	absData, err := resolved(dataDir)
	if err != nil {
		return Usage("--data-dir: %w", err)
	}
	rel, err := filepath.Rel(absData, absSink)
	if err != nil {
		return Usage("--failed-documents: %w", err)
	}
	if rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return Usage("--failed-documents %s is inside the data directory %s, which may be wiped any time", sink, dataDir)
	}
	return nil
}

// resolved is the absolute path without symbolic links, as far as there is something.
func resolved(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest), nil
		}
		if dir == filepath.Dir(dir) {
			return path, nil
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
