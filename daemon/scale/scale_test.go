package scale

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/testing/boltstore"
)

func limits() Settings {
	return Settings{Max: 8, MachineWorkers: 2, WorkerBytes: 1 << 30, Cooldown: 5 * time.Minute}
}

func TestMachinesAreThoseOfTheWorkThatIsLeft(t *testing.T) {
	const now = int64(10_000_000)
	work := func(items, gib int64) Demand { return Demand{Known: true, Items: items, Bytes: gib << 30} }
	calm := []schedule.Load{{Workers: 2}, {Workers: 2}}
	busy := []schedule.Load{{Workers: 4, TargetRejectRatio: 0.2}}
	so := []schedule.Load{{Workers: 4, TargetRejectRatio: 0.05}}
	old := now - time.Hour.Milliseconds()
	five := 5
	for _, c := range []struct {
		name   string
		set    func(*Settings)
		was    State
		demand Demand
		loads  []schedule.Load
		want   int
		reason string
	}{
		{"one before the work is planned", nil, State{}, Demand{}, nil, 1, "not planned"},
		{"by bytes", nil, State{}, work(100, 7), nil, 4, "100 items"},
		{"by items, when few are left", nil, State{}, work(3, 700), nil, 2, "3 items"},
		{"by items, without a size", func(s *Settings) { s.WorkerBytes = 0 }, State{}, work(9, 1), nil, 5, ""},
		{"never more than the maximum", nil, State{}, work(1000, 1000), nil, 8, ""},
		{"never fewer than the minimum while there is work", func(s *Settings) { s.Min = 3 }, State{}, work(1, 0), nil, 3, ""},
		{"one more per node while the target bears it", nil, State{Machines: 2, Changed: old}, work(100, 100), calm, 4, ""},
		{"three quarters while it rejects", nil, State{Machines: 8, Changed: old}, work(100, 100), busy, 6, "20 % of the requests"},
		{"the same in between", nil, State{Machines: 4, Changed: old}, work(100, 100), so, 4, ""},
		{"fewer at the end", nil, State{Machines: 8, Changed: old}, work(2, 100), calm, 1, ""},
		{"the cool-down", nil, State{Machines: 8, Changed: now - 1000}, work(2, 100), calm, 8, "after the cool-down"},
		{"a smaller maximum does not wait", nil, State{Machines: 20, Changed: now - 1000}, work(100, 100), calm, 8, ""},
		{"nor while the fleet is paused", nil, State{Machines: 20, Changed: now - 1000}, Demand{Known: true, Held: "the fleet is paused"}, calm, 8, ""},
		{"a paused fleet keeps its machines", nil, State{Machines: 3, Changed: old}, Demand{Known: true, Held: "the fleet is paused", Items: 100, Bytes: 1 << 50}, calm, 3, "paused"},
		{"an operator's number", nil, State{Machines: 8, Changed: old}, Demand{Known: true, Workers: &five, Items: 100}, calm, 3, "operator"},
		{"none when complete", func(s *Settings) { s.Min = 2 }, State{Machines: 8, Changed: now - 1000}, Demand{Known: true, Complete: true}, calm, 0, "complete"},
		{"the minimum when complete, on request", func(s *Settings) { s.Min, s.KeepMin = 2, true }, State{Machines: 8, Changed: now - 1000}, Demand{Known: true, Complete: true}, calm, 2, "complete"},
		{"none without budget", func(s *Settings) { s.Budget = time.Hour }, State{Machines: 4, Changed: now - 1000, At: now - 1000, UsedMs: time.Hour.Milliseconds() - 4000}, work(100, 100), calm, 0, "1.0 instance hours"},
		{"all of the budget", func(s *Settings) { s.Budget = time.Hour }, State{Machines: 4, Changed: old, At: now - 1000, UsedMs: time.Hour.Milliseconds() - 4001}, work(8, 100), calm, 4, ""},
		{"machines that still run count", func(s *Settings) { s.Budget = time.Hour }, State{Running: 4, At: now - 1000, UsedMs: time.Hour.Milliseconds() - 4000}, work(8, 100), calm, 0, "used up"},
		{"a record with impossible values", nil, State{Machines: -5, Running: 1 << 60, Changed: 1 << 60, At: 1 << 60, UsedMs: -1}, work(100, 100), calm, 8, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := limits()
			if c.set != nil {
				c.set(&s)
			}
			is := s.next(c.was, c.demand, c.loads, now)
			if is.Machines != c.want || !strings.Contains(is.Reason, c.reason) {
				t.Errorf("%d machines because %q, want %d because %q", is.Machines, is.Reason, c.want, c.reason)
			}
		})
	}
}

// cloud has machines that take 30 s to start, and read 1 GiB in 10 s each.
type cloud struct {
	mu    sync.Mutex
	asked int
	ready []time.Time
	last  time.Time
	left  float64 // bytes
	most  int     // that ever ran
	calls []int
	slow  time.Duration // of the next call
}

