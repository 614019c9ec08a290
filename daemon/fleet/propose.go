package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/store"
)

// leadership is the state of a leader during its term.
type leadership struct {
	workers   int  // last proposed
	resumed   bool // the summary of the former leader was read
	history   schedule.History
	remaining schedule.Remaining // at the last sample of the history
	at        int64              // time of that sample, in epoch ms of the store; 0: none
}

const (
	// maxGap is the longest time without a leader that is part of the history. After a longer one, the activity is unknown.
	maxGap = 5 * time.Minute
	// historySamples is the length of the history in a hint: more than Recent needs.
	historySamples = 40
	maxHint        = 4 << 10 // bytes
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

// propose updates the plan of the fleet and writes its summary, to the store and as a hint. Only the leader calls it.
func (f *Fleet) propose(ctx context.Context, t *leadership) error {
	if f.conf.Load == nil {
		return nil
	}
	loads := f.Loads()
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
	t.workers = schedule.ProposeWorkers(t.workers, loads, open)
	s.Proposed = t.workers
	s.addRemaining(left, known, t.history.Recent())
	s.History, s.Published = t.history, f.reading.published.Load()
	f.follow(s, now)
	hints := f.hintStore()
	if err := f.writeSummary(ctx, r, s); err != nil || hints == nil {
		return err
	}
	h, err := summaryHint(s)
	if err != nil {
		return err
	}
	return hints.Put(ctx, h)
}

// summaryHint returns a summary as a hint, with as much of its history as fits.
func summaryHint(s Summary) (store.Hint, error) {
	whole := s.History
	for n := historySamples; ; n /= 2 {
		s.History = whole.Last(n)
		b, err := json.Marshal(s)
		if err != nil || len(b) <= maxHint || n == 0 {
			return store.Hint{Kind: kindSummary, Expires: time.Now().Add(summaryTTL).UnixMilli(), Payload: b}, err
		}
	}
}
