// Package foreground shows a command in the foreground, such as rfsd migrate, like a node: by the same API, for the same clients.
package foreground

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/daemon/web"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// LogReader returns the last lines of a log.
type LogReader interface {
	Last(limit int) []status.LogLine
}

// Config describes a command.
type Config struct {
	Name    string // such as migrate
	Version string
	Session string
	Slots   int // maximum number of items that it processes at the same time
	// Store coordinates the work.
	Store *cms.Coordinator
	// Orders is the session that receives orders; nil: the command accepts none.
	Orders *cms.Coordinator
	// Waits is the reason why the command has no work at present; "": it works.
	Waits string
	// Pauses means that the command waits while it is paused. Other commands would end, and accept no order to pause.
	Pauses bool
	// Read reads the session, such as status.ReadStore.
	Read   func(ctx context.Context, store *cms.Coordinator) (*progress.Reading, error)
	Own    func() progress.Work             // work of this process since its start
	Ahead  func() map[string]progress.Ahead // progress of its items, by id; nil: unknown
	Sample func() metrics.Sample            // the work in more detail, for the metrics
	DryRun bool                             // nothing is sent
	Clock  timing.Clock
	Logs   LogReader
	Log    *slog.Logger
	Env    func(string) string
}

// Command is a command in the foreground. It implements api.Node.
type Command struct {
	conf     Config
	follower *progress.Follower
	metrics  *metrics.Registry
	started  time.Time
	watchers status.Watchers

	mu      sync.Mutex
	reading *progress.Reading
	items   []status.Item
	events  []status.Event
	refused *status.Failures // for the value of failed
	failed  int64
	sampled metrics.Sample
}

// New returns a Command. Run updates it.
func New(conf Config) *Command {
	c := &Command{conf: conf, started: time.Now()}
	c.follower = &progress.Follower{Read: c.read, Clock: conf.Clock, Own: conf.Own, DryRun: conf.DryRun, Changed: c.watchers.Notify}
	c.metrics = metrics.NewRegistry(func() status.Report { return c.Status(context.Background()) })
	return c
}

// View returns the current view of the session.
func (c *Command) View() progress.View { return c.follower.View() }

// lastRead limits the last read of the store.
const lastRead = 5 * time.Second

// lastStatus is the time for clients that follow the status to receive the last one.
const lastStatus = time.Second

// Run reads the store, and serves the socket of the command, until ctx is done. Clients that follow the status receive the final one. If
// the socket cannot be opened, that is logged and the work continues.
func (c *Command) Run(ctx context.Context) {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { c.serve(serving) })
	c.follower.Run(ctx)
	if c.watchers.Any() {
		last, end := context.WithTimeout(serving, lastRead)
		c.follower.Refresh(last)
		end()
		c.watchers.Notify()
		wait := time.NewTimer(lastStatus)
		<-wait.C
	}
	stop()
	running.Wait()
}

// serve serves the socket until ctx is done.
func (c *Command) serve(ctx context.Context) {
	path, err := api.NewOwnSocket(c.conf.Name, c.conf.Env)
	var server *api.Server
	if err == nil {
		server, err = api.New(api.Config{OwnSocket: path, Page: web.Handler(), Refused: c.metrics.Refused, Log: c.conf.Log}, c)
	}
	if err != nil {
		c.conf.Log.Info("no socket for rfsctl status", "error", err)
		return
	}
	c.conf.Log.Info("rfsctl status shows this process", "socket", path)
	if err := server.Serve(ctx); err != nil && ctx.Err() == nil {
		c.conf.Log.Warn("the socket for rfsctl status has ended", "error", err)
	}
	_ = os.Remove(path) // closing normally removes it
}

