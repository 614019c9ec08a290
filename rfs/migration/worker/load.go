package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/trial"
)

// Load measures how fast a migration is when it is under way. Its slots read parts of shards, spread over their ordinals, and send
// what they read as a migration does, to scratch indices that it creates and deletes. So the target has to index documents that it
// does not know, and its indices grow, as in a migration: documents that are sent twice cost it less.
type Load struct {
	Session *Session
	Scratch Scratch
	Failed  bulk.Recorder // of what is sent: the trial run has recorded the failures of its sample
	Plan    *plan.Plan    // of a trial run
	Slots   int
	Most    time.Duration // of a measurement
}

// Loaded is what a Load has measured, in bytes of sources per second.
type Loaded struct {
	All trial.Sustained // with all slots
	// Alone is with one slot, on the largest shard; zero when other shards decide how long a migration takes.
	Alone trial.Sustained
	// Refresh is how long the target took to make searchable what was sent with all slots.
	Refresh time.Duration
	// WarmUps are measurements with all slots before it, which do not count. Gain is how many times as fast as the last of them it
	// began, Warmed how many times as fast as the first.
	WarmUps      int
	Gain, Warmed float64
}

const (
	loadVisits    = 16       // of shards, one after the other, before they begin again
	partBytes     = 16 << 20 // of a shard in the repository, that a slot reads before it goes to another
	maxLoadSource = 1 << 30  // bytes of sources that are sent by a measurement
	maxWarmUps    = 3        // of a Load
	// maxLoadDocument bounds the sources that are sent, in bytes: the memory of longer ones would have to be asked for.
	maxLoadDocument = 16 << 20
	loadLook        = 250 * time.Millisecond
	loadCheck       = 2 * time.Second  // from one check of the target to the next
	loadGrace       = 15 * time.Second // beyond Most, until the first request; and for a target that does not answer a check
)

var (
	errLoadEnough  = errors.New("enough was sent")
	errNoDocuments = errors.New("the shards have no documents that are sent")
)

// Measure sends until the rate has settled: with all slots, after warm-ups in indices of their own until one begins no faster than
// the one before, and with one slot where one shard is so large that it decides. Errors are those of the target, of the repository,
// of the record of what was created, and of ctx. What was created is deleted, except when requests may still be on their way: the
// record names it.
func (l *Load) Measure(ctx context.Context) (m Loaded, err error) {
	visits, largest, part := l.visits()
	if len(visits) == 0 {
		return m, errNoDocuments
	}
	on := &scratches{Session: l.Session, records: l.Scratch, prefix: scratchPrefix(l.Plan), uuids: map[string]string{}}
	shards, slots := append(slices.Clone(visits), largest), max(1, min(l.Slots, l.shards()))
	for flow := (*trial.Flow)(nil); err == nil && (flow == nil || flow.WarmUp()); {
		if flow != nil {
			m.WarmUps++
		}
		if err = l.renew(ctx, on, shards); err != nil {
			return m, errors.Join(err, on.discard(ctx))
		}
		flow = &trial.Flow{Slots: slots, Most: l.Most, Before: flow, Again: m.WarmUps < maxWarmUps}
		if m.All, err = l.send(ctx, on, flow, visits); err == nil {
			m.Gain = flow.Gain()
			m.Warmed = max(1, m.Warmed) * m.Gain
			l.Session.Log.InfoContext(ctx, "rate measured", "bytes_per_second", int64(m.All.Rate), "times_the_one_before", m.Gain, "warm_up", flow.WarmUp())
		}
	}
	if err == nil {
		err = l.measure(ctx, &m, on, slots, largest, part)
	}
	if err != nil && !errors.Is(err, errNoDocuments) {
		return m, fmt.Errorf("%w; rfsctl cleanup --trial removes the scratch indices", err)
	}
	return m, errors.Join(err, on.discard(ctx))
}

// renew deletes scratch indices, and creates those of some shards.
func (l *Load) renew(ctx context.Context, on *scratches, shards []*loadShard) error {
	return l.untilAvailable(ctx, func() error {
		if err := on.discard(ctx); err != nil {
			return err
		}
		return l.create(ctx, on, shards)
	})
}

