package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// hanging takes all bodies but the second, whose request never ends by itself.
type hanging struct {
	migrationtest.Sink
	mu    sync.Mutex
	order int
}

func (s *hanging) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return s, nil
}

func (s *hanging) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	s.mu.Lock()
	s.order++
	second := s.order == 2
	s.mu.Unlock()
	if second {
		<-ctx.Done()
		return bulk.Result{}, ctx.Err()
	}
	return s.Sink.Send(ctx, body, n)
}

// quick is a store that answers at once and counts records of progress.
func quick(progress *int) *migrationtest.SlowStore {
	return &migrationtest.SlowStore{Memory: migrationtest.NewMemory(), Answer: migrationtest.Always(0), Decide: func(tr cms.Transition) time.Duration {
		if p, ok := tr.(cms.Progress); ok && progress != nil && p.Watermark > 0 {
			*progress++
		}
		return 0
	}}
}

func TestAHandOffCountsWhatIsBelowItsWatermarkOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := quick(nil)
		defer store.Under.Wait()
		to := &hanging{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}}
		s := migrationtest.NewShard(t, store, to, 40*time.Second, 64)
		s.Runner.Bulk.MaxInFlight = 2
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		outcome, err := s.Run(ctx, s.Lease(t))
		if outcome != engine.HandedOff || err != nil {
			t.Fatalf("%v: %v", outcome, err)
		}
		// Requests may overtake each other: which body hangs is not the same each time, what lies below the watermark is
		// counted by reading it again.
		c := s.Item(t).Counts
		below := s.Live(t, c.Ordinals)
		if int64(len(to.Docs)) <= below {
			t.Fatalf("%d documents arrived, none of them above the watermark", len(to.Docs))
		}
		if c.Live != below || c.Indexed != below {
			t.Errorf("%d documents are below the watermark, the item counts %+v", below, c)
		}
	})
}

// slowFiles is an export directory on a slow disk. together is how many bodies it was sent while it wrote another.
type slowFiles struct {
	engine.Destination
	each           time.Duration
	busy, together *atomic.Int32
}

func (f slowFiles) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	out, err := f.Destination.Open(ctx, id, mayStart)
	return slowOutput{out, f}, err
}

type slowOutput struct {
	engine.Output
	slowFiles
}

func (o slowOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if o.busy.Add(1) > 1 {
		o.together.Add(1)
	}
	defer o.busy.Add(-1)
	if err := timing.SystemClock().Sleep(ctx, o.each); err != nil {
		return bulk.Result{}, err
	}
	return o.Output.Send(ctx, body, n)
}

// documentsIn counts the documents in the finished files of an export.
func documentsIn(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".ndjson") {
			return err
		}
		b, err := os.ReadFile(path)
		n += int64(bytes.Count(b, []byte("\n")) / 2)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAnExportIsDurableBeforeItIsRecorded(t *testing.T) {
	for _, c := range []struct {
		name    string
		signal  time.Duration
		outcome engine.Outcome
	}{
		{"handed off after a signal", 12 * time.Second, engine.HandedOff},
		{"handed off at the trigger", time.Hour, engine.HandedOff},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			d, err := export.Open(dir, "w", export.None)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			synctest.Test(t, func(t *testing.T) {
				progress := 0
				store := quick(&progress)
				defer store.Under.Wait()
				disk := slowFiles{engine.ToFiles(d), 3 * time.Second, new(atomic.Int32), new(atomic.Int32)}
				s := migrationtest.NewShard(t, store, disk, 40*time.Second, 64)
				s.Runner.RecordEvery, s.Runner.Bulk.MaxInFlight = time.Second, 3
				ctx, cancel := context.WithTimeout(t.Context(), c.signal)
				defer cancel()
				outcome, err := s.Run(ctx, s.Lease(t))
				if outcome != c.outcome || err != nil {
					t.Fatalf("%v: %v", outcome, err)
				}
				if n := disk.together.Load(); n != 0 {
					t.Errorf("%d bodies were sent while another was written: the file is not in order", n)
				}
				if progress != 0 {
					t.Errorf("%d records of progress of what was in no finished file", progress)
				}
				if c := s.Item(t).Counts; c.Indexed == 0 || c.Indexed == 1280 || documentsIn(t, dir) != c.Indexed {
					t.Errorf("the files hold %d documents, the item counts %+v", documentsIn(t, dir), c)
				}
			})
		})
	}
}

