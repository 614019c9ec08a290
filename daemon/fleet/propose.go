package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/rfs/schedule"
	"github.com/rfsd/rfsd/store"
)

// leadership is the state of a leader during its term.
type leadership struct {
	workers       int // last proposed
	allocator     schedule.RateAllocator
	number        int64 // of the last plan
	resumed       bool  // the summary of the former leader was read
	allocateAfter int64 // epoch ms of the store: until then that leader's plan may be followed; no rate is divided
	history       schedule.History
	remaining     schedule.Remaining // at the last sample of the history
	at            int64              // of that sample, in epoch ms of the store; 0: none
	historySent   time.Time          // when the history was last written as a hint
}

const (
	// maxGap is the longest time without a leader that is part of the history: beyond it, the activity is unknown.
	maxGap = 5 * time.Minute
	// historyInterval is the interval of the history hint, and historySamples its length: more than Recent needs.
	historyInterval = time.Minute
	historySamples  = 40
	maxHint         = 4 << 10 // bytes
)

// resume continues from the former leader's summary. The rate is not divided before nodes that start together with the
// leader are listed.
func (t *leadership) resume(now int64, before Summary, life, start time.Duration) {
	t.resumed, t.history, t.number = true, before.History, before.Divided
	t.allocateAfter = max(before.Divided+schedule.PlanExpiry(life).Milliseconds(), now+start.Milliseconds())
	if before.At > 0 && before.Shards > 0 {
		t.at, t.remaining = before.At, schedule.Remaining{Indexed: before.Indexed, Failed: before.Failed, Filtered: before.Filtered, Kept: before.Kept, BytesDone: before.Bytes - before.LeftBytes}
	}
}

// add appends the progress since the last call to the history.
func (t *leadership) add(now int64, left schedule.Remaining, workers int) {
	documents := func(l schedule.Remaining) int64 { return l.Indexed + l.Kept + l.Failed + l.Filtered }
	p := schedule.Sample{Begin: t.at, Took: now - t.at, Bytes: left.BytesDone - t.remaining.BytesDone, Documents: documents(left) - documents(t.remaining)}
	p.Worked = p.Took * int64(workers)
	if t.at > 0 && p.Took <= maxGap.Milliseconds() && (workers > 0 || p.Bytes > 0) {
		t.history.Add(p)
	}
	t.at, t.remaining = now, left
}

// propose makes the plan of the fleet and writes its summary. It is called by the leader only.
func (f *Fleet) propose(ctx context.Context, t *leadership, shards []schedule.Shard) error {
	if f.conf.Load == nil {
		return nil
	}
	f.mu.Lock()
	own := f.own
	f.mu.Unlock()
	names, loads := f.loads(own)
	now, maxErr, err := f.conf.Store.Now(ctx)
	if err != nil {
		return err
	}
	r, before, err := f.readSummary(ctx)
	if err != nil {
		return err
	}
	before.Divided = min(before.Divided, now.UnixMilli()) // the store's clock may have been set
	if !t.resumed {
		t.resume(now.UnixMilli(), before, f.planTTL(len(names)), 2*f.intervals.advertise)
	}
	busy, slow := schedule.Pressure(loads)
	s := Summary{Leader: f.gossip.Name(), At: now.UnixMilli(), Nodes: len(loads), Pressure: max(busy, slow), Divided: before.Divided}
	for _, l := range loads {
		s.Workers, s.Rate = s.Workers+l.Workers, s.Rate+l.Rate
	}
	open := -1
	var left schedule.Remaining
	known := false
	if f.conf.Remaining != nil {
		left, known = f.conf.Remaining()
	}
	if known {
		open = int(left.ItemsOpen)
		t.add(s.At, left, s.Workers)
	}
	recent := t.history.Recent()
	f.setThroughput(recent, f.now().Add(historyTTL))
	t.workers = schedule.ProposeWorkers(t.workers, loads, open)
	s.Proposed = t.workers
	s.addRemaining(left, known, recent)
	s.History = t.history
	hints := f.hintStore()
	divides := f.conf.MaxRate > 0 && hints != nil && s.At > t.allocateAfter+2*maxErr.Milliseconds()
	if divides {
		t.number = max(t.number+1, s.At)
		s.Divided = t.number
	}
	// Write the summary first: the next leader has to know until when the plan may be followed.
	if err := f.writeSummary(ctx, r, s); err != nil || hints == nil {
		return err
	}
	plan, err := f.planHints(t, schedule.TypicalShard(shards, loads, recent.Worker))
	if err != nil {
		return err
	}
	if divides {
		parts, err := f.allocateRate(ctx, t, names, loads)
		if err != nil {
			return err
		}
		plan = append(plan, parts...)
	}
	return f.put(ctx, hints, append(plan, f.historyHints(t)...))
}

// planHints returns the proposal for all nodes.
func (f *Fleet) planHints(t *leadership, shard time.Duration) ([]store.Hint, error) {
	h, err := planHint(allNodes, proposal{Workers: t.workers, ShardMs: shard.Milliseconds()}, f.intervals.planTTL)
	return []store.Hint{h}, err
}

func planHint(key string, p proposal, life time.Duration) (store.Hint, error) {
	p.TTLMs = life.Milliseconds()
	b, err := json.Marshal(p)
	return store.Hint{Kind: kindPlan, Key: key, Expires: time.Now().Add(life).UnixMilli(), Payload: b}, err
}

// allocateRate divides the rate among the nodes that are listed or have reported their load.
func (f *Fleet) allocateRate(ctx context.Context, t *leadership, names []string, loads []schedule.Load) ([]store.Hint, error) {
	all, err := f.nodes.List(ctx)
	if err != nil {
		return nil, err
	}
	askers, at := make([]schedule.NodeDemand, 0, len(names)), map[string]int{}
	for i, name := range names {
		at[name] = i
		askers = append(askers, schedule.NodeDemand{Name: name, Load: loads[i], Reported: true})
	}
	for _, n := range liveNodes(all, f.intervals.listedTTL) {
		if i, ok := at[n.Token]; ok {
			askers[i].Listed = true
			continue
		}
		askers = append(askers, schedule.NodeDemand{Name: n.Token, Listed: true})
	}
	life := f.planTTL(len(askers))
	var hints []store.Hint
	for i, part := range t.allocator.Allocate(f.now(), t.number, f.conf.MaxRate, life, askers) {
		if part <= 0 {
			continue
		}
		h, err := planHint(askers[i].Name, proposal{Number: t.number, Rate: part}, life)
		if err != nil {
			return nil, err
		}
		hints = append(hints, h)
	}
	return hints, nil
}

// historyHints returns the recent history as a hint, once per interval.
func (f *Fleet) historyHints(t *leadership) []store.Hint {
	if now := f.now(); t.historySent.IsZero() || now.Sub(t.historySent) >= min(historyInterval, 4*f.intervals.lead) {
		for n := historySamples; n > 0; n /= 2 {
			b, err := json.Marshal(t.history.Last(n))
			if err == nil && len(b) <= maxHint {
				t.historySent = now
				return []store.Hint{{Kind: kindHistory, Expires: time.Now().Add(historyTTL).UnixMilli(), Payload: b}}
			}
		}
	}
	return nil
}
