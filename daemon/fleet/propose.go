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
	workers     int  // last proposed
	resumed     bool // the summary of the former leader was read
	history     schedule.History
	remaining   schedule.Remaining // at the last sample of the history
	at          int64              // of that sample, in epoch ms of the store; 0: none
	historySent time.Time          // when the history was last written as a hint
}

const (
	// maxGap is the longest time without a leader that is part of the history: beyond it, the activity is unknown.
	maxGap = 5 * time.Minute
	// historyInterval is the interval of the history hint, and historySamples its length: more than Recent needs.
	historyInterval = time.Minute
	historySamples  = 40
	maxHint         = 4 << 10 // bytes
)

// resume continues from the former leader's summary.
func (t *leadership) resume(before Summary) {
	t.resumed, t.history = true, before.History
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
	_, loads := f.loads(own)
	now, _, err := f.conf.Store.Now(ctx)
	if err != nil {
		return err
	}
	r, before, err := f.readSummary(ctx)
	if err != nil {
		return err
	}
	if !t.resumed {
		t.resume(before)
	}
	busy, slow := schedule.Pressure(loads)
	s := Summary{Leader: f.gossip.Name(), At: now.UnixMilli(), Nodes: len(loads), Pressure: max(busy, slow)}
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
	if err := f.writeSummary(ctx, r, s); err != nil || hints == nil {
		return err
	}
	plan, err := f.planHints(t, schedule.TypicalShard(shards, loads, recent.Worker))
	if err != nil {
		return err
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
