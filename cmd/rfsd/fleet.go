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

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/fleet"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/schedule"
	"github.com/rfsd/rfsd/rfs/worker"
	"github.com/rfsd/rfsd/store"
)

const fleetCategory = "Fleet: hints between nodes, which change speed only"

// fleetFlags say how nodes find each other.
func fleetFlags() []cli.Flag {
	return []cli.Flag{
		fleetKeyFlag(),
		str(fleetCategory, "gossip-listen", "", "host:port (TCP and UDP) on which nodes find each other, such as 0.0.0.0:7946; none: this node works by the coordination store alone"),
		str(fleetCategory, "gossip-advertise", "", "host:port by which others reach it (default: the same)"),
		str(fleetCategory, "gossip-keys", "", "file of the fleet's keys (rfsctl cert gossip-key), needed beyond loopback; SIGHUP reads it again"),
		list(fleetCategory, "join", "where nodes are: host:port, dns:NAME, or provider=aws tag_key=K tag_value=V; the node list in the coordination store is always asked too"),
		str(fleetCategory, "zone", "", "availability zone of this machine: voters are spread over them"),
		yes(fleetCategory, "spot", "this machine may be taken away any time: it is the last to get a vote"),
		str(fleetCategory, "data-dir", "", "directory of the hints' files (default: hints in the one systemd gives, else "+filepath.Join("~", ".local", "state", "rfsd")+"); it may be wiped any time"),
		yes(fleetCategory, "share-settings", "make this node's settings the fleet's, over those that are stored (the first node of a session stores its own in any case)"),
		yes(fleetCategory, "one-machine", "short intervals between nodes, for a fleet on one machine"),
	}
}

type fleetOptions struct {
	gossip  gossip.Config
	keys    string // file
	dataDir string
	quick   bool
}

func parseFleet(c *cli.Context, name string) (fleetOptions, error) {
	f := fleetOptions{keys: c.String("gossip-keys"), dataDir: c.String("data-dir"), quick: c.Bool("one-machine")}
	f.gossip = gossip.Config{
		Fleet: c.String("fleet"), Bind: c.String("gossip-listen"), Advertise: c.String("gossip-advertise"),
		Meta: gossip.Meta{Version: version, Zone: c.String("zone"), Spot: c.Bool("spot"), Started: time.Now().UnixMilli()},
	}
	if f.gossip.Bind == "" {
		return f, nil
	}
	// A machine that starts again is another node: what the one before said is not its word.
	f.gossip.Name = fmt.Sprintf("%s-%s", name, holderSuffix())
	for _, value := range c.StringSlice("join") {
		finder, err := gossip.ParseFinder(value)
		if err != nil {
			return f, err
		}
		f.gossip.Finders = append(f.gossip.Finders, finder)
	}
	if f.keys != "" {
		var err error
		if f.gossip.Keys, err = gossip.LoadKeys(f.keys); err != nil {
			return f, err
		}
	}
	if err := f.gossip.Check(); err != nil {
		return f, err
	}
	if given, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); f.dataDir == "" && given != "" {
		f.dataDir = filepath.Join(given, "hints") // beside what is kept there and must not be wiped
	}
	if f.dataDir == "" {
		dir, err := stateDir()
		if err != nil {
			return f, err
		}
		f.dataDir = filepath.Join(dir, "node-"+name)
	}
	return f, nil
}

// holderSuffix is the random part of a process's name.
func holderSuffix() string {
	h := newHolder()
	return h[strings.LastIndex(h, "_")+1:][:suffixLength]
}

const suffixLength = 8

// member is this node's part of the fleet, which begins when the coordination store was reached.
type member struct {
	r       runOptions
	streams *api.Streams
	sched   *schedule.Scheduler
	daemon  func() *daemon.Daemon // this node's, when it runs
	log     *slog.Logger

	mu    sync.Mutex
	fleet *fleet.Fleet
	alone int // while gossip cannot be opened: nodes by the list of the coordination store
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

// nodeName takes off what makes each start of a node another in gossip.
func nodeName(member string) string {
	if i := len(member) - suffixLength - 1; i > 0 && member[i] == '-' {
		return member[:i]
	}
	return member
}

// Plan is what the fleet proposes to this node.
func (m *member) Plan() schedule.Plan {
	if f := m.current(); f != nil {
		return f.Plan()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	plan := schedule.Plan{ListedNodes: m.alone}
	if m.r.maxRate > 0 && m.alone == 0 { // it is in no list yet
		plan.Rate = new(schedule.RateFollower).Share(time.Now(), m.r.maxRate, 1)
	}
	return plan
}

// IntentChanged announces to the other nodes that the intent in the store has changed.
func (m *member) IntentChanged() {
	if f := m.current(); f != nil {
		f.IntentChanged()
	}
}

// ItemPoisoned announces to the other nodes that an item crashed a worker here.
func (m *member) ItemPoisoned(item string) {
	if f := m.current(); f != nil {
		f.ItemPoisoned(item)
	}
}

// rotate reads the key file again.
func (m *member) rotate() error {
	f := m.current()
	if f == nil || m.r.fleet.keys == "" {
		return nil
	}
	keys, err := gossip.LoadKeys(m.r.fleet.keys)
	if err != nil {
		return err
	}
	return f.Rotate(keys)
}

// run takes part until ctx ends. Whatever goes wrong is tried again: work goes on without it.
func (m *member) run(ctx context.Context) error {
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
	coordinator, err := cms.New(cms.Config{Store: kept, Creator: newHolder(), InitialLease: o.lease})
	if err != nil {
		return fail(err)
	}
	conf := fleet.Config{
		Store: kept, Clock: cms.SystemClock(), Gossip: m.r.fleet.gossip, Dir: m.r.fleet.dataDir, Quick: m.r.fleet.quick,
		Shards:  func(ctx context.Context) ([]schedule.Shard, error) { return worker.Catalogue(ctx, coordinator) },
		Workers: func() int { return m.daemon().Running() }, Load: func() schedule.Load { return m.daemon().Load() },
		Remaining: func() (schedule.Remaining, bool) { return m.daemon().Remaining() }, IntentChanged: func() { m.daemon().ReadIntent() },
		MaxRate: m.r.maxRate, Scheduler: m.sched, Log: m.log,
	}
	conf.Gossip.Meta.API, conf.Gossip.Log = m.r.api.advertise, m.log
	if m.streams != nil {
		conf.RaftAddress = m.r.api.advertise
		conf.Streams = func() (store.Streams, error) { return m.streams.Open(), nil }
	}
	f, err := fleet.Start(ctx, conf)
	if err != nil {
		if count, lerr := fleet.Register(ctx, conf); lerr == nil { // the others leave it its part of the rate
			m.mu.Lock()
			m.alone = count
			m.mu.Unlock()
		}
		return fail(err)
	}
	return f, func() { _ = closeStore() }, nil
}
