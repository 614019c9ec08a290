package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/progress"
)

// Task is a kind of work: it reads its progress from the store, and checks and releases its leases.
type Task interface {
	// Read returns the progress, with the items sorted by index, shard and cursor.
	Read(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []status.Item, error)
	// Over returns the reason why a lease is over by the store's clock, or "".
	Over(ctx context.Context, store *cms.Coordinator, l Lease) (string, error)
	// Free releases a dead worker's lease. l is the lease that it reported; if nil, all leases of holders with
	// its prefix are released.
	Free(ctx context.Context, store *cms.Coordinator, holder string, l *Lease, cause cms.Cause) error
}

// Migration returns the task of migrating a snapshot.
func Migration() Task { return migration{} }

type migration struct{}

func (migration) Read(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []status.Item, error) {
	return status.Read(ctx, store)
}

func (migration) Over(ctx context.Context, store *cms.Coordinator, l Lease) (string, error) {
	id, err := cms.ParseID(l.Item)
	if err != nil {
		return "", err // not an item; its phase ends by itself
	}
	it, err := store.Item(ctx, id)
	if err != nil {
		return "", err
	}
	now, _, err := store.Now(ctx)
	switch {
	case err != nil:
		return "", err
	case it.Holder != l.Holder:
		return "somebody else has the item", nil
	case it.Open() && now.Unix() > it.Expiration:
		return "it ended at " + time.Unix(it.Expiration, 0).UTC().Format(time.RFC3339), nil
	}
	return "", nil
}

// Free releases the lease that the worker reported. Without one the worker died before its report: it may
// hold the setup item, a phase, or an item.
func (migration) Free(ctx context.Context, store *cms.Coordinator, holder string, l *Lease, cause cms.Cause) error {
	if l == nil {
		return store.ReleaseDead(ctx, holder, cause)
	}
	if err := store.ReleaseHolder(ctx, l.Item, l.Holder, cause); err != nil && !errors.Is(err, cms.ErrNotFound) {
		return err
	}
	return nil
}
