package primitive_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

// TestPermits_PartOfADeadProcess: the part of a killed process is unused until its permit expires, but for a successor that has proven it
// dead. Parts of processes with similar names stay.
func TestPermits_PartOfADeadProcess(t *testing.T) {
	for _, c := range []struct {
		dead   string
		within time.Duration
	}{
		{"host_pid7_ab", time.Second}, {"host_pid7", 15 * time.Second}, {"host_pid7_abc", 15 * time.Second}, {"", 15 * time.Second},
	} {
		t.Run("as "+c.dead, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlowStore(10*time.Millisecond, 0, 1)
				p := startAs(t, s, "host_pid7_ab", 1, 0)
				time.Sleep(time.Minute)
				p.kill()
				<-p.done
				begin := time.Now()
				if err := primitive.ReleaseDead(t.Context(), cms.NewLeases(s, cmstest.Clock{Start: begin}, nil), "max-rate", c.dead); err != nil {
					t.Fatal(err)
				}
				p = start(t, s, 1, 0)
				for p.InUse() < permitLimit {
					time.Sleep(100 * time.Millisecond)
					if took := time.Since(begin); took > time.Minute {
						t.Fatalf("%d of %d", p.InUse(), permitLimit)
					}
				}
				if took := time.Since(begin); took > c.within || c.within > time.Second && took < 5*time.Second {
					t.Errorf("it has the whole after %v", took)
				}
				p.stop()
				<-p.done
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
		{"deleted", fmt.Errorf("GET: %w", cms.ErrStoreGone), 0, cms.ErrStoreGone, 4 * time.Second},
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
				if c.after > 0 { // what was given up is in use again later
					if sum := inUse(all); sum > c.after {
						t.Errorf("after %v: %d of %d are in use", c.within, sum, c.after)
					}
					time.Sleep(15*time.Second - c.within)
				}
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
