package primitive_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// slowStore is a store of records in memory whose requests take time and may fail.
type slowStore struct {
	cms.Records // List and Delete, which no permit needs
	latency     time.Duration
	lose        float64 // of requests whose answer is lost; every other one of these has an effect
	rng         *rand.Rand

	mu       sync.Mutex
	records  map[string]cms.Record
	requests []time.Time
}

func newSlowStore(latency time.Duration, lose float64, seed uint64) *slowStore {
	return &slowStore{latency: latency, lose: lose, rng: rand.New(rand.NewPCG(seed, 1)), records: map[string]cms.Record{}}
}

// request counts a request and returns whether it takes effect and whether it is answered.
func (s *slowStore) request(ctx context.Context) (effect, answered bool, err error) {
	s.mu.Lock()
	s.requests = append(s.requests, time.Now())
	lost, wait := s.rng.Float64() < s.lose, time.Duration(s.rng.Int64N(int64(s.latency)+1))
	effect = !lost || s.rng.IntN(2) == 0
	s.mu.Unlock()
	select {
	case <-time.After(s.latency/2 + wait):
		return effect, !lost, nil
	case <-ctx.Done():
		return false, false, ctx.Err()
	}
}

func (s *slowStore) Record(ctx context.Context, id string) (cms.Record, error) {
	_, answered, err := s.request(ctx)
	if err != nil || !answered {
		return cms.Record{}, fmt.Errorf("lost: %w", fault.ErrUnavailable)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[id]
	if !ok {
		return r, cms.ErrNotFound
	}
	return r, nil
}

func (s *slowStore) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	effect, answered, err := s.request(ctx)
	if err != nil || !effect {
		return cms.Revision{}, fmt.Errorf("lost: %w", fault.ErrUnavailable)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records[r.ID].Revision != r.Revision {
		return cms.Revision{}, cms.ErrConflict
	}
	r.Revision.Seq++
	s.records[r.ID] = r
	if !answered {
		return cms.Revision{}, fmt.Errorf("lost: %w", fault.ErrUnavailable)
	}
	return r.Revision, nil
}

// Now returns a time that is off by up to 200 ms, and that maximum error.
func (s *slowStore) Now(ctx context.Context) (time.Time, time.Duration, error) {
	if _, answered, err := s.request(ctx); err != nil || !answered {
		return time.Time{}, 0, fmt.Errorf("lost: %w", fault.ErrUnavailable)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(time.Duration(s.rng.Int64N(400)-200) * time.Millisecond), 200 * time.Millisecond, nil
}

// busiest returns the maximum requests per second over any minute since a time.
func (s *slowStore) busiest(since time.Time) (most float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	minutes := map[int]int{}
	for _, at := range s.requests {
		if at.After(since) {
			minutes[int(at.Sub(since)/time.Minute)]++
		}
	}
	for _, n := range minutes {
		most = max(most, float64(n)/60)
	}
	return most
}

// cut is the store as seen by a process that may be killed.
type cut struct {
	*slowStore
	mu   sync.Mutex
	dead bool
}

func (c *cut) request() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return fmt.Errorf("killed: %w", fault.ErrUnavailable)
	}
	return nil
}

func (c *cut) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if err := c.request(); err != nil {
		return cms.Revision{}, err
	}
	return c.slowStore.Put(ctx, r)
}

// process holds a permit. Its workers follow a lower part with a delay, and survive it when it is killed.
type process struct {
	store *cut
	stop  context.CancelFunc
	done  chan struct{}
	lag   time.Duration

	mu      sync.Mutex
	weight  int
	limit   int64
	part    int64
	left    func() time.Duration
	before  int64 // in use until then, beside part
	expires time.Time
}

func start(t *testing.T, s *slowStore, weight int, lag time.Duration) *process {
	return startAs(t, s, "", weight, lag)
}

func startAs(t *testing.T, s *slowStore, holder string, weight int, lag time.Duration) *process {
	ctx, stop := context.WithCancel(t.Context())
	p := &process{store: &cut{slowStore: s}, stop: stop, done: make(chan struct{}), weight: weight, limit: permitLimit, lag: lag}
	permits := &primitive.Permits{Store: p.store, Clock: cmstest.Clock{Start: time.Now()}, Option: "max-rate", Holder: holder, Log: slog.New(slog.DiscardHandler)}
	go func() {
		defer close(p.done)
		if err := permits.Hold(ctx, p); err != nil {
			t.Error(err)
		}
	}()
	return p
}

// kill ends the process like SIGKILL: it releases nothing.
func (p *process) kill() {
	p.store.mu.Lock()
	p.store.dead = true
	p.store.mu.Unlock()
	p.stop()
}

func (p *process) Limit() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

func (p *process) Weight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weight
}

func (p *process) Allow(part int64, left func() time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store.mu.Lock()
	dead := p.store.dead
	p.store.mu.Unlock()
	if dead {
		return
	}
	p.before, p.expires = p.inUse(), time.Now().Add(p.lag)
	p.part, p.left = part, left
}

func (p *process) InUse() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUse()
}

func (p *process) inUse() int64 {
	if p.left == nil || p.left() <= 0 {
		return 0
	}
	if time.Now().Before(p.expires) {
		return max(p.part, p.before)
	}
	return p.part
}

func inUse(all []*process) (sum int64) {
	for _, p := range all {
		sum += p.InUse()
	}
	return sum
}

// vanishing is a store whose requests fail from a given time on.
type vanishing struct {
	*slowStore
	mu    sync.Mutex
	fails error
}

func (v *vanishing) set(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fails = err
}

func (v *vanishing) now() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.fails
}

func (v *vanishing) Record(ctx context.Context, id string) (cms.Record, error) {
	if err := v.now(); err != nil {
		return cms.Record{}, err
	}
	return v.slowStore.Record(ctx, id)
}

func (v *vanishing) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if err := v.now(); err != nil {
		return cms.Revision{}, err
	}
	return v.slowStore.Put(ctx, r)
}
