package arrival_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
)

// ordersDocs are the documents of the index orders: 38 in its first shard and 15 in its second.
const ordersDocs = 53

// watched is a target that a test may interfere with when documents are sent to it again.
type watched struct {
	*keeping
	opens  func(id cms.ItemID, mayStart func() error) error
	sends  func() error // before a request
	lists  func() error // before the aliases are read
	extra  int64        // documents of others
	before int64        // operations of others
	bodies [][]byte
}

func (w *watched) Open(_ context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	if w.opens != nil {
		if err := w.opens(id, mayStart); err != nil {
			return nil, err
		}
	}
	return watchedOutput{w}, nil
}

func (w *watched) Count(context.Context, string) (int64, error) {
	return int64(len(w.docs)) + w.extra, nil
}

func (w *watched) Operations(ctx context.Context, name string) (target.Operations, error) {
	did, err := w.keeping.Operations(ctx, name)
	did.Executed += w.before
	return did, err
}

func (w *watched) GetIndex(ctx context.Context, name string) ([]target.Index, error) {
	if w.lists != nil {
		if err := w.lists(); err != nil {
			return nil, err
		}
	}
	return w.keeping.GetIndex(ctx, name)
}

type watchedOutput struct{ *watched }

func (watchedOutput) Commit(context.Context) error { return nil }
func (watchedOutput) Abort() error                 { return nil }

func (o watchedOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	o.mu.Lock()
	o.bodies = append(o.bodies, bytes.Clone(body))
	o.mu.Unlock()
	if o.sends != nil {
		if err := o.sends(); err != nil {
			return bulk.Result{}, err
		}
	}
	return o.keeping.Send(ctx, body, n)
}

// orders returns a target that has all documents of the index orders, and the check of it.
func orders(t *testing.T) (*watched, *arrival.Check) {
	t.Helper()
	w := &watched{keeping: &keeping{docs: map[string]int64{}, aliases: "{}"}}
	s := ordersTo(t, w.keeping)
	if len(w.docs) != ordersDocs {
		t.Fatalf("%d documents", len(w.docs))
	}
	w.keeping.sent = 0
	run := *s.Runner
	run.Destination = w
	return w, &arrival.Check{
		Coordinator: s.Coordinator, Counts: w, Log: slog.New(slog.DiscardHandler), Resent: map[string]bool{}, Runner: &run, Shards: &s.Shards,
		Entry: func(_ context.Context, e session.IndexEntry) (plan.Entry, error) {
			return plan.DecodeEntry(e.Name, e.Body)
		},
		Present: func(context.Context, plan.Entry) error { return nil },
	}
}

// edits changes the entries that a check reads.
func edits(c *arrival.Check, change func(e *plan.Entry)) {
	decode := c.Entry
	c.Entry = func(ctx context.Context, x session.IndexEntry) (plan.Entry, error) {
		e, err := decode(ctx, x)
		change(&e)
		return e, err
	}
}

// checkOrders runs a check and returns what is recorded of the index.
func checkOrders(t *testing.T, c *arrival.Check) *progress.Arrival {
	t.Helper()
	if _, err := c.All(t.Context()); err != nil {
		t.Fatal(err)
	}
	return recordedIn(t, c.Coordinator, "orders")
}

// events returns how many events about the index the session has recorded, and records the others.
func events(t *testing.T, c *arrival.Check) (n int) {
	t.Helper()
	for _, code := range []string{"documents_missing", "target_missing"} {
		first, err := c.Coordinator.Event(t.Context(), "index orders", code, "")
		if err != nil {
			t.Fatal(err)
		}
		if !first {
			n++
		}
	}
	return n
}

// loseAll forgets all documents and their operations but those of the ids.
func loseAll(k *keeping, but ...string) {
	for id := range maps.Clone(k.docs) {
		if !slices.Contains(but, id) {
			k.lose(1, id)
		}
	}
}

// around is a ledger that notes whether work ran.
type around struct {
	ran bool
	err error // instead of running it
}

func (a *around) Around(_ context.Context, work func() error) error {
	if a.ran = true; a.err != nil {
		return a.err
	}
	return work()
}

