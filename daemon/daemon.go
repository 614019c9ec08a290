// Package daemon is one node of a migration: it keeps workers running, reaps dead and hung ones, and reads and reports the progress of the
// migration. It assigns no work.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/events"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Config of a Daemon. Zero values of durations mean the defaults.
type Config struct {
	Name, Version string
	Session       string
	// Open connects to the coordination store, for the kind of items that the workers process. It is retried while it returns
	// fault.ErrUnavailable.
	Open func(context.Context) (*cms.Coordinator, error)
	// Work returns the session whose items the workers process at present. orders is the session returned by Open, which keeps orders and
	// rounds. It is called every IntentInterval by one goroutine. nil: the items are in the same session as the orders.
	Work       func(ctx context.Context, orders *cms.Coordinator) (Work, error)
	Starter    Starter
	Workers    int   // desired number; 0: automatic, by cores, memory and rejections of the target; -1: none
	MaxWorkers int   // limit on this node, which overrides any desired number; default 64
	Memory     int64 // bytes a worker may use before it is stopped; 0: no limit
	// Send and Read are the limits of the bytes sent, and read from the repository.
	Send, Read Limit
	// Set is called with the operator's limits, for workers in this process, which share them. It may be nil.
	Set func(session.Limits)
	// Owner proves which former workers of this node are dead, so that their leases are released; nil: the leases expire.
	Owner *Owner
	// Fleet reports the other nodes; nil: a single node. Peers notifies them; nil: no notifications.
	Fleet Fleet
	Peers PeerNotifier
	// Mirror exchanges the readings of the fleet's leader; nil: this node shows only its own.
	Mirror Mirror
	// Scheduler has the hints on the order of work; nil: none. Position returns the node's position in the fleet.
	Scheduler *schedule.Scheduler
	Position  func() schedule.NodePosition
	// Scales means that the fleet has a scaler, whose state is read and shown.
	Scales bool
	// EndWhenDone makes Run return when no work is left.
	EndWhenDone bool
	Sinks       []events.Sink // receive every event
	Logs        *LogRing
	Log         *slog.Logger
	Notify      *Notifier // notifies the service manager; nil: none
	Reload      func() (logLevel string, err error)
	// Serve starts the API (daemon/api) before the node reports that it is ready; stop closes it at the end. Its error ends Run. It may be
	// nil.
	Serve func(*Daemon) (stop func() error, err error)

	IntentInterval time.Duration // default 2 s
	ReadInterval   time.Duration // default 3 s
	StopTimeout    time.Duration // between SIGTERM and SIGKILL of a worker; default 27 s
}

// Fleet reports the other nodes. Its reports may be wrong, outdated or missing: they affect order and pace only.
type Fleet interface {
	// Share returns this node's position among the live nodes and their number, to divide numbers for the whole fleet.
	Share() (position, count int)
	Nodes() []status.Node // live nodes
	// Gone returns the nodes that have left or failed since this node joined, with the State node_lost or node_left. A node that has
	// restarted is in Nodes, too, with a later start.
	Gone() []status.Node
	Plan() schedule.Plan // the leader's proposal
}

// Mirror exchanges the leader's readings of the store. They may be wrong, outdated or missing: they are only shown.
type Mirror interface {
	Mirrors() bool // this node is the leader: it reads for the fleet
	PublishReading(*progress.Reading) error
	// Reading returns a reading that is newer than the last one, or nil. asked means that an operator requests it.
	Reading(ctx context.Context, asked bool) (*progress.Reading, error)
	// Published returns the time of the leader's last published reading, by the store's clock; zero if this node knows of none.
	Published() time.Time
}

// PeerNotifier notifies other nodes of changes that they would otherwise detect later.
type PeerNotifier interface {
	IntentChanged()           // the intent in the store has changed
	IntentFollowed()          // this node follows another version of the intent
	ItemPoisoned(item string) // an item crashed a worker
}

