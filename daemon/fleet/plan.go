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
	kindPlan   = "plan"   // by node, and everyNode
	everyNode  = "*"
	// kindHistory is what the fleet has done lately, for who has not seen it.
	kindHistory = "history"
)

// Lives of notes and hints. They are longer than the time between two words by far, and short enough that
// what a node said before it died is soon forgotten.
const (
	loadLives  = 3 // times the interval
	intentLife = 30 * time.Second
	poisonLife = time.Hour
	// historyLife is longer than it takes to choose another leader.
	historyLife = 10 * time.Minute
	// longestLife is that of a plan in the largest fleet; no word of another node makes it longer.
	longestLife = 15 * time.Minute
	// perNode bounds what a fleet says of its loads: a node speaks after so much time for each node there is.
	perNode = 200 * time.Millisecond
)

// proposal is the plan as a hint has it: for one node, or for all.
type proposal struct {
	Number  int64 `json:"number,omitempty"` // of the plan by which the rate was divided: epoch ms by the store's clock
	Rate    int64 `json:"rate,omitempty"`   // bytes per second
	LifeMs  int64 `json:"life_ms,omitempty"`
	Workers int   `json:"workers,omitempty"`
	ShardMs int64 `json:"shard_ms,omitempty"`
	until   time.Time
}

// past is what the fleet's history says.
type past struct {
	schedule.Throughput
	until time.Time
}

// tellLoad says now and then how this node is.
func (f *Fleet) tellLoad(ctx context.Context) {
	for {
		every := f.loadEvery(len(f.gossip.Members()))
		own := f.conf.Load()
		f.mu.Lock()
		own.Plan = f.taker.Follows(f.now())
		f.mu.Unlock()
		b, err := json.Marshal(own)
		if err == nil {
			err = f.Tell(noteLoad, "", b, max(loadLives*every, time.Second))
		}
		_, loads := f.loads(own)
		f.mu.Lock()
		f.own = own
		f.busy, f.slow = schedule.Pressure(loads)
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
			told[n.Origin] = l.Sane()
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

// hear follows what other nodes tell at once.
func (f *Fleet) hear(ctx context.Context) {
	wishes, poison := map[string]uint64{}, map[string]uint64{}
	for first := true; ; first = false {
		next := f.gossip.Heard()
		for _, n := range f.Notes(noteIntent) {
			if wishes[n.Origin] < n.Seq {
				wishes[n.Origin] = n.Seq
				if f.conf.Wished != nil && !first && n.Origin != f.gossip.Name() {
					f.conf.Wished()
				}
			}
		}
		for _, n := range f.Notes(notePoison) {
			if key := n.Origin + n.Key; poison[key] < n.Seq {
				poison[key] = n.Seq
				f.conf.Scheduler.Taken(n.Key, time.Now().Add(poisonLife))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
	}
}

// Wish tells the other nodes that the operator's wish is another: each reads it in the store.
func (f *Fleet) Wish() { f.say(noteIntent, "", intentLife) }

// Poison tells the other nodes that an item broke a worker here.
func (f *Fleet) Poison(item string) { f.say(notePoison, item, poisonLife) }

func (f *Fleet) say(kind, key string, life time.Duration) {
	if err := f.Tell(kind, key, nil, life); err != nil {
		f.log.Debug("fleet: a word was not passed on", "kind", kind, "error", err)
	}
}

// Plan is what is proposed to this node now, with the pressure that the nodes tell of, and its part of the rate. It asks nobody
// and waits for nothing.
func (f *Fleet) Plan() schedule.Plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan := schedule.Plan{Busy: f.busy, Slow: f.slow, Nodes: f.listed}
	now := f.now()
	if now.Before(f.plan.until) {
		plan.Workers, plan.Shard = f.plan.Workers, time.Duration(f.plan.ShardMs)*time.Millisecond
	}
	if now.Before(f.past.until) {
		plan.Throughput = f.past.Bytes
	}
	if f.conf.MaxRate > 0 {
		plan.Rate = f.taker.Take(now, f.conf.MaxRate, f.heard)
	}
	return plan
}

// learnPlan reads what the leader proposes.
func (f *Fleet) learnPlan() error {
	hints, err := f.list(kindPlan)
	f.takePlan(hints)
	return err
}

func (f *Fleet) takePlan(hints []store.Hint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range hints {
		var p proposal
		if json.Unmarshal(h.Payload, &p) != nil {
			continue
		}
		life := time.Duration(min(max(p.LifeMs, 0), longestLife.Milliseconds())) * time.Millisecond
		switch h.Key {
		case everyNode:
			f.plan, f.plan.until = p, f.ends(h, life)
			f.plan.ShardMs = min(max(p.ShardMs, 0), maxShard.Milliseconds())
		case f.gossip.Name():
			f.taker.Hear(f.now(), f.ends(h, life), p.Number, p.Rate, life)
		}
	}
}

// maxShard is more than a shard may count for.
const maxShard = 30 * 24 * time.Hour

// ends is when a hint ends. The clock of who said it may be wrong: it lives no longer than hints of its kind.
func (f *Fleet) ends(h store.Hint, life time.Duration) time.Time {
	return f.now().Add(min(time.Until(time.UnixMilli(h.Expires)), life))
}

// learnHistory reads how quick the fleet was.
func (f *Fleet) learnHistory() error {
	hints, err := f.list(kindHistory)
	f.takeHistory(hints)
	return err
}

func (f *Fleet) takeHistory(hints []store.Hint) {
	for _, h := range hints {
		var past schedule.History
		if json.Unmarshal(h.Payload, &past) == nil {
			f.remember(past.Recent(), f.ends(h, historyLife))
		}
	}
}

func (f *Fleet) remember(t schedule.Throughput, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.past = past{t, until}
}
