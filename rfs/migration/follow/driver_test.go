package follow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// faulty is a store that loses answers to writes of records, or has them conflict.
type faulty struct {
	cms.Store
	mu   sync.Mutex
	n    int
	with func(n int, write func() (cms.Revision, error)) (cms.Revision, error)
}

func (f *faulty) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	f.mu.Lock()
	f.n++
	n, with := f.n, f.with
	f.mu.Unlock()
	write := func() (cms.Revision, error) { return f.Store.Put(ctx, r) }
	if with == nil {
		return write()
	}
	return with(n, write)
}

// fleetOf is a fleet of drivers over one store. Rounds take a second and are noted when they have arrived.
type fleetOf struct {
	t     *testing.T
	blobs repo.Repository
	store *faulty
	start time.Time
	ttl   time.Duration // of the lock
	nodes sync.WaitGroup

	mu      sync.Mutex
	by      []string // who has recorded the arrival of each round
	driving map[string]bool
	broken  bool // no round arrives
	tries   int
	die     func(node, step string) bool
}

// errKilled ends a node at a step.
var errKilled = errors.New("killed")

func newFleet(t *testing.T) *fleetOf {
	t.Helper()
	bolt := boltstore.Open(t)
	return &fleetOf{t: t, blobs: made(t), store: &faulty{Store: bolt}, start: time.Now(), ttl: 10 * time.Second, driving: map[string]bool{}, die: func(string, string) bool { return false }}
}

func (f *fleetOf) root() *cms.Coordinator { return f.chain(f.store).Root }

// chain returns the rounds as a process sees them through a store.
func (f *fleetOf) chain(store cms.Store) *follow.Chain {
	clock := cmstest.Clock{Start: f.start}
	return &follow.Chain{Root: cms.New(cms.Config{Store: store, Creator: "test", Clock: clock}), Session: "s", Clock: clock, Repo: f.blobs, Open: unstarted}
}

// drives starts a node and returns a function that ends it.
func (f *fleetOf) drives(name string) (end func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	own := &faulty{Store: f.store}
	dies := func(step string) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.die(name, step) {
			own.mu.Lock()
			own.with = func(int, func() (cms.Revision, error)) (cms.Revision, error) {
				return cms.Revision{}, fault.ErrUnavailable
			}
			own.mu.Unlock()
			cancel() // it does nothing more, not even free its lock
			return errKilled
		}
		return nil
	}
	c := f.chain(own)
	round := func(ctx context.Context) error {
		f.mu.Lock()
		for other := range f.driving {
			f.t.Errorf("%s and %s drive at the same time", name, other)
		}
		f.driving[name] = true
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			delete(f.driving, name)
			f.mu.Unlock()
		}()
		if err := dies("start"); err != nil {
			return err
		}
		x, _, err := c.Next(ctx, "", nil, settings)
		if err != nil {
			return err
		}
		if err := dies("started"); err != nil {
			return err
		}
		if err := c.Clock.Sleep(ctx, time.Second); err != nil {
			return err
		}
		if err := dies("arrive"); err != nil {
			return err
		}
		f.mu.Lock()
		f.tries++
		broken := f.broken
		f.mu.Unlock()
		if broken {
			return fmt.Errorf("shard 0 is damaged: %w", fault.ErrCorrupt)
		}
		if _, err := c.Arrive(ctx, x, "", &summary.Summary{Snapshot: fmt.Sprint("made-", x.Number), Complete: true}); err != nil {
			return err
		}
		f.mu.Lock()
		f.by = append(f.by, name)
		f.mu.Unlock()
		return dies("arrived")
	}
	cutOver := func(ctx context.Context) error {
		if err := dies("cut over"); err != nil {
			return err
		}
		if err := c.Finish(ctx); err != nil {
			return err
		}
		if err := dies("finished"); err != nil {
			return err
		}
		cutovers := session.CutoversOf(c.Root)
		is, _, err := cutovers.Read(ctx)
		if err == nil {
			_, err = cutovers.Move(ctx, is, func(x *session.Cutover, now int64) { x.State, x.Ended = session.CutoverDone, now })
		}
		if errors.Is(err, session.ErrCutoverMoved) {
			err = nil
		}
		return err
	}
	d := f.driver(c.Root)
	d.Round = func(ctx context.Context) (bool, error) {
		err := round(ctx)
		return err == nil, err
	}
	d.CutOver = func(ctx context.Context) (bool, error) { return false, cutOver(ctx) }
	f.nodes.Go(func() { d.Run(ctx) })
	return cancel
}

