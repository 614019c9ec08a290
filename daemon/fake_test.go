package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// fakeWorker is a worker controlled by the test.
type fakeWorker struct {
	slot   int
	report func(Record)
	ended  func(End)

	mu      sync.Mutex
	stops   int
	kills   int
	gone    bool
	deaf    bool // it reads no orders
	orders  []WorkerCommand
	stopped func(*fakeWorker) // when it is asked to end
}

func (w *fakeWorker) PID() int { return 0 }

func (w *fakeWorker) Stop() {
	w.mu.Lock()
	w.stops++
	f := w.stopped
	w.mu.Unlock()
	if f != nil {
		go f(w)
	}
}

func (w *fakeWorker) Kill() {
	w.mu.Lock()
	w.kills++
	w.mu.Unlock()
	go w.end(End{Code: -1, Signal: "SIGKILL"})
}

func (w *fakeWorker) Send(o WorkerCommand) {
	w.mu.Lock()
	w.orders = append(w.orders, o)
	deaf := w.deaf
	w.mu.Unlock()
	if !deaf {
		follow(o, w.report)
	}
}

// follow reports the rates in a command, as a worker that follows it.
func follow(o WorkerCommand, report func(Record)) {
	if o.Rate != nil {
		report(Record{Rate: o.Rate.Number})
	}
	if o.ReadRate != nil {
		report(Record{ReadRate: o.ReadRate.Number})
	}
}

// rate returns the rate of a command.
func (c WorkerCommand) rate(of limited) *RateCommand {
	return [limits]*RateCommand{sends: c.Rate, reads: c.ReadRate}[of]
}

// end ends the worker, once.
func (w *fakeWorker) end(e End) {
	w.mu.Lock()
	was := w.gone
	w.gone = true
	w.mu.Unlock()
	if !was {
		w.ended(e)
	}
}

// exit ends it with a final record.
func (w *fakeWorker) exit(code int, r Record) {
	r.Exit = &code
	w.end(End{Code: code, Last: &r})
}

func (w *fakeWorker) read() (stops, kills int, orders []WorkerCommand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stops, w.kills, slices.Clone(w.orders)
}

// handsOff is a worker that hands off when it is stopped.
func handsOff(w *fakeWorker) { w.exit(ExitDone, Record{Outcome: "handed off", Item: "x"}) }

// fakeStarter starts fake workers.
type fakeStarter struct {
	mu      sync.Mutex
	began   []*fakeWorker
	stopped func(*fakeWorker) // of new workers
	born    func(*fakeWorker) // called beside Start
	refuse  error
}

func (s *fakeStarter) Start(slot int, first WorkerCommand, report func(Record), ended func(End)) (Worker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	w := &fakeWorker{slot: slot, report: report, ended: ended, stopped: s.stopped, orders: []WorkerCommand{first}}
	s.began = append(s.began, w)
	go follow(first, report)
	if s.born != nil {
		go s.born(w)
	}
	return w, nil
}

func (s *fakeStarter) workers() []*fakeWorker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.began)
}

// living returns the workers that have not ended.
func (s *fakeStarter) living() []*fakeWorker {
	var all []*fakeWorker
	for _, w := range s.workers() {
		w.mu.Lock()
		if !w.gone {
			all = append(all, w)
		}
		w.mu.Unlock()
	}
	return all
}

// node is a daemon under test with its store and its workers.
type node struct {
	*Daemon
	store   *cms.Coordinator
	starter *fakeStarter
	stop    func() error // ends Run and gives its error
}

func newStore(t *testing.T, shards int) *cms.Coordinator {
	t.Helper()
	bolt := boltstore.Open(t)
	c := cms.New(cms.Config{Store: bolt, Creator: "test", InitialLease: 2 * time.Second})
	_, err := c.SeedItems(t.Context(), func(yield func(cms.ItemID) bool) {
		for n := range shards {
			if !yield(cms.ItemID{Index: "logs", Shard: n}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// runNode runs a daemon until the test ends.
func runNode(t *testing.T, conf Config, starter *fakeStarter) *node {
	t.Helper()
	t.Parallel() // they wait most of the time
	return startNode(t, conf, starter)
}

// inVirtualTime runs a test whose clock advances only while all goroutines wait, so that it measures the product's own waiting and not the
// load of the machine.
func inVirtualTime(t *testing.T, test func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, test)
}

func startNode(t *testing.T, conf Config, starter *fakeStarter) *node {
	t.Helper()
	n := &node{store: newStore(t, 4), starter: starter}
	if conf.Open == nil {
		conf.Open = func(context.Context) (*cms.Coordinator, error) { return n.store, nil }
	}
	conf.Name, conf.Version, conf.Log = "n1", "test", cmp.Or(conf.Log, discard())
	if conf.Starter == nil {
		conf.Starter = starter
	}
	conf.IntentInterval, conf.ReadInterval = cmp.Or(conf.IntentInterval, 50*time.Millisecond), cmp.Or(conf.ReadInterval, 50*time.Millisecond)
	n.Daemon = New(conf)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := n.stop(); err != nil && conf.Open == nil {
			t.Error(err)
		}
	})
	return n
}

// order gives an order by ann.
func (n *node) order(t *testing.T, kind string, workers *int, nodes ...string) error {
	return orderOf(t.Context(), n.Daemon, kind, workers, nodes...)
}

func orderOf(ctx context.Context, d *Daemon, kind string, workers *int, nodes ...string) error {
	_, err := d.Order(ctx, session.Order{Kind: session.OrderKind(kind), Workers: workers, Nodes: nodes, Who: "ann"})
	return err
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (n *node) untilRunning(t *testing.T, want int) {
	t.Helper()
	until(t, "the wanted number of workers runs", func() bool {
		return len(n.starter.living()) == want && n.Status(t.Context()).Node.Running == want
	})
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
