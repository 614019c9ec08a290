// Package fleet makes a node one of many: it advertises itself in the coordination store, gossips with the
// others, takes part in keeping hints, and leads when it is the node's turn. Everything it does is
// optional: without it the same migration ends right, only later.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/primitive"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/schedule"
	"github.com/rfsd/rfsd/store"
)

// Config of a node's part in the fleet.
type Config struct {
	// Store keeps the node list, the locks and the founding record of the hints: the coordination store.
	Store  primitive.Store
	Clock  cms.Clock
	Gossip gossip.Config
	// Dir keeps the hints' files; Streams opens what carries Raft, once per epoch, and RaftAddress is where
	// others reach it. No Streams: no Raft, and hints travel by gossip only.
	Dir         string
	Streams     func() (store.Streams, error)
	RaftAddress string
	// Shards reads the catalogue from the coordination store; only the leader asks for it.
	Shards  func(context.Context) ([]schedule.Shard, error)
	Workers func() int                              // running on this node
	Load    func() schedule.Load                    // of this node, for the others; nil: nothing is told
	Left    func() (left schedule.Left, known bool) // of the migration, by this node's last reading
	MaxRate int64                                   // bytes per second of the whole fleet; 0: no limit
	// Wished is called when another node says that the operator's wish has changed: the store has it.
	Wished    func()
	Scheduler *schedule.Scheduler
	Quick     bool // short intervals, for nodes on one machine
	Log       *slog.Logger
}

// intervals of what a node does again and again.
type intervals struct {
	advertise, hints, lead time.Duration
	load                   time.Duration // between two words of a node about its load, in a small fleet
	expire                 time.Duration // a node that was not seen for so long leaves the list
	leadership             time.Duration // time to live of the leader's lock
	lost                   time.Duration // hints without a leader for so long begin anew
	living                 time.Duration // a node that was seen in the list within so much of the newest one lives
	lapse                  time.Duration // a node that was not in the list for so long may not be counted any more; less than living
	plan                   time.Duration // what the leader proposes lives so long, in a small fleet
}

var (
	normal = intervals{
		load: 10 * time.Second, advertise: 30 * time.Second, hints: 10 * time.Second, lead: 15 * time.Second, expire: 5 * time.Minute,
		leadership: 30 * time.Second, lost: 90 * time.Second, living: 75 * time.Second, lapse: time.Minute, plan: time.Minute,
	}
	quick = intervals{
		load: time.Second, advertise: time.Second, hints: 300 * time.Millisecond, lead: 500 * time.Millisecond, expire: 10 * time.Second,
		leadership: 3 * time.Second, lost: 5 * time.Second, living: 8 * time.Second, lapse: 6 * time.Second, plan: 5 * time.Second,
	}
)

// Fleet is this node's part.
type Fleet struct {
	conf   Config
	every  intervals
	gossip *gossip.Gossip
	nodes  *primitive.Nodes
	locks  *primitive.Locks
	log    *slog.Logger

	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	hints   *store.Store // nil until the cluster of hints is known, and between two epochs
	missing map[string]time.Time
	leading bool
	plan    proposal
	own     schedule.Load // as it was told last
	// busy and slow are the pressure on target and repository by all nodes' last words.
	busy, slow float64
	past       past

	taker  schedule.Taker // of this node's part of the rate
	listed int            // nodes that live by the list of the coordination store, where a rate is divided
	heard  int            // by gossip

	since int64 // epoch ms of the store: the node was in the list by then; advertise alone
}

// Start begins gossip and everything that follows from it.
func Start(ctx context.Context, conf Config) (*Fleet, error) {
	f := &Fleet{
		conf: conf, every: normal, log: conf.Log, missing: map[string]time.Time{},
		nodes: &primitive.Nodes{Store: conf.Store, Clock: conf.Clock},
		locks: &primitive.Locks{Store: conf.Store, Clock: conf.Clock, Wait: func() time.Duration {
			if all := conf.Scheduler.Place().Every(0, schedule.Elections); all > 0 {
				return rand.N(all)
			}
			return 0
		}},
	}
	if conf.Quick {
		f.every = quick
	}
	gc := conf.Gossip
	gc.Quick = conf.Quick
	gc.Meta.Raft = conf.RaftAddress
	gc.Finders = append(slices.Clone(gc.Finders), gossip.NodeList{Nodes: f.nodes})
	f.taker = schedule.Taker{Life: f.every.plan, Lapse: f.every.lapse}
	var err error
	if f.gossip, err = gossip.Start(ctx, gc); err != nil {
		return nil, err
	}
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	f.done.Go(func() { f.repeatIn(lasting, f.beat, f.advertise) })
	f.done.Go(func() { f.follow(lasting) })
	if conf.Streams != nil {
		f.done.Go(func() {
			f.repeatIn(lasting, func() time.Duration { return f.conf.Scheduler.Place().Every(f.every.hints, schedule.Foundings) }, f.keepHints)
		})
	}
	f.done.Go(func() { f.repeat(lasting, f.every.hints, f.learn) })
	f.done.Go(func() { f.leadAgain(lasting) })
	if conf.Load != nil {
		f.done.Go(func() { f.tellLoad(lasting) })
	}
	f.done.Go(func() { f.hear(lasting) })
	return f, nil
}

