package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/fleet"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/migration/worker"
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
		return filepath.Join(given, "hints"), nil // beside what is kept there and must not be wiped
	}
	dir, err := stateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "node-"+own.Node.Name), nil
}

// member is this node's part of the fleet, which begins when the coordination store was reached.
type member struct {
	r       runOptions
	streams *api.Streams
	sched   *schedule.Scheduler
	daemon  func() *daemon.Daemon // this node's, when it runs
	log     *slog.Logger

	mu    sync.Mutex
	fleet *fleet.Fleet
}

func (m *member) current() *fleet.Fleet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fleet
}

// Share is this node's place among the living.
func (m *member) Share() (position, count int) {
	if f := m.current(); f != nil {
		return f.Share()
	}
	return 0, 1
}

// Nodes are the living nodes, by the names their operators gave them.
func (m *member) Nodes() []status.Node {
	f := m.current()
	if f == nil {
		return nil
	}
	all := f.Nodes()
	for i := range all {
		all[i].Name = nodeName(all[i].Name)
	}
	return all
}

// Gone returns the nodes that have gone, by the names that their operators gave them.
func (m *member) Gone() []status.Node {
	f := m.current()
	if f == nil {
		return nil
	}
	all := f.Gone()
	for i := range all {
		all[i].Name = nodeName(all[i].Name)
	}
	return all
}

// nodeName takes off what makes each start of a node another in gossip.
func nodeName(member string) string {
	if i := len(member) - owner.SuffixLength - 1; i > 0 && member[i] == '-' {
		return member[:i]
	}
	return member
}

// Plan is what the fleet proposes to this node.
func (m *member) Plan() schedule.Plan {
	if f := m.current(); f != nil {
		return f.Plan()
	}
	return schedule.Plan{}
}

// Loads returns the loads of all nodes, of this one alone before it takes part.
func (m *member) Loads() []schedule.Load {
	if f := m.current(); f != nil {
		return f.Loads()
	}
	return []schedule.Load{m.daemon().Load()}
}

// IntentChanged announces to the other nodes that the intent in the store has changed.
func (m *member) IntentChanged() {
	if f := m.current(); f != nil {
		f.IntentChanged()
	}
}

// IntentFollowed announces to the other nodes that this node follows another version of the intent.
func (m *member) IntentFollowed() {
	if f := m.current(); f != nil {
		f.IntentFollowed()
	}
}

// ItemPoisoned announces to the other nodes that an item crashed a worker here.
func (m *member) ItemPoisoned(item string) {
	if f := m.current(); f != nil {
		f.ItemPoisoned(item)
	}
}

// Mirrors reports whether this node reads the store for the whole fleet.
func (m *member) Mirrors() bool {
	f := m.current()
	return f != nil && f.Mirrors()
}

// PublishReading replicates a reading of the store.
func (m *member) PublishReading(ctx context.Context, r *progress.Reading) error {
	if f := m.current(); f != nil {
		return f.PublishReading(ctx, r)
	}
	return nil
}

// Reading returns the leader's reading if there is a newer one.
func (m *member) Reading(asked bool) (*progress.Reading, error) {
	if f := m.current(); f != nil {
		return f.Reading(asked)
	}
	return nil, nil
}

// Published returns when the reading was made that the leader published last.
func (m *member) Published() time.Time {
	if f := m.current(); f != nil {
		return f.Published()
	}
	return time.Time{}
}

// rotate reads the key file again.
func (m *member) rotate() error {
	f := m.current()
	if f == nil || m.r.own.Fleet.Keys == "" {
		return nil
	}
	keys, err := gossip.LoadKeys(m.r.own.Fleet.Keys)
	if err != nil {
		return err
	}
	return f.Rotate(keys)
}

// run takes part until ctx ends. Whatever goes wrong is tried again: work goes on without it.
func (m *member) run(ctx context.Context) error {
	defer func() {
		if p := m.r.gossip.Port; p != nil { // it never took part
			_ = p.Close()
		}
	}()
	for {
		f, done, err := m.begin(ctx)
		if err == nil {
			m.mu.Lock()
			m.fleet = f
			m.mu.Unlock()
			<-ctx.Done()
			err := f.Close()
			done()
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		m.log.Warn("this node works without its fleet for now", "error", fault.Text(err))
		if cms.SystemClock().Sleep(ctx, 5*time.Second) != nil {
			return nil
		}
	}
}

func (m *member) begin(ctx context.Context) (*fleet.Fleet, func(), error) {
	o := m.r.options
	kept, closeStore, err := openStore(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (*fleet.Fleet, func(), error) {
		_ = closeStore()
		return nil, nil, err
	}
	coordinator, err := cms.New(o.coordination(kept, owner.Name()))
	if err != nil {
		return fail(err)
	}
	conf := fleet.Config{
		Store: kept, Clock: cms.SystemClock(), Gossip: m.r.gossip, Dir: m.r.own.Fleet.DataDir, Quick: m.r.own.Fleet.OneMachine,
		Shards:  func(ctx context.Context) ([]schedule.Shard, error) { return worker.ShardSizes(ctx, coordinator) },
		Workers: func() int { return m.daemon().Running() }, Load: func() schedule.Load { return m.daemon().Load() },
		Remaining: func() (schedule.Remaining, bool) { return m.daemon().Remaining() }, IntentChanged: func() { m.daemon().ReadIntent() },
		Scheduler: m.sched, Log: m.log,
	}
	conf.Gossip.Meta.API, conf.Gossip.Log = m.r.own.API.Advertise, m.log
	if m.streams != nil {
		conf.RaftAddress = m.r.own.API.Advertise
		conf.Streams = func() (store.Streams, error) { return m.streams.Open(), nil }
	}
	f, err := fleet.Start(ctx, conf)
	m.r.gossip.Port = nil // it is taken over, or closed
	if err != nil {
		return fail(err)
	}
	return f, func() { _ = closeStore() }, nil
}