// create creates the scratch indices of some shards.
func (l *Load) create(ctx context.Context, on *scratches, shards []*loadShard) error {
	for _, x := range l.Plan.Indices {
		ours := slices.DeleteFunc(slices.Clone(shards), func(s *loadShard) bool { return s.id.Index != x.Name })
		if len(ours) == 0 {
			continue
		}
		e, err := on.create(ctx, x.Entry)
		if err != nil {
			return err
		}
		for _, s := range ours {
			s.entry = e
		}
	}
	return nil
}

// measure refreshes what was sent with all slots, and sends with one where that decides.
func (l *Load) measure(ctx context.Context, m *Loaded, on *scratches, slots int, largest *loadShard, part float64) (err error) {
	begin := l.now()
	if err := on.refresh(ctx); err != nil {
		return err
	}
	m.Refresh = l.now() - begin
	if slots > 1 && part*float64(slots) > 1 {
		m.Alone, err = l.send(ctx, on, &trial.Flow{Slots: 1, Most: l.Most}, []*loadShard{largest})
	}
	return err
}

func (l *Load) now() time.Duration { return l.Session.Runner.Clock.Read().Mono }

// shards returns how many shards the plan has.
func (l *Load) shards() (n int) {
	for _, x := range l.Plan.Indices {
		n += x.Entry.Shards
	}
	return n
}

// loadShard is a shard that is read in parts.
type loadShard struct {
	entry plan.Entry // of the scratch indices
	id    cms.ItemID
	small bool  // it is leased together with others
	parts int64 // of its ordinals, at least one
	read  atomic.Int64
}

