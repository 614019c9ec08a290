package wiring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// OpenStore opens the state of the work, with connections of its own, which requests with documents cannot take. It creates the state; with
// join it returns cms.ErrStoreGone if it does not exist.
func OpenStore(ctx context.Context, o Options, join bool) (cms.Store, func() error, error) {
	if o.Shares() {
		return o.place(join).Create(ctx)
	}
	if !join || o.coordinatorFile == "" {
		return state.CreateFile(o.coordinatorFile)
	}
	file, err := state.OpenFile(o.coordinatorFile)
	if errors.Is(err, state.ErrNone) {
		return nil, nil, fmt.Errorf("coordinator file %s was deleted: %w", o.coordinatorFile, cms.ErrStoreGone)
	}
	if err != nil {
		return nil, nil, err
	}
	return file, file.Close, nil
}

// place returns the place of the state of the work, for processes that share it.
func (o Options) place(join bool) state.Place {
	at := state.Place{Session: o.Session, Bucket: o.bucket, Apart: o.conversion.SplitOver > 0, Join: join}
	switch {
	case o.stateInTarget():
		at.Cluster = o.Target
	case o.bucket.URI == "":
		at.Cluster = o.coordinator
	}
	return at
}

// coordination returns the rules of work items for a process.
func (o Options) coordination(store cms.Store, creator string) cms.Config {
	return cms.Config{
		Store: store, Creator: creator, InitialLease: o.leases.Initial, MaxLease: o.leases.Longest, MaxAttempts: o.leases.Attempts, SkewTolerance: o.skewTolerance(),
	}
}

// StateIn returns the state of the work in a store.
func (o Options) StateIn(store cms.Store) *cms.Coordinator {
	return cms.New(o.coordination(store, owner.Name()))
}

// OpenCoordinator connects to the store that the workers use.
func OpenCoordinator(ctx context.Context, o Options) (*cms.Coordinator, error) {
	store, _, err := OpenStore(ctx, o, false)
	if err != nil {
		return nil, err
	}
	return o.StateIn(store), nil
}

// storeRetry is the time between two tries to open a store.
const storeRetry = 2 * time.Second

// OpenWithRetry opens the store of the options as soon as that is possible. The error is of ctx, or cms.ErrStoreGone with join.
func OpenWithRetry(ctx context.Context, o Options, join bool, log *slog.Logger) (cms.Store, func() error, error) {
	for warned := false; ; warned = true {
		store, closeStore, err := OpenStore(ctx, o, join)
		if err == nil || errors.Is(err, cms.ErrStoreGone) {
			return store, closeStore, err
		}
		if !warned && ctx.Err() == nil {
			log.Warn("store not opened", "error", fault.Text(err), "next_try_in", storeRetry)
		}
		if err := timing.SystemClock().Sleep(ctx, storeRetry); err != nil {
			return nil, nil, err
		}
	}
}

// openSession opens the state of a session that has started; the error of another one is state.ErrNone.
func openSession(ctx context.Context, o Options, client *target.Client) (*cms.Coordinator, func() error, error) {
	var store cms.Store
	end := func() error { return nil }
	switch {
	case o.coordinatorFile != "":
		file, err := state.OpenFile(o.coordinatorFile)
		if err != nil {
			return nil, nil, err
		}
		store, end = file, file.Close
	case o.bucket.URI != "":
		kept, _, err := state.OpenBucket(ctx, o.bucket, o.Session)
		if err != nil {
			return nil, nil, err
		}
		store = kept
	default:
		if o.coordinator.URL != "" {
			var err error
			if client, err = target.New(ctx, o.coordinator); err != nil {
				return nil, nil, fmt.Errorf("coordinator: %w", err)
			}
			end = client.Close
		}
		kept, err := state.OpenCluster(ctx, client, o.Session)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		store = kept
	}
	c := cms.New(cms.Config{Store: store, Creator: owner.Name()})
	return c, end, nil
}

// Scope returns where the fleet's settings in the store of the options are valid.
func (o Options) Scope(ctx context.Context) (sharing.Scope, error) {
	if o.bucket.URI != "" {
		return sharing.Scope{Session: o.Session, Cluster: o.bucket.Endpoint + " " + o.bucket.URI}, nil
	}
	conf := o.coordinator
	if conf.URL == "" {
		conf = o.Target
	}
	client, err := target.New(ctx, conf)
	if err != nil {
		return sharing.Scope{}, err
	}
	v, err := client.Info(ctx)
	if cerr := client.Close(); err == nil {
		err = cerr
	}
	return sharing.Scope{Session: o.Session, Cluster: v.ClusterUUID}, err
}
