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

// Load measures the speed of a migration with all slots. The slots read parts of shards, spread over their ordinals, and send them as a
// migration does, to scratch indices that Load creates and deletes. So the target indexes documents that it does not have, into indices
// that grow, as in a migration; sending the same documents twice would be cheaper for it.
type Load struct {
	Session *phase.Session
	Scratch Scratch
	Failed  bulk.Recorder // separate from the trial run, which has recorded the failures of its sample
	Plan    *plan.Plan    // of a trial run
	Slots   int
	Lasts   time.Duration
}

// Loaded is the result of a Load.
type Loaded struct {
	All trial.Rate // rate of all slots together, in bytes of sources
	// Refresh is the time that the target took to make the documents searchable.
	Refresh time.Duration
}

const (
	loadVisits = 16       // shards in one cycle of visits
	partBytes  = 16 << 20 // repository bytes that a slot reads of one shard before it moves to the next
	// maxLoadDocument is the maximum size of a source in bytes; longer ones would need memory from the budget.
	maxLoadDocument = 16 << 20
	loadLook        = 250 * time.Millisecond
	loadCheck       = 2 * time.Second  // interval of checks of the target
	loadGrace       = 15 * time.Second // retries of a target that does not answer
)

// Limits of the bytes of sources sent: at least minSource, at most maxSource, in between a multiple of the snapshot's size.
const (
	minSource, maxSource = 32 << 20, 1 << 30
	snapshots            = 8
)

// MaxSource returns the maximum number of bytes of sources that a measurement sends: eight times the size of the shards in the repository,
// between 32 MiB and 1 GiB. If the sizes are unknown, it is 1 GiB.
func MaxSource(p *plan.Plan) int64 {
	var sum int64
	for _, x := range p.Indices {
		sum += x.Entry.Size()
	}
	if sum == 0 || sum > maxSource/snapshots {
		return maxSource
	}
	return max(minSource, snapshots*sum)
}

var (
	errLoadEnough  = errors.New("enough was sent")
	errNoDocuments = errors.New("the shards have no documents that are sent")
)

// Measure sends with all slots for the duration Lasts or until MaxSource bytes are sent. It returns errors of the target, of the
// repository, of recording the created indices, and of ctx. It deletes the scratch indices unless requests may still be in flight; then
// they remain recorded for a later cleanup.
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

// renew deletes the scratch indices of an earlier process and creates the scratch indices of shards.
func (l *Load) renew(ctx context.Context, on *scratches, shards []*loadShard) error {
	return l.untilAvailable(ctx, func() error {
		if err := on.discard(ctx); err != nil {
			return err
		}
		return l.create(ctx, on, shards)
	})
}

// create creates the scratch indices of shards.
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
	small bool  // a migration leases it together with others
	parts int64 // number of parts, at least one
	read  atomic.Int64
}

// next returns the part to read next and how often all parts have been read before. Consecutive parts lie far apart.
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

// visits returns a cycle of shards for the slots. Each shard appears in proportion to its size.
func (l *Load) visits() (visits []*loadShard) {
	var all []*loadShard
	var ends []float64 // cumulative sizes of the shards
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
		_, at = math.Modf(at + math.Phi - 1) // multiples of the golden ratio are spread evenly
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
	most    int64        // limit of added
	added   atomic.Int64 // bytes of sources sent
	sources atomic.Int64 // bytes of sources that the target has accepted
	body    atomic.Int64 // bytes of requests
	barren  atomic.Int64 // consecutive visits that found no document
	stop    chan struct{}
}

// send sends with all slots until the time or the bytes are used up, and returns the rate.
func (l *Load) send(ctx context.Context, on *scratches, visits []*loadShard) (trial.Rate, error) {
	if err := l.check(ctx, on); err != nil {
		return trial.Rate{}, err
	}
	m := &loading{Load: l, on: on, most: MaxSource(l.Plan), meter: &trial.Meter{Slots: max(1, min(l.Slots, l.Plan.Shards()))}, visits: visits, stop: make(chan struct{})}
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

// watch blocks until the measurement is over, and returns the time. It checks the scratch indices at intervals.
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

// check verifies that the scratch indices were not replaced.
func (l *Load) check(ctx context.Context, on *scratches) error {
	return l.untilAvailable(ctx, func() error { return on.present(ctx) })
}

// untilAvailable retries f for loadGrace while the target does not answer: a busy target rejects requests (429).
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

// slot visits shards in sequence, or a group of small ones concurrently, as a slot of the migration does.
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

// visit sends a part of a shard. Once all parts have been sent, documents get new ids so that they are new to the target.
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
			if _, ours := m.on.uuids[string(d.Index)]; !ours { // a rule moves it to another index, which is not measured
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

// metered is a Sender that measures how long requests take.
type metered struct {
	next bulk.Sender
	m    *loading
}

// Send sends a body and adds it to the measurement.
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
