package daemon

import (
	"fmt"
	"strings"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// slot runs one worker at a time. d.mu guards it.
type slot struct {
	n            int
	worker       Worker           // nil while no worker runs
	session      string           // session of the worker's items
	store        *cms.Coordinator // store of these items
	since        time.Time        // the worker's start
	holder       string           // of the worker, as it reported
	phase        WorkerPhase
	lease        *Lease
	leaseEnd     time.Time // end of the lease, by this machine's monotonic clock
	leaseChecked time.Time // when the lease was last checked in the store

	sample         metrics.Sample   // last one of the worker
	settled        progress.Work    // work of former workers of the slot
	done           progress.Measure // work of all workers of the slot, by time since the daemon's start
	memory         int64            // resident bytes
	memoryChecked  time.Time
	overLimitCount int // consecutive measurements above the limit

	rates  [limits]rateCommands // rates at which the worker may send and read
	leased time.Time            // when the slot last had a lease

	stopped   time.Time // when it was asked to stop; zero: not yet
	killed    bool
	endReason string // why this daemon stops it; "" if the operator does

	crashes  int       // consecutive crashes
	earliest time.Time // earliest time of the next start
	restarts int
	lastExit string
	ended    time.Time // when the last worker ended
}

const (
	restartAfterKill = 500 * time.Millisecond
	// minGoodRun is the run time after which a worker counts as successfully started, which resets the backoff.
	minGoodRun = 30 * time.Second
	// reapTimeout is the time between SIGTERM and SIGKILL for a worker whose lease is over, or that uses too much memory.
	reapTimeout = 3 * time.Second
	// maxRateGap is the pause between two workers of a slot after which its rate is measured from scratch.
	maxRateGap = 5 * time.Second
	// maxIdleWait limits the wait for leases of others, which may end early.
	maxIdleWait = 30 * time.Second
)

// reconcile starts and stops workers until the desired number runs, and supervises them.
func (d *Daemon) reconcile(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beat = now
	d.wanted = d.wantedWorkers(now)
	for len(d.slots) < d.wanted {
		d.slots = append(d.slots, &slot{n: len(d.slots)})
	}
	if place := d.position(); !d.positioned && place.Nodes > 0 {
		d.positioned, d.startAfter = true, now.Add(place.StartDelay())
	}
	changed := false
	for _, s := range d.slots {
		switch {
		case s.worker != nil && (s.n >= d.wanted || !d.current(s.session)) && s.stopped.IsZero():
			d.stopWorker(s, now, "")
		case s.worker != nil:
			d.supervise(s, now)
		case s.n < d.wanted && !now.Before(s.earliest) && !now.Before(d.idleUntil) && !now.Before(d.startAfter):
			d.start(s, now)
			changed = true
		}
	}
	was := d.pacer.current()
	d.pacer.update(now, d.metrics.Total(), d.plan(), d.intent.Workers != nil || d.conf.Workers > 0 || d.auto.n <= 1)
	if is := d.pacer.current(); is != was {
		d.log.Info("pace changed", "target", is.Target, "repository", is.Repository)
		d.pushLimits()
	} else if changed {
		d.pushRates()
	}
	d.noteLimits()
	if changed {
		d.watchers.Notify()
	}
}

// wantedWorkers returns how many workers should run now.
func (d *Daemon) wantedWorkers(now time.Time) int {
	if d.conf.Workers < 0 || d.stopping || d.failed != nil || !d.store.reached() || !d.known || d.done || d.waits() != "" || d.intent.State != session.Run || d.intent.Drains(d.conf.Name) {
		return 0
	}
	n := d.conf.Workers
	switch {
	case d.intent.Workers != nil:
		n = d.nodeShare(*d.intent.Workers)
	case n == 0:
		plan := d.plan()
		n = d.auto.wanted(now, d.metrics.Total(), max(plan.TargetRejectRatio, plan.RepoThrottleRatio))
		if plan.Workers > 0 {
			n = min(n, max(d.nodeShare(plan.Workers), 1)) // a hint never stops all workers of a node
		}
	}
	return min(n, d.conf.MaxWorkers)
}

// share returns a node's share of a number for the fleet.
func share(total, position, count int) int {
	count = max(count, 1)
	n := total / count
	if position < total%count {
		n++
	}
	return n
}

// running returns the number of running workers.
func (d *Daemon) running() int {
	n := 0
	for _, s := range d.slots {
		if s.worker != nil {
			n++
		}
	}
	return n
}

// start starts a worker in a slot.
func (d *Daemon) start(s *slot, now time.Time) {
	s.rates = [limits]rateCommands{}
	store, of, err := d.workStoreLocked()
	if err != nil {
		return // the worker is not needed
	}
	command := d.limitCommand(s, d.running()+1)
	command.Every = time.Second
	if d.work != nil {
		command.Round = d.work.Round
	}
	d.addHints(&command, now)
	w, err := d.conf.Starter.Start(s.n, command,
		func(r Record) { d.handleRecord(s, r) }, func(e End) { d.handleEnd(s, e) })
	if err != nil {
		d.delayRestart(s, now, err.Error())
		d.log.Error("worker start failed", "slot", s.n, "error", err)
		return
	}
	if s.lastExit != "" || s.restarts > 0 || !s.since.IsZero() {
		s.restarts++
		d.metrics.Restart()
	}
	if now.Sub(s.ended) > maxRateGap {
		s.done = progress.Measure{}
	}
	*s = slot{n: s.n, worker: w, session: of, store: store, rates: s.rates, since: now, settled: s.settled, done: s.done, crashes: s.crashes, restarts: s.restarts, lastExit: s.lastExit}
	s.measure(d.started, now, 0)
	d.log.Debug("worker started", "slot", s.n, "pid", w.PID())
}

// preferredItems is the number of proposed items that a worker tries before it searches.
const preferredItems = 4

// addHints adds the hints to a command, and delays the next start. Without hints it does nothing.
func (d *Daemon) addHints(o *WorkerCommand, now time.Time) {
	if d.conf.Position != nil {
		place := d.position()
		d.startAfter = now.Add(place.StartInterval())
		o.Record, o.Tries = place.RecordInterval(), place.MaxTries()
		o.Exponent = max(place.MinExponent(timing.DefaultInitialLease), d.plan().MinExponent(timing.DefaultInitialLease))
	}
	if s := d.scheduler(); s != nil {
		o.Prefer = s.Propose(now, preferredItems)
	}
}

// updateScheduler passes a worker's lease and end to the scheduler.
func (d *Daemon) updateScheduler(lease *Lease, e *End) {
	s := d.scheduler()
	switch {
	case s == nil || lease == nil:
	case e == nil:
		s.MarkTaken(lease.Item, time.Now().Add(time.Duration(lease.LeftMs)*time.Millisecond))
	case !e.isClean():
		s.MarkTaken(lease.Item, time.Now().Add(doneTTL)) // other nodes may try it; a search may still find it
		if d.conf.Peers != nil {
			d.conf.Peers.ItemPoisoned(lease.Item)
		}
	case len(e.Last.Next) > 0:
		for _, next := range e.Last.Next {
			s.AddHandedOff(next)
		}
		s.MarkTaken(lease.Item, time.Now().Add(doneTTL))
	case *e.Last.Exit == ExitDone:
		s.MarkTaken(lease.Item, time.Now().Add(doneTTL))
	}
}

// clockSkew is part of the error of a worker that gets no lease because of its machine's clock.
const clockSkew = "clock skew"

// doneTTL is the time for which an ended item is not proposed; an operator may reopen it.
const doneTTL = time.Hour

// stopWorker makes a worker hand off and end. why is "" if the operator wants that.
func (d *Daemon) stopWorker(s *slot, now time.Time, why string) {
	if s.stopped.IsZero() {
		s.stopped = now
		s.worker.Stop()
	}
	if why != "" && s.endReason == "" {
		s.endReason = why
		d.log.Warn("worker stopped", "slot", s.n, "pid", s.worker.PID(), "reason", why)
	}
}

// supervise supervises one running worker: its end, memory and lease.
func (d *Daemon) supervise(s *slot, now time.Time) {
	patience := d.conf.StopTimeout
	if s.endReason != "" {
		patience = reapTimeout
	}
	if !s.killed && !s.stopped.IsZero() && (d.killNow || now.Sub(s.stopped) >= patience) {
		s.killed = true
		d.log.Warn("worker killed", "slot", s.n, "pid", s.worker.PID(), "after", now.Sub(s.stopped).Round(time.Millisecond))
		s.worker.Kill()
		return
	}
	d.checkMemory(s, now)
	if s.lease != nil && now.After(s.leaseEnd) && now.Sub(s.leaseChecked) > time.Second && s.endReason == "" {
		s.leaseChecked = now
		d.checkLease(s, s.worker, s.store, *s.lease, now.Sub(s.leaseEnd))
	}
}

// checkMemory measures the memory of a worker process, and stops it after three consecutive values above the limit.
func (d *Daemon) checkMemory(s *slot, now time.Time) {
	pid := s.worker.PID()
	if pid == 0 || now.Sub(s.memoryChecked) < time.Second {
		return
	}
	s.memoryChecked, s.memory = now, metrics.Resident(pid)
	limit := memoryLimit(d.conf.Memory)
	if limit == 0 || s.memory <= limit {
		s.overLimitCount = 0
		return
	}
	if s.overLimitCount++; s.overLimitCount >= 3 {
		d.stopWorker(s, now, fmt.Sprintf("memory: %d MiB resident, more than %d MiB", s.memory>>20, limit>>20))
	}
}

// memoryLimit returns the resident size above which a worker is stopped: GOMEMLIMIT is a soft limit, and excludes mappings and stacks.
func memoryLimit(soft int64) int64 {
	if soft == 0 {
		return 0
	}
	return soft + soft/2 + 64<<20
}

// handleRecord handles a record of a worker.
func (d *Daemon) handleRecord(s *slot, r Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if r.Holder != "" {
		s.holder = r.Holder
	}
	if r.Phase != nil {
		s.phase = *r.Phase
		d.watchers.Notify()
	}
	if r.Lease != nil {
		s.lease, s.leaseEnd = r.Lease, now.Add(time.Duration(r.Lease.LeftMs)*time.Millisecond)
		s.leased = now
		if s.lease.Item == "" {
			s.lease = nil
		}
		d.updateScheduler(s.lease, nil)
		d.watchers.Notify()
	}
	if r.Rate > 0 {
		d.followsRate(s, sends, r.Rate)
	}
	if r.ReadRate > 0 {
		d.followsRate(s, reads, r.ReadRate)
	}
	if r.Sample == nil {
		return
	}
	more := r.Sample.Minus(s.sample)
	d.metrics.Add(more)
	s.sample = *r.Sample
	s.measure(d.started, now, 1)
	if r.Sample.Documents > 0 {
		s.crashes = 0
	}
}

// measure adds the current work of the slot to its measure, at the time since start, the daemon's. running is 0 before the worker has sent
// a sample.
func (s *slot) measure(start, now time.Time, running int64) {
	s.done.Add(now.Sub(start), progress.Work{
		Documents: s.settled.Documents + s.sample.Documents, Failed: s.settled.Failed + s.sample.Failed, Running: running,
	})
}

// handleEnd handles the end of a worker, whose process is known to be dead.
func (d *Daemon) handleEnd(s *slot, e End) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wakeUp()
	now := time.Now()
	d.updateScheduler(s.lease, &e)
	d.handleExit(s, e, now)
	if s.lease != nil {
		s.leased = now
	}
	s.settled.Documents, s.settled.Failed = s.settled.Documents+s.sample.Documents, s.settled.Failed+s.sample.Failed
	s.worker, s.lease, s.sample, s.memory, s.rates, s.ended = nil, nil, metrics.Sample{}, 0, [limits]rateCommands{}, now
	d.pushRates()
	d.watchers.Notify()
}

