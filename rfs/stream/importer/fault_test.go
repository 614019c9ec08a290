package importer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// flaky answers every tenth call with an error, half of them after it did what it was asked for.
type flaky struct {
	cms.Store
	next bulk.Sender
	mu   sync.Mutex
	rng  *rand.Rand
	hits int
}

var errFlaky = fmt.Errorf("no answer: %w", fault.ErrUnavailable)

func (f *flaky) draw() (do, answer bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.rng.IntN(20) {
	case 0:
		f.hits++
		return false, false
	case 1:
		f.hits++
		return true, false
	}
	return true, true
}

func attempt[T any](f *flaky, call func() (T, error)) (v T, err error) {
	do, answer := f.draw()
	if do {
		v, err = call()
	}
	if !answer {
		var none T
		return none, errFlaky
	}
	return v, err
}

func (f *flaky) Record(ctx context.Context, id string) (cms.Record, error) {
	return attempt(f, func() (cms.Record, error) { return f.Store.Record(ctx, id) })
}

func (f *flaky) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	return attempt(f, func() (cms.Revision, error) { return f.Store.Put(ctx, r) })
}

func (f *flaky) Delete(ctx context.Context, r cms.Record) error {
	_, err := attempt(f, func() (int, error) { return 0, f.Store.Delete(ctx, r) })
	return err
}

func (f *flaky) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	if do, answer := f.draw(); !do || !answer {
		return func(yield func(cms.Record, error) bool) { yield(cms.Record{}, errFlaky) }
	}
	return f.Store.List(ctx, kind)
}

func (f *flaky) OfKind(ctx context.Context, kind string) (cms.Store, error) {
	of, err := f.Store.OfKind(ctx, kind)
	return &flakyItems{of, f}, err
}

// flakyItems are the items of a flaky store.
type flakyItems struct {
	cms.Store
	f *flaky
}

func (f *flakyItems) Create(ctx context.Context, items []cms.Item) (int, error) {
	return attempt(f.f, func() (int, error) { return f.Store.Create(ctx, items) })
}

func (f *flakyItems) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	var v cms.Result
	it, err := attempt(f.f, func() (it cms.Item, err error) {
		it, v, err = f.Store.Apply(ctx, id, t)
		return it, err
	})
	return it, v, err
}

func (f *flakyItems) Get(ctx context.Context, id string) (cms.Item, error) {
	return attempt(f.f, func() (cms.Item, error) { return f.Store.Get(ctx, id) })
}

func (f *flakyItems) Open(ctx context.Context) (cms.Open, error) {
	return attempt(f.f, func() (cms.Open, error) { return f.Store.Open(ctx) })
}

func (f *flakyItems) Record(ctx context.Context, id string) (cms.Record, error) {
	return f.f.Record(ctx, id)
}

func (f *flakyItems) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	return f.f.Put(ctx, r)
}

func (f *flaky) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	return attempt(f, func() (bulk.Result, error) { return f.next.Send(ctx, body, n) })
}

func TestABadNetworkChangesNothingButTime(t *testing.T) {
	for seed := range uint64(6) {
		inBubble(t, func(t *testing.T, w *world) {
			want, counts := w.small()
			w.target.takes = time.Second
			f := &flaky{Store: w.store, next: w.target, rng: rand.New(rand.NewPCG(seed, 3))}
			done := make(chan importer.Status)
			for range 3 {
				m := w.node(func(i *importer.Import) {
					i.Store, i.Workers, i.Lease, i.Bulk.MaxBytes = f, 1, 12*time.Second, 500
					i.Destination = engine.ToCluster(f, engine.Limits{Connections: 64})
				})
				go func() {
					s, err := m.Run(t.Context())
					if err != nil {
						t.Error(err)
					}
					done <- s
				}()
			}
			for range 3 {
				if s := <-done; !s.Complete || once(s.Counts) != counts || s.GivenUp != 0 {
					t.Errorf("seed %d: %+v, want %+v", seed, s, counts)
				}
			}
			w.arrived(want)
			if failedOnce(t, w.failed, "a3"); f.hits < 5 {
				t.Errorf("seed %d: only %d calls failed", seed, f.hits)
			}
		})
	}
}

// down is a target that does not answer until a time.
type down struct {
	next  bulk.Sender
	until time.Time
}

func (d *down) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if time.Now().Before(d.until) {
		return bulk.Result{}, errFlaky
	}
	return d.next.Send(ctx, body, n)
}

// once returns counts without what was sent again, which depends on the network.
func once(c importer.Counts) importer.Counts {
	c.Retried, c.Resent, c.Replaced = 0, 0, 0
	return c
}