// repeat runs an errand now and then until ctx ends. A failure is said and tried again.
func (f *Fleet) repeat(ctx context.Context, every time.Duration, errand func(context.Context) error) {
	f.repeatIn(ctx, func() time.Duration { return every }, errand)
}

// beat is how often this node writes itself into the list. Where a rate is divided among those in it, not more seldom than all expect.
func (f *Fleet) beat() time.Duration {
	if f.conf.MaxRate > 0 {
		return f.every.advertise
	}
	return min(f.conf.Scheduler.Place().Every(f.every.advertise, schedule.Beats), f.every.expire/2)
}

// repeatIn is repeat in intervals that follow the size of the fleet.
func (f *Fleet) repeatIn(ctx context.Context, interval func() time.Duration, errand func(context.Context) error) {
	for {
		every := interval()
		if err := errand(ctx); err != nil && ctx.Err() == nil {
			f.log.Debug("fleet: put off", "error", err)
		}
		if f.conf.Clock.Sleep(ctx, every*3/4+rand.N(every/2)) != nil {
			return
		}
	}
}

// follow tells the scheduler where this node stands whenever members come and go.
func (f *Fleet) follow(ctx context.Context) {
	tick := time.NewTicker(f.every.advertise)
	defer tick.Stop()
	for {
		changed := f.gossip.Changed()
		f.stand()
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

func (f *Fleet) stand() {
	members := f.gossip.Members()
	place := schedule.Place{Nodes: len(members)}
	for i, m := range members {
		place.Workers += max(1, m.Meta.Workers)
		if m.Name == f.gossip.Name() {
			place.Position = i
		}
	}
	f.conf.Scheduler.Stand(place)
	f.mu.Lock()
	f.heard = len(members)
	f.mu.Unlock()
	meta := f.conf.Gossip.Meta
	meta.Raft, meta.Workers, meta.Voter = f.conf.RaftAddress, f.conf.Workers(), f.voter()
	if err := f.gossip.SetMeta(meta); err != nil {
		f.log.Debug("fleet: others do not know of a change yet", "error", err)
	}
}

// Share gives this node's place among the living nodes.
func (f *Fleet) Share() (position, count int) {
	members := f.gossip.Members()
	for i, m := range members {
		if m.Name == f.gossip.Name() {
			return i, len(members)
		}
	}
	return 0, 1
}

// Nodes are the living nodes, for a status.
func (f *Fleet) Nodes() []status.Node {
	members := f.gossip.Members()
	all := make([]status.Node, 0, len(members))
	for _, m := range members {
		all = append(all, status.Node{
			Name: m.Name, Version: m.Meta.Version, Started: time.UnixMilli(m.Meta.Started), State: "running",
			Running: m.Meta.Workers, Address: m.Meta.API, Zone: m.Meta.Zone,
		})
	}
	return all
}

// Leading says whether this node holds the leader's lock.
func (f *Fleet) Leading() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leading
}

// Tell passes a short note on to all nodes, such as an operator's wish that is written already.
func (f *Fleet) Tell(kind, key string, payload []byte, ttl time.Duration) error {
	return f.gossip.Tell(gossip.Note{Kind: kind, Key: key, TTL: int(ttl / time.Second), Payload: payload})
}

// Notes gives what others told.
func (f *Fleet) Notes(kind string) []gossip.Note { return f.gossip.Notes(kind) }

// Rotate takes new gossip keys.
func (f *Fleet) Rotate(keys gossip.Keys) error { return f.gossip.Rotate(keys) }

// Close leaves the fleet in good order.
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
