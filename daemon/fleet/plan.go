package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/rfs/schedule"
	"github.com/rfsd/rfsd/store"
)

// Kinds of notes that nodes tell each other, and of hints.
const (
	noteLoad   = "load"   // how a node is
	noteIntent = "intent" // the operator's wish in the store has changed
	notePoison = "poison" // an item broke a worker
	kindPlan   = "plan"   // by node, and allNodes
	allNodes   = "*"
	// kindHistory is what the fleet has done lately, for who has not seen it.
	kindHistory = "history"
)

// Lives of notes and hints. They are longer than the time between two words by far, and short enough that
// what a node said before it died is soon forgotten.
const (
	loadTTLFactor = 3 // times the interval
	intentTTL     = 30 * time.Second
	poisonTTL     = time.Hour
	// historyTTL is longer than it takes to choose another leader.
	historyTTL = 10 * time.Minute
	// maxPlanTTL is that of a plan in the largest fleet; no word of another node makes it longer.
	maxPlanTTL = 15 * time.Minute
	// loadIntervalPerNode bounds what a fleet says of its loads: a node speaks after so much time for each node there is.
	loadIntervalPerNode = 200 * time.Millisecond
)

// proposal is the plan as a hint has it: for one node, or for all.
type proposal struct {
	Number  int64 `json:"number,omitempty"` // of the plan by which the rate was divided: epoch ms by the store's clock
	Rate    int64 `json:"rate,omitempty"`   // bytes per second
	TTLMs   int64 `json:"life_ms,omitempty"`
	Workers int   `json:"workers,omitempty"`
	ShardMs int64 `json:"shard_ms,omitempty"`
	expires time.Time
}

// throughput is what the fleet's history says.
type throughput struct {
	schedule.Throughput
	expires time.Time
}

// loadLoop says now and then how this node is.
func (f *Fleet) loadLoop(ctx context.Context) {
	for {
		every := f.loadInterval(len(f.gossip.Members()))
		own := f.conf.Load()
		f.mu.Lock()
		own.Plan = f.follower.FollowedPlan(f.now())
		f.mu.Unlock()
		b, err := json.Marshal(own)
		if err == nil {
			err = f.Broadcast(noteLoad, "", b, max(loadTTLFactor*every, time.Second))
		}
		_, loads := f.loads(own)
		f.mu.Lock()
		f.own = own
		f.targetRejectRatio, f.repoThrottleRatio = schedule.Pressure(loads)
		f.mu.Unlock()
		if err != nil {
			f.log.Debug("fleet: the load of this node is not told", "error", err)
		}
		if f.conf.Clock.Sleep(ctx, every) != nil {
			return
		}
	}
}

// loads are those of the living nodes that told theirs, and this node's.
func (f *Fleet) loads(own schedule.Load) (names []string, loads []schedule.Load) {
	told := map[string]schedule.Load{}
	for _, n := range f.Notes(noteLoad) {
		var l schedule.Load
		if json.Unmarshal(n.Payload, &l) == nil {
			told[n.Origin] = l.Clamp()
		}
	}
	told[f.gossip.Name()] = own
	for _, m := range f.gossip.Members() {
		if l, ok := told[m.Name]; ok {
			names, loads = append(names, m.Name), append(loads, l)
		}
	}
	return names, loads
}

// noteLoop follows what other nodes tell at once.
func (f *Fleet) noteLoop(ctx context.Context) {
	wishes, poison := map[string]uint64{}, map[string]uint64{}
	for first := true; ; first = false {
		next := f.gossip.NoteArrived()
		for _, n := range f.Notes(noteIntent) {
			if wishes[n.Origin] < n.Seq {
				wishes[n.Origin] = n.Seq
				if f.conf.IntentChanged != nil && !first && n.Origin != f.gossip.Name() {
					f.conf.IntentChanged()
				}
			}
		}
		for _, n := range f.Notes(notePoison) {
			if key := n.Origin + n.Key; poison[key] < n.Seq {
				poison[key] = n.Seq
				f.conf.Scheduler.MarkTaken(n.Key, time.Now().Add(poisonTTL))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
	}
}

// IntentChanged tells the other nodes that the operator's wish is another: each reads it in the store.
func (f *Fleet) IntentChanged() { f.broadcastEvent(noteIntent, "", intentTTL) }

// ItemPoisoned tells the other nodes that an item broke a worker here.
func (f *Fleet) ItemPoisoned(item string) { f.broadcastEvent(notePoison, item, poisonTTL) }

func (f *Fleet) broadcastEvent(kind, key string, life time.Duration) {
	if err := f.Broadcast(kind, key, nil, life); err != nil {
		f.log.Debug("fleet: a word was not passed on", "kind", kind, "error", err)
	}
}

// Plan is what is proposed to this node now, with the pressure that the nodes tell of, and its part of the rate. It asks nobody
// and waits for nothing.
func (f *Fleet) Plan() schedule.Plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan := schedule.Plan{TargetRejectRatio: f.targetRejectRatio, RepoThrottleRatio: f.repoThrottleRatio, ListedNodes: f.listedNodes}
	now := f.now()
	if now.Before(f.plan.expires) {
		plan.Workers, plan.ShardDuration = f.plan.Workers, time.Duration(f.plan.ShardMs)*time.Millisecond
	}
	if now.Before(f.throughput.expires) {
		plan.Throughput = f.throughput.Bytes
	}
	if f.conf.MaxRate > 0 {
		plan.Rate = f.follower.Share(now, f.conf.MaxRate, f.gossipNodes)
	}
	return plan
}

// readPlan reads what the leader proposes.
func (f *Fleet) readPlan() error {
	hints, err := f.list(kindPlan)
	f.applyPlan(hints)
	return err
}

func (f *Fleet) applyPlan(hints []store.Hint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range hints {
		var p proposal
		if json.Unmarshal(h.Payload, &p) != nil {
			continue
		}
		life := time.Duration(min(max(p.TTLMs, 0), maxPlanTTL.Milliseconds())) * time.Millisecond
		switch h.Key {
		case allNodes:
			f.plan, f.plan.expires = p, f.hintExpiry(h, life)
			f.plan.ShardMs = min(max(p.ShardMs, 0), maxShard.Milliseconds())
		case f.gossip.Name():
			f.follower.Observe(f.now(), f.hintExpiry(h, life), p.Number, p.Rate, life)
		}
	}
}

// maxShard is more than a shard may count for.
const maxShard = 30 * 24 * time.Hour

// hintExpiry is when a hint ends. The clock of who said it may be wrong: it lives no longer than hints of its kind.
func (f *Fleet) hintExpiry(h store.Hint, life time.Duration) time.Time {
	return f.now().Add(min(time.Until(time.UnixMilli(h.Expires)), life))
}

// readHistory reads how quick the fleet was.
func (f *Fleet) readHistory() error {
	hints, err := f.list(kindHistory)
	f.applyHistory(hints)
	return err
}

func (f *Fleet) applyHistory(hints []store.Hint) {
	for _, h := range hints {
		var past schedule.History
		if json.Unmarshal(h.Payload, &past) == nil {
			f.setThroughput(past.Recent(), f.hintExpiry(h, historyTTL))
		}
	}
}

func (f *Fleet) setThroughput(t schedule.Throughput, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.throughput = throughput{t, until}
}