// next returns the part that is read next, and how often all have been read before. Parts that follow each other lie far apart.
func (s *loadShard) next() (part, round int64) {
	n := s.read.Add(1) - 1
	step := max(1, int64(float64(s.parts)*(math.Phi-1)))
	for gcd(step, s.parts) != 1 {
		step++
	}
	return n % s.parts * step % s.parts, n / s.parts
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// visits returns shards in the order in which slots go to them, each as often as its part of all bytes asks for, and the largest
// with that part.
func (l *Load) visits() (visits []*loadShard, largest *loadShard, part float64) {
	var all []*loadShard
	var ends []float64 // of the shards, when their bytes are put in a row
	total, most := 0.0, -1.0
	for _, x := range l.Plan.Indices {
		for n := range x.Entry.Shards {
			s := &loadShard{id: cms.ItemID{Index: x.Name, Shard: n}, parts: 1}
			size := 1.0
			if n < len(x.Entry.Bytes) {
				size, s.small = max(1, float64(x.Entry.Bytes[n])), x.Entry.Bytes[n] <= groupBytes/groupItems
				s.parts = max(1, x.Entry.Bytes[n]/partBytes)
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

// loading is one measurement.
type loading struct {
	*Load
	on     *scratches
	flow   *trial.Flow
	visits []*loadShard
	turn   atomic.Int64
	added  atomic.Int64 // bytes of sources
	barren atomic.Int64 // visits without a document since the last one with some
	body   atomic.Int64 // bytes of requests
	stop   chan struct{}
	late   sync.WaitGroup // loaders whose slots have gone on

	mu      sync.Mutex
	sources int64 // bytes that the target has taken
	err     error // of a loader whose slot has gone on
}

// send sends with the slots of a flow until it has enough.
func (l *Load) send(ctx context.Context, on *scratches, flow *trial.Flow, visits []*loadShard) (trial.Sustained, error) {
	if err := l.check(ctx, on); err != nil {
		return trial.Sustained{}, err
	}
	m := &loading{Load: l, on: on, flow: flow, visits: visits, stop: make(chan struct{})}
	g, gctx := errgroup.WithContext(ctx)
	for range flow.Slots {
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
		if m.flow.Enough(now) || m.added.Load() > maxLoadSource || now-begin > m.Most+loadGrace {
			return now, nil
		}
		if now-checked >= loadCheck {
			if err := m.check(ctx, m.on); err != nil {
				return now, err
			}
			checked = m.now()
		}
		if err := m.Session.Runner.Clock.Sleep(ctx, loadLook); err != nil {
			return now, err
		}
	}
}

// check asks whether the scratch indices are still those that were created.
func (l *Load) check(ctx context.Context, on *scratches) error {
	return l.untilAvailable(ctx, func() error { return on.present(ctx) })
}

// untilAvailable calls f again while the target cannot answer, for some seconds: a busy one refuses requests (429).
func (l *Load) untilAvailable(ctx context.Context, f func() error) error {
	for begin := l.now(); ; {
		err := f()
		if !errors.Is(err, fault.ErrUnavailable) || l.now()-begin >= loadGrace {
			return err
		}
		if serr := l.Session.Runner.Clock.Sleep(ctx, loadCheck); serr != nil {
			return serr
		}
	}
}

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

// visit sends a part of a shard. When all parts have been sent before, the documents get other ids, so that they are new.
func (m *loading) visit(ctx, late context.Context, s *loadShard) error {
	runner, all := m.Session.Runner, &m.Session.Shards
	began, opened, sent := m.now(), false, false
	out, err := runner.Destination.Open(ctx, s.id, func() error { return nil })
	if err != nil {
		return err
	}
	opts := runner.Bulk
	opts.Sender, opts.Recorder, opts.Existing, opts.Own, opts.Breaker = metered{out, m}, m.Failed, s.entry.Existing(opts.Existing), true, nil
	if s.small {
		opts.MaxInFlight = 1
	}
	opts.Index, opts.Shard, opts.EmitType = s.entry.Naming.Index, s.id.Shard, s.entry.Naming.Emit
	loader := bulk.New(opts)
	part, round := s.next()
	var id []byte
	reading, err := shards.Open(ctx, all.Repo, s.entry, s.id.Shard, all.Edit, shards.Documents{
		Memory: all.Memory, MaxDocument: all.MaxDocument, Helpers: all.Helpers, Versions: opts.Existing == bulk.Newer,
		Filter: func(*doc.Document) error { return nil }, Fail: func(f *doc.Failure) error { return m.Failed.Record(ctx, []doc.Failure{*f}) },
		Send: func(d *doc.Document) error {
			if !opened {
				m.flow.Idle(began, m.now())
				opened = true
			}
			if m.stopped() {
				return errLoadEnough
			}
			if len(d.Source) > maxLoadDocument {
				return nil
			}
			if round > 0 {
				id = fmt.Appendf(append(id[:0], d.ID...), "~%d", round)
				d.ID = id
			}
			if _, ours := m.on.uuids[string(d.Index)]; !ours { // rules move it to an index that is not measured
				d.Index = []byte(s.entry.Ours[0])
			}
			sent = true
			m.added.Add(int64(len(d.Source)))
			return loader.Add(ctx, d)
		},
	})
	if err == nil {
		n := reading.MaxOrdinal()
		place := func(part int64) int64 { return n/s.parts*part + n%s.parts*part/s.parts }
		err = reading.Read(ctx, place(part), place(part+1))
	}
	if err != nil && !errors.Is(err, errLoadEnough) {
		loader.Abort()
		return err
	}
	if err := m.count(sent); err != nil {
		loader.Abort()
		return err
	}
	if s.parts > 1 || err != nil { // the migration would go on with this shard, without a pause
		m.late.Go(func() { m.end(late, loader) })
		return nil
	}
	m.end(ctx, loader)
	return nil
}

// count returns errNoDocuments when no part of any shard has documents.
func (m *loading) count(sent bool) error {
	if sent {
		m.barren.Store(0)
		return nil
	}
	parts := int64(0)
	for _, s := range m.visits {
		parts += s.parts
	}
	if m.barren.Add(1) > 2*parts && !m.stopped() {
		return errNoDocuments
	}
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
	s.m.on.sent.Add(int64(n))
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
