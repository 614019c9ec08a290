// Package fleet connects a node with the other nodes: node list in the coordination store, gossip, hints replicated by Raft, and leader
// election. All of it is an optimisation: without it the migration completes with the same result.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/store"
)

// Config configures a node's membership of the fleet.
type Config struct {
	// Store is the coordination store. It has the node list, the locks and the record of the Raft cluster.
	Store  primitive.Store
	Clock  timing.Clock
	Gossip gossip.Config
	// Dir has the files of the hints. Streams opens the connections for Raft, once per epoch; RaftAddress is the address for other nodes,
	// and Peers sends them requests. Without Streams, Raft and hints are off.
	Dir         string
	Streams     func() (store.Streams, error)
	RaftAddress string
	Peers       Peers
	// Shards reads the sizes of all shards from the coordination store; only the leader calls it.
	Shards    func(context.Context) ([]schedule.Shard, error)
	Workers   func() int                                   // running on this node
	Load      func() schedule.Load                         // of this node, for the others; nil: not reported
	Remaining func() (left schedule.Remaining, known bool) // as of this node's last read of the store
	// IntentChanged is called when another node announces that the intent in the store has changed.
	IntentChanged func()
	Scheduler     *schedule.Scheduler
	Quick         bool // short intervals, for nodes on one machine
	Log           *slog.Logger
}

// intervals are the intervals and timeouts of a node's periodic operations.
type intervals struct {
	advertise, hints, lead time.Duration
	load                   time.Duration // between reports of the load, in a small fleet
	nodeTTL                time.Duration // after which a node that was not seen is removed from the list
	leaderTTL              time.Duration // of the leader's lock
	leaderlessTimeout      time.Duration // after which hints without a leader are bootstrapped again
	planTTL                time.Duration // of the leader's proposals
}

var (
	defaultIntervals = intervals{
		load: 10 * time.Second, advertise: 30 * time.Second, hints: 10 * time.Second, lead: 15 * time.Second, nodeTTL: 5 * time.Minute,
		leaderTTL: 30 * time.Second, leaderlessTimeout: 90 * time.Second, planTTL: time.Minute,
	}
	quickIntervals = intervals{
		load: time.Second, advertise: time.Second, hints: 300 * time.Millisecond, lead: 500 * time.Millisecond, nodeTTL: 10 * time.Second,
		leaderTTL: 3 * time.Second, leaderlessTimeout: 5 * time.Second, planTTL: 5 * time.Second,
	}
)

// Fleet is this node's membership of the fleet.
type Fleet struct {
	conf      Config
	intervals intervals
	gossip    *gossip.Gossip
	nodes     *primitive.Nodes
	locks     *primitive.Locks
	log       *slog.Logger

	stop context.CancelFunc
	done sync.WaitGroup

	reportNow chan struct{} // triggers a report of the load immediately

	mu      sync.Mutex
	hints   *store.Store // nil until the Raft cluster is known, and between two epochs
	missing map[string]time.Time
	leading bool
	heard   heard
	own     schedule.Load    // as last reported
	shards  []schedule.Shard // of the snapshot, as far as they are in hints
	// The pressure on target and repository, from the last reports of all nodes.
	targetRejectRatio, repoThrottleRatio float64

	shardsRead shardsRead // used only by refresh
	reading    reading
}

// Start starts gossip and all periodic operations.
func Start(ctx context.Context, conf Config) (*Fleet, error) {
	f := &Fleet{
		conf: conf, intervals: defaultIntervals, log: conf.Log, missing: map[string]time.Time{}, reportNow: make(chan struct{}, 1),
		reading: reading{served: rate.NewLimiter(serveRate, serveBurst)},
		nodes:   &primitive.Nodes{Store: primitive.RememberClock(conf.Store, conf.Clock), Clock: conf.Clock},
	}
	f.locks = &primitive.Locks{Store: conf.Store, Clock: conf.Clock, Wait: f.electionPause}
	if conf.Quick {
		f.intervals = quickIntervals
	}
	gc := conf.Gossip
	gc.Quick = conf.Quick
	gc.Meta.Raft = conf.RaftAddress
	gc.Finders = append(slices.Clone(gc.Finders), gossip.NodeList{Nodes: f.nodes})
	var err error
	if f.gossip, err = gossip.Start(ctx, gc); err != nil {
		return nil, err
	}
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	f.done.Go(func() { f.repeatEvery(lasting, f.advertiseInterval, f.advertise) })
	f.done.Go(func() { f.watchMembers(lasting) })
	if conf.Streams != nil {
		f.done.Go(func() {
			f.repeatEvery(lasting, func() time.Duration {
				return f.conf.Scheduler.Position().Interval(f.intervals.hints, schedule.RaftProbeRate)
			}, f.syncHints)
		})
	}
	f.done.Go(func() { f.repeat(lasting, f.intervals.hints, f.refresh) })
	f.done.Go(func() { f.electionLoop(lasting) })
	if conf.Load != nil {
		f.done.Go(func() { f.loadLoop(lasting) })
	}
	f.done.Go(func() { f.noteLoop(lasting) })
	return f, nil
}

