package wiring

import (
	"context"
	"errors"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// opened holds the functions that close the parts of a session, in the order of opening.
type opened []func() error

// Close closes the last first.
func (o opened) Close() error {
	var errs []error
	for i := len(o) - 1; i >= 0; i-- {
		errs = append(errs, o[i]())
	}
	return errors.Join(errs...)
}

// receiver is the target of a session, with the store of its state.
type receiver struct {
	client   *target.Client
	version  target.Version
	identity map[string]string // of the target
	store    cms.Store
	kept     *cms.Coordinator // the state of the work, in store
	writer   string           // names the session
	failed   bulk.Recorder
	longest  int64 // source that is sent, in bytes
	ledger   *rollback.Ledger
	sender   engine.Destination
}

// openReceiver connects to the target and opens what belongs to it. It adds the functions that close the parts to all, also with an error.
func openReceiver(ctx context.Context, o Options, log *slog.Logger, in *Resources, all *opened) (r receiver, err error) {
	o.Target.Log = log
	if r.client, err = target.New(ctx, o.Target); err != nil {
		return r, err
	}
	if err := o.Target.ClusterOnly("an import or a stream"); err != nil {
		return r, err
	}
	v, err := askTarget(ctx, r.client, o.Unavailable, log)
	if err != nil {
		return r, err
	}
	r.version, r.writer = v, in.newHolder()
	store, err := in.openStore(ctx, o, r.writer, log, all)
	if err != nil {
		return r, err
	}
	r.store = in.counters.Store(store)
	r.kept = cms.New(cms.Config{Store: r.store, Creator: r.writer})
	var closeRecorder func() error
	if r.failed, closeRecorder, err = openRecorder(ctx, o, r.kept, r.writer, log); err != nil {
		return r, err
	}
	*all = append(*all, closeRecorder)
	if r.longest, err = longestSource(ctx, o, r.client, log); err != nil {
		return r, err
	}
	r.identity = phase.ClusterIdentity(v.ClusterUUID, o.Target.RunPipelines)
	r.ledger = rollback.NewLedger(r.client, r.kept, o.Session, log)
	limits, stop := in.sending(ctx, o, r.client, log)
	*all = append(*all, stop)
	r.sender = engine.ToCluster(in.counters.Sender(r.client), limits)
	return r, nil
}

// openStore returns the store of a slot's daemon, or opens the store of the options and holds a permit there until all is closed.
// holder is the name of the process.
func (in *Resources) openStore(ctx context.Context, o Options, holder string, log *slog.Logger, all *opened) (cms.Store, error) {
	if in.store != nil {
		return in.store, nil
	}
	store, closeStore, err := OpenStore(ctx, o, in.Daemon != "")
	if err != nil {
		return nil, err
	}
	*all = append(*all, closeStore)
	if !in.Led {
		*all = append(*all, in.Hold(ctx, store, holder, log))
	}
	return store, nil
}
