package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

var errKilled = errors.New("killed")

// limited returns units with keys, the reading of which ends after so many documents in all. Each document takes a time.
func limited(us []Unit, key string, left *atomic.Int64, each time.Duration) []Unit {
	for i, u := range us {
		us[i].Key = key + u.Name
		us[i].Read = func(ctx context.Context, from int64, f func(*Document) error) error {
			return u.Read(ctx, from, func(d *Document) error {
				if left.Add(-1) < 0 {
					return errKilled
				}
				if each > 0 {
					time.Sleep(each)
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				return f(d)
			})
		}
	}
	return us
}

// shared is one comparison that several processes take part in.
type shared struct {
	t              *testing.T
	work           Work
	source, target []record
	key            string // of what the target holds
	unknown        bool   // the content of the source's units has no key
	units          int    // of the source
	each           time.Duration
	options        Options
}

func share(t *testing.T) *shared {
	source, target := records(4000), records(4000)
	target[100].source = `{"other":1}`
	source[5].fate, source[6].fate = Filtered, Unsent
	target[5], target[6] = record{id: "a", source: `{}`}, record{id: "b", source: `{}`}
	failed := &Failed{}
	failed.Add("logs", "doc-7")
	return &shared{t: t, work: work(t), source: source, target: slices.Delete(target, 7, 8), key: "1", units: 4, options: Options{Failed: failed, Readers: 1}}
}

// process compares as one process that ends after reading so many documents, and returns how many it has read.
func (s *shared) process(holder string, most int64) (x *Index, read int64, err error) {
	s.t.Helper()
	var left atomic.Int64
	left.Store(most)
	o := s.options
	o.Work = s.work
	o.Work.Holder = holder
	o.Target = cluster{"logs": Content{Documents: 4000, Units: limited(units("t", "logs", 5, s.target), s.key, &left, s.each)}}
	source := limited(units("s", "logs", s.units, s.source), "s", &left, s.each)
	for i := range source {
		if s.unknown {
			source[i].Key = ""
		}
	}
	all, err := New(o).Compare(s.t.Context(), []Group{{Targets: []string{"logs"}, Units: source}})
	if err != nil {
		return nil, most - max(left.Load(), 0), err
	}
	return all[0], most - left.Load(), nil
}

const whole = 1 << 40

// alone returns what a process finds that is never killed, and how much it reads.
func (s *shared) alone() (*Index, int64) {
	s.t.Helper()
	other := *s
	other.work = work(s.t)
	x, read, err := other.process("alone", whole)
	if err != nil || x.State != Different || x.Failed != 1 || x.Filtered != 1 || len(x.Unsent) != 1 || len(x.Differences) != 3 {
		s.t.Fatalf("%+v, %v", x, err)
	}
	return x, read
}

func TestAComparisonThatWasKilledGoesOn(t *testing.T) {
	s := share(t)
	want, all := s.alone()
	for i := range 3 {
		if _, _, err := s.process(fmt.Sprint("p", i), 2500); !errors.Is(err, errKilled) {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	got, read, err := s.process("last", whole)
	if err != nil || !reflect.DeepEqual(got, want) || read > all-3*799 { // each run ends a unit
		t.Errorf("%v: %d of %d documents were read\n%+v\nwant\n%+v", err, read, all, got, want)
	}
	if _, read, err := s.process("next", whole); err != nil || read != all {
		t.Errorf("a comparison after its end reads %d of %d documents: %v", read, all, err)
	}
}

func TestAComparisonGoesOnOnlyWithWhatItHasRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *shared)
		anew   bool // everything is read
	}{
		{"another sample", func(s *shared) { s.options.Sample = 0.5 }, true},
		{"another account of failures", func(s *shared) { s.options.Failed = &Failed{} }, true},
		{"another snapshot", func(s *shared) { s.work.Identity = "another" }, true},
		{"the target was written to", func(s *shared) { s.key = "2"; s.target[0].source = `{}` }, false},
		{"the target was written to while differences were named", func(s *shared) { s.key = "2"; s.target[0].source = `{}` }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, most := share(t), int64(7000) // once both sides are 7,999
			if strings.Contains(c.name, "named") {
				most = 9000
			}
			if _, _, err := s.process("dead", most); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			c.change(s)
			want, all, err := func() (*Index, int64, error) {
				other := *s
				other.work = work(t)
				other.work.Identity = s.work.Identity
				return other.process("alone", whole)
			}()
			if err != nil {
				t.Fatal(err)
			}
			got, read, err := s.process("p", whole)
			if err != nil || !reflect.DeepEqual(got, want) || (read == all) != c.anew {
				t.Errorf("%v: %d of %d documents were read\n%+v\nwant\n%+v", err, read, all, got, want)
			}
		})
	}
}

