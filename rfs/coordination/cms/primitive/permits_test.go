package primitive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/testing/cmstest"
)

const permitLimit = 6_000_000

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
	ctx, stop := context.WithCancel(t.Context())
	p := &process{store: &cut{slowStore: s}, stop: stop, done: make(chan struct{}), weight: weight, limit: permitLimit, lag: lag}
	permits := &primitive.Permits{Store: p.store, Clock: cmstest.Clock{Start: time.Now()}, Option: "max-rate", Log: slog.New(slog.DiscardHandler)}
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

// TestPermitsNeverExceedTheLimit simulates processes that start, end, are killed and change their weights, on a store that loses requests,
// and checks that the rate that may be in use never exceeds the limit.
func TestPermitsNeverExceedTheLimit(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 2))
				s := newSlowStore(time.Duration(1+rng.IntN(400))*time.Millisecond, 0.1, seed)
				var all []*process
				used := 0.0
				const steps = 6000 // of 100 ms
				for step := range steps {
					if len(all) == 0 || rng.IntN(150) == 0 && len(all) < 40 {
						all = append(all, start(t, s, rng.IntN(4), time.Duration(rng.IntN(1000))*time.Millisecond))
					}
					p := all[rng.IntN(len(all))]
					switch rng.IntN(600) {
					case 0, 1:
						p.kill()
					case 2:
						p.stop()
					case 3:
						p.mu.Lock()
						p.weight = rng.IntN(4)
						p.mu.Unlock()
					}
					for range 10 {
						time.Sleep(10 * time.Millisecond)
						if sum := inUse(all); sum > permitLimit {
							t.Fatalf("after %d steps %d of %d may be in use", step, sum, permitLimit)
						}
					}
					used += float64(inUse(all)) / permitLimit / steps
				}
				for _, p := range all {
					p.stop()
				}
				for _, p := range all {
					<-p.done
				}
				if used < 0.4 {
					t.Errorf("only %.0f %% of the limit were used", 100*used)
				}
			})
		})
	}
}

// TestAProcessThatStartsHasItsPartSoon measures when a process has its full part, and the load of all permits on the store.
func TestAProcessThatStartsHasItsPartSoon(t *testing.T) {
	for _, c := range []struct {
		name     string
		others   int
		killed   bool // one of the others, at the moment of the start
		within   time.Duration
		requests float64 // per second, of all, in the busiest minute once they have their parts
	}{
		{"alone", 0, false, time.Second, 3},
		{"the third", 2, false, 15 * time.Second, 6},
		{"the third, in the place of one that was killed", 3, true, 15 * time.Second, 6},
		{"of five hundred", 499, false, 2 * time.Minute, 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.others > 100 && testing.Short() {
				t.Skip("500 processes; run without -short")
			}
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSlowStore(10*time.Millisecond, 0, 1)
				var all []*process
				for range c.others {
					all = append(all, start(t, s, 1, 0))
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(5 * time.Minute)
				if c.others > 0 && inUse(all) < permitLimit*98/100 {
					t.Errorf("%d of %d are in use", inUse(all), permitLimit)
				}
				nodes := int64(c.others + 1)
				if c.killed {
					nodes--
					all[0].kill()
				}
				begin := time.Now()
				p := start(t, s, 1, 0)
				for p.InUse() < permitLimit/nodes*95/100 {
					time.Sleep(100 * time.Millisecond)
					if time.Since(begin) > time.Hour {
						t.Fatalf("never: it has %d of %d", p.InUse(), permitLimit/nodes)
					}
				}
				took := time.Since(begin)
				time.Sleep(3 * time.Minute)
				requests := s.busiest(begin)
				t.Logf("%v, %.1f requests per second", took, requests)
				if took > c.within || requests > c.requests {
					t.Errorf("it has its part after %v, want %v; %.1f requests per second, want %.1f", took, c.within, requests, c.requests)
				}
				for _, x := range append(all, p) {
					x.stop()
				}
				for _, x := range append(all, p) {
					<-x.done
				}
			})
		})
	}
}

// TestTheRecordOfPermits: foreign entries neither block a process permanently nor let it exceed the limit.
func TestTheRecordOfPermits(t *testing.T) {
	for _, c := range []struct {
		name, body string
		least      int64 // what the process has two hours later
	}{
		{"empty", `{}`, permitLimit},
		{"a permit that never ends", `{"permits":[{"holder":"x","weight":1,"part":6000000,"expire":9223372036854775807}]}`, permitLimit},
		{"of the past", `{"permits":[{"holder":"x","weight":1,"part":6000000,"expire":5}]}`, permitLimit},
		{"negative and huge", `{"permits":[{"holder":"x","weight":-5,"part":-9223372036854775808,"expire":9223372036854775807},{"holder":"y","weight":9223372036854775807,"part":9223372036854775807,"expire":9223372036854775807}]}`, permitLimit},
		{"no permits", `[]`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlowStore(time.Millisecond, 0, 1)
				s.records["permits:rate"] = cms.Record{ID: "permits:rate", Kind: "permits", Body: json.RawMessage(c.body)}
				p := start(t, s, 1, 0)
				for range 2 * 3600 {
					time.Sleep(time.Second)
					if got := p.InUse(); got > permitLimit {
						t.Fatalf("%d of %d", got, permitLimit)
					}
				}
				if got := p.InUse(); got < c.least {
					t.Errorf("%d of %d", got, c.least)
				}
				p.stop()
				<-p.done
			})
		})
	}
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

