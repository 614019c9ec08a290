package worker

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/trial"
)

// Load measures how fast a migration is when it is under way. Its slots read shards in order and convert them as a migration does,
// but send documents of the sample in place of what they read, again and again: the requests are as large and as concurrent as those
// of the migration, and the target holds no other documents than the sample's afterwards.
type Load struct {
	Runner *Runner
	Plan   *Plan
	Slots  int
	Most   time.Duration // of a measurement
	// Check returns an error when the target indices are no longer those of the run. A target that cannot answer now is asked
	// again.
	Check func(ctx context.Context) error
}

// Loaded is what a Load has measured, in bytes of sources per second.
type Loaded struct {
	All trial.Sustained // with all slots
	// Alone is with one slot, on the largest shard; zero when other shards decide how long a migration takes.
	Alone trial.Sustained
}

const (
	loadVisits    = 16       // of shards, one after the other, before they begin again
	maxLoadSample = 32 << 20 // bytes of documents that are held
	maxLoadRead   = 1 << 30  // bytes of sources that are read
	visitBytes    = 32 << 20 // that a slot reads of a shard before it goes to another
	loadLook      = 250 * time.Millisecond
	loadCheck     = 2 * time.Second  // from one check of the target to the next
	loadGrace     = 15 * time.Second // beyond Most, until the first request; and for a target that does not answer a check
)

var (
	errLoadEnough = errors.New("enough was read")
	errNoSample   = errors.New("the sample has no document that is short enough to be held and sent again")
)

// Measure sends until the rate has settled: with all slots, and with one slot where one shard is so large that it decides.
// Errors are those of Check, of the target, of the repository, and of ctx.
func (l *Load) Measure(ctx context.Context) (m Loaded, err error) {
	if err := l.check(ctx); err != nil {
		return m, err
	}
	visits, largest, part := l.visits()
	if err := l.hold(ctx, visits, largest); err != nil {
		return m, err
	}
	if visits = slices.DeleteFunc(visits, func(s *loadShard) bool { return len(s.sample) == 0 }); len(visits) == 0 {
		return m, errNoSample
	}
	slots := max(1, min(l.Slots, l.shards()))
	if m.All, err = l.send(ctx, slots, visits); err != nil {
		return m, err
	}
	if slots > 1 && part*float64(slots) > 1 && len(largest.sample) > 0 {
		if m.Alone, err = l.send(ctx, 1, []*loadShard{largest}); err != nil {
			return m, err
		}
	}
	return m, nil
}

// shards returns how many shards the plan has.
func (l *Load) shards() (n int) {
	for _, x := range l.Plan.Indices {
		n += x.Entry.Shards
	}
	return n
}

// loadShard is a shard, and the documents that are sent in place of those that are read of it.
type loadShard struct {
	entry  Entry
	id     cms.ItemID
	small  bool // it is leased together with others
	sample []doc.Document
}

// visits returns shards in the order in which slots go to them, each as often as its part of all bytes asks for, and the largest
// with that part.
func (l *Load) visits() (visits []*loadShard, largest *loadShard, part float64) {
	var all []*loadShard
	var ends []float64 // of the shards, when their bytes are put in a row
	total, most := 0.0, -1.0
	for _, x := range l.Plan.Indices {
		for n := range x.Entry.Shards {
			s := &loadShard{entry: x.Entry, id: cms.ItemID{Index: x.Name, Shard: n}}
			size := 1.0
			if n < len(x.Entry.Bytes) {
				size, s.small = max(1, float64(x.Entry.Bytes[n])), x.Entry.Bytes[n] <= groupBytes/groupItems
			}
			if size > most {
				largest, most = s, size
			}
			total += size
			all, ends = append(all, s), append(ends, total)
		}
	}
	at := 0.0
	for len(all) > 0 && len(visits) < loadVisits {
		n := 0
		for n < len(ends)-1 && ends[n] <= at*total {
			n++
		}
		visits = append(visits, all[n])
		_, at = math.Modf(at + math.Phi - 1) // the multiples of the golden ratio are spread evenly
	}
	return visits, largest, most / max(1, total)
}

