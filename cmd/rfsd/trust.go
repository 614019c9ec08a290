package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// trust is what this node needs to check the record of the fleet's settings, and to sign it.
type trust struct {
	keys sharing.Keys
	seen sharing.Seen
}

func newTrust(values config.Values) (trust, error) {
	dir, err := stateDir()
	if err != nil {
		return trust{}, err
	}
	var given struct {
		Key   config.FleetKey
		Fleet config.Fleet
	}
	if err := config.Decode(values, &given); err != nil {
		return trust{}, err
	}
	t := trust{seen: sharing.Seen{Dir: dir}}
	flag, name := "fleet-key", given.Key.File
	if name == "" {
		flag, name = "gossip-keys", given.Fleet.Keys
	}
	if name == "" {
		return t, nil
	}
	file, err := gossip.LoadKeys(name)
	if err != nil {
		return t, config.Usage("--%s: %w", flag, err)
	}
	t.keys, err = sharing.Derive(file)
	return t, err
}

// of returns how far this node believes the record, whose revision it keeps when it does.
func (t trust) of(scope sharing.Scope, record session.SharedRecord) (sharing.Trust, error) {
	seen, err := t.seen.Revision(scope)
	if err != nil {
		return sharing.Trust{}, err
	}
	j := sharing.TrustOf(t.keys, scope, record, seen)
	if j.Doubt == "" {
		err = t.seen.Note(scope, record.Revision)
	}
	return j, err
}

// sharedScope returns where the record of the options' store is valid.
func sharedScope(ctx context.Context, o options) (sharing.Scope, error) {
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

// share stores this node's settings for the fleet, once the store can be reached.
func (r runOptions) share(ctx context.Context, coordinator *cms.Coordinator, log *slog.Logger) {
	stored, err := r.shareSigned(ctx, coordinator)
	switch {
	case err != nil:
		log.Warn("the fleet does not know this node's settings", "error", fault.Text(err))
	case stored:
		log.Info("the fleet uses the settings of this node", "signed", len(r.trust.keys) > 0)
	}
}

func (r runOptions) shareSigned(ctx context.Context, coordinator *cms.Coordinator) (stored bool, err error) {
	record := session.SharedRecord{Settings: r.shared}
	if len(r.trust.keys) == 0 {
		return session.Of(coordinator).Share(ctx, record, r.own.Fleet.Share)
	}
	scope, err := sharedScope(ctx, r.options)
	if err != nil {
		return false, err
	}
	seen, err := r.trust.seen.Revision(scope)
	if err != nil {
		return false, err
	}
	var before int64
	if was, err := session.Of(coordinator).Shared(ctx); err == nil && r.trust.keys.Signed(scope, was) {
		before = was.Revision
	}
	record.Revision = sharing.Next(seen, before, time.Now().UnixMilli())
	stored, err = session.Of(coordinator).Share(ctx, r.trust.keys.Sign(scope, record), r.own.Fleet.Share)
	if err != nil || !stored {
		return stored, err
	}
	return stored, r.trust.seen.Note(scope, record.Revision)
}