// TestPermits_HoldEndsWithoutAStore: a holder notices when no permit can be had any more, and retries while one may be.
func TestPermits_HoldEndsWithoutAStore(t *testing.T) {
	denied := fmt.Errorf("403 security_exception: %w", fault.ErrConfig)
	for _, c := range []struct {
		name    string
		fails   error
		lasts   time.Duration // afterwards the store is there again; 0: never
		returns error
		within  time.Duration
	}{
		{"deleted", fmt.Errorf("GET: %w", cms.ErrStoreGone), 0, cms.ErrStoreGone, 10 * time.Second},
		{"no permission any more", denied, 0, fault.ErrConfig, 2 * time.Minute},
		{"no permission for some seconds", denied, 5 * time.Second, nil, 0},
		{"away for an hour", fmt.Errorf("no route: %w", fault.ErrUnavailable), time.Hour, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &vanishing{slowStore: newSlowStore(10*time.Millisecond, 0, 1)}
				bucket := spendingBucket{throttle.New(1)}
				permits := &primitive.Permits{Store: store, Clock: cmstest.Clock{Start: time.Now()}, Option: "max-rate", Log: slog.New(slog.DiscardHandler)}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- permits.Hold(ctx, bucket) }()
				time.Sleep(10 * time.Second)
				begin := time.Now()
				store.set(c.fails)
				if c.returns != nil {
					if err := <-ended; !errors.Is(err, c.returns) || time.Since(begin) > c.within || bucket.InUse() != 0 {
						t.Errorf("it ended after %v with %v, %d in use", time.Since(begin), err, bucket.InUse())
					}
					stop()
					return
				}
				time.Sleep(c.lasts)
				store.set(nil)
				time.Sleep(time.Minute)
				if bucket.InUse() != permitLimit {
					t.Errorf("%d in use when the store was back", bucket.InUse())
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// spendingBucket is a process that always has something to send.
type spendingBucket struct{ *throttle.Bucket }

func (spendingBucket) Limit() int64 { return permitLimit }
func (spendingBucket) Weight() int  { return 1 }

// TestPermits_TheLimitChanges: all processes follow a limit that changes while they hold permits, and send no requests to the store while
// the limit is removed.
func TestPermits_TheLimitChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		all    int // processes
		before int64
		after  int64
		within time.Duration
	}{
		{"lower", 5, permitLimit, permitLimit / 10, 2500 * time.Millisecond},
		{"lower, before the next renewals", 60, permitLimit, permitLimit / 10, 2500 * time.Millisecond},
		{"higher", 5, permitLimit / 10, permitLimit, 15 * time.Second},
		{"removed", 5, permitLimit, 0, 3 * time.Second},
		{"made", 5, 0, permitLimit, 15 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlowStore(10*time.Millisecond, 0, 1)
				var all []*process
				set := func(p *process, limit int64) {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.limit = limit
				}
				for range c.all {
					p := start(t, s, 1, 0)
					set(p, c.before)
					all = append(all, p)
				}
				asked := func() int {
					s.mu.Lock()
					defer s.mu.Unlock()
					return len(s.requests)
				}
				kept := func(limit int64, when string) {
					t.Helper()
					if limit > 0 {
						if sum := inUse(all); sum > limit || sum < limit/2 {
							t.Errorf("%s: %d of %d are in use", when, sum, limit)
						}
						return
					}
					for _, p := range all {
						p.mu.Lock()
						part := p.part
						p.mu.Unlock()
						if part != primitive.Unlimited {
							t.Errorf("%s: a part of %d", when, part)
						}
					}
					before := asked()
					time.Sleep(time.Minute)
					if n := asked() - before; n > 0 {
						t.Errorf("%s: %d requests of the store in a minute", when, n)
					}
				}
				time.Sleep(2 * time.Minute)
				kept(c.before, "before")
				for _, p := range all {
					set(p, c.after)
				}
				time.Sleep(c.within)
				kept(c.after, "after")
				for _, p := range all {
					p.stop()
				}
				for _, p := range all {
					<-p.done
				}
			})
		})
	}
}