// hold reads the samples of the shards of all visits, and of the largest.
func (l *Load) hold(ctx context.Context, visits []*loadShard, largest *loadShard) error {
	distinct := map[*loadShard]bool{}
	for _, s := range visits {
		distinct[s], distinct[largest] = true, true
	}
	var g errgroup.Group
	g.SetLimit(max(1, l.Slots))
	for s := range distinct {
		g.Go(func() error { return l.holdOne(ctx, s, maxLoadSample/len(distinct)) })
	}
	return g.Wait()
}

// holdOne reads the sample of a shard, at most so many bytes of it.
func (l *Load) holdOne(ctx context.Context, s *loadShard, most int) error {
	size := 0
	err := l.read(ctx, s, s.entry.Trial.Documents, func(d *doc.Document) error {
		if size += len(d.Source) + len(d.ID); size > most {
			return errLoadEnough
		}
		s.sample = append(s.sample, doc.Document{Index: bytes.Clone(d.Index), Type: bytes.Clone(d.Type), ID: bytes.Clone(d.ID), Routing: bytes.Clone(d.Routing), Source: bytes.Clone(d.Source)})
		return nil
	})
	if errors.Is(err, errLoadEnough) {
		return nil
	}
	return err
}

// read reads a shard, or a sample of it, as the migration does.
func (l *Load) read(ctx context.Context, s *loadShard, sample int64, each func(*doc.Document) error) error {
	return ReadShard(ctx, l.Runner.Repo, s.entry, s.id.Shard, l.Runner.Edit, Documents{
		Sample: sample, Memory: l.Runner.Memory, MaxDocument: l.Runner.MaxDocument, Send: each,
		Filter: func(*doc.Document) error { return nil }, Fail: func(*doc.Failure) error { return nil },
	})
}

// loading is one measurement.
type loading struct {
	*Load
	flow   *trial.Flow
	visits []*loadShard
	turn   atomic.Int64
	read   atomic.Int64 // bytes of sources
	body   atomic.Int64 // bytes of requests
	stop   chan struct{}
	late   sync.WaitGroup // loaders whose slots have gone on

	mu      sync.Mutex
	sources int64 // bytes that the target has taken
	err     error // of a loader whose slot has gone on
}

// send sends with so many slots until the rate has settled.
func (l *Load) send(ctx context.Context, slots int, visits []*loadShard) (trial.Sustained, error) {
	m := &loading{Load: l, flow: &trial.Flow{Slots: slots, Most: l.Most}, visits: visits, stop: make(chan struct{})}
	g, gctx := errgroup.WithContext(ctx)
	for range slots {
		g.Go(func() error { return m.slot(gctx, ctx) })
	}
	var end time.Duration
	g.Go(func() (err error) {
		defer close(m.stop)
		end, err = m.watch(gctx)
		return err
	})
	err := g.Wait()
	m.late.Wait()
	if err = errors.Join(err, m.err); err != nil {
		return trial.Sustained{}, err
	}
	return m.flow.Until(end).In(float64(m.sources) / float64(max(1, m.body.Load()))), nil
}

// watch returns when no more is to be sent.
func (m *loading) watch(ctx context.Context) (time.Duration, error) {
	begin := m.now()
	checked := begin
	for {
		now := m.now()
		if m.flow.Enough(now) || m.read.Load() > maxLoadRead || now-begin > m.Most+loadGrace {
			return now, nil
		}
		if now-checked >= loadCheck {
			if err := m.check(ctx); err != nil {
				return now, err
			}
			checked = m.now()
		}
		if err := m.Runner.Clock.Sleep(ctx, loadLook); err != nil {
			return now, err
		}
	}
}