// repeat runs errand every interval ±25 % until ctx is done, and logs errors at debug level.
func (f *Fleet) repeat(ctx context.Context, every time.Duration, errand func(context.Context) error) {
	f.repeatEvery(ctx, func() time.Duration { return every }, errand)
}

// advertiseInterval returns the interval of this node's updates of the node list.
func (f *Fleet) advertiseInterval() time.Duration {
	return min(f.conf.Scheduler.Position().Interval(f.intervals.advertise, schedule.HeartbeatRate), f.intervals.nodeTTL/2)
}

// repeatEvery is repeat with an interval that may change, such as with the size of the fleet.
func (f *Fleet) repeatEvery(ctx context.Context, interval func() time.Duration, errand func(context.Context) error) {
	for {
		every := interval()
		if err := errand(ctx); err != nil && ctx.Err() == nil {
			f.log.Debug("fleet operation failed", "error", err)
		}
		if f.conf.Clock.Sleep(ctx, every*3/4+rand.N(every/2)) != nil {
			return
		}
	}
}

// watchMembers updates the scheduler's position whenever members join or leave.
func (f *Fleet) watchMembers(ctx context.Context) {
	tick := time.NewTicker(f.intervals.advertise)
	defer tick.Stop()
	for {
		changed := f.gossip.Changed()
		f.updatePosition()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

func (f *Fleet) updatePosition() {
	members := f.gossip.Members()
	place := schedule.NodePosition{Nodes: len(members)}
	for i, m := range members {
		place.Workers += max(1, m.Meta.Workers)
		if m.Name == f.gossip.Name() {
			place.Position = i
		}
	}
	f.conf.Scheduler.SetPosition(place)
	meta := f.conf.Gossip.Meta
	meta.Raft, meta.Workers, meta.Voter = f.conf.RaftAddress, f.conf.Workers(), f.isVoter()
	if s := f.hintStore(); s != nil {
		meta.Quorum = meta.Voter && s.Leader() != ""
	}
	if err := f.gossip.SetMeta(meta); err != nil {
		f.log.Debug("gossip metadata not updated", "error", err)
	}
}

// Share returns this node's position among the live nodes that run workers, and their number.
func (f *Fleet) Share() (position, count int) {
	members := slices.DeleteFunc(slices.Clone(f.gossip.Members()), func(m gossip.Member) bool { return m.Meta.Idle })
	for i, m := range members {
		if m.Name == f.gossip.Name() {
			return i, len(members)
		}
	}
	return 0, 1
}

// Nodes returns the live nodes, for the status.
func (f *Fleet) Nodes() []status.Node {
	members := f.gossip.Members()
	loads := map[string]schedule.Load{}
	for _, n := range f.Notes(noteLoad) {
		var l schedule.Load
		if json.Unmarshal(n.Payload, &l) == nil {
			loads[n.Origin] = l.Clamp()
		}
	}
	all := make([]status.Node, 0, len(members))
	for _, m := range members {
		n := status.Node{
			Name: m.Name, Version: m.Meta.Version, Started: time.UnixMilli(m.Meta.Started), State: "running",
			Running: m.Meta.Workers, Address: m.Meta.API, Zone: m.Meta.Zone,
		}
		if l, ok := loads[m.Name]; ok { // reported more often than the members' metadata
			n.Running, n.Order = l.Workers, l.Intent
		}
		all = append(all, n)
	}
	return all
}

// Gone returns the nodes that have left or failed since this node joined.
func (f *Fleet) Gone() []status.Node {
	members := f.gossip.Members()
	var all []status.Node
	for _, d := range f.gossip.Departures() {
		if slices.ContainsFunc(members, func(m gossip.Member) bool { return m.Name == d.Name }) {
			continue // it was unreachable temporarily
		}
		n := status.Node{Name: d.Name, Version: d.Meta.Version, Started: time.UnixMilli(d.Meta.Started), State: status.NodeLost, Zone: d.Meta.Zone}
		if d.Left {
			n.State = status.NodeLeft
		}
		all = append(all, n)
	}
	return all
}

// IsLeader reports whether this node holds the leader's lock.
func (f *Fleet) IsLeader() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leading
}

// Broadcast sends a note to all nodes.
func (f *Fleet) Broadcast(kind, key string, payload []byte, ttl time.Duration) error {
	return f.gossip.Broadcast(gossip.Note{Kind: kind, Key: key, TTL: int(ttl / time.Second), Payload: payload})
}

// Notes returns the unexpired notes of a kind.
func (f *Fleet) Notes(kind string) []gossip.Note { return f.gossip.Notes(kind) }

// Rotate replaces the gossip keys.
func (f *Fleet) Rotate(keys gossip.Keys) error { return f.gossip.Rotate(keys) }

// Close stops all operations, closes the hints and leaves gossip.
func (f *Fleet) Close() error {
	f.stop()
	f.done.Wait()
	f.mu.Lock()
	hints := f.hints
	f.hints = nil
	f.mu.Unlock()
	var err error
	if hints != nil {
		err = hints.Close()
	}
	if lerr := f.gossip.Leave(3 * time.Second); lerr != nil {
		err = errors.Join(err, fmt.Errorf("%w: %w", lerr, fault.ErrUnavailable))
	}
	return err
}
