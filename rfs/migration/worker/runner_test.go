package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// slowStore decides requests late and answers later still. A request is decided even when its sender
// has stopped waiting, as by a server. Within the silence nothing is decided or answered.
type slowStore struct {
	*memory
	decide, answer func(cms.Transition) time.Duration

	from, to time.Time // the silence
	under    sync.WaitGroup
}

func (s *slowStore) wait(d time.Duration) {
	time.Sleep(d)
	if now := time.Now(); now.After(s.from) && now.Before(s.to) {
		time.Sleep(s.to.Sub(now))
	}
}

// ask runs f as a server does and waits for its answer as long as ctx lasts.
func ask[T any](ctx context.Context, s *slowStore, f func() T) (answer T, err error) {
	done := make(chan T, 1)
	s.under.Go(func() { done <- f() })
	select {
	case answer = <-done:
		return answer, nil
	case <-ctx.Done():
		return answer, fmt.Errorf("no answer: %w: %w", ctx.Err(), fault.ErrUnavailable)
	}
}

func (s *slowStore) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	type decided struct {
		it  cms.Item
		v   cms.Result
		err error
	}
	d, err := ask(ctx, s, func() (d decided) {
		s.wait(s.decide(t))
		d.it, d.v, d.err = s.memory.Apply(context.Background(), id, t)
		s.wait(s.answer(t))
		return d
	})
	if err != nil {
		return cms.Item{}, 0, err
	}
	return d.it, d.v, d.err
}

func (s *slowStore) Get(ctx context.Context, id string) (it cms.Item, err error) {
	_, aerr := ask(ctx, s, func() error {
		s.wait(0)
		it, err = s.memory.Get(context.Background(), id)
		return nil
	})
	if aerr != nil {
		return cms.Item{}, aerr
	}
	return it, err
}

// slowSink takes a body only after a while, and notes when.
type slowSink struct {
	sink
	each time.Duration

	mu    sync.Mutex
	times []time.Time
}

func (s *slowSink) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return s, nil
}

func (s *slowSink) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if err := cms.SystemClock().Sleep(ctx, s.each); err != nil {
		return bulk.Result{}, err
	}
	s.mu.Lock()
	s.times = append(s.times, time.Now())
	s.mu.Unlock()
	return s.sink.Send(ctx, body, n)
}

// noFailures is a record of failed documents for data without any.
type noFailures struct{ bulk.Recorder }

// oneShard runs leases of the only item of a store: the shard of the fixture many-chunks.
type oneShard struct {
	reader      *shards.Reader
	store       cms.Store
	coordinator *cms.Coordinator
	runner      *engine.Runner
	entry       plan.Entry
	id          cms.ItemID
}

// newShard makes a runner over a store with the given initial lease, which sends bodies of maxDocs documents to d.
func newShard(t *testing.T, store cms.Store, d engine.Destination, lease time.Duration, maxDocs int) *oneShard {
	t.Helper()
	clock := cmstest.Clock{Start: time.Now()}
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-many-chunks"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cms.New(cms.Config{Store: store, Creator: "test", Clock: clock, InitialLease: lease})
	if err != nil {
		t.Fatal(err)
	}
	id := cms.ItemID{Index: plan.Indices[0].Entry.Locator.IndexName}
	if _, err := c.SeedItems(t.Context(), slices.Values([]cms.ItemID{id})); err != nil {
		t.Fatal(err)
	}
	return &oneShard{store: store, coordinator: c, entry: plan.Indices[0].Entry, id: id, reader: &shards.Reader{Repo: blobs, Log: slog.New(slog.DiscardHandler)}, runner: &engine.Runner{
		Destination: d, Failed: noFailures{}, Meter: engine.NewMeter(), Clock: clock,
		Log: slog.New(slog.DiscardHandler), Bulk: bulk.Options{MaxDocs: maxDocs, MaxInFlight: 1},
	}}
}

func (s *oneShard) lease(t *testing.T) *cms.Lease {
	t.Helper()
	l, err := s.coordinator.AcquireOneOf(t.Context(), "worker", []string{s.id.String()})
	if err != nil || l == nil {
		t.Fatalf("lease %v, %v", l, err)
	}
	return l
}

