package migrationtest

import (
	"errors"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Picky is an editor of documents that leaves out every third one and cannot read every fifth.
type Picky struct{}

// Forget does nothing.
func (Picky) Forget() {}

// Edit reports by the ordinal whether a document stays.
func (Picky) Edit(d *doc.Document, _ int64) (bool, error) {
	if d.Ordinal%5 == 4 {
		return false, errors.New("no object")
	}
	return d.Ordinal%3 != 2, nil
}