// TestCheck_DoesNotSendAgain lacks one document, whose operation was lost with it, and may not bring it back.
func TestCheck_DoesNotSendAgain(t *testing.T) {
	for name, change := range map[string]func(w *watched, c *arrival.Check){
		"a trial":                  func(_ *watched, c *arrival.Check) { edits(c, func(e *plan.Entry) { e.Trial = &plan.Trial{} }) },
		"operations of others":     func(w *watched, _ *arrival.Check) { w.before = 3 },
		"deletions that were lost": func(w *watched, _ *arrival.Check) { w.deletes = 1 },
		"no runner":                func(_ *watched, c *arrival.Check) { c.Runner, c.Shards = nil, nil },
		"no repository":            func(_ *watched, c *arrival.Check) { c.Shards = &shards.Reader{} },
		"gone": func(_ *watched, c *arrival.Check) {
			c.Present = func(context.Context, plan.Entry) error { return engine.ErrTargetReplaced }
		},
		"sent again by this process":     func(_ *watched, c *arrival.Check) { c.Resent["orders"] = true },
		"a data stream without accounts": func(w *watched, c *arrival.Check) { w.hidden, w.aliases = true, `{"all":{}}` },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := orders(t)
			w.lose(1, "1000001")
			change(w, c)
			if is := checkOrders(t, c); is.Problem == "" || len(w.bodies) > 0 {
				t.Errorf("%d requests, %+v", len(w.bodies), is)
			}
			if n := events(t, c); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// TestCheck_DoesNotSendAgainWhatItems has items that failed, or whose documents a pipeline moved.
func TestCheck_DoesNotSendAgainWhatItems(t *testing.T) {
	for name, change := range map[string]func(it *cms.Item){
		"failed":    func(it *cms.Item) { it.Status = cms.StatusFailed },
		"was moved": func(it *cms.Item) { it.Counts.Moved = 1 },
	} {
		w, c := orders(t)
		a := newAudit()
		a.sends(t, "orders", plan.Entry{Shards: 2, Ours: []string{"orders"}}, indexed(38), indexed(15))
		a.item("orders", 0, indexed(38), change)
		w.lose(5, "1000001", "1000003", "1000005")
		c.Coordinator = a.Coordinator
		if is := checkOrders(t, c); is.Problem == "" || len(w.bodies) > 0 || len(c.Resent) > 0 {
			t.Errorf("%s: %d requests, %+v", name, len(w.bodies), is)
		}
	}
}

// TestCheck_SendsAgain lacks documents, which are sent again, and says so.
func TestCheck_SendsAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *watched, c *arrival.Check)
		sent   int64
		note   string
		says   string // a problem
	}{
		{name: "two documents", change: func(w *watched, _ *arrival.Check) { w.lose(2, "1000001", "1000003") }, sent: 2,
			note: `documents were missing; the snapshot was read again, 2 documents were sent again: "1000001", "1000003"`},
		{name: "operations only", change: func(w *watched, _ *arrival.Check) { w.lose(2) }},
		{name: "around the ledger", change: func(w *watched, c *arrival.Check) { c.Ledger = &around{}; w.lose(1, "1000001") }, sent: 1,
			note: `documents were missing; the snapshot was read again, 1 documents were sent again: "1000001"`},
		{name: "an index that was there", change: func(w *watched, c *arrival.Check) {
			edits(c, func(e *plan.Entry) { e.Ours, e.Before = nil, map[string]int64{"orders": 7} })
			w.before = 7
			w.lose(1, "1000001")
		}, sent: 1, note: `documents were missing; the snapshot was read again, 1 documents were sent again: "1000001"`},
		{name: "an index that was there and refuses one", change: func(w *watched, c *arrival.Check) {
			edits(c, func(e *plan.Entry) { e.Ours, e.Before = nil, map[string]int64{"orders": 7} })
			w.before, w.refuses = 7, []string{"1000001"}
			w.lose(1, "1000001")
		}, note: "not compared: orders was there before this session", says: "the target has lost writes of orders"},
		{name: "one that is refused behind one of others", change: func(w *watched, _ *arrival.Check) {
			w.extra, w.refuses = 1, []string{"1000001"}
			w.lose(1, "1000001")
		}, says: "the target has lost writes of orders"},
		{name: "sent again before", change: func(w *watched, c *arrival.Check) {
			edits(c, func(e *plan.Entry) {
				if e.Arrival == nil {
					e.Arrival = &progress.Arrival{SentAgain: 4, Problem: "missing"}
				}
			})
			w.lose(1, "1000001")
		}, sent: 5, note: `documents were missing; the snapshot was read again, 1 documents were sent again: "1000001"`},
		{name: "a request that is repeated", change: func(w *watched, _ *arrival.Check) {
			failed := false
			w.sends = func() error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if failed {
					return nil
				}
				failed = true
				return fmt.Errorf("slow: %w", fault.ErrUnavailable)
			}
			w.lose(1, "1000001")
		}, sent: 1, note: `documents were missing; the snapshot was read again, 1 documents were sent again: "1000001"`},
		{name: "a request that fails", change: func(w *watched, _ *arrival.Check) {
			w.sends = func() error { return fmt.Errorf("no: %w", fault.ErrConfig) }
			w.lose(1, "1000001")
		}, says: "the target has 52 documents in orders, 53 were indexed: 1 are missing; reading the snapshot again failed: shard "},
		{name: "a shard that cannot be opened", change: func(w *watched, _ *arrival.Check) {
			w.opens = func(id cms.ItemID, _ func() error) error {
				if id.Shard == 1 {
					return errBroken
				}
				return nil
			}
			loseAll(w.keeping)
		}, says: "reading the snapshot again failed: shard 1 of orders: broken"},
		{name: "the versions of the source", change: func(w *watched, c *arrival.Check) {
			c.Runner.Bulk.Existing = bulk.Newer
			w.lose(2, "1000001", "1000003")
		}, sent: 2, note: `documents were missing; the snapshot was read again, 2 documents were sent again: "1000001", "1000003"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, check := orders(t)
			c.change(w, check)
			is := checkOrders(t, check)
			if len(w.bodies) == 0 && w.opens == nil || is.SentAgain != c.sent && w.opens == nil || is.Note != c.note || !strings.Contains(is.Problem, c.says) || (c.says == "") != (is.Problem == "") {
				t.Errorf("%d requests, %+v", len(w.bodies), is)
			}
			if c.says != "" && !strings.HasSuffix(is.Problem, remedyOf("orders")) {
				t.Errorf("no remedy: %s", is.Problem)
			}
			if n := events(t, check); (n == 0) != (c.says == "") {
				t.Errorf("%d events", n)
			}
			if l, ok := check.Ledger.(*around); ok && !l.ran {
				t.Error("not around the ledger")
			}
			for _, body := range w.bodies {
				if versions := bytes.Contains(body, []byte(`"version":`)); versions != (check.Runner.Bulk.Existing == bulk.Newer) {
					t.Errorf("versions: %v", versions)
				}
			}
		})
	}
}

// TestCheck_NamesSomeOfTheDocuments lacks many documents, of which it names 10, and is refused many, of which it names 10.
func TestCheck_NamesSomeOfTheDocuments(t *testing.T) {
	w, c := orders(t)
	c.Runner.Bulk.MaxDocs = 4
	ids := slices.Sorted(maps.Keys(w.docs))
	w.refuses = ids[:20]
	loseAll(w.keeping)
	is := checkOrders(t, c)
	_, text, _ := strings.Cut(is.Problem, "33 documents were sent again: ")
	sent, refused, _ := strings.Cut(text, "; the target refuses ")
	if n := strings.Count(sent, `"`); n != 20 || !strings.HasSuffix(sent, ", …") {
		t.Errorf("sent: %s", sent)
	}
	if n := strings.Count(refused, "(mapper_parsing_exception)"); n != 10 || is.SentAgain != 33 {
		t.Errorf("refused: %s of %+v", refused, is)
	}
}