func TestTheTargetIsLookedAtBeforeAnItemEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := quick(nil)
		defer store.Under.Wait()
		to := &migrationtest.Sink{Docs: map[string][32]byte{}}
		s := migrationtest.NewShard(t, store, to, 10*time.Minute, 64)
		guard := func(_ context.Context, maxAge time.Duration) error {
			if len(to.Docs) == 1280 && maxAge == 0 { // the index is deleted after its last document; who knew it before does not see that
				return fmt.Errorf("gone: %w", engine.ErrTargetReplaced)
			}
			return nil
		}
		outcome, err := s.Runner.Run(t.Context(), s.Lease(t), s.Reader.Source(s.Entry, 0, nil, nil), guard)
		if outcome != engine.Failed || !errors.Is(err, engine.ErrTargetReplaced) || len(to.Docs) != 1280 {
			t.Errorf("%v with %d documents: %v", outcome, len(to.Docs), err)
		}
		if it := s.Item(t); !it.FailedItem() {
			t.Errorf("left as %+v", it)
		}
	})
}

// TestABusyTargetIsAskedAgainBeforeAnItemEnds: one that refuses to be looked at for a moment (429) does not undo the item.
func TestABusyTargetIsAskedAgainBeforeAnItemEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		refuses int
		want    engine.Outcome
	}{{"three times", 3, engine.Completed}, {"always", 1000, engine.Released}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := quick(nil)
				defer store.Under.Wait()
				to := &migrationtest.Sink{Docs: map[string][32]byte{}}
				s := migrationtest.NewShard(t, store, to, 10*time.Minute, 64)
				refused := 0
				guard := func(_ context.Context, maxAge time.Duration) error {
					if len(to.Docs) == 1280 && maxAge == 0 && refused < c.refuses {
						refused++
						return fmt.Errorf("circuit_breaking_exception: %w", fault.ErrUnavailable)
					}
					return nil
				}
				outcome, err := s.Runner.Run(t.Context(), s.Lease(t), s.Reader.Source(s.Entry, 0, nil, nil), guard)
				if outcome != c.want || refused != min(c.refuses, 6) {
					t.Errorf("%v after %d refusals: %v", outcome, refused, err)
				}
			})
		})
	}
}

// leavesOut is a rule that leaves out all documents.
type leavesOut struct{ each time.Duration }

func (l leavesOut) Forget() {}

func (l leavesOut) Edit(*doc.Document, int64) (bool, error) {
	time.Sleep(l.each)
	return false, nil
}

func TestDocumentsLeftOutAreProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := 0
		store := quick(&progress)
		defer store.Under.Wait()
		s := migrationtest.NewShard(t, store, &migrationtest.Sink{Docs: map[string][32]byte{}}, 10*time.Minute, 64)
		s.Runner.RecordEvery = time.Second
		s.Reader.Edit = func(string) shards.DocumentEditor { return leavesOut{100 * time.Millisecond} }
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		outcome, err := s.Run(ctx, s.Lease(t))
		if outcome != engine.HandedOff || err != nil {
			t.Fatalf("%v: %v", outcome, err)
		}
		if c := s.Item(t).Counts; c.Filtered < 190 || c.Live != c.Filtered || progress < 10 {
			t.Errorf("200 documents were left out, the item counts %+v after %d records of progress", c, progress)
		}
	})
}

// reportingStore takes a second for a record of progress, and counts the steps that end a lease meanwhile.
type reportingStore struct {
	*migrationtest.Memory
	started chan struct{} // closed when the first record of progress arrives
	once    sync.Once
	under   atomic.Int32 // records of progress under way
	beside  atomic.Int32 // last steps that came beside one
	ends    atomic.Int32 // last steps
}