// handleExit updates slot, lease and daemon after the end of a worker.
func (d *Daemon) handleExit(s *slot, e End, now time.Time) {
	if e.isClean() && e.Last.Outcome != "" && e.Last.Item != "" {
		d.metrics.Lease(e.Last.Outcome)
	}
	if !e.isClean() {
		d.handleCrash(s, e, now)
		return
	}
	if e.Last.Gone && d.failed == nil && d.conf.Work == nil { // otherwise the records of a former round were removed
		d.failed = goneError(e.Last.Error)
	}
	if s.endReason != "" { // it handed off before it was killed
		d.handleFailure(s, now, s.endReason, "memory")
		return
	}
	if *e.Last.Exit == ExitFailed || s.lease == nil && !s.stopped.IsZero() {
		// It may hold a lease that it could not release, or whose grant was lost. Leases of other holders are unaffected.
		d.release(s.store, s.holder, s.lease, cms.CauseDrain)
	}
	if code := *e.Last.Exit; !s.stopped.IsZero() && code != ExitNoneLeft || !d.current(s.session) {
		s.earliest = now // it was stopped
		return
	}
	switch *e.Last.Exit {
	case ExitDone, ExitTimeout:
		s.crashes, s.earliest = 0, now
		d.idleUntil, d.trouble = time.Time{}, "" // a hand-off leaves a successor behind
	case ExitNoneLeft:
		d.trouble = ""
		if !d.done {
			d.done = true
			d.readStoreSoon()
			d.log.Info("no work left")
		}
	case ExitNoneFree:
		wait := min(max(time.Duration(e.Last.NextMs)*time.Millisecond, 300*time.Millisecond), maxIdleWait)
		d.idleUntil = now.Add(wait)
		if !strings.Contains(d.trouble, clockSkew) { // a worker that finds no free item has not checked its clock
			d.trouble = ""
		}
	case ExitUnreadable:
		d.handleFailure(s, now, "snapshot unreadable: "+e.Last.Error, "unreadable")
	default:
		d.handleFailure(s, now, e.Last.Error, "error")
	}
}

