package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// opened are the functions that close what was opened, in the order of opening.
type opened []func() error

// Close closes the last first.
func (o opened) Close() error {
	var errs []error
	for i := len(o) - 1; i >= 0; i-- {
		errs = append(errs, o[i]())
	}
	return errors.Join(errs...)
}

// askTarget returns what the target is, and logs it.
func askTarget(ctx context.Context, client *target.Client, log *slog.Logger) (target.Version, error) {
	v, err := client.Info(ctx)
	if err != nil {
		return v, err
	}
	log.Debug("target", "url", client.Name(), "distribution", v.Distribution, "version", v.Number)
	if warning := v.Untested(); warning != "" {
		log.Warn(warning)
	}
	return v, nil
}

// longestSource returns the bytes of the longest source that is sent: what the user permits, or what the target takes in a
// request; 0: not known. Errors are those of ctx.
func longestSource(ctx context.Context, o options, client *target.Client, log *slog.Logger) (int64, error) {
	most, err := client.MaxBody(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		log.Debug("the size of requests that the target takes is unknown", "error", err)
	}
	if o.maxDocument > 0 && (most <= 0 || most > o.maxDocument) {
		most = o.maxDocument
	}
	return most, nil
}

// receiver is the target of a session, with the store of its state.
type receiver struct {
	client   *target.Client
	identity map[string]string // of the target
	store    cms.Store
	kept     *cms.Coordinator // the state of the work, in store
	writer   string           // names the session
	failed   bulk.Recorder
	longest  int64 // source that is sent, in bytes
	ledger   *rollback.Ledger
	sender   engine.Destination
}

// openReceiver connects to the target and opens what belongs to it. What was opened is added to all, beside an error too.
func openReceiver(ctx context.Context, o options, log *slog.Logger, in *resources, all *opened) (r receiver, err error) {
	o.target.Log = log
	if r.client, err = target.New(ctx, o.target); err != nil {
		return r, err
	}
	if err := clusterOnly(o.target, "an import or a stream"); err != nil {
		return r, err
	}
	v, err := askTarget(ctx, r.client, log)
	if err != nil {
		return r, err
	}
	store, err := in.openStore(ctx, o, log, all)
	if err != nil {
		return r, err
	}
	r.store, r.writer = in.counters.Store(store), in.newHolder()
	r.kept = cms.New(cms.Config{Store: r.store, Creator: r.writer})
	var closeRecorder func() error
	if r.failed, closeRecorder, err = openRecorder(ctx, o, r.kept, r.writer, log); err != nil {
		return r, err
	}
	*all = append(*all, closeRecorder)
	if r.longest, err = longestSource(ctx, o, r.client, log); err != nil {
		return r, err
	}
	r.identity = phase.ClusterIdentity(v.ClusterUUID, o.target.RunPipelines)
	r.ledger = rollback.NewLedger(r.client, r.kept, o.session, log)
	limits, stop := in.sending(ctx, o, r.client, log)
	*all = append(*all, stop)
	r.sender = engine.ToCluster(in.counters.Sender(r.client), limits)
	return r, nil
}

// openStore returns the store of a slot's daemon, or opens that of the options and holds a permit there until all is closed.
func (in *resources) openStore(ctx context.Context, o options, log *slog.Logger, all *opened) (cms.Store, error) {
	if in.store != nil {
		return in.store, nil
	}
	store, closeStore, err := openStore(ctx, o, in.run != "")
	if err != nil {
		return nil, err
	}
	*all = append(*all, closeStore, in.holdPermits(ctx, o, store, log))
	return store, nil
}

// warnOfRisks logs what the options leave open on the way to the clusters, once per run.
func (o options) warnOfRisks(log *slog.Logger) {
	for _, c := range o.clusters() {
		for _, risk := range c.Risks() {
			log.Warn("a connection is not protected", "reason", risk)
		}
	}
}

// scope returns where the fleet's settings in the store of the options are valid.
func (o options) scope(ctx context.Context) (sharing.Scope, error) {
	if o.bucket.URI != "" {
		return sharing.Scope{Session: o.session, Cluster: o.bucket.Endpoint + " " + o.bucket.URI}, nil
	}
	conf := o.coordinator
	if conf.URL == "" {
		conf = o.target
	}
	client, err := target.New(ctx, conf)
	if err != nil {
		return sharing.Scope{}, err
	}
	v, err := client.Info(ctx)
	if cerr := client.Close(); err == nil {
		err = cerr
	}
	return sharing.Scope{Session: o.session, Cluster: v.ClusterUUID}, err
}

// clusters returns the clusters of the options; an absent one has no URL.
func (o options) clusters() []target.Config {
	return []target.Config{o.target, o.coordinator, o.origin.cluster}
}

// checkConnections reads certificates, keys and authorities as a run does; nothing is asked of any cluster.
func (o options) checkConnections(ctx context.Context) error {
	for _, c := range o.clusters() {
		if c.URL == "" {
			continue
		}
		client, err := target.New(ctx, c)
		if err != nil {
			return err
		}
		if err := client.Close(); err != nil {
			return err
		}
	}
	return nil
}

// openSession opens the state of a session that has begun; state.ErrNone for another one.
func openSession(ctx context.Context, o options, client *target.Client) (*cms.Coordinator, func() error, error) {
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
		kept, _, err := state.OpenBucket(ctx, o.bucket, o.session)
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
		kept, err := state.OpenCluster(ctx, client, o.session)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		store = kept
	}
	c := cms.New(cms.Config{Store: store, Creator: owner.Name()})
	return c, end, nil
}
