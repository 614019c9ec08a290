package snapshot

import (
	"context"
	"errors"
	"fmt"
)

// ErrDeleted means that the catalog does not list the snapshot any more: it was deleted after the work was planned.
var ErrDeleted = errors.New("the snapshot was deleted from the repository after this run had begun; make another and begin a new session with it")

// origin is the snapshot that a reader works on, to find out why a blob is missing.
type origin struct {
	repo       Repository
	name, uuid string
}

func (l Locator) origin(r Repository) origin { return origin{r, l.SnapshotName, l.SnapshotUUID} }

// explain returns err, the error of a missing blob, with ErrDeleted when the catalog does not list the snapshot any more. A
// catalog that cannot be read explains nothing.
func (o origin) explain(ctx context.Context, err error) error {
	if o.uuid == "" {
		return err
	}
	c, cerr := OpenCatalog(ctx, o.repo)
	if cerr != nil {
		return err
	}
	for _, s := range c.Snapshots {
		if s.UUID == o.uuid {
			return err
		}
	}
	return fmt.Errorf("snapshot %s (%s) is not in %s any more: %w (%w)", o.name, o.uuid, c.blob, ErrDeleted, err)
}
