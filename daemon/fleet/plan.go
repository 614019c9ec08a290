package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/store"
)

// Kinds of notes and of hints.
const (
	noteLoad   = "load"   // load of a node
	noteIntent = "intent" // the intent in the store has changed
	notePoison = "poison" // an item crashed a worker
	// kindSummary is the leader's summary as in the coordination store, with only the end of its history.
	kindSummary = "summary"
)

// TTLs of notes and hints. They are much longer than the interval between two of them, and short enough that notes and hints of dead nodes
// expire soon.
const (
	loadTTLFactor = 3 // times the interval
	intentTTL     = 30 * time.Second
	poisonTTL     = time.Hour
	// summaryTTL is the time for which the history of a summary is used: longer than the election of a leader.
	summaryTTL = 10 * time.Minute
	// loadIntervalPerNode is the interval of a node's load reports, per node of the fleet.
	loadIntervalPerNode = 200 * time.Millisecond
)

// heard holds the conclusions from the leader's summary, and their expiry.
type heard struct {
	workers        int
	shard          time.Duration // for an average shard, with one worker
	proposed       time.Time     // expiry of workers and shard
	bytesPerSecond float64       // of the fleet
	throughput     time.Time     // expiry of bytesPerSecond
	published      time.Time     // of the leader's last reading, by the store's clock; zero: none
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
		loads := f.loads(own)
		f.mu.Lock()
		f.own = own
		f.targetRejectRatio, f.repoThrottleRatio = schedule.Pressure(loads)
		f.mu.Unlock()
		if err != nil {
			f.log.Debug("load not reported", "error", err)
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

// Loads returns the last reported loads of the live nodes, including this node's.
func (f *Fleet) Loads() []schedule.Load {
	f.mu.Lock()
	own := f.own
	f.mu.Unlock()
	return f.loads(own)
}

// loads returns the loads reported by the live nodes, with own as this node's.
func (f *Fleet) loads(own schedule.Load) (loads []schedule.Load) {
	reported := map[string]schedule.Load{}
	for _, n := range f.Notes(noteLoad) {
		var l schedule.Load
		if json.Unmarshal(n.Payload, &l) == nil {
			reported[n.Origin] = l.Clamp()
		}
	}
	reported[f.gossip.Name()] = own
	for _, m := range f.gossip.Members() {
		if l, ok := reported[m.Name]; ok {
			loads = append(loads, l)
		}
	}
	return loads
}

// noteLoop handles notes of other nodes as they arrive, until ctx is done.
func (f *Fleet) noteLoop(ctx context.Context) {
	intents, poison := map[string]uint64{}, map[string]uint64{}
	for first := true; ; first = false {
		next := f.gossip.NoteArrived()
		for _, n := range f.Notes(noteIntent) {
			if intents[n.Origin] < n.Seq {
				intents[n.Origin] = n.Seq
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

// IntentFollowed reports the load immediately, with the version of the intent that this node follows.
func (f *Fleet) IntentFollowed() {
	select {
	case f.reportNow <- struct{}{}:
	default: // a report is pending
	}
}

// ItemPoisoned announces to the other nodes that an item crashed a worker here.
func (f *Fleet) ItemPoisoned(item string) { f.broadcastEvent(notePoison, item, poisonTTL) }

func (f *Fleet) broadcastEvent(kind, key string, life time.Duration) {
	if err := f.Broadcast(kind, key, nil, life); err != nil {
		f.log.Debug("gossip broadcast failed", "kind", kind, "error", err)
	}
}

// Plan returns the current proposal, with the reported pressure. It does not block.
func (f *Fleet) Plan() schedule.Plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan := schedule.Plan{TargetRejectRatio: f.targetRejectRatio, RepoThrottleRatio: f.repoThrottleRatio}
	now := f.now()
	if now.Before(f.heard.proposed) {
		plan.Workers, plan.ShardDuration = f.heard.workers, f.heard.shard
	}
	if now.Before(f.heard.throughput) {
		plan.Throughput = f.heard.bytesPerSecond
	}
	return plan
}

// readSummaryHint reads the leader's summary from the hints.
func (f *Fleet) readSummaryHint(ctx context.Context) error {
	hints, err := f.list(ctx, kindSummary)
	if err != nil || len(hints) == 0 {
		return err
	}
	now, _, err := f.nodes.Store.Now(ctx)
	if err != nil {
		return err
	}
	f.applySummary(hints, now)
	return nil
}

// applySummary applies valid summaries. now is the store's clock.
func (f *Fleet) applySummary(hints []store.Hint, now time.Time) {
	for _, h := range hints {
		var s Summary
		if json.Unmarshal(h.Payload, &s) == nil {
			f.follow(s, now)
		}
	}
}

// follow updates this node's proposal from a summary. A summary from the future is ignored, because its age is unknown.
func (f *Fleet) follow(s Summary, now time.Time) {
	age := now.Sub(time.UnixMilli(s.At))
	if age < -f.intervals.planTTL || age > summaryTTL {
		return
	}
	age = max(age, 0)
	recent := s.History.Recent()
	f.mu.Lock()
	own, shards := f.own, f.shards
	f.mu.Unlock()
	loads := f.loads(own)
	local := f.now()
	h := heard{
		workers: s.Proposed, shard: min(schedule.TypicalShard(shards, loads, recent.Worker), maxShard), proposed: local.Add(f.intervals.planTTL - age),
		bytesPerSecond: recent.Bytes, throughput: local.Add(summaryTTL - age),
	}
	if s.Published > 0 {
		h.published = time.UnixMilli(s.Published)
	}
	if f.hintStore() == nil { // the other nodes do not get the proposal: each uses its own counters
		h.workers, h.shard = 0, 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = h
}

// maxShard limits the duration of a typical shard in a proposal.
const maxShard = 30 * 24 * time.Hour
