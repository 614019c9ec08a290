package session

import (
	"context"
	"path/filepath"
)

// PlaceAccount records which failed documents of one place were delivered later.
type PlaceAccount struct {
	Records Redrives
	Place   string
	All     bool // the place is the list in the store
	Bucket  bool // files are identified by their whole names; elsewhere without directories
}

// Begin records the contents of the place. Files are identified by the names that their writers chose, regardless of the directory.
func (a PlaceAccount) Begin(ctx context.Context, files []string, left map[string]int64) error {
	if !a.All {
		names := make([]string, len(files))
		for i, name := range files {
			names[i] = a.name(name)
		}
		if err := a.Records.NoteMoved(ctx, a.Place, names); err != nil {
			return err
		}
	}
	return a.Records.NoteLeft(ctx, a.Place, a.All, left)
}

// Delivered records the delivered documents of a file.
func (a PlaceAccount) Delivered(ctx context.Context, file string, lines int, documents map[string]int64) error {
	return a.Records.Note(ctx, a.Place, a.All, RedrivenFile{Name: a.name(file), Lines: lines, Documents: documents})
}

func (a PlaceAccount) name(file string) string {
	if a.Bucket {
		return file
	}
	return filepath.Base(file)
}