// handleFailure handles a worker that ended with an error.
func (d *Daemon) handleFailure(s *slot, now time.Time, why, class string) {
	if why == "" {
		why = "it gave no reason"
	}
	d.trouble = why
	d.metrics.Crash(class)
	d.delayRestart(s, now, why)
	d.log.Error("worker failed", "slot", s.n, "error", why, "next_start_in", time.Until(s.earliest).Round(time.Millisecond))
	d.events.Add("worker", "", "worker_failed", why)
}

// handleCrash handles a worker that did not end by itself, and releases its leases, because its process is known to be dead.
func (d *Daemon) handleCrash(s *slot, e End, now time.Time) {
	class, counted := classifyExit(s, e)
	why := describeExit(s, e)
	d.metrics.Crash(class)
	if strings.HasPrefix(s.endReason, leaseOver) {
		d.metrics.Reaped()
	}
	if counted {
		d.delayRestart(s, now, why)
	} else { // killed from outside: no reason to delay the next worker
		s.lastExit, s.earliest = why, now.Add(restartAfterKill)
	}
	subject, item := s.lease.subject()
	d.log.Error("worker crashed", "slot", s.n, "subject", subject, "pid", s.worker.PID(), "class", class, "reason", why, "stderr", strings.Join(e.Stderr, "\n"))
	d.events.Add(subject, item, "worker_"+class, why)
	cause := cms.CauseKilled
	if counted {
		cause = cms.CauseNone // the item may have killed it
	}
	d.release(s.store, s.holder, s.lease, cause)
}

