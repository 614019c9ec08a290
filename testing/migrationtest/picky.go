package migrationtest

import (
	"errors"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Picky is a document editor that leaves out every third document and fails on every fifth.
type Picky struct{}

// Forget does nothing.
func (Picky) Forget() {}

// Edit decides by the ordinal whether a document is kept.
func (Picky) Edit(d *doc.Document, _ int64) (bool, error) {
	if d.Ordinal%5 == 4 {
		return false, errors.New("no object")
	}
	return d.Ordinal%3 != 2, nil
}