// rounds returns the recorded rounds, and fails the test unless all but the last have arrived, each with its own snapshot.
func (f *fleetOf) rounds() []session.Round {
	f.t.Helper()
	all, err := session.RoundsOf(f.root()).Read(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for i, x := range all.Rounds {
		if x.Number != i || x.Arrived == 0 && i < len(all.Rounds)-1 || x.Arrived != 0 && x.Snapshot != fmt.Sprint("made-", i) {
			f.t.Errorf("round %d: %+v", i, x)
		}
	}
	return all.Rounds
}

// TestDriver_AnotherNodeContinues kills the driver before and after each recorded step of a round.
func TestDriver_AnotherNodeContinues(t *testing.T) {
	for _, step := range []string{"start", "started", "arrive", "arrived"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				deaths := map[string]bool{}
				f.die = func(node, at string) bool {
					if at != step || len(f.by) < 1 || len(deaths) == 2 || deaths[node] {
						return false
					}
					deaths[node] = true
					return true
				}
				var ends []func()
				for _, name := range []string{"a", "b", "c"} {
					ends = append(ends, f.drives(name))
				}
				time.Sleep(6 * time.Minute)
				if n := len(f.rounds()); n < 5 || n > 7 {
					t.Errorf("%d rounds in 6 minutes, one is due every minute", n)
				}
				if len(deaths) != 2 || len(f.by) < 5 || deaths[f.by[len(f.by)-1]] {
					t.Errorf("of the nodes %v are dead; the rounds arrived by %v", deaths, f.by)
				}
				for _, end := range ends {
					end()
				}
				f.nodes.Wait()
			})
		})
	}
}

// TestDriver_StoreFaults loses answers of the store, and has writes conflict.
func TestDriver_StoreFaults(t *testing.T) {
	for name, with := range map[string]func(n int, write func() (cms.Revision, error)) (cms.Revision, error){
		"lost answers": func(n int, write func() (cms.Revision, error)) (cms.Revision, error) {
			rev, err := write()
			if n%3 == 0 {
				return cms.Revision{}, fault.ErrUnavailable
			}
			return rev, err
		},
		"lost requests": func(n int, write func() (cms.Revision, error)) (cms.Revision, error) {
			if n%3 == 0 {
				return cms.Revision{}, fault.ErrUnavailable
			}
			return write()
		},
		"conflicts": func(n int, write func() (cms.Revision, error)) (cms.Revision, error) {
			if n%2 == 0 {
				return cms.Revision{}, cms.ErrConflict
			}
			return write()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.store.with = with
				ends := []func(){f.drives("a"), f.drives("b")}
				time.Sleep(5 * time.Minute)
				f.store.mu.Lock()
				f.store.with = nil
				f.store.mu.Unlock()
				if n := len(f.rounds()); n < 4 || n > 6 {
					t.Errorf("%d rounds in 5 minutes, one is due every minute", n)
				}
				for _, end := range ends {
					end()
				}
				f.nodes.Wait()
			})
		})
	}
}