// TestCheck_ReportsErrorsOfSendingAgain stops where another process may go on: nothing is recorded, and the next check sends again.
func TestCheck_ReportsErrorsOfSendingAgain(t *testing.T) {
	for name, cause := range map[string]error{"the target is not there": fault.ErrUnavailable, "the lease is lost": fault.ErrLeaseLost} {
		w, c := orders(t)
		w.lose(1, "1000001")
		ledger := &around{err: fmt.Errorf("ledger: %w", cause)}
		c.Ledger = ledger
		if _, err := c.All(t.Context()); !errors.Is(err, cause) || len(c.Resent) > 0 || recordedIn(t, c.Coordinator, "orders") != nil {
			t.Errorf("%s: %v, %+v", name, err, recordedIn(t, c.Coordinator, "orders"))
		}
		if ledger.err = nil; checkOrders(t, c).SentAgain != 1 {
			t.Errorf("%s: not sent again", name)
		}
	}
	w, c := orders(t)
	w.lose(1, "1000001")
	ctx, cancel := context.WithCancel(t.Context())
	var opened, late atomic.Bool // late: a request may start after the cancellation
	w.opens = func(_ cms.ItemID, mayStart func() error) error {
		cancel()
		opened.Store(true)
		if mayStart() == nil {
			late.Store(true)
		}
		return errBroken
	}
	if _, err := c.All(ctx); err == nil || !opened.Load() || late.Load() || len(c.Resent) > 0 || recordedIn(t, c.Coordinator, "orders") != nil {
		t.Errorf("cancelled: %v, requests still start: %v", err, late.Load())
	}
	w, c = orders(t)
	w.hidden = true
	w.lose(1, "1000001")
	calls := 0
	w.lists = func() error {
		if calls++; calls > 1 {
			return errBroken
		}
		return nil
	}
	if _, err := c.All(t.Context()); !errors.Is(err, errBroken) || len(w.bodies) > 0 || recordedIn(t, c.Coordinator, "orders") != nil {
		t.Errorf("the aliases: %v, %d requests", err, len(w.bodies))
	}
	w, c = orders(t)
	w.lose(1, "1000001")
	calls, c.Present = 0, func(context.Context, plan.Entry) error {
		if calls++; calls > 1 {
			return errBroken
		}
		return nil
	}
	if _, err := c.All(t.Context()); !errors.Is(err, errBroken) || recordedIn(t, c.Coordinator, "orders") != nil {
		t.Errorf("the count after it: %v", err)
	}
}

