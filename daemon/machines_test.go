package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/scale"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// TestACompleteSessionWithoutItemsWantsNoMachines: the snapshot has no shard.
func TestACompleteSessionWithoutItemsWantsNoMachines(t *testing.T) {
	d := New(Config{Log: discard()})
	d.known, d.lastRead.migration = true, &progress.Migration{Complete: true}
	if got := d.Demand(); !got.Complete || got.Known {
		t.Errorf("%+v", got)
	}
	if d.lastRead.err = "no answer"; d.Demand().Complete {
		t.Error("complete, though the store could not be read")
	}
}

func TestANodeWithoutWorkersOnlyReports(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		n := startNode(t, Config{Workers: -1, Scales: true}, &fakeStarter{stopped: handsOff})
		until(t, "the store was read", func() bool { return n.Status(t.Context()).Migration != nil })
		time.Sleep(time.Minute)
		if got := len(n.starter.workers()); got != 0 || n.Load().MaxWorkers != 0 {
			t.Errorf("%d workers were started, it could run %d", got, n.Load().MaxWorkers)
		}
		if err := n.order(t, "scale", new(3)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if d := n.Demand(); len(n.starter.workers()) != 0 || d.Workers == nil || *d.Workers != 3 || !d.Known || d.Items != 4 {
			t.Errorf("after an order: %d workers, demand %+v", len(n.starter.workers()), d)
		}
		s := &scale.Scaler{Settings: scale.Settings{Max: 2, MachineWorkers: 1}, Driver: &scale.Exec{Args: []string{"/bin/false"}}, Node: "n1", Demand: n.Demand, Log: discard()}
		if err := s.Reconcile(t.Context(), n.store.Store(), nil); err != nil {
			t.Fatal(err)
		}
		until(t, "the status shows the machines", func() bool {
			m := n.Status(t.Context()).Machines
			return m != nil && m.Wanted == 2 && m.Error != "" && m.Leader == "n1"
		})
	})
}

// TestANodeEndsAfterTheMachines checks that a node which ends with the work waits until the driver has ended the machines, for two minutes.
func TestANodeEndsAfterTheMachines(t *testing.T) {
	for _, c := range []struct {
		name    string
		fails   bool          // the driver
		after   time.Duration // the scaler acts
		machine bool          // one may be left
	}{
		{"the driver ends them", false, time.Minute, false},
		{"the driver fails", true, time.Minute, true},
		{"the scaler does not act", false, time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				n := &node{store: newStore(t, 1)}
				l, err := n.store.AcquireNext(t.Context(), "w", nil)
				if err == nil {
					err = l.Complete(t.Context(), cms.Work{})
				}
				if err != nil {
					t.Fatal(err)
				}
				putPhase(t, n.store)
				d := New(Config{
					Name: "n1", Log: discard(), Starter: &fakeStarter{}, Workers: -1, Scales: true, EndWhenDone: true, ReadInterval: 3 * time.Second,
					IntentInterval: time.Second, Open: func(context.Context) (*cms.Coordinator, error) { return n.store, nil },
				})
				begin, acted := time.Now(), false
				s := &scale.Scaler{Settings: scale.Settings{Max: 2, MachineWorkers: 1}, Driver: driver{c.fails}, Node: "n1", Demand: d.Demand, Log: discard()}
				timer := time.AfterFunc(c.after, func() {
					acted = true
					if err := s.Reconcile(context.Background(), n.store.Store(), nil); err != nil {
						t.Error(err)
					}
				})
				defer timer.Stop()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				if err := d.Run(ctx); err != nil || ctx.Err() != nil {
					t.Fatal(err, ctx.Err())
				}
				took := time.Since(begin)
				st, err := scale.Read(t.Context(), n.store.Store())
				if err != nil || st.Final == c.machine || took < c.after && acted || c.machine != (took >= finalMachinesLimit) {
					t.Errorf("it ended after %v with %+v, %v", took, st, err)
				}
			})
		})
	}
}

// driver is a driver of machines that may fail.
type driver struct{ fails bool }

func (d driver) Apply(_ context.Context, n int) (int, error) {
	if d.fails {
		return 1, errors.New("throttled")
	}
	return n, nil
}

// TestALeaseThatIsNotRenewedIsReported: a worker's machine died, and no worker is free to take over its item.
func TestALeaseThatIsNotRenewedIsReported(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		n := startNode(t, Config{Workers: -1}, &fakeStarter{stopped: handsOff})
		until(t, "the store was read", func() bool { return n.Status(t.Context()).Migration != nil })
		l, err := n.store.AcquireNext(t.Context(), "dead-machine", nil)
		if err != nil {
			t.Fatal(err)
		}
		reported := func() (subjects int) {
			all, err := n.Events(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range all {
				if e.Code == expiredCode {
					subjects++
				}
			}
			return subjects
		}
		time.Sleep(l.Length)
		if got := reported(); got != 0 {
			t.Errorf("%d leases were reported before their end", got)
		}
		until(t, "the lease is reported", func() bool { return reported() > 0 })
		time.Sleep(time.Minute)
		if got, m := reported(), n.Status(t.Context()).Migration; got != 1 || m.Totals.Expired != 1 || m.Totals.Leased != 0 {
			t.Errorf("%d events; %+v", got, m.Totals)
		}
	})
}