// TestDriver_PausedFleet starts no round while the operator wants no work, also when the driver changes meanwhile.
func TestDriver_PausedFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		ends := map[string]func(){"a": f.drives("a"), "b": f.drives("b")}
		time.Sleep(70 * time.Second)
		orders := session.OrdersOf(f.root())
		if _, err := orders.Issue(t.Context(), session.Order{Kind: session.OrderPause, Who: "ann"}); err != nil {
			t.Fatal(err)
		}
		before := len(f.rounds())
		ends[f.by[0]]()
		time.Sleep(5 * time.Minute)
		if n := len(f.rounds()); before != 2 || n != before {
			t.Errorf("%d rounds before and %d rounds after a pause", before, n)
		}
		if _, err := orders.Issue(t.Context(), session.Order{Kind: session.OrderResume, Who: "ann"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := len(f.rounds()); n != before+1 || f.by[n-1] == f.by[0] {
			t.Errorf("%d rounds after the fleet was resumed, arrived by %v", n, f.by)
		}
		for _, end := range ends {
			end()
		}
		f.nodes.Wait()
	})
}

// TestDriver_AStoppedDriverIsReplacedSoon stops the driver in order: another node drives long before the lock would have ended.
func TestDriver_AStoppedDriverIsReplacedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.ttl = time.Hour
		ends := map[string]func(){"a": f.drives("a"), "b": f.drives("b")}
		time.Sleep(59 * time.Second) // round 0 has arrived, and round 1 is due soon
		first := f.by[0]
		ends[first]()
		time.Sleep(10 * time.Second)
		if n := len(f.rounds()); n != 2 || len(f.by) != 2 || f.by[1] == first {
			t.Errorf("%d rounds have started, they arrived by %v", n, f.by)
		}
		for _, end := range ends {
			end()
		}
		f.nodes.Wait()
	})
}

// TestDriver_AFailedRoundIsTriedAgain: more and more seldom, and it is an event once. The next round starts when it has arrived.
func TestDriver_AFailedRoundIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.broken = true
		end := f.drives("a")
		time.Sleep(20 * time.Minute)
		f.mu.Lock()
		if f.tries < 7 || f.tries > 12 || len(f.by) > 0 {
			t.Errorf("%d tries in 20 minutes, %d rounds arrived", f.tries, len(f.by))
		}
		f.broken = false
		tries := f.tries
		f.mu.Unlock()
		all, err := session.RoundsOf(f.root()).Read(t.Context())
		if err != nil || all.Failures != tries || !strings.Contains(all.Failure, "shard 0 is damaged") {
			t.Errorf("%d of %d failures are counted, the last because of %q; %v", all.Failures, tries, all.Failure, err)
		}
		time.Sleep(7 * time.Minute)
		if all, err := session.RoundsOf(f.root()).Read(t.Context()); err != nil || all.Failures != 0 {
			t.Errorf("%d failures are counted after a round has arrived; %v", all.Failures, err)
		}
		if n := len(f.rounds()); n < 3 {
			t.Errorf("%d rounds after the shard was repaired", n)
		}
		var events []cms.Record
		for r, err := range session.List(t.Context(), f.root(), "event") {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, r)
		}
		if len(events) != 1 || !strings.Contains(string(events[0].Body), "shard 0 is damaged") || !strings.Contains(string(events[0].Body), "round 0") {
			t.Errorf("events: %+v", events)
		}
		end()
		f.nodes.Wait()
	})
}

// TestDriver_EndsWithTheCutOver: a cut-over whose driver is killed before or after its steps is completed by another, and all drivers end.
func TestDriver_EndsWithTheCutOver(t *testing.T) {
	for _, step := range []string{"", "cut over", "finished"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				var dead []string
				f.die = func(node, at string) bool {
					if at != step || len(dead) > 0 {
						return slices.Contains(dead, node)
					}
					dead = append(dead, node)
					return true
				}
				for _, name := range []string{"a", "b"} {
					f.drives(name)
				}
				time.Sleep(10 * time.Second)
				if _, err := session.CutoversOf(f.root()).Order(t.Context(), session.CutoverOptions{MaxOutage: time.Minute.Milliseconds()}, "ann"); err != nil {
					t.Fatal(err)
				}
				f.nodes.Wait() // every driver has ended
				now, err := f.chain(f.store).Now(t.Context(), time.Minute)
				if err != nil || !now.Over || step != "" && len(dead) != 1 {
					t.Errorf("%+v, %v; dead are %v", now, err, dead)
				}
			})
		})
	}
}

