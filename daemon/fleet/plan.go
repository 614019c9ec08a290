package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/rfs/schedule"
	"github.com/rfsd/rfsd/store"
)

// Kinds of notes and of hints.
const (
	noteLoad   = "load"   // load of a node
	noteIntent = "intent" // the intent in the store has changed
	notePoison = "poison" // an item crashed a worker
	kindPlan   = "plan"   // of allNodes
	allNodes   = "*"
	// kindHistory is the recent history of the fleet.
	kindHistory = "history"
)

// TTLs of notes and hints. They are much longer than the interval between two of them, and short enough that
// those of dead nodes expire soon.
const (
	loadTTLFactor = 3 // times the interval
	intentTTL     = 30 * time.Second
	poisonTTL     = time.Hour
	// historyTTL is longer than an election of a leader.
	historyTTL = 10 * time.Minute
	// maxPlanTTL limits the TTL of a plan; longer values of other nodes are reduced to it.
	maxPlanTTL = 15 * time.Minute
	// loadIntervalPerNode limits the load reports of a fleet: the interval of a node is so long per node of the fleet.
	loadIntervalPerNode = 200 * time.Millisecond
)

// proposal is the payload of a plan hint.
type proposal struct {
	TTLMs   int64 `json:"life_ms,omitempty"`
	Workers int   `json:"workers,omitempty"`
	ShardMs int64 `json:"shard_ms,omitempty"`
	expires time.Time
}

// throughput is the recent throughput of the fleet, with its expiry.
type throughput struct {
	schedule.Throughput
	expires time.Time
}

// loadLoop reports this node's load periodically until ctx is done.
func (f *Fleet) loadLoop(ctx context.Context) {
	for {
		every := f.loadInterval(len(f.gossip.Members()))
		own := f.conf.Load()
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
			f.log.Debug("load_not_reported", "error", err)
		}
		pause := time.NewTimer(every)
		select {
		case <-pause.C:
		case <-f.reportNow:
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// loads returns the loads of the live nodes that have reported one, including this node's.
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

// noteLoop handles notes of other nodes as they arrive, until ctx is done.
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

// IntentChanged announces to the other nodes that the intent in the store has changed.
func (f *Fleet) IntentChanged() { f.broadcastEvent(noteIntent, "", intentTTL) }

// IntentFollowed has the load reported at once, with the version of the intent that this node follows.
func (f *Fleet) IntentFollowed() {
	select {
	case f.reportNow <- struct{}{}:
	default: // it is going to be
	}
}

// ItemPoisoned announces to the other nodes that an item crashed a worker here.
func (f *Fleet) ItemPoisoned(item string) { f.broadcastEvent(notePoison, item, poisonTTL) }

func (f *Fleet) broadcastEvent(kind, key string, life time.Duration) {
	if err := f.Broadcast(kind, key, nil, life); err != nil {
		f.log.Debug("gossip_broadcast_failed", "kind", kind, "error", err)
	}
}

// Plan returns the current proposal, with the reported pressure. It does not block.
func (f *Fleet) Plan() schedule.Plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan := schedule.Plan{TargetRejectRatio: f.targetRejectRatio, RepoThrottleRatio: f.repoThrottleRatio}
	now := f.now()
	if now.Before(f.plan.expires) {
		plan.Workers, plan.ShardDuration = f.plan.Workers, time.Duration(f.plan.ShardMs)*time.Millisecond
	}
	if now.Before(f.throughput.expires) {
		plan.Throughput = f.throughput.Bytes
	}
	return plan
}

// readPlan reads the leader's proposal.
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
		if h.Key == allNodes { // one for a node is the former release's part of the rate
			f.plan, f.plan.expires = p, f.hintExpiry(h, life)
			f.plan.ShardMs = min(max(p.ShardMs, 0), maxShard.Milliseconds())
		}
	}
}

// maxShard limits the duration of a typical shard in a proposal.
const maxShard = 30 * 24 * time.Hour

// hintExpiry returns when a hint expires, by this node's clock. The author's clock may be wrong, so it is at most life from now.
func (f *Fleet) hintExpiry(h store.Hint, life time.Duration) time.Time {
	return f.now().Add(min(time.Until(time.UnixMilli(h.Expires)), life))
}

// readHistory reads the recent history of the fleet.
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
