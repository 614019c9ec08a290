package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rfsd/rfsd/rfs/source/repo"
)

// ErrDeleted means that the catalog no longer lists the snapshot: it was deleted after the work was planned.
var ErrDeleted = errors.New("the snapshot was deleted from the repository after this run had started; take another snapshot and start a new session with it")

// origin is the snapshot that a reader works on. It serves to find out why a blob is missing.
type origin struct {
	repo       Repository
	name, uuid string
}

func (l Locator) origin(r Repository) origin { return origin{r, l.SnapshotName, l.SnapshotUUID} }

// remembering is a Repository that keeps findings of its readers as long as it is used.
type remembering interface{ Memory() *sync.Map }

// catalogEntry is the entry of a snapshot in the catalog, looked up once for all missing blobs: a catalog is long, and a repository that
// was copied in part may lack many blobs.
type catalogEntry struct {
	turn   chan struct{} // held by one reader at a time
	found  bool
	latest string // content of index.latest at that time
	listed bool
	blob   string // the catalog
}

// entry returns the remembered entry of the snapshot.
func (o origin) entry() *catalogEntry {
	fresh := &catalogEntry{turn: make(chan struct{}, 1)}
	if r, ok := o.repo.(remembering); ok {
		known, _ := r.Memory().LoadOrStore(origin{name: address(o.repo), uuid: o.uuid}, fresh)
		return known.(*catalogEntry) //nolint:forcetypeassert // nothing else has such a key
	}
	return fresh
}

// explain returns err, the error of a missing blob, with ErrDeleted if the catalog no longer lists the snapshot. If the catalog cannot be
// read, it returns err unchanged. It reads the catalog again if index.latest has changed.
func (o origin) explain(ctx context.Context, err error) error {
	if o.uuid == "" {
		return err
	}
	l := o.entry()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return err
	}
	defer func() { <-l.turn }()
	if !l.found || l.listed {
		b, lerr := repo.ReadAll(ctx, o.repo, "index.latest", 64)
		if latest := string(b); !l.found || lerr == nil && latest != l.latest {
			c, cerr := OpenCatalog(ctx, o.repo)
			if cerr != nil {
				return err
			}
			_, l.listed = c.places[o.uuid]
			l.found, l.latest, l.blob = true, latest, c.blob
		}
	}
	if l.listed {
		return err
	}
	return fmt.Errorf("snapshot %s (%s) is not in %s any more: %w (%w)", o.name, o.uuid, l.blob, ErrDeleted, err)
}
