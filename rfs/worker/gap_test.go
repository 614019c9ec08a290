package worker

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/fault"
)

// handClock stands still until it is moved.
type handClock struct{ now cms.Reading }

func (c *handClock) Read() cms.Reading { return c.now }

func (c *handClock) Sleep(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// move lets time pass: awake time on every clock, asleep only on those that run on.
func (c *handClock) move(awake, asleep time.Duration) {
	c.now.Mono += awake
	c.now.Boot += awake + asleep
	c.now.Wall = c.now.Wall.Add(awake + asleep)
}

func leaseOf(t *testing.T, clock cms.Clock) (*cms.Lease, *cms.Coordinator) {
	t.Helper()
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "state.db"), func() time.Time { return clock.Read().Wall })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c, err := cms.New(cms.Config{Store: store, Creator: "test", Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
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
		asks          bool
	}{
		{"no gap", time.Second, 0, false},
		{"the process was stopped", 3 * time.Second, 0, true},
		{"the machine slept", 0, 3 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := &handClock{now: cms.Reading{Wall: time.Now()}}
			lease, coordinator := leaseOf(t, clock)
			j := &job{runner: &Runner{Clock: clock}, lease: lease}
			j.gaps.look(clock.Read())
			// Somebody freed the item meanwhile; only the store knows.
			if err := coordinator.ReleaseHolder(t.Context(), lease.Item.ID, lease.Holder, cms.CauseKilled); err != nil {
				t.Fatal(err)
			}
			clock.move(c.awake, c.asleep)
			if err := j.mayStart(t.Context()); errors.Is(err, fault.ErrLeaseLost) != c.asks {
				t.Errorf("may start: %v", err)
			}
		})
	}
}

func TestNothingIsSentAfterTheDeadlineByAnyClock(t *testing.T) {
	for _, c := range []struct{ awake, asleep time.Duration }{{10 * time.Minute, 0}, {0, 10 * time.Minute}} {
		clock := &handClock{now: cms.Reading{Wall: time.Now()}}
		lease, _ := leaseOf(t, clock)
		j := &job{runner: &Runner{Clock: clock}, lease: lease}
		j.gaps.look(clock.Read())
		if err := j.mayStart(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.move(c.awake, c.asleep)
		if err := j.mayStart(t.Context()); !errors.Is(err, fault.ErrLeaseLost) {
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
	d := ToCluster(sender, 1, nil)
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