// TestCheck_ReportsLostWritesOfAPart reads a part of a shard again, which has as many documents as are expected of all.
func TestCheck_ReportsLostWritesOfAPart(t *testing.T) {
	w, c := orders(t)
	for e, err := range session.EntriesOf(c.Coordinator).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		whole, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			t.Fatal(err)
		}
		whole.Shards = 1
		a := newAudit()
		a.sends(t, "orders", whole, indexed(3))
		c.Coordinator = a.Coordinator
	}
	c.Runner.Bulk.MaxDocs, c.Runner.Bulk.MaxInFlight = 4, 1
	w.before = 2 - w.seq
	w.sends = func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.bodies) > 1 {
			return fmt.Errorf("no: %w", fault.ErrConfig)
		}
		return nil
	}
	if is := checkOrders(t, c); !strings.HasPrefix(is.Problem, "the target has lost writes of orders") || !strings.Contains(is.Problem, "reading the snapshot again failed: shard 0 of orders: ") {
		t.Errorf("%d requests, %+v", len(w.bodies), is)
	}
}

// enlarging makes the first document it sees as long as it says.
type enlarging struct {
	to   int
	done bool
}

func (e *enlarging) Edit(d *doc.Document, _ int64) (bool, error) {
	if !e.done {
		e.done, d.Source = true, []byte(`{"x":"`+strings.Repeat("x", e.to-8)+`"}`)
	}
	return true, nil
}

func (*enlarging) Forget() {}

// TestCheck_SendsALongDocumentAtOnce sends a document of 5 MiB in a request of its own, since its memory is limited.
func TestCheck_SendsALongDocumentAtOnce(t *testing.T) {
	for size, requests := range map[int]int{bulk.DefaultMaxBytes: 4, bulk.DefaultMaxBytes - 1: 2} {
		w, c := orders(t)
		c.Runner.Bulk.MaxBytes = 4 * bulk.DefaultMaxBytes
		reader := *c.Shards
		reader.Edit = func(string) shards.DocumentEditor { return &enlarging{to: size} }
		c.Shards = &reader
		w.lose(1, "1000001")
		if is := checkOrders(t, c); len(w.bodies) != requests || is.SentAgain != 1 {
			t.Errorf("%d bytes: %d requests, want %d, %+v", size, len(w.bodies), requests, is)
		}
	}
}

// unwanted is a Finder that no document may be looked up with.
type unwanted struct{ t *testing.T }

func (u unwanted) Find(context.Context, []bulk.Key) ([]bulk.Found, error) {
	u.t.Error("documents are looked up")
	return nil, fault.ErrConfig
}

// TestCheck_LooksUpNoDocuments sends documents again that the target has, without comparing them.
func TestCheck_LooksUpNoDocuments(t *testing.T) {
	w, c := orders(t)
	c.Runner.Bulk.Finder, c.Runner.Bulk.SentBelow = unwanted{t}, 1<<40
	w.lose(1, "1000001")
	if is := checkOrders(t, c); is.SentAgain != 1 {
		t.Errorf("%+v", is)
	}
}