// Daemon is a node. Its methods are safe for concurrent use.
type Daemon struct {
	conf       Config
	log        *slog.Logger
	metrics    *metrics.Registry
	events     *events.Bus
	started    time.Time
	background sync.WaitGroup // tasks started by the loop: releases of leases, store queries
	wake       chan struct{}  // wakes the loop
	alive      chan struct{}  // closed when the loop has ended
	store      connection

	mu            sync.Mutex
	slots         []*slot
	wanted        int
	intent        session.Intent
	known         bool      // the intent was read
	work          *Work     // the session of the items; nil: unknown, or the session of the orders
	workError     string    // why the last read of it failed
	done          bool      // no work is left
	completeSince time.Time // this node has waited since then for the last change of machines
	idleUntil     time.Time // no worker is started before: all open items are leased
	startAfter    time.Time // no worker is started before, so that the nodes of a large fleet do not start at the same time
	positioned    bool      // the node knows its position in the fleet
	stopping      bool
	killNow       bool
	failed        error  // fatal error
	trouble       string // error of the last worker that ended; "" after a success
	auto          autoscale
	pacer         pacer
	lastRead      storeState    // this node's own, the basis of all decisions
	mirrored      storeState    // the leader's, if any
	mirroredEach  time.Duration // interval between the last two mirrored readings
	readRequested time.Time     // when a status request last triggered a read of the store
	cutOff        bool          // the last read of the intent failed
	asked         time.Time     // when an operator last asked for the status
	refused       refusals
	expired       map[string]bool // reported leases that are over; used by the reading loop only
	others        goneNodes
	measure       progress.Measure
	measured      time.Duration // time since the start of the last reading passed to measure
	watchers      status.Watchers
	reloads       chan struct{}
	readNow       chan struct{}
	readIntentNow chan struct{} // triggers a read of the intent
	allowed       [limits]allowance
	window        loadWindow
	beat          time.Time // last iteration of the loop
}

// storeState is the result of the last read of the store.
type storeState struct {
	migration *progress.Migration
	items     []status.Item // sorted by index, shard and cursor
	machines  *status.Machines
	at        time.Time // monotonic
	offset    time.Duration
	err       string // of the last attempt
	tried     bool
}

// refusals are the rejected documents recorded by the fleet, grouped by reason, as of the last read.
type refusals struct {
	session   string // that recorded them
	documents *status.Failures
	failed    int64 // documents that had failed then
	due       time.Time
}

// New returns a Daemon, which Run runs.
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
	if conf.Logs == nil {
		conf.Logs = NewLogRing(2000)
	}
	d := &Daemon{
		conf: conf, log: conf.Log, started: time.Now(), measure: progress.Measure{Lag: progress.RecordLag}, wake: make(chan struct{}, 1), alive: make(chan struct{}),
		intent: session.Intent{State: session.Run}, reloads: make(chan struct{}, 1), readNow: make(chan struct{}, 1), readIntentNow: make(chan struct{}, 1),
		beat: time.Now(), expired: map[string]bool{},
	}
	d.metrics = metrics.NewRegistry(d.snapshot)
	d.allowed = [limits]allowance{sends: newAllowance(conf.Send), reads: newAllowance(conf.Read)}
	d.noteLimits()
	d.events = events.New(events.Config{Node: conf.Name, Sinks: conf.Sinks, Work: d.workStore, Metrics: d.metrics, Log: conf.Log})
	d.auto = newAutoscale(conf.MaxWorkers, conf.Memory)
	return d
}

// loopInterval is the maximum time between two iterations of the main loop.
const loopInterval = 250 * time.Millisecond