func TestATargetThatIsDownIsWaitedForAndThenReported(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.small()
		to := &down{w.target, time.Now().Add(3 * time.Minute)}
		through := func(i *importer.Import) {
			i.Bulk.StallTimeout = 5 * time.Minute
			i.Destination = engine.ToCluster(to, engine.Limits{Connections: 64})
		}
		if s := run(t, w.node(through)); !s.Complete || once(s.Counts) != counts {
			t.Errorf("%+v, want %+v", s, counts)
		}
		w.arrived(want)
	})
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.small()
		to := &down{w.target, time.Now().Add(time.Hour)}
		through := func(i *importer.Import) {
			i.Bulk.StallTimeout = 5 * time.Minute
			i.Destination = engine.ToCluster(to, engine.Limits{Connections: 64})
		}
		began := time.Now()
		if _, err := w.node(through).Run(t.Context()); !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		// Five minutes, and what is left of the lease in which they end; the fourth lease of an item lasts eight.
		if took := time.Since(began); took < 5*time.Minute || took > 13*time.Minute {
			t.Errorf("it gave up after %v", took)
		}
		to.until = time.Now()
		began = time.Now()
		if s := run(t, w.node(through)); !s.Complete || once(s.Counts) != counts || s.GivenUp != 0 {
			t.Errorf("%+v, want %+v", s, counts)
		}
		if took := time.Since(began); took > 50*time.Second { // virtual time: the windows were given back, nothing runs out
			t.Errorf("the next run took %v", took)
		}
		w.arrived(want)
	})
}

func TestWhoIsAskedToStopGivesItsWindowBackWithItsProgress(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.small()
		w.target.takes = 3 * time.Second
		slow := func(i *importer.Import) {
			i.Workers, i.Bulk.MaxBytes, i.Bulk.MaxInFlight, i.Window, i.Lease = 1, 500, 1, 1<<20, time.Hour
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, stop)
		s, err := w.node(slow).Run(ctx)
		if err != nil || s.Complete {
			t.Fatalf("%+v %v", s, err)
		}
		sent := w.target.sent
		began := time.Now()
		s = run(t, w.node(slow))
		if !s.Complete || once(s.Counts) != counts {
			t.Errorf("%+v, want %+v", s, counts)
		}
		if took := time.Since(began); took > 10*time.Minute { // virtual; the claim would have lasted an hour
			t.Errorf("it took %v", took)
		}
		if w.target.sent > int(counts.Documents)+6 || sent == 0 {
			t.Errorf("%d documents were sent, %d of them at first, there are %d", w.target.sent, sent, counts.Documents)
		}
		w.arrived(want)
	})
}

// deaf is a store that answers until a time; ends has the end of the last lease that it granted.
type deaf struct {
	cms.Store
	until time.Time
	ends  *int64
}

func (d *deaf) OfKind(ctx context.Context, kind string) (cms.Store, error) {
	of, err := d.Store.OfKind(ctx, kind)
	return &deaf{of, d.until, d.ends}, err
}

func (d *deaf) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if time.Now().After(d.until) {
		return cms.Item{}, 0, errFlaky
	}
	it, result, err := d.Store.Apply(ctx, id, t)
	if err == nil && result == cms.Applied {
		*d.ends = max(*d.ends, it.Expiration)
	}
	return it, result, err
}

func (d *deaf) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if time.Now().After(d.until) {
		return cms.Revision{}, errFlaky
	}
	return d.Store.Put(ctx, r)
}

// clocked notes when requests begin.
type clocked struct {
	bulk.Sender
	begun []time.Time
}

func (c *clocked) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	c.begun = append(c.begun, time.Now())
	return c.Sender.Send(ctx, body, n)
}

func TestWhoCannotRenewStartsNothingAfterItsClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		want, counts := w.small()
		w.target.takes = 2 * time.Second
		const lease = 12 * time.Second
		slow := func(i *importer.Import) {
			i.Workers, i.Lease, i.Bulk.MaxBytes, i.Bulk.MaxInFlight, i.Window = 1, lease, 200, 1, 1<<20
		}
		store, sender := &deaf{w.store, time.Now().Add(10 * time.Second), new(int64)}, &clocked{Sender: w.target}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		_, err := w.node(slow, func(i *importer.Import) {
			i.Store = store
			i.Destination = engine.ToCluster(sender, engine.Limits{Connections: 64})
		}).Run(ctx)
		if err != nil {
			t.Error(err)
		}
		// The lease of a successor may be twice as long as the first one.
		if n, end := len(sender.begun), time.Unix(*store.ends, 0); n < 4 || sender.begun[n-1].After(end) {
			t.Errorf("%d requests, the last at %v, the last lease ended at %v", n, sender.begun[n-1], end)
		}
		if s := run(t, w.node(slow)); !s.Complete || once(s.Counts) != counts {
			t.Errorf("%+v, want %+v", s, counts)
		}
		w.arrived(want)
	})
}
