package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/trial"
)

// Load measures how fast a migration is at full speed. Its slots read parts of shards, spread over their ordinals, and send them as a
// migration does, to scratch indices that it creates and deletes. So the target indexes documents that it does not know, and its
// indices grow, as in a migration: documents that are sent twice cost it less.
type Load struct {
	Session *phase.Session
	Scratch Scratch
	Failed  bulk.Recorder // of documents sent here: the trial run has recorded the failures of its sample
	Plan    *plan.Plan    // of a trial run
	Slots   int
	Lasts   time.Duration
}

// Loaded is the result of a Load.
type Loaded struct {
	All trial.Rate // with all slots, in bytes of sources
	// Refresh is the time that the target took to make the documents searchable.
	Refresh time.Duration
}

const (
	loadVisits = 16       // of shards in sequence, before they start again
	partBytes  = 16 << 20 // of a shard in the repository, that a slot reads before it goes to another
	// maxLoadDocument bounds the sources that are sent, in bytes: the memory of longer ones would have to be asked for.
	maxLoadDocument = 16 << 20
	loadLook        = 250 * time.Millisecond
	loadCheck       = 2 * time.Second  // from one check of the target to the next
	loadGrace       = 15 * time.Second // for a target that does not answer
)

// Bounds of the sources that are sent, in bytes, and their multiple of the snapshot between these.
const (
	leastMost, mostMost = 32 << 20, 1 << 30
	snapshots           = 8
)

// MostSource returns how many bytes of sources a measurement sends at most: eight times what the shards take in the repository, from 32 MiB
// to 1 GiB. Where the sizes were not read, it is 1 GiB.
func MostSource(p *plan.Plan) int64 {
	var sum int64
	for _, x := range p.Indices {
		sum += x.Entry.Size()
	}
	if sum == 0 || sum > mostMost/snapshots {
		return mostMost
	}
	return max(leastMost, snapshots*sum)
}

var (
	errLoadEnough  = errors.New("enough was sent")
	errNoDocuments = errors.New("the shards have no documents that are sent")
)

// Measure sends with all slots for the time that the Load lasts, or until MostSource was sent. Errors are the errors of the target, of
// the repository, of the record of created indices, and of ctx. The scratch indices are deleted, except when requests may still be on
// their way: the record names them.
func (l *Load) Measure(ctx context.Context) (m Loaded, err error) {
	visits := l.visits()
	if len(visits) == 0 {
		return m, errNoDocuments
	}
	on := &scratches{Session: l.Session, records: l.Scratch, prefix: scratchPrefix(l.Plan), uuids: map[string]string{}}
	if err := l.renew(ctx, on, visits); err != nil {
		return m, errors.Join(err, on.discard(ctx))
	}
	if m.All, err = l.send(ctx, on, visits); err == nil {
		begin := l.now()
		err = on.refresh(ctx)
		m.Refresh = l.now() - begin
	}
	if err != nil && !errors.Is(err, errNoDocuments) {
		return m, fmt.Errorf("%w; rfsctl cleanup --trial removes the scratch indices", err)
	}
	return m, errors.Join(err, on.discard(ctx))
}

// renew deletes the scratch indices of an earlier process, and creates indices for some shards.
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

func (l *Load) now() time.Duration { return l.Session.Runner.Clock.Read().Mono }

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

// visits returns shards in the order in which slots go to them, each as often as its part of all bytes asks for.
func (l *Load) visits() (visits []*loadShard) {
	var all []*loadShard
	var ends []float64 // of the shards, when their bytes are put in a row
	total := 0.0
	for _, x := range l.Plan.Indices {
		for n := range x.Entry.Shards {
			s := &loadShard{id: cms.ItemID{Index: x.Name, Shard: n}, parts: 1}
			size := 1.0
			if n < len(x.Entry.Bytes) {
				size, s.small = max(1, float64(x.Entry.Bytes[n])), x.Entry.Bytes[n] <= engine.GroupBytes/engine.GroupItems
				s.parts = max(1, x.Entry.Bytes[n]/partBytes)
			}
			total += size
			all, ends = append(all, s), append(ends, total)
		}
	}
	at := 0.0
	for len(all) > 0 && len(visits) < loadVisits {
		n, _ := slices.BinarySearch(ends[:len(ends)-1], math.Nextafter(at*total, math.Inf(1)))
		visits = append(visits, all[n])
		_, at = math.Modf(at + math.Phi - 1) // the multiples of the golden ratio are spread evenly
	}
	return visits
}