func (c *Command) read(ctx context.Context) (*progress.Migration, error) {
	reading, err := c.conf.Read(ctx, c.conf.Store)
	if err != nil {
		return nil, err
	}
	m, items, err := status.Sum(reading)
	if err != nil {
		return nil, err
	}
	m.Session = c.conf.Session
	events, err := status.ReadEvents(ctx, c.conf.Store)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	refused, known := c.refused, c.failed == m.Totals.Failed
	c.mu.Unlock()
	if !known {
		if refused, err = status.ReadRefused(ctx, c.conf.Store); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading, c.items, c.events, c.refused, c.failed = reading, items, events, refused, m.Totals.Failed
	return m, nil
}

// Status returns the current status.
func (c *Command) Status(context.Context) status.Report {
	r := status.Report{Progress: c.follower.View(), Workers: []status.Worker{}}
	m, age, err := c.follower.Seen()
	r.Migration = m
	if m != nil {
		r.Stale = age.Seconds()
	}
	if now := c.ahead(); now != nil {
		r.Migration, r.Progress = now, r.Progress.Of(now)
	}
	if err != nil {
		r.StoreError = fault.Text(err)
	}
	r.Node = status.Node{
		Name: fmt.Sprintf("%s-%d", c.conf.Name, os.Getpid()), Version: c.conf.Version, Started: c.started.UTC(),
		Running: int(c.conf.Own().Running),
	}
	if r.Node.State, r.Node.Reason = c.state(m); r.Node.State == "running" {
		r.Node.Wanted = c.conf.Slots
		if held := c.conf.Sample().Held; held != "" {
			r.Node.State, r.Node.Reason = "paused", held
		}
	}
	return r
}

// state returns the state of the command in the terms of a node, and the reason if any.
func (c *Command) state(m *progress.Migration) (state, reason string) {
	switch {
	case m == nil:
		return "starting", ""
	case c.conf.Pauses && m.Intent.State == "pause":
		return "paused", "by " + m.Intent.By
	case c.conf.Pauses && m.Intent.State == "drain":
		return "drained", "by " + m.Intent.By
	case c.conf.Waits != "":
		return "waiting", c.conf.Waits
	}
	return "running", ""
}

// ahead returns the session as of the last read of the store, with the work of this process since then; nil if that is unknown. All numbers
// of a status are derived from it.
func (c *Command) ahead() *progress.Migration {
	c.mu.Lock()
	reading := c.reading
	c.mu.Unlock()
	if reading == nil || c.conf.Ahead == nil {
		return nil
	}
	m, _, err := status.Sum(reading.With(c.conf.Ahead()))
	if err != nil {
		return nil
	}
	m.Session = c.conf.Session
	return m
}

// Subscribe returns a channel that receives a value when the status has changed, at most one pending. It is closed when ctx is done.
func (c *Command) Subscribe(ctx context.Context) <-chan struct{} { return c.watchers.Subscribe(ctx) }

// seen returns the session as last read, or an error before the first read.
func (c *Command) seen() (*progress.Migration, error) {
	m, _, err := c.follower.Seen()
	if m != nil {
		return m, nil
	}
	why := "it has just started"
	if err != nil {
		why = fault.Text(err)
	}
	return nil, fmt.Errorf("the coordination store was not read yet: %s: %w", why, fault.ErrUnavailable)
}

// Failures returns the failures as of the last read of the store.
func (c *Command) Failures(context.Context) (*status.Failures, error) {
	m, err := c.seen()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused.With(m), nil
}

// Items returns the work items as of the last read of the store.
func (c *Command) Items(_ context.Context, f status.ItemFilter) (status.ItemList, error) {
	m, err := c.seen()
	if err != nil {
		return status.ItemList{}, err
	}
	c.mu.Lock()
	items := c.items
	c.mu.Unlock()
	return status.NewItemList(m, items, f), nil
}

// Account returns the account of the session as of the last read of the store.
func (c *Command) Account(context.Context) (status.Account, error) {
	m, err := c.seen()
	if err != nil {
		return status.Account{}, err
	}
	c.mu.Lock()
	items, refused, events := c.items, c.refused, c.events
	c.mu.Unlock()
	return status.NewAccount(m, items, refused.With(m), events), nil
}

// Events returns the last events of the store, at most limit, newest last; limit ≤ 0: all.
func (c *Command) Events(_ context.Context, limit int) ([]status.Event, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit <= 0 || limit > len(c.events) {
		limit = len(c.events)
	}
	return slices.Clone(c.events[len(c.events)-limit:]), nil
}

// Logs returns the last log lines, at most limit; limit ≤ 0: all kept lines.
func (c *Command) Logs(_ context.Context, limit int) []status.LogLine { return c.conf.Logs.Last(limit) }

// Metrics returns the handler of the metrics in the Prometheus format.
func (c *Command) Metrics() http.Handler {
	handler := c.metrics.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.sample()
		handler.ServeHTTP(w, r)
	})
}

// Produce returns the metrics in OpenTelemetry's format. The error is nil.
func (c *Command) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	c.sample()
	return c.metrics.Produce(ctx)
}

// sample adds the work since the last call to the metrics.
func (c *Command) sample() {
	c.mu.Lock()
	defer c.mu.Unlock()
	sample := c.conf.Sample()
	c.metrics.Add(sample.Minus(c.sampled))
	c.sampled = sample
}

var (
	errNoOrders = fmt.Errorf("a command in the foreground takes no orders: end it with Ctrl-C; the same command continues: %w", fault.ErrConfig)
	errNoPause  = fmt.Errorf("this command takes no orders but set, because it would end while it is paused: end it with Ctrl-C; the same command continues: %w", fault.ErrConfig)
	errNoNodes  = fmt.Errorf("a command in the foreground takes the orders pause, resume and set only, without names of nodes: %w", fault.ErrConfig)
)

// storeTimeout limits the write of an order.
const storeTimeout = 10 * time.Second

// Order stores an order to set a limit or, for a command that waits, to pause or to resume. It returns fault.ErrConfig for other orders,
// and the errors of session.Orders.Issue.
func (c *Command) Order(ctx context.Context, o session.Order) (status.Ordered, error) {
	switch {
	case c.conf.Orders == nil:
		return status.Ordered{}, errNoOrders
	case !c.conf.Pauses && o.Kind != session.OrderSet:
		return status.Ordered{}, errNoPause
	case o.Kind != session.OrderPause && o.Kind != session.OrderResume && o.Kind != session.OrderSet, len(o.Nodes) > 0:
		return status.Ordered{}, errNoNodes
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	i, err := session.OrdersOf(c.conf.Orders).Issue(ctx, o)
	if err != nil {
		return status.Ordered{}, err
	}
	return status.Ordered{Intent: progress.NewIntent(i)}, nil
}

// Healthy returns nil: the process answers.
func (c *Command) Healthy() error { return nil }

// Ready returns the reason why the process does not work, or nil.
func (c *Command) Ready() error {
	_, err := c.seen()
	return err
}