func (c *cloud) Apply(_ context.Context, n int) (int, error) {
	c.mu.Lock()
	slow := c.slow
	c.slow = 0
	c.mu.Unlock()
	time.Sleep(slow) // as a request that is under way when its sender is deposed or dies
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work()
	for len(c.ready) < n {
		c.ready = append(c.ready, time.Now().Add(30*time.Second))
	}
	c.ready, c.asked = c.ready[:n], n
	c.most = max(c.most, n)
	c.calls = append(c.calls, n)
	return n, nil
}

func (c *cloud) work() {
	for _, at := range c.ready {
		if since := time.Since(later(at, c.last)); since > 0 {
			c.left = max(c.left-since.Seconds()*float64(1<<30)/10, 0)
		}
	}
	c.last = time.Now()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c *cloud) demand() Demand {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work()
	items := int64(c.left/(1<<30) + 0.999)
	return Demand{Known: true, Complete: items == 0, Items: items, Bytes: int64(c.left)}
}

// TestAFleetGrowsAndEndsThoughItsLeadersDie: from 0 to 8 to 0 machines while two leaders die, each with a request to the driver in flight
// that arrives long after the next leader has decided.
func TestAFleetGrowsAndEndsThoughItsLeadersDie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := boltstore.Open(t), &cloud{left: 200 << 30, last: time.Now()}
		set := limits()
		set.MachineWorkers = 1
		lead := func(name string) (kill func(), ended chan struct{}) {
			ctx, kill := context.WithCancel(t.Context())
			ended = make(chan struct{})
			s := &Scaler{Settings: set, Driver: c, Node: name, Demand: c.demand, Log: slog.New(slog.DiscardHandler)}
			locks := &primitive.Locks{Store: store, Clock: timing.SystemClock()}
			go func() {
				defer close(ended)
				_ = locks.Lead(ctx, "fleet", 30*time.Second, func(ctx context.Context) error {
					for ctx.Err() == nil {
						if err := s.Reconcile(ctx, store, []schedule.Load{{Workers: 1}}); err != nil && ctx.Err() == nil {
							t.Errorf("%s: %v", name, err)
						}
						_ = timing.SystemClock().Sleep(ctx, 15*time.Second)
					}
					return ctx.Err()
				})
			}()
			return kill, ended
		}
		state := func() State {
			st, err := Read(t.Context(), store)
			if err != nil {
				t.Error(err)
			}
			return st
		}
		killA, endA := lead("a")
		time.Sleep(20 * time.Second)
		if st := state(); st.Machines != 8 || st.Leader != "a" {
			t.Fatalf("after 20 s: %+v", st)
		}
		var ends []chan struct{}
		kill, ended := killA, endA
		for _, next := range []string{"b", "c"} {
			c.mu.Lock()
			c.slow = 50 * time.Second // the leader is killed with it
			c.mu.Unlock()
			time.Sleep(16 * time.Second)
			kill()
			ends = append(ends, ended)
			kill, ended = lead(next)
			time.Sleep(time.Minute)
			if st := state(); st.Leader != next || st.Machines < 1 {
				t.Errorf("after the death of a leader: %+v", st)
			}
		}
		for n := 0; state().Machines > 0 && n < 1000; n++ {
			time.Sleep(15 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		kill()
		for _, e := range append(ends, ended) {
			<-e
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.left != 0 || c.asked != 0 || c.most != 8 {
			t.Errorf("%.0f bytes are left, %d machines run, %d ran at most; calls %v", c.left, c.asked, c.most, c.calls)
		}
		if st := state(); st.Machines != 0 || st.UsedMs < (200*10*time.Second).Milliseconds() || st.UsedMs > (200*20*time.Second).Milliseconds() {
			t.Errorf("%+v; the work needs 2000 instance seconds", st)
		}
	})
}

// failing is a driver that always fails.
type failing struct{ err error }

func (f failing) Apply(context.Context, int) (int, error) { return 0, f.err }

func TestAnErrorOfTheDriverIsRecordedAndTriedAgain(t *testing.T) {
	store := boltstore.Open(t)
	s := &Scaler{Settings: limits(), Driver: failing{errors.New("no capacity")}, Node: "a", Log: slog.New(slog.DiscardHandler),
		Demand: func() Demand { return Demand{Known: true, Items: 100, Bytes: 100 << 30} }}
	for range 2 {
		if err := s.Reconcile(t.Context(), store, nil); err != nil {
			t.Fatal(err)
		}
		if st, err := Read(t.Context(), store); err != nil || st.Error != "no capacity" || st.Machines != 8 || st.Running != 0 {
			t.Errorf("%+v, %v", st, err)
		}
	}
	s.Driver = &cloud{}
	if err := s.Reconcile(t.Context(), store, nil); err != nil {
		t.Fatal(err)
	}
	if st, err := Read(t.Context(), store); err != nil || st.Error != "" || st.Running != 8 {
		t.Errorf("%+v, %v", st, err)
	}
}
