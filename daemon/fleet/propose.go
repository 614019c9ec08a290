package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/rfs/schedule"
	"github.com/rfsd/rfsd/store"
)

// term is what a leader keeps while it leads.
type term struct {
	had     int // workers that were proposed last
	divider schedule.Divider
	number  int64 // of the plan that was made last
	begun   bool  // the account of the leader before was read
	quiet   int64 // epoch ms of the store: until then that leader's plan may be followed
	history schedule.History
	left    schedule.Left // at the end of the history
	at      int64         // epoch ms of the store: when that was; 0: never
	told    time.Time     // the history, as a hint
}

const (
	// maxGap is the longest time without a leader that belongs to the history: beyond, nobody knows whether anything worked.
	maxGap = 5 * time.Minute
	// tellHistory is how often the history is told, and toldPoints how much of it: more than its Recent needs.
	tellHistory = time.Minute
	toldPoints  = 40
	maxHint     = 4 << 10 // bytes
)

// begin goes on where the leader before has stopped. The rate is not divided before those who start together with the leader are
// counted: while nobody follows a plan, that is soon.
func (t *term) begin(now int64, before Summary, life, start time.Duration) {
	t.begun, t.history, t.number = true, before.History, before.Divided
	t.quiet = max(before.Divided+schedule.Spent(life).Milliseconds(), now+start.Milliseconds())
	if before.At > 0 && before.Shards > 0 {
		t.at, t.left = before.At, schedule.Left{Indexed: before.Indexed, Failed: before.Failed, Filtered: before.Filtered, BytesDone: before.Bytes - before.LeftBytes}
	}
}

// add adds what was done since the last look to the history.
func (t *term) add(now int64, left schedule.Left, workers int) {
	documents := func(l schedule.Left) int64 { return l.Indexed + l.Failed + l.Filtered }
	p := schedule.Point{Begin: t.at, Took: now - t.at, Bytes: left.BytesDone - t.left.BytesDone, Documents: documents(left) - documents(t.left)}
	p.Worked = p.Took * int64(workers)
	if t.at > 0 && p.Took <= maxGap.Milliseconds() && (workers > 0 || p.Bytes > 0) {
		t.history.Add(p)
	}
	t.at, t.left = now, left
}

// propose makes the plan of the fleet and writes its summary. Only the leader does.
func (f *Fleet) propose(ctx context.Context, t *term, shards []schedule.Shard) error {
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
	r, before, err := f.summary(ctx)
	if err != nil {
		return err
	}
	before.Divided = min(before.Divided, now.UnixMilli()) // the store's clock may have been set
	if !t.begun {
		t.begin(now.UnixMilli(), before, f.planLife(len(names)), 2*f.every.advertise)
	}
	busy, slow := schedule.Pressure(loads)
	s := Summary{Leader: f.gossip.Name(), At: now.UnixMilli(), Nodes: len(loads), Pressure: max(busy, slow), Divided: before.Divided}
	for _, l := range loads {
		s.Workers, s.Rate = s.Workers+l.Workers, s.Rate+l.Rate
	}
	open := -1
	var left schedule.Left
	known := false
	if f.conf.Left != nil {
		left, known = f.conf.Left()
	}
	if known {
		open = int(left.ItemsOpen)
		t.add(s.At, left, s.Workers)
	}
	recent := t.history.Recent()
	f.remember(recent, f.now().Add(historyLife))
	t.had = schedule.ProposeWorkers(t.had, loads, open)
	s.Proposed = t.had
	s.count(left, known, recent)
	s.History = t.history
	hints := f.current()
	divides := f.conf.MaxRate > 0 && hints != nil && s.At > t.quiet+2*maxErr.Milliseconds()
	if divides {
		t.number = max(t.number+1, s.At)
		s.Divided = t.number
	}
	// It is written first: the next leader has to know until when a plan may be followed.
	if err := f.summarize(ctx, r, s); err != nil || hints == nil {
		return err
	}
	plan, err := f.hintAll(t, schedule.TypicalShard(shards, loads, recent.Worker))
	if err != nil {
		return err
	}
	if divides {
		parts, err := f.divide(ctx, t, names, loads)
		if err != nil {
			return err
		}
		plan = append(plan, parts...)
	}
	return f.put(ctx, hints, append(plan, f.hintHistory(t)...))
}

// hintAll is what is proposed to every node.
func (f *Fleet) hintAll(t *term, shard time.Duration) ([]store.Hint, error) {
	h, err := planHint(everyNode, proposal{Workers: t.had, ShardMs: shard.Milliseconds()}, f.every.plan)
	return []store.Hint{h}, err
}

func planHint(key string, p proposal, life time.Duration) (store.Hint, error) {
	p.LifeMs = life.Milliseconds()
	b, err := json.Marshal(p)
	return store.Hint{Kind: kindPlan, Key: key, Expires: time.Now().Add(life).UnixMilli(), Payload: b}, err
}

// divide divides the rate among the nodes that live by the list or are heard.
func (f *Fleet) divide(ctx context.Context, t *term, names []string, loads []schedule.Load) ([]store.Hint, error) {
	all, err := f.nodes.List(ctx)
	if err != nil {
		return nil, err
	}
	askers, at := make([]schedule.Asker, 0, len(names)), map[string]int{}
	for i, name := range names {
		at[name] = i
		askers = append(askers, schedule.Asker{Name: name, Load: loads[i], Heard: true})
	}
	for _, n := range living(all, f.every.living) {
		if i, ok := at[n.Token]; ok {
			askers[i].Listed = true
			continue
		}
		askers = append(askers, schedule.Asker{Name: n.Token, Listed: true})
	}
	life := f.planLife(len(askers))
	var hints []store.Hint
	for i, part := range t.divider.Divide(f.now(), t.number, f.conf.MaxRate, life, askers) {
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

// hintHistory tells the end of the history now and then.
func (f *Fleet) hintHistory(t *term) []store.Hint {
	if now := f.now(); t.told.IsZero() || now.Sub(t.told) >= min(tellHistory, 4*f.every.lead) {
		for n := toldPoints; n > 0; n /= 2 {
			b, err := json.Marshal(t.history.Last(n))
			if err == nil && len(b) <= maxHint {
				t.told = now
				return []store.Hint{{Kind: kindHistory, Expires: time.Now().Add(historyLife).UnixMilli(), Payload: b}}
			}
		}
	}
	return nil
}