func (s *oneShard) run(ctx context.Context, l *cms.Lease) (engine.Outcome, error) {
	return s.runner.Run(ctx, l, s.reader.Source(s.entry, 0, nil, nil), func(context.Context, time.Duration) error { return nil })
}

// live returns the number of live documents below an ordinal of the shard.
func (s *oneShard) live(t *testing.T, to int64) (n int64) {
	t.Helper()
	shard, err := snapshot.OpenShard(t.Context(), s.reader.Repo, s.entry.Locator, s.id.Shard)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := lucene.Open(t.Context(), shard.Directory(), lucene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := commit.Reader(lucene.ReadOptions{To: to})
	defer r.Close()
	for {
		switch _, err := r.Next(t.Context()); {
		case errors.Is(err, io.EOF):
			return n
		case err != nil:
			t.Fatal(err)
		}
		n++
	}
}

func (s *oneShard) item(t *testing.T) cms.Item {
	t.Helper()
	it, err := s.store.Get(context.WithoutCancel(t.Context()), s.id.String())
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func always(d time.Duration) func(cms.Transition) time.Duration {
	return func(cms.Transition) time.Duration { return d }
}

// TestProgressNeverDisturbsTheEndOfItsOwnLease: records of progress are decided late, at any moment of the hand-off or the completion.
func TestProgressNeverDisturbsTheEndOfItsOwnLease(t *testing.T) {
	for _, c := range []struct {
		name    string
		each    time.Duration // per body of 64 of 1,280 documents
		signal  time.Duration // 0: none
		outcome engine.Outcome
	}{
		{"handed off at the trigger", 12 * time.Second, 0, engine.HandedOff},
		{"handed off after a signal", 3 * time.Second, 28 * time.Second, engine.HandedOff},
		{"completed", 500 * time.Millisecond, 0, engine.Completed},
	} {
		for late := time.Duration(0); late <= 6*time.Second; late += 500 * time.Millisecond {
			t.Run(fmt.Sprintf("%s/%v late", c.name, late), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := &slowStore{memory: newMemory(), answer: always(700 * time.Millisecond), decide: func(tr cms.Transition) time.Duration {
						if _, ok := tr.(cms.Progress); ok {
							return late
						}
						return 300 * time.Millisecond
					}}
					defer store.under.Wait()
					s := newShard(t, store, &slowSink{sink: sink{docs: map[string][32]byte{}}, each: c.each}, 2*time.Minute, 64)
					s.runner.RecordEvery = time.Second
					ctx := t.Context()
					if c.signal > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.signal)
						defer cancel()
					}
					outcome, err := s.run(ctx, s.lease(t))
					if outcome != c.outcome || err != nil {
						t.Errorf("%v: %v", outcome, err)
					}
					it := s.item(t)
					if it.Open() || it.FailedItem() || (it.Successors != "") != (c.outcome == engine.HandedOff) {
						t.Errorf("left as %+v", it)
					}
				})
			})
		}
	}
}

// TestASilentStoreDoesNotStopDocuments: the store neither answers nor refuses for 45 s; no request to the target needs it before the trigger.
func TestASilentStoreDoesNotStopDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{memory: newMemory(), decide: always(0), answer: always(0)}
		defer store.under.Wait()
		to := &slowSink{sink: sink{docs: map[string][32]byte{}}, each: 3 * time.Second}
		s := newShard(t, store, to, 10*time.Minute, 16) // 80 bodies: 240 s
		l := s.lease(t)
		store.from = time.Now().Add(20 * time.Second)
		store.to = store.from.Add(45 * time.Second)
		outcome, err := s.run(t.Context(), l)
		if outcome != engine.Completed || err != nil {
			t.Fatalf("%v: %v", outcome, err)
		}
		for i := 1; i < len(to.times); i++ {
			if pause := to.times[i].Sub(to.times[i-1]); pause > 2*to.each {
				t.Errorf("no document was sent for %v from %v on", pause, to.times[i-1].Sub(store.from))
			}
		}
	})
}
