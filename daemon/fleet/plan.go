package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
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
)

// Lives of notes and hints. They are longer than the time between two words by far, and short enough that
// what a node said before it died is soon forgotten.
const (
	loadLives  = 3 // times the interval
	intentLife = 30 * time.Second
	poisonLife = time.Hour
	planLife   = time.Minute
	// perNode bounds what a fleet says of its loads: a node speaks after so much time for each node there is.
	perNode = 200 * time.Millisecond
)

// proposal is the plan as a hint has it.
type proposal struct {
	Rate    int64 `json:"rate,omitempty"` // bytes per second of one node
	Workers int   `json:"workers,omitempty"`
	ShardMs int64 `json:"shard_ms,omitempty"`
	until   time.Time
	rated   time.Time
}

// tellLoad says now and then how this node is.
func (f *Fleet) tellLoad(ctx context.Context) {
	for {
		every := max(f.every.load, time.Duration(len(f.gossip.Members()))*perNode)
		own := f.conf.Load()
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
			told[n.Origin] = l
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
				if f.conf.Wished != nil && !first {
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

// Plan is what is proposed to this node now, with the pressure that the nodes tell of. It asks nobody and waits
// for nothing.
func (f *Fleet) Plan() schedule.Plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan := schedule.Plan{Busy: f.busy, Slow: f.slow, Nodes: f.listed}
	now := time.Now()
	if now.Before(f.plan.until) {
		plan.Workers, plan.Shard = f.plan.Workers, time.Duration(f.plan.ShardMs)*time.Millisecond
	}
	if now.Before(f.plan.rated) {
		plan.Rate = f.plan.Rate
	}
	return plan
}

// learnPlan reads what the leader proposes.
func (f *Fleet) learnPlan() error {
	hints, err := f.list(kindPlan)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range hints {
		var p proposal
		if json.Unmarshal(h.Payload, &p) != nil {
			continue
		}
		// The clock of who said it may be wrong: a hint lives no longer than hints of its kind.
		until := time.UnixMilli(h.Expires)
		if latest := time.Now().Add(planLife); until.After(latest) {
			until = latest
		}
		switch h.Key {
		case everyNode:
			f.plan.Workers, f.plan.ShardMs, f.plan.until = p.Workers, p.ShardMs, until
		case f.gossip.Name():
			f.plan.Rate, f.plan.rated = p.Rate, until
		}
	}
	return nil
}

// propose makes the plan of the fleet and writes its summary. Only the leader does.
func (f *Fleet) propose(ctx context.Context, shards []schedule.Shard) error {
	if f.conf.Load == nil {
		return nil
	}
	f.mu.Lock()
	own := f.own
	f.mu.Unlock()
	names, loads := f.loads(own)
	open := -1
	var left int64
	if f.conf.Left != nil {
		if items, bytes, known := f.conf.Left(); known {
			open, left = items, bytes
		}
	}
	f.had = schedule.ProposeWorkers(f.had, loads, open)
	typical := schedule.TypicalShard(shards, loads)
	err := f.summarize(ctx, loads, open, left)
	s := f.current()
	if s == nil {
		return err
	}
	expires := time.Now().Add(planLife).UnixMilli()
	hint := func(key string, p proposal) (store.Hint, error) {
		b, err := json.Marshal(p)
		return store.Hint{Kind: kindPlan, Key: key, Expires: expires, Payload: b}, err
	}
	all, herr := hint(everyNode, proposal{Workers: f.had, ShardMs: typical.Milliseconds()})
	hints, errs := []store.Hint{all}, []error{err, herr}
	if f.conf.MaxRate > 0 {
		for i, part := range schedule.Allot(f.conf.MaxRate, loads) {
			h, err := hint(names[i], proposal{Rate: max(part, 1)})
			hints, errs = append(hints, h), append(errs, err)
		}
	}
	return errors.Join(append(errs, f.put(ctx, s, hints))...)
}

// Record of the coordination store that says how the fleet is.
const (
	summaryID   = "summary:fleet"
	summaryKind = "summary"
)

// Summary is the leader's account of the fleet.
type Summary struct {
	Leader    string  `json:"leader"`
	Nodes     int     `json:"nodes"`
	Workers   int     `json:"workers"`
	Proposed  int     `json:"workersProposed"`
	Rate      int64   `json:"bytesPerSecond"` // of sources, by all workers
	Pressure  float64 `json:"pressure"`       // part of requests that target or repository refused
	OpenItems int     `json:"openItems"`      // -1 when not known
	LeftBytes int64   `json:"leftBytes"`      // of the repository
}

// summarize writes the summary, under its revision: who has lost the lead overwrites nothing newer.
func (f *Fleet) summarize(ctx context.Context, loads []schedule.Load, open int, left int64) error {
	s := Summary{Leader: f.gossip.Name(), Nodes: len(loads), Proposed: f.had, OpenItems: open, LeftBytes: left}
	busy, slow := schedule.Pressure(loads)
	s.Pressure = max(busy, slow)
	for _, l := range loads {
		s.Workers, s.Rate = s.Workers+l.Workers, s.Rate+l.Rate
	}
	r, err := f.conf.Store.Record(ctx, summaryID)
	if errors.Is(err, cms.ErrNotFound) {
		r, err = cms.Record{ID: summaryID, Kind: summaryKind, CreatedAt: time.Now().UnixMilli()}, nil
	}
	if err != nil {
		return fmt.Errorf("summary of the fleet: %w", err)
	}
	if r.Body, err = json.Marshal(s); err != nil {
		return fmt.Errorf("summary of the fleet: %w", err)
	}
	r.UpdatedAt = time.Now().UnixMilli()
	if _, err := f.conf.Store.Put(ctx, r); err != nil && !errors.Is(err, cms.ErrConflict) {
		return fmt.Errorf("summary of the fleet: %w", err)
	}
	return nil
}