// TestAComparisonOfFilesWithoutAManifestGoesOn kills a comparison three times, whose source may have changed each time. What was read of
// the target is not read again. No process reads as many documents as the source has.
func TestAComparisonOfFilesWithoutAManifestGoesOn(t *testing.T) {
	s := share(t)
	s.unknown = true
	want, all := s.alone()
	for i := range 3 {
		if _, _, err := s.process(fmt.Sprint("p", i), 3500); !errors.Is(err, errKilled) {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	s.source[0].source = `{"other":0}`
	got, read, err := s.process("last", whole)
	if err != nil || len(got.Differences) != 4 || got.SourceDocuments != want.SourceDocuments || read > all-799 {
		t.Errorf("%v: %d of %d documents were read\n%+v\nwant one more difference than\n%+v", err, read, all, got, want)
	}
}

// TestProcessesShareAComparison runs three processes, one of which is killed, and lets its lease end.
func TestProcessesShareAComparison(t *testing.T) {
	s := share(t)
	want, all := s.alone()
	synctest.Test(t, func(t *testing.T) {
		s.t, s.work, s.each, s.options.Readers = t, work(t), 20*time.Millisecond, 2
		s.work.Clock = timing.SystemClock()
		var log bytes.Buffer
		s.options.Log = slog.New(slog.NewTextHandler(&log, nil))
		var wg sync.WaitGroup
		var total atomic.Int64
		for i, most := range []int64{900, whole, whole} {
			wg.Go(func() {
				if i > 0 { // the first has leased items by then
					time.Sleep(time.Second)
				}
				got, read, err := s.process(fmt.Sprint("p", i), most)
				total.Add(read)
				if (most == whole) != (err == nil) || err == nil && !reflect.DeepEqual(got, want) {
					t.Errorf("process %d: %v\n%+v\nwant\n%+v", i, err, got, want)
				}
			})
		}
		wg.Wait()
		if n := total.Load(); n > all+900 {
			t.Errorf("%d documents were read, by one process %d", n, all)
		}
		if !strings.Contains(log.String(), "other processes compare the rest") || !strings.Contains(log.String(), "holder=p0_") {
			t.Errorf("the log does not name the process that is waited for:\n%s", log.String())
		}
	})
}

// TestComparison_SetupOfAnother: a process that joins while another one sets the comparison up starts when that one is done, not when its
// lock would be over.
func TestComparison_SetupOfAnother(t *testing.T) {
	s := share(t)
	synctest.Test(t, func(t *testing.T) {
		s.t, s.work = t, work(t)
		s.work.Clock = timing.SystemClock()
		locks := primitive.Locks{Store: s.work.Store, Clock: s.work.Clock}
		lock, err := locks.Acquire(t.Context(), setupLock, setupLease)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		time.AfterFunc(2*time.Second, func() {
			if err := lock.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if _, _, err := s.process("late", whole); err != nil || time.Since(begin) > 5*time.Second {
			t.Errorf("it has ended after %s: %v", time.Since(begin), err)
		}
	})
}

// TestAnItemThatTakesLongHandsOffTheRest gives items of the source a tenth of the time that they take, and those of the target.
func TestAnItemThatTakesLongHandsOffTheRest(t *testing.T) {
	s := share(t)
	s.units = 1
	want, _ := s.alone()
	synctest.Test(t, func(t *testing.T) {
		s.t, s.work, s.each = t, work(t), 200*time.Millisecond // 800 s for the unit of the source
		s.work.Lease = 20 * time.Second
		got, _, err := s.process("p", whole)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%+v\nwant\n%+v", err, got, want)
		}
		items := map[string]int{}
		var live int64
		for kind := range kinds {
			store, err := s.work.Store.OfKind(t.Context(), kinds[kind]+runOf(t, s.work.Store))
			if err != nil {
				t.Fatal(err)
			}
			for it, err := range store.Scan(t.Context()) {
				if err != nil || it.Open() {
					t.Fatalf("%+v, %v", it, err)
				}
				if !cms.IsSetup(it.ID) {
					items[kinds[kind]]++
					live += it.Counts.Live
				}
			}
		}
		if items["verifysource"] < 20 || items["verifytarget"] != 5 || items["verifyresult"] != 1 || live != 7999 {
			t.Errorf("items %v, %d documents", items, live)
		}
	})
}

func runOf(t *testing.T, store cms.Store) string {
	t.Helper()
	r, err := store.Record(t.Context(), stateID)
	if err != nil {
		t.Fatal(err)
	}
	_, run, _ := strings.Cut(string(r.Body), `"run":"`)
	return run[:12]
}

func TestAComparisonIsNotSharedWithAnother(t *testing.T) {
	s := share(t)
	synctest.Test(t, func(t *testing.T) {
		s.t, s.work, s.each = t, work(t), 10*time.Millisecond
		done := make(chan error)
		go func() {
			_, _, err := s.process("first", whole)
			done <- err
		}()
		time.Sleep(5 * time.Second)
		other := *s
		other.work.Identity = "another"
		if _, read, err := other.process("second", whole); !errors.Is(err, ErrNotShared) || read != 0 {
			t.Errorf("%d documents were read: %v", read, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestAComparisonThatAnotherProcessHasRenewedIsLeft makes another first item of a unit while a process is at work, as another process
// does that sees it between two leases.
func TestAComparisonThatAnotherProcessHasRenewedIsLeft(t *testing.T) {
	s := share(t)
	synctest.Test(t, func(t *testing.T) {
		s.t, s.work, s.each = t, work(t), 10*time.Millisecond
		done := make(chan error)
		go func() {
			_, _, err := s.process("first", whole)
			done <- err
		}()
		time.Sleep(5 * time.Second)
		kind := kinds[ofTarget] + runOf(t, s.work.Store)
		store, err := s.work.Store.OfKind(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		c := cms.New(cms.Config{Store: store, Kind: kind, Clock: s.work.Clock})
		root := cms.Root{ID: cms.ItemID{Index: "logs t/0", Shard: 1}, Task: `{"key":"x"}`}
		if _, err := c.SeedRoots(t.Context(), slices.Values([]cms.Root{root})); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, ErrNotShared) {
			t.Error(err)
		}
		if it, err := c.Item(t.Context(), cms.ItemID{Kind: kind, Index: "logs t/0", Shard: 1}); err != nil || !it.Open() || it.Holder != "" {
			t.Errorf("%+v, %v", it, err)
		}
	})
}

// TestComparison_RenewedByAnother starts another comparison while a process is at work, as a process does that looks while it holds no lease.
func TestComparison_RenewedByAnother(t *testing.T) {
	s := share(t)
	synctest.Test(t, func(t *testing.T) {
		s.t, s.work, s.each = t, work(t), 10*time.Millisecond
		done := make(chan error)
		go func() {
			_, _, err := s.process("first", whole)
			done <- err
		}()
		time.Sleep(15 * time.Second) // some parts were saved
		records := cms.New(cms.Config{Store: s.work.Store, Clock: s.work.Clock}).Leases()
		other := &session{Verifier: New(Options{Work: s.work, Readers: 1}), records: records}
		run := runOf(t, s.work.Store)
		if err := records.Put(t.Context(), cms.Record{ID: stateID, Kind: recordKind, State: stateRunning, Body: []byte(`{"v":1,"run":"other"}`)}); err != nil {
			t.Fatal(err)
		}
		other.forget(t.Context(), run, "")
		if err := <-done; !errors.Is(err, ErrNotShared) {
			t.Error(err)
		}
	})
}

func TestTheResultOfAComparisonIsReusedUnlessTheTargetWasWrittenTo(t *testing.T) {
	s := share(t)
	want, read, err := s.process("first", whole)
	if err != nil || read == 0 {
		t.Fatal(read, err)
	}
	s.work.Reuse = true
	if got, read, err := s.process("second", whole); err != nil || read != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d documents were read: %v\n%+v\nwant\n%+v", read, err, got, want)
	}
	s.key = "2"
	if _, again, err := s.process("third", whole); err != nil || again != read {
		t.Errorf("%d documents were read: %v", again, err)
	}
}

// TestNothingButTheResultIsLeft counts the records of comparisons.
func TestNothingButTheResultIsLeft(t *testing.T) {
	s := share(t)
	if _, _, err := s.process("dead", 5000); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	s.work.Identity = "another"
	for range 2 {
		if _, _, err := s.process("p", whole); err != nil {
			t.Fatal(err)
		}
	}
	var left []string
	for r, err := range s.work.Store.List(t.Context(), recordKind) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, r.ID)
	}
	run := runOf(t, s.work.Store)
	slices.Sort(left)
	want := []string{"verify:" + run + ":result:0:0", "verify:state"}
	if slices.Sort(want); !reflect.DeepEqual(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}
