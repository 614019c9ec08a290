package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// leaseOverSince returns the reason why a lease is over by the store's clock, or "".
func leaseOverSince(ctx context.Context, store *cms.Coordinator, l Lease) (string, error) {
	id, err := cms.ParseID(l.Item)
	if err != nil {
		return "", err // not an item; the lease of its phase ends by itself
	}
	it, err := store.Item(ctx, id)
	if err != nil {
		return "", err
	}
	now, _, err := store.Leases().Now(ctx)
	switch {
	case err != nil:
		return "", err
	case it.Holder != l.Holder:
		return "another holder has the item", nil
	case it.Open() && now.Unix() > it.Expiration:
		return "it ended at " + time.Unix(it.Expiration, 0).UTC().Format(time.RFC3339), nil
	}
	return "", nil
}

// freeLease releases the lease that a dead worker reported. With l nil the worker died before it reported a lease: it may hold the setup
// item, a phase, or an item.
func freeLease(ctx context.Context, store *cms.Coordinator, holder string, l *Lease, cause cms.Cause) error {
	if l == nil {
		return session.HeldOf(store).ReleaseDead(ctx, holder, cause)
	}
	if err := store.ReleaseHolder(ctx, l.Item, l.Holder, cause); err != nil && !errors.Is(err, cms.ErrNotFound) {
		return err
	}
	return nil
}