// loading is a running measurement.
type loading struct {
	*Load
	on      *scratches
	meter   *trial.Meter
	visits  []*loadShard
	turn    atomic.Int64
	most    int64        // of added
	added   atomic.Int64 // bytes of sources
	sources atomic.Int64 // of these, bytes that the target has taken
	body    atomic.Int64 // bytes of requests
	barren  atomic.Int64 // visits without a document since the last one with some
	stop    chan struct{}
}

// send sends with all slots until it has enough.
func (l *Load) send(ctx context.Context, on *scratches, visits []*loadShard) (trial.Rate, error) {
	if err := l.check(ctx, on); err != nil {
		return trial.Rate{}, err
	}
	m := &loading{Load: l, on: on, most: MostSource(l.Plan), meter: &trial.Meter{Slots: max(1, min(l.Slots, l.Plan.Shards()))}, visits: visits, stop: make(chan struct{})}
	g, gctx := errgroup.WithContext(ctx)
	begin, end := l.now(), time.Duration(0)
	for range m.meter.Slots {
		g.Go(func() error { return m.slot(gctx) })
	}
	g.Go(func() (err error) {
		defer close(m.stop)
		end, err = m.watch(gctx)
		return err
	})
	if err := g.Wait(); err != nil {
		return trial.Rate{}, err
	}
	return m.meter.Rate(begin, end).In(float64(m.sources.Load()) / float64(max(1, m.body.Load()))), nil
}

// watch returns when no more is to be sent.
func (m *loading) watch(ctx context.Context) (time.Duration, error) {
	begin := m.now()
	checked := begin
	for {
		now := m.now()
		if m.added.Load() > m.most || now-begin >= m.Lasts {
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
	p := retry.Policy{Least: loadGrace, First: loadCheck, Now: l.now, Sleep: l.Session.Runner.Clock.Sleep}
	return p.Do(ctx, func(context.Context) error { return f() })
}

func (m *loading) stopped() bool {
	select {
	case <-m.stop:
		return true
	default:
		return false
	}
}

// slot goes to one shard after the other, or to small ones at the same time as a slot of the migration does.
func (m *loading) slot(ctx context.Context) error {
	for !m.stopped() && ctx.Err() == nil {
		var together errgroup.Group
		for range engine.GroupItems {
			s := m.visits[(m.turn.Add(1)-1)%int64(len(m.visits))]
			together.Go(func() error { return m.visit(ctx, s) })
			if !s.small {
				break
			}
		}
		if err := together.Wait(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// visit sends a part of a shard. When all parts have been sent before, the documents get other ids, so that they are new.
func (m *loading) visit(ctx context.Context, s *loadShard) error {
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
	loader := bulk.New(ctx, opts)
	part, round := s.next()
	var id []byte
	reading, err := shards.Open(ctx, all.Repo, s.entry, s.id.Shard, all.Edit, shards.Documents{
		Memory: all.Memory, MaxDocument: all.MaxDocument, Helpers: all.Helpers, Versions: opts.Existing == bulk.Newer,
		Filter: func(*doc.Document) error { return nil }, Fail: func(f *doc.Failure) error { return m.Failed.Record(ctx, []doc.Failure{*f}) },
		Send: func(d *doc.Document) error {
			if !opened {
				m.meter.Idle(began, m.now())
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
	if err = m.count(sent); err == nil {
		err = loader.Flush(ctx)
	}
	if err != nil {
		loader.Abort()
	}
	m.sources.Add(loader.Counts().Bytes)
	return err
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

// metered passes requests on and notes how long they take.
type metered struct {
	next bulk.Sender
	m    *loading
}

// Send passes a request on.
func (s metered) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	s.m.on.sent.Add(int64(n))
	begin := s.m.now()
	res, err := s.next.Send(ctx, body, n)
	taken := int64(len(body))
	if err != nil {
		taken = 0
	}
	s.m.meter.Sent(begin, s.m.now(), taken)
	s.m.body.Add(taken)
	return res, err
}