// TestChain_NowNamesTheRoundOfAFleet follows a session from before its first round to its end.
func TestChain_NowNamesTheRoundOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		c := f.chain(f.store)
		now := func() follow.Now {
			is, err := c.Now(t.Context(), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return is
		}
		if is := now(); is.Started || is.Session != "s" || is.Over {
			t.Errorf("before the first round: %+v", is)
		}
		zero, _ := next(t, c, "")
		if is := now(); !is.Started || is.Session != "s" || !is.Next.IsZero() {
			t.Errorf("in round 0: %+v", is)
		}
		begin := time.Now()
		time.Sleep(5 * time.Second)
		arrive(t, c, zero, "made-0", 0)
		if is := now(); is.Session != "s" || !is.Next.Equal(begin.Add(time.Minute).Truncate(time.Millisecond)) {
			t.Errorf("after round 0: next at %s of %s", is.Next, begin)
		}
		next(t, c, "")
		if is := now(); is.Session != "s-round-1" || is.Follow.Since != "made-0" || !is.Next.IsZero() {
			t.Errorf("in round 1: %+v", is)
		}
		if err := c.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		if is := now(); !is.Over {
			t.Errorf("after the end: %+v", is)
		}
	})
}

// TestDriver_OrdersInEachPhase gives each order in each phase: a driver starts neither rounds nor cut-overs while the operator wants no
// work, continues afterwards, and takes orders about workers for no reason to wait.
func TestDriver_OrdersInEachPhase(t *testing.T) {
	for _, phase := range []struct {
		name   string
		at     time.Duration // since the start of the driver
		rounds int           // that have started then
		cut    bool
	}{
		{"before the first round", 0, 0, false},
		{"in a round", 500 * time.Millisecond, 1, false},
		{"between two rounds", 30 * time.Second, 1, false},
		{"before a cut-over", 30 * time.Second, 1, true},
	} {
		for _, order := range []struct {
			session.Order
			holds bool
		}{
			{session.Order{Kind: session.OrderPause}, true},
			{session.Order{Kind: session.OrderDrain}, true},
			{session.Order{Kind: session.OrderDrain, Nodes: []string{"a"}}, false}, // its workers hand off
			{session.Order{Kind: session.OrderScale, Workers: new(0)}, false},
		} {
			t.Run(fmt.Sprint(phase.name, "/", order.Kind, order.Nodes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t)
					over := func() bool {
						now, err := f.chain(f.store).Now(t.Context(), time.Minute)
						if err != nil {
							t.Fatal(err)
						}
						return now.Over
					}
					give := func(o session.Order) {
						if _, err := session.OrdersOf(f.root()).Issue(t.Context(), o); err != nil {
							t.Fatal(err)
						}
					}
					if phase.at == 0 {
						give(order.Order)
					}
					end := f.drives("a")
					if time.Sleep(phase.at); phase.at > 0 {
						give(order.Order)
					}
					if phase.cut {
						if _, err := session.CutoversOf(f.root()).Order(t.Context(), session.CutoverOptions{MaxOutage: time.Minute.Milliseconds()}, "ann"); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(2 * time.Minute)
					if n := len(f.rounds()); order.holds && n != phase.rounds || !order.holds && !phase.cut && n < 2 {
						t.Errorf("%d rounds have started within 2 minutes", n)
					}
					if is := over(); is != (phase.cut && !order.holds) {
						t.Errorf("the following is over: %t", is)
					}
					give(session.Order{Kind: session.OrderResume, Nodes: order.Nodes})
					time.Sleep(10 * time.Second)
					if n := len(f.rounds()); n < phase.rounds+1 && !phase.cut || over() != phase.cut {
						t.Errorf("%d rounds have started after the order was withdrawn; the following is over: %t", n, over())
					}
					end()
					f.nodes.Wait()
				})
			})
		}
	}
}
