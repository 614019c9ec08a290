// Package daemon is one node of a migration: it keeps workers running, reaps the dead and the
// hung, reads how far the migration is, and tells all of it. It assigns no work.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/schedule"
)

// Config of a Daemon. Zero values of durations mean the defaults.
type Config struct {
	Name, Version string
	Session       string
	// Open connects to the coordination store; it is tried again while it is fault.ErrUnavailable.
	Open    func(context.Context) (*cms.Coordinator, error)
	Starter Starter
	// Task is what the workers work on; nil: the migration of the session.
	Task       Task
	Workers    int   // wanted number; 0: automatic, by cores, memory and how busy the target is
	MaxWorkers int   // at most so many on this node, whatever is wanted; default 64
	Memory     int64 // bytes a worker may use before it is ended; 0: no limit
	MaxRate    int64 // bytes per second of the whole fleet; 0: no limit
	// Fleet is what the other nodes tell; nil: the node is alone. Speaker tells them; nil: nobody hears.
	Fleet Fleet
	Peers PeerNotifier
	// Scheduler keeps hints about the order of work; nil: none. Place is where the node stands.
	Scheduler *schedule.Scheduler
	Position  func() schedule.NodePosition
	// EndWhenDone ends Run when no work is left.
	EndWhenDone bool
	Sinks       []Sink // get every event
	Logs        *LogRing
	Log         *slog.Logger
	Notify      *Notifier // of the service manager; nil: none
	Reload      func() (logLevel string, err error)
	// Serve opens the node to operators (daemon/api) before it says that it is ready; stop closes it
	// at the end. Its error ends the node. May be nil.
	Serve func(*Daemon) (stop func() error, err error)

	IntentInterval time.Duration // default 2 s
	ReadInterval   time.Duration // default 3 s
	StopTimeout    time.Duration // between asking a worker to end and killing it; default 27 s
}

// Fleet is what a node knows of the others. All of it may be wrong, old or nothing: it changes order and pace only.
type Fleet interface {
	// Share gives this node's place among the nodes, for what is said of the whole fleet.
	Share() (position, count int)
	Nodes() []status.Node // that live
	Plan() schedule.Plan  // that the leader proposes
}

// PeerNotifier tells other nodes at once what they would find out later.
type PeerNotifier interface {
	IntentChanged()           // the operator's wish in the store is another
	ItemPoisoned(item string) // an item broke a worker
}

// Daemon is a node. Its methods may be called by several goroutines.
type Daemon struct {
	conf       Config
	log        *slog.Logger
	metrics    *metrics.Registry
	events     *eventBus
	started    time.Time
	background sync.WaitGroup // short errands of the loop: releases of leases, questions to the store
	wake       chan struct{}  // something happened that the loop should look at
	alive      chan struct{}  // closed when the loop has ended

	mu            sync.Mutex
	store         *cms.Coordinator // nil until it was reached
	slots         []*slot
	wanted        int
	intent        cms.Intent
	known         bool      // the intent was read
	done          bool      // no work is left
	idleUntil     time.Time // until then no worker is started: others hold what is left
	startAfter    time.Time // nor until then, so that a big fleet does not start all at once
	positioned    bool      // the node has heard of its fleet
	stopping      bool
	killNow       bool
	failed        error  // why the daemon cannot go on
	trouble       string // last reason of a worker that ended with an error; "" after a good one
	auto          autoscale
	pacer         pacer
	lastRead      storeState
	readRequested time.Time // when an operator's question had the store read
	refused       refusals
	rates         []ratePoint
	watchers      map[chan struct{}]struct{}
	reloads       chan struct{}
	readNow       chan struct{}
	readIntentNow chan struct{} // the intent is to be read at once
	pushedRate    int64         // the node's part of the rate that the workers were told last
	window        loadWindow
	beat          time.Time // the loop's last round
}

// storeState is what the store said last.
type storeState struct {
	migration *progress.Migration
	items     []status.Item // in order of index, shard and cursor
	at        time.Time     // monotonic
	offset    time.Duration
	err       string // of the last try
	tried     bool
}

// refusals are the documents that a fleet noted as refused, grouped, as of the last look.
type refusals struct {
	groups []progress.Failure
	failed int64 // documents that had failed then
	due    time.Time
}

// New makes a Daemon; Run runs it.
func New(conf Config) *Daemon {
	defaults := func(d *time.Duration, is time.Duration) {
		if *d <= 0 {
			*d = is
		}
	}
	defaults(&conf.IntentInterval, 2*time.Second)
	defaults(&conf.ReadInterval, 3*time.Second)
	defaults(&conf.StopTimeout, 27*time.Second)
	if conf.MaxWorkers <= 0 {
		conf.MaxWorkers = 64
	}
	if conf.Task == nil {
		conf.Task = Migration()
	}
	if conf.Logs == nil {
		conf.Logs = NewLogRing(2000)
	}
	d := &Daemon{
		conf: conf, log: conf.Log, started: time.Now(), wake: make(chan struct{}, 1), alive: make(chan struct{}),
		intent: cms.Intent{State: cms.Run}, watchers: map[chan struct{}]struct{}{}, reloads: make(chan struct{}, 1), readNow: make(chan struct{}, 1), readIntentNow: make(chan struct{}, 1),
		beat: time.Now(),
	}
	d.metrics = metrics.NewRegistry(d.snapshot)
	d.metrics.Limit(d.rateLimit())
	d.events = newEventBus(conf.Name, conf.Sinks, d.metrics, conf.Log)
	d.auto = newAutoscale(conf.MaxWorkers, conf.Memory)
	return d
}