// Run runs the node until ctx is done, then makes every worker hand off. It returns an error if the coordination store rejects the node
// permanently.
func (d *Daemon) Run(ctx context.Context) error {
	if d.conf.Serve != nil {
		stop, err := d.conf.Serve(d)
		if err != nil {
			close(d.alive)
			return err
		}
		defer func() {
			if err := stop(); err != nil {
				d.log.Warn("closing the API failed", "error", err)
			}
		}()
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx)) // readers live until the workers are gone
	defer cancel()
	var readers sync.WaitGroup
	var sinks sync.WaitGroup
	sinks.Go(func() { d.events.Run(inner) })
	readers.Go(func() { d.readLoop(inner) })
	readers.Go(func() { d.intentLoop(inner) })
	readers.Go(func() { d.holdPermit(inner, sends) })
	readers.Go(func() { d.holdPermit(inner, reads) })
	readers.Go(func() { d.logProgress(inner) })
	if d.conf.Owner != nil {
		readers.Go(func() { d.reclaim(inner) })
	}
	d.conf.Notify.Send("READY=1", "STATUS=starting")
	d.loop(ctx)
	close(d.alive)
	d.background.Wait()
	cancel()
	readers.Wait()
	store, _ := d.store.coordinator() // nil before it was reached
	d.events.Close(ctx, store, d.flushLimit())
	sinks.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Timeouts of the sinks when the node ends by itself, and when it is stopped.
const flushTimeout, stopFlushTimeout = 30 * time.Second, 5 * time.Second

// flushLimit returns the timeout of the sinks for the last events: a service manager kills a node that stops too slowly.
func (d *Daemon) flushLimit() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopping {
		return stopFlushTimeout
	}
	return flushTimeout
}

// loop reconciles the workers until the daemon has finished. Only this loop feeds the watchdog, so that it detects a hang.
func (d *Daemon) loop(ctx context.Context) {
	tick := time.NewTicker(loopInterval)
	defer tick.Stop()
	ended := ctx.Done()
	shown := ""
	for {
		d.conf.Notify.Feed(time.Now())
		d.reconcile(time.Now())
		if now := d.statusLine(); now != shown {
			shown = now
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

// beginShutdown starts no more workers and makes all of them hand off.
func (d *Daemon) beginShutdown() {
	d.conf.Notify.Send("STOPPING=1")
	d.log.Info("stopping", "stop_timeout", d.conf.StopTimeout)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopping = true
}

// KillWorkers kills workers that have not handed off yet, after a second signal.
func (d *Daemon) KillWorkers() {
	d.mu.Lock()
	d.killNow = true
	d.mu.Unlock()
	d.wakeUp()
}

// Reload makes the main loop reload certificates and log level.
func (d *Daemon) Reload() {
	select {
	case d.reloads <- struct{}{}:
	default: // one is pending
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
		d.log.Error("reload failed", "error", err)
		return
	}
	d.log.Info("reloaded", "log_level", level)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.slots {
		if s.worker != nil {
			d.sendCommand(s.worker, WorkerCommand{LogLevel: level})
		}
	}
}

// sendCommand sends a command in the background, so that a worker that does not read cannot block the caller.
func (d *Daemon) sendCommand(w Worker, o WorkerCommand) {
	d.background.Go(func() { w.Send(o) })
}

// finished reports whether Run may return.
func (d *Daemon) finished() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running() > 0 {
		return false
	}
	if d.stopping || d.failed != nil {
		return true
	}
	m := d.lastRead.migration
	complete := m != nil && m.Complete && d.ended() && (d.done || d.conf.Workers < 0)
	return d.conf.EndWhenDone && complete && d.machinesEnded(time.Now())
}

func (d *Daemon) wakeUp() { trySend(d.wake) }

// statusLine returns the status line for the service manager.
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

// fail records a fatal error, which ends the node.
func (d *Daemon) fail(err error) {
	d.mu.Lock()
	if d.failed == nil {
		d.failed = err
	}
	d.mu.Unlock()
	d.wakeUp()
}

// connect returns the store, and opens it if necessary.
func (d *Daemon) connect(ctx context.Context) (*cms.Coordinator, error) {
	if c, err := d.store.coordinator(); err == nil {
		return c, nil
	}
	c, err := d.conf.Open(ctx)
	if err != nil {
		if !errors.Is(err, fault.ErrUnavailable) && ctx.Err() == nil {
			d.fail(err)
		}
		return nil, err
	}
	d.store.set(c)
	d.wakeUp()
	return c, nil
}
