package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/api/client"
	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/fleet"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/migration/recorded"
	"github.com/rfsd/rfsd/store"
)

// gossipConfig returns how this node finds the others; without an address it does not look for them.
func gossipConfig(own config.Own) (gossip.Config, error) {
	f := own.Fleet
	conf := gossip.Config{
		Fleet: own.API.TLS.Fleet.Name, Bind: f.Listen, Advertise: f.Advertise,
		Meta: gossip.Meta{Version: version, Zone: f.Zone, Spot: f.Spot, Idle: own.Node.Workers < 0, Started: time.Now().UnixMilli()},
	}
	for _, value := range f.Join {
		finder, err := gossip.ParseFinder(value)
		if err != nil {
			return conf, err
		}
		conf.Finders = append(conf.Finders, finder)
	}
	if f.Listen == "" {
		return conf, nil
	}
	// A machine that starts again is another node: what the one before said is not its word.
	conf.Name = fmt.Sprintf("%s-%s", own.Node.Name, owner.Suffix())
	if f.Keys != "" {
		var err error
		if conf.Keys, err = gossip.LoadKeys(f.Keys); err != nil {
			return conf, err
		}
	}
	return conf, conf.Check()
}

// dataDir returns the directory of the hints' files; "" without gossip, where none is needed.
func dataDir(own config.Own) (string, error) {
	if own.Fleet.Listen == "" || own.Fleet.DataDir != "" {
		return own.Fleet.DataDir, nil
	}
	if given, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); given != "" {
		return filepath.Join(given, "hints"), nil // a subdirectory, since hints may be wiped and other files there may not
	}
	dir, err := state.Dir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "node-"+own.Node.Name), nil
}

// beginFleet starts this node's membership of the fleet. d returns the daemon of the node.
func (r *runOptions) beginFleet(ctx context.Context, id *cert.Identity, streams *api.Streams, sched *schedule.Scheduler, d func() *daemon.Daemon, log *slog.Logger) (*fleet.Fleet, func(), error) {
	o := r.Options
	kept, closeStore, err := wiring.OpenStore(ctx, o, false)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (*fleet.Fleet, func(), error) {
		_ = closeStore()
		return nil, nil, err
	}
	coordinator := o.StateIn(kept)
	conf := fleet.Config{
		Store: kept, Clock: timing.SystemClock(), Gossip: r.gossip, Dir: r.own.Fleet.DataDir, Quick: r.own.Fleet.OneMachine,
		Shards:  func(ctx context.Context) ([]schedule.Shard, error) { return recorded.Shards(ctx, coordinator) },
		Workers: func() int { return d().Running() }, Load: func() schedule.Load { return d().Load() },
		Remaining: func() (schedule.Remaining, bool) { return d().Remaining() }, IntentChanged: func() { d().ReadIntent() },
		Scheduler: sched, Log: log,
	}
	conf.Gossip.Meta.API, conf.Gossip.Log = r.own.API.Advertise, log
	if streams != nil {
		conf.RaftAddress, conf.Peers = r.own.API.Advertise, client.Peers{Identity: id}
		conf.Streams = func() (store.Streams, error) { return streams.Open(), nil }
	}
	f, err := fleet.Start(ctx, conf)
	r.gossip.Port = nil // it is taken over, or closed
	if err != nil {
		return fail(err)
	}
	return f, func() { _ = closeStore() }, nil
}