// check asks whether the target indices are still those of the run, again while the target cannot answer: a busy one refuses
// such requests, too (429).
func (l *Load) check(ctx context.Context) error {
	if l.Check == nil {
		return nil
	}
	for begin := l.Runner.Clock.Read().Mono; ; {
		err := l.Check(ctx)
		if !errors.Is(err, fault.ErrUnavailable) || l.Runner.Clock.Read().Mono-begin >= loadGrace {
			return err
		}
		if serr := l.Runner.Clock.Sleep(ctx, loadCheck); serr != nil {
			return serr
		}
	}
}

func (m *loading) now() time.Duration { return m.Runner.Clock.Read().Mono }

func (m *loading) stopped() bool {
	select {
	case <-m.stop:
		return true
	default:
		return false
	}
}

// slot goes to one shard after the other, or to small ones beside each other as a slot of the migration does. What it leaves behind
// lasts as long as late.
func (m *loading) slot(ctx, late context.Context) error {
	for !m.stopped() && ctx.Err() == nil {
		var beside errgroup.Group
		for range groupItems {
			s := m.visits[(m.turn.Add(1)-1)%int64(len(m.visits))]
			beside.Go(func() error { return m.visit(ctx, late, s) })
			if !s.small {
				break
			}
		}
		if err := beside.Wait(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// visit reads a part of a shard, and sends as many bytes of its sample.
func (m *loading) visit(ctx, late context.Context, s *loadShard) error {
	began, opened := m.now(), false
	out, err := m.Runner.Destination.Open(ctx, s.id, func() error { return nil })
	if err != nil {
		return err
	}
	opts := m.Runner.Bulk
	opts.Sender, opts.Recorder, opts.Existing, opts.Breaker = metered{out, m}, forgotten{}, bulk.Overwrite, nil
	if s.small {
		opts.MaxInFlight = 1
	}
	opts.Index, opts.Shard, opts.EmitType = s.entry.Naming.Index, s.id.Shard, s.entry.Naming.Emit
	loader := bulk.New(opts)
	read, sent, n := 0, 0, 0
	err = m.Load.read(ctx, s, 0, func(d *doc.Document) error {
		if !opened {
			m.flow.Idle(began, m.now())
			opened = true
		}
		if m.stopped() || read >= visitBytes {
			return errLoadEnough
		}
		read += len(d.Source)
		m.read.Add(int64(len(d.Source)))
		for ; sent < read; n++ {
			x := s.sample[n%len(s.sample)]
			x.Ordinal = int64(n)
			if err := loader.Add(ctx, &x); err != nil {
				return err
			}
			sent += len(x.Source)
		}
		return nil
	})
	switch {
	case errors.Is(err, errLoadEnough): // the migration would go on with this shard, without a pause
		m.late.Go(func() { m.end(late, loader) })
		return nil
	case err != nil:
		loader.Abort()
		return err
	}
	m.end(ctx, loader)
	return nil
}

// end waits until everything of a loader was answered.
func (m *loading) end(ctx context.Context, loader *bulk.Loader) {
	err := loader.Flush(ctx)
	if err != nil {
		loader.Abort()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources += loader.Counts().Bytes
	m.err = errors.Join(m.err, err)
}

// metered passes requests on and notes how long they take.
type metered struct {
	next bulk.Sender
	m    *loading
}

// Send passes a request on.
func (s metered) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	request := s.m.flow.Begin(s.m.now())
	res, err := s.next.Send(ctx, body, n)
	taken := int64(len(body))
	if err != nil {
		taken = 0
	}
	s.m.flow.End(request, s.m.now(), taken)
	s.m.body.Add(taken)
	return res, err
}

// forgotten records no failures: the trial run has recorded those of the sample.
type forgotten struct{}

// Record forgets failures.
func (forgotten) Record(context.Context, []doc.Failure) error { return nil }

// Sync has nothing to do.
func (forgotten) Sync(context.Context) error { return nil }