func (s *reportingStore) Apply(ctx context.Context, id string, tr cms.Transition) (cms.Item, cms.Result, error) {
	switch tr.(type) {
	case cms.Progress:
		s.under.Add(1)
		defer s.under.Add(-1)
		s.once.Do(func() { close(s.started) })
		if err := timing.SystemClock().Sleep(ctx, time.Second); err != nil {
			return cms.Item{}, 0, fmt.Errorf("no answer: %w: %w", err, fault.ErrUnavailable)
		}
	case cms.Complete, cms.SetSuccessors:
		s.ends.Add(1)
		if s.under.Load() > 0 {
			s.beside.Add(1)
		}
	}
	return s.Memory.Apply(ctx, id, tr)
}

// gatedSink takes its last bodies only after a record of progress is under way.
type gatedSink struct {
	migrationtest.Sink
	free  int // bodies before the gate
	gate  <-chan struct{}
	after func() // called behind the gate
}

func (s *gatedSink) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return s, nil
}

func (s *gatedSink) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if s.free--; s.free < 0 {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return bulk.Result{}, ctx.Err()
		}
		s.after()
	}
	return s.Sink.Send(ctx, body, n)
}

// TestNoRecordOfProgressIsUnderWayWhenTheLeaseEnds: the work ends in the middle of such a record, every time.
func TestNoRecordOfProgressIsUnderWayWhenTheLeaseEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		free    int // of 20 bodies
		signal  bool
		outcome engine.Outcome
	}{
		{"completed", 19, false, engine.Completed},
		{"handed off after a signal", 10, true, engine.HandedOff},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &reportingStore{Memory: migrationtest.NewMemory(), started: make(chan struct{})}
				ctx, signal := context.WithCancel(t.Context())
				defer signal()
				to := &gatedSink{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}, free: c.free, gate: store.started, after: func() {
					if c.signal {
						signal()
					}
				}}
				s := migrationtest.NewShard(t, store, to, 2*time.Minute, 64)
				s.Runner.RecordEvery = time.Second
				outcome, err := s.Run(ctx, s.Lease(t))
				if outcome != c.outcome || err != nil {
					t.Errorf("%v: %v", outcome, err)
				}
				if store.ends.Load() == 0 || store.beside.Load() != 0 {
					t.Errorf("%d of %d last steps came beside a record of progress", store.beside.Load(), store.ends.Load())
				}
			})
		})
	}
}

// failing takes a number of bodies and then none.
type failing struct {
	migrationtest.Sink
	left int
}

func (s *failing) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) {
	return s, nil
}

func (s *failing) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if s.left--; s.left < 0 {
		return bulk.Result{}, fmt.Errorf("no route: %w", fault.ErrUnavailable)
	}
	return s.Sink.Send(ctx, body, n)
}

func TestAnItemThatIsGivenBackKeepsWhatWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		progress := 0
		store := quick(&progress)
		defer store.Under.Wait()
		to := &failing{Sink: migrationtest.Sink{Docs: map[string][32]byte{}}, left: 7}
		s := migrationtest.NewShard(t, store, to, 10*time.Minute, 64)
		s.Runner.Bulk.StallTimeout = 10 * time.Millisecond // no record of progress comes in between
		s.Runner.Bulk.Jitter = func() float64 { return 0.1 }
		outcome, err := s.Run(t.Context(), s.Lease(t))
		if outcome != engine.Released || !errors.Is(err, fault.ErrUnavailable) || progress != 0 {
			t.Fatalf("%v after %d records of progress: %v", outcome, progress, err)
		}
		it := s.Item(t)
		if below := s.Live(t, it.Watermark); !it.Open() || below == 0 || it.Counts.Indexed != below || int64(len(to.Docs)) != below {
			t.Errorf("%d documents arrived, %d are below the watermark, left as %+v", len(to.Docs), below, it)
		}
	})
}