// loopInterval is the longest time between two looks at the workers.
const loopInterval = 250 * time.Millisecond

// Run runs the node until ctx ends, then has every worker hand off. It gives an error when the
// coordination store refuses the node for good.
func (d *Daemon) Run(ctx context.Context) error {
	if d.conf.Serve != nil {
		stop, err := d.conf.Serve(d)
		if err != nil {
			close(d.alive)
			return err
		}
		defer func() {
			if err := stop(); err != nil {
				d.log.Warn("closing the API", "error", err)
			}
		}()
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx)) // readers live until the workers are gone
	defer cancel()
	var readers sync.WaitGroup
	var sinks sync.WaitGroup
	sinks.Go(func() { d.events.run(inner) })
	readers.Go(func() { d.readLoop(inner) })
	readers.Go(func() { d.intentLoop(inner) })
	d.conf.Notify.Send("READY=1", "STATUS=starting")
	d.loop(ctx)
	close(d.alive)
	d.background.Wait()
	cancel()
	readers.Wait()
	d.events.close(ctx, d.coordinator(), d.flushLimit())
	sinks.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// flushLimit returns how long the sinks may take for the last events: a service manager kills a node that stops too slowly.
func (d *Daemon) flushLimit() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return stopFlushTimeout
	}
	return flushTimeout
}

// loop looks at the workers again and again until it may end. The watchdog is fed from here only:
// it bites when this hangs.
func (d *Daemon) loop(ctx context.Context) {
	tick := time.NewTicker(loopInterval)
	defer tick.Stop()
	ended := ctx.Done()
	said := ""
	for {
		d.conf.Notify.Feed(time.Now())
		d.reconcile(time.Now())
		if now := d.statusLine(); now != said {
			said = now
			d.conf.Notify.Send("STATUS=" + now)
		}
		if d.finished() {
			return
		}
		select {
		case <-tick.C:
		case <-d.wake:
		case <-d.reloads:
			d.reload()
		case <-ended:
			ended = nil
			d.beginShutdown()
		}
	}
}

// beginShutdown begins the end: no worker is started any more, and every one hands off.
func (d *Daemon) beginShutdown() {
	d.conf.Notify.Send("STOPPING=1")
	d.log.Info("stopping: every worker hands its lease off", "patience", d.conf.StopTimeout)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = true
}

// KillWorkers ends workers that have not handed off yet at once; for a second signal.
func (d *Daemon) KillWorkers() {
	d.mu.Lock()
	d.killNow = true
	d.mu.Unlock()
	d.wakeUp()
}

// Reload asks the configuration for certificates and log level again.
func (d *Daemon) Reload() {
	select {
	case d.reloads <- struct{}{}:
	default: // one is waiting
	}
}

func (d *Daemon) reload() {
	d.conf.Notify.Reloading()
	defer d.conf.Notify.Send("READY=1")
	if d.conf.Reload == nil {
		return
	}
	level, err := d.conf.Reload()
	if err != nil {
		d.log.Error("reload: what was in use stays in use", "error", err)
		return
	}
	d.log.Info("reloaded", "log_level", level)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.slots {
		if s.worker != nil {
			d.sendOrder(s.worker, Order{LogLevel: level})
		}
	}
}

// sendOrder passes an order on without waiting for a worker that does not read. It holds no lock meanwhile.
func (d *Daemon) sendOrder(w Worker, o Order) {
	d.background.Go(func() { w.Order(o) })
}

// leaseEnd says that Run may end.
func (d *Daemon) finished() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running() > 0 {
		return false
	}
	return d.stopping || d.failed != nil || d.conf.EndWhenDone && d.done && d.lastRead.migration != nil && d.lastRead.migration.Complete
}

func (d *Daemon) wakeUp() { trySend(d.wake) }

// statusLine is one line for the service manager.
func (d *Daemon) statusLine() string {
	r := d.snapshot()
	s := fmt.Sprintf("%s: %d of %d workers", r.Node.State, r.Node.Running, r.Node.Wanted)
	if m := r.Migration; m != nil {
		if t := m.Totals; t.Shards > 0 {
			s += fmt.Sprintf(", %d of %d shards", t.ShardsDone, t.Shards)
		} else if t.Items > 0 {
			s += fmt.Sprintf(", %d of %d windows", t.Items-t.ItemsOpen, t.Items)
		}
	}
	if r.Node.Reason != "" {
		s += ": " + r.Node.Reason
	}
	return s
}

// coordinator gives the store, or nil while it was never reached.
func (d *Daemon) coordinator() *cms.Coordinator {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.store
}

// fail ends the node: it cannot go on.
func (d *Daemon) fail(err error) {
	d.mu.Lock()
	if d.failed == nil {
		d.failed = err
	}
	d.mu.Unlock()
	d.wakeUp()
}

// connect tries to open the store once.
func (d *Daemon) connect(ctx context.Context) error {
	if d.coordinator() != nil {
		return nil
	}
	c, err := d.conf.Open(ctx)
	if err != nil {
		if !errors.Is(err, fault.ErrUnavailable) && ctx.Err() == nil {
			d.fail(err)
		}
		return err
	}
	d.mu.Lock()
	d.store = c
	d.mu.Unlock()
	d.wakeUp()
	return nil
}
