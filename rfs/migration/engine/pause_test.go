package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// handClock stands still until it is moved.
type handClock struct {
	mu  sync.Mutex
	now timing.Reading
}

func (c *handClock) Read() timing.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Sleep(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// move lets time pass: awake time on every clock, asleep only on those that run on.
func (c *handClock) move(awake, asleep time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Mono += awake
	c.now.Boot += awake + asleep
	c.now.Wall = c.now.Wall.Add(awake + asleep)
}

func leaseOf(t *testing.T, clock timing.Clock) (*cms.Lease, *cms.Coordinator) {
	t.Helper()
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "state.db"), func() time.Time { return clock.Read().Wall })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c := cms.New(cms.Config{Store: store, Creator: "test", Clock: clock})
	if _, err := c.SeedItems(t.Context(), slices.Values([]cms.ItemID{{Index: "logs"}})); err != nil {
		t.Fatal(err)
	}
	l, err := c.AcquireNext(t.Context(), "holder", nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

func TestNothingIsSentAfterAStandstillBeforeTheStoreWasAsked(t *testing.T) {
	for _, c := range []struct {
		name          string
		awake, asleep time.Duration
		freed         bool // the item, meanwhile
		asks          bool
	}{
		{"no gap", time.Second, 0, true, false},
		{"the process was stopped", 3 * time.Second, 0, true, true},
		{"the machine slept", 0, 3 * time.Second, true, true},
		{"the item is still ours", 0, 3 * time.Second, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := &handClock{now: timing.Reading{Wall: time.Now()}}
			lease, coordinator := leaseOf(t, clock)
			_, stop := lease.Watch(t.Context(), nil)
			defer stop()
			free := func() { // only the store knows
				if err := coordinator.ReleaseHolder(t.Context(), lease.Item.ID, lease.Holder, cms.CauseKilled); err != nil {
					t.Fatal(err)
				}
			}
			if c.freed {
				free()
			}
			clock.move(c.awake, c.asleep)
			if err := lease.MayStart(t.Context()); errors.Is(err, fault.ErrLeaseLost) != (c.freed && c.asks) {
				t.Errorf("may start: %v", err)
			}
			if c.freed {
				return
			}
			free()
			if err := lease.MayStart(t.Context()); err != nil {
				t.Errorf("the store is asked again: %v", err)
			}
		})
	}
}

func TestNothingIsSentAfterTheDeadlineByAnyClock(t *testing.T) {
	for _, c := range []struct{ awake, asleep time.Duration }{{10 * time.Minute, 0}, {0, 10 * time.Minute}} {
		clock := &handClock{now: timing.Reading{Wall: time.Now()}}
		lease, _ := leaseOf(t, clock)
		_, stop := lease.Watch(t.Context(), nil)
		defer stop()
		if err := lease.MayStart(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.move(c.awake, c.asleep)
		if err := lease.MayStart(t.Context()); !errors.Is(err, fault.ErrLeaseLost) {
			t.Errorf("%v awake, %v asleep: %v", c.awake, c.asleep, err)
		}
	}
}

// held is a sender whose requests end when it is told.
type held struct {
	started, end chan struct{}
}

func (h held) Send(context.Context, []byte, int) (bulk.Result, error) {
	h.started <- struct{}{}
	<-h.end
	return bulk.Result{}, nil
}

func TestALeaseThatEndsWhileAConnectionIsWaitedForSendsNothing(t *testing.T) {
	sender := held{started: make(chan struct{}, 2), end: make(chan struct{})}
	d := engine.ToCluster(sender, engine.Limits{Connections: 1})
	over := false // read only after the first request has ended
	first, err := d.Open(t.Context(), cms.ItemID{}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	second, err := d.Open(t.Context(), cms.ItemID{}, func() error {
		if over {
			return fault.ErrLeaseLost
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 1)
	go func() {
		_, err := first.Send(t.Context(), nil, 0)
		errs <- err
	}()
	<-sender.started
	late := make(chan error, 1)
	go func() {
		_, err := second.Send(t.Context(), nil, 0)
		late <- err
	}()
	over = true
	close(sender.end)
	if err := <-errs; err != nil {
		t.Error(err)
	}
	if err := <-late; !errors.Is(err, fault.ErrLeaseLost) {
		t.Errorf("sent after the lease: %v", err)
	}
	if len(sender.started) != 0 {
		t.Error("the request was started")
	}
}

// TestFewerConnectionsAreUsedWhileThePaceIsLower sends through four connections, a half of them, and all again; who gives up
// waiting takes no other's turn.
func TestFewerConnectionsAreUsedWhileThePaceIsLower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pace throttle.Pace
		sender := held{started: make(chan struct{}, 100), end: make(chan struct{})}
		d := engine.ToCluster(sender, engine.Limits{Connections: 4, Pace: &pace})
		out, err := d.Open(t.Context(), cms.ItemID{}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		send := func(ctx context.Context) {
			all.Go(func() {
				if _, err := out.Send(ctx, nil, 0); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
		}
		underWay, ended := 0, 0
		expect := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			underWay += len(sender.started)
			for len(sender.started) > 0 {
				<-sender.started
			}
			if underWay-ended != want {
				t.Errorf("%s: %d requests are in progress, want %d", what, underWay-ended, want)
			}
		}
		end := func() { sender.end <- struct{}{}; ended++ }
		for range 8 {
			send(t.Context())
		}
		expect("at the start", 4)
		impatient, giveUp := context.WithCancel(t.Context())
		send(impatient) // the last in the queue
		expect("none has ended", 4)
		pace.Set(0.5)
		end()
		end()
		expect("after two have ended", 2)
		end()
		expect("one for one", 2)
		giveUp()
		expect("one gave up", 2)
		pace.Set(1)
		end()
		expect("all may be used again", 4)
		for underWay-ended > 0 {
			end()
			synctest.Wait()
			underWay += len(sender.started)
			for len(sender.started) > 0 {
				<-sender.started
			}
		}
		all.Wait()
		if underWay != 8 {
			t.Errorf("%d requests for 8", underWay)
		}
	})
}