// classifyExit returns the class of a crash for metrics and events, and whether the item may be the cause.
func classifyExit(s *slot, e End) (class string, counted bool) {
	switch {
	case strings.HasPrefix(s.endReason, leaseOver):
		return "hung", true
	case s.endReason != "", e.OOM:
		return "memory", true
	case s.killed, e.Signal == "SIGKILL", e.Signal == "SIGTERM", e.Signal == "SIGINT", e.Signal == "SIGHUP":
		return "killed", false
	case e.Signal != "":
		return "signal", true
	case e.Code == ExitTimeout:
		return "panic", true // Go exits with 2 after a panic
	}
	return "exit", true
}

// describeExit returns one line that describes how a worker ended.
func describeExit(s *slot, e End) string {
	var parts []string
	if s.endReason != "" {
		parts = append(parts, s.endReason)
	}
	switch {
	case e.OOM:
		parts = append(parts, "killed by the kernel for lack of memory")
	case e.Signal != "":
		parts = append(parts, "ended by "+e.Signal)
	default:
		parts = append(parts, fmt.Sprintf("exit code %d without a final record", e.Code))
	}
	for _, line := range e.Stderr { // the first line that looks like a reason
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "rfsd:") {
			parts = append(parts, line)
			break
		}
	}
	return strings.Join(parts, "; ")
}

// restarts determines the pauses before a slot restarts after consecutive crashes.
var restarts = retry.Policy{First: time.Second, Max: time.Minute}

// delayRestart delays the next start of the slot, with exponential backoff.
func (d *Daemon) delayRestart(s *slot, now time.Time, why string) {
	if !s.since.IsZero() && now.Sub(s.since) >= minGoodRun {
		s.crashes = 0
	}
	s.lastExit = why
	s.crashes++
	s.earliest = now.Add(restarts.Pause(s.crashes))
}
