package daemon

import (
	"fmt"
	"strings"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/cms"
)

// slot is the place of one worker after the other. It is guarded by the daemon's mutex.
type slot struct {
	n            int
	worker       Worker    // nil between two
	since        time.Time // the worker's start
	holder       string    // of the worker, as it said itself
	lease        *Lease
	leaseEnd     time.Time // when the lease is over, by this machine's monotonic clock
	leaseChecked time.Time // when the store was last asked whether it is over

	sample         metrics.Sample // the worker's last
	sampled        time.Time
	rate           float64 // documents per second
	memory         int64   // resident bytes
	memoryChecked  time.Time
	overLimitCount int // readings in a row beyond the limit

	stopped   time.Time // when it was asked to end; zero: not yet
	killed    bool
	endReason string // why this daemon ends it against its will

	backoff  time.Duration // before the next start after the next crash
	earliest time.Time     // of the next start
	restarts int
	lastExit string
}

const (
	minBackoff       = time.Second
	maxBackoff       = time.Minute
	restartAfterKill = 500 * time.Millisecond
	// minGoodRun is how long a worker must have worked to count as a good start.
	minGoodRun = 30 * time.Second
	// reapTimeout is between SIGTERM and SIGKILL for a worker whose lease is over, or that takes too much memory.
	reapTimeout = 3 * time.Second
	// maxIdleWait bounds the waiting for others: they may hand off before their leases end.
	maxIdleWait = 30 * time.Second
)

// reconcile makes the workers what they should be.
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
		case s.worker != nil && s.n >= d.wanted && s.stopped.IsZero():
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
		d.log.Info("another part of the connections is used", "target", is.Target, "repository", is.Repository)
		d.pushLimits()
	} else if changed && d.conf.MaxRate > 0 || d.pushedRate != d.rateLimit() {
		d.pushLimits()
	}
	if changed {
		d.notifyWatchers()
	}
}

// wantedWorkers is how many workers should run now.
func (d *Daemon) wantedWorkers(now time.Time) int {
	if d.stopping || d.failed != nil || d.store == nil || !d.known || d.done || d.intent.State != cms.Run || d.intent.Drains(d.conf.Name) {
		return 0
	}
	n := d.conf.Workers
	switch {
	case d.intent.Workers != nil:
		n = d.nodeShare(*d.intent.Workers)
	case n <= 0:
		plan := d.plan()
		n = d.auto.wanted(now, d.metrics.Total(), max(plan.TargetRejectRatio, plan.RepoThrottleRatio))
		if plan.Workers > 0 {
			n = min(n, max(d.nodeShare(plan.Workers), 1)) // a hint never leaves a node without any
		}
	}
	return min(n, d.conf.MaxWorkers)
}

// share is this node's part of a number for the fleet.
func share(total, position, count int) int {
	count = max(count, 1)
	n := total / count
	if position < total%count {
		n++
	}
	return n
}

// running counts the workers.
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
	rate, pace := d.workerRate(d.running()+1), d.pacer.current()
	order := Order{MaxRate: &rate, Pace: &pace, Every: time.Second, Node: d.conf.Name, Slots: d.wanted}
	d.addHints(&order, now)
	w, err := d.conf.Starter.Start(s.n, order,
		func(r Record) { d.handleRecord(s, r) }, func(e End) { d.handleEnd(s, e) })
	if err != nil {
		d.delayRestart(s, now, err.Error())
		d.log.Error("a worker cannot be started", "slot", s.n, "error", err)
		return
	}
	if s.lastExit != "" || s.restarts > 0 || !s.since.IsZero() {
		s.restarts++
		d.metrics.Restart()
	}
	*s = slot{n: s.n, worker: w, since: now, backoff: s.backoff, restarts: s.restarts, lastExit: s.lastExit}
	d.log.Debug("worker started", "slot", s.n, "pid", w.PID())
}

// preferredItems is how many items a worker tries before it searches.
const preferredItems = 4

// addHints adds to an order what the fleet knows, and paces the next start. Without hints it does nothing.
func (d *Daemon) addHints(o *Order, now time.Time) {
	if d.conf.Position != nil {
		place := d.position()
		d.startAfter = now.Add(place.StartInterval())
		o.Record, o.Tries = place.RecordInterval(), place.MaxTries()
		o.Exponent = max(place.MinExponent(cms.DefaultInitialLease), d.plan().MinExponent(cms.DefaultInitialLease))
	}
	if d.conf.Scheduler != nil {
		o.Prefer = d.conf.Scheduler.Propose(now, preferredItems)
	}
}

// updateScheduler takes from a worker's lease and end what the scheduler should know.
func (d *Daemon) updateScheduler(lease *Lease, e *End) {
	s := d.conf.Scheduler
	switch {
	case s == nil || lease == nil:
	case e == nil:
		s.MarkTaken(lease.Item, time.Now().Add(time.Duration(lease.LeftMs)*time.Millisecond))
	case !e.isClean():
		s.MarkTaken(lease.Item, time.Now().Add(doneTTL)) // others may try it; a search here may find it all the same
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

// clockSkew is in the words of a worker that gets no lease because of its machine's clock.
const clockSkew = "clock skew"

// doneTTL is how long an item that ended is not proposed again: an operator may open it again.
const doneTTL = time.Hour

// workerRate is the share of one of n workers of the node's rate.
func (d *Daemon) workerRate(n int) int64 {
	if d.conf.MaxRate == 0 {
		return 0
	}
	return max(d.rateLimit()/int64(max(n, 1)), 1)
}

// pushLimits tells every worker its share of the rate, and the pace. Workers inside the process share one bucket.
func (d *Daemon) pushLimits() {
	d.pushedRate = d.rateLimit()
	d.metrics.Limit(d.pushedRate)
	rate, pace := d.workerRate(d.running()), d.pacer.current()
	for _, s := range d.slots {
		if s.worker != nil {
			d.sendOrder(s.worker, Order{MaxRate: &rate, Pace: &pace})
		}
	}
}

// stopWorker asks a worker to hand off and end; why is "" when that is the operator's wish.
func (d *Daemon) stopWorker(s *slot, now time.Time, why string) {
	if s.stopped.IsZero() {
		s.stopped = now
		s.worker.Stop()
	}
	if why != "" && s.endReason == "" {
		s.endReason = why
		d.log.Warn("worker is ended", "slot", s.n, "pid", s.worker.PID(), "reason", why)
	}
}

// supervise looks after one running worker.
func (d *Daemon) supervise(s *slot, now time.Time) {
	patience := d.conf.StopTimeout
	if s.endReason != "" {
		patience = reapTimeout
	}
	if !s.killed && !s.stopped.IsZero() && (d.killNow || now.Sub(s.stopped) >= patience) {
		s.killed = true
		d.log.Warn("worker does not end and is killed", "slot", s.n, "pid", s.worker.PID(), "after", now.Sub(s.stopped).Round(time.Millisecond))
		s.worker.Kill()
		return
	}
	d.checkMemory(s, now)
	if s.lease != nil && now.After(s.leaseEnd) && now.Sub(s.leaseChecked) > time.Second && s.endReason == "" {
		s.leaseChecked = now
		d.checkLease(s, s.worker, *s.lease, now.Sub(s.leaseEnd))
	}
}

// checkMemory looks at the memory of a worker process and ends it when it has too much three times in a row.
func (d *Daemon) checkMemory(s *slot, now time.Time) {
	pid := s.worker.PID()
	if pid == 0 || now.Sub(s.memoryChecked) < time.Second {
		return
	}
	s.memoryChecked, s.memory = now, resident(pid)
	limit := memoryLimit(d.conf.Memory)
	if limit == 0 || s.memory <= limit {
		s.overLimitCount = 0
		return
	}
	if s.overLimitCount++; s.overLimitCount >= 3 {
		d.stopWorker(s, now, fmt.Sprintf("memory: %d MiB resident, more than %d MiB", s.memory>>20, limit>>20))
	}
}

// memoryLimit is the resident size at which a worker is ended: GOMEMLIMIT is soft, and maps and stacks come on top.
func memoryLimit(soft int64) int64 {
	if soft == 0 {
		return 0
	}
	return soft + soft/2 + 64<<20
}

// handleRecord takes a record of a worker.
func (d *Daemon) handleRecord(s *slot, r Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if r.Holder != "" {
		s.holder = r.Holder
	}
	if r.Lease != nil {
		s.lease, s.leaseEnd = r.Lease, now.Add(time.Duration(r.Lease.LeftMs)*time.Millisecond)
		if s.lease.Item == "" {
			s.lease = nil
		}
		d.updateScheduler(s.lease, nil)
		d.notifyWatchers()
	}
	if r.Sample == nil {
		return
	}
	more := r.Sample.Minus(s.sample)
	if !s.sampled.IsZero() {
		if dt := now.Sub(s.sampled).Seconds(); dt > 0.05 {
			s.rate = float64(more.Documents) / dt
			s.sampled = now
		}
	} else {
		s.sampled = now
	}
	d.metrics.Add(more)
	s.sample = *r.Sample
	if r.Sample.Documents > 0 {
		s.backoff = 0
	}
}

// handleEnd takes the end of a worker, which is proven to be gone.
func (d *Daemon) handleEnd(s *slot, e End) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wakeUp()
	now := time.Now()
	d.updateScheduler(s.lease, &e)
	d.handleExit(s, e, now)
	s.worker, s.lease, s.memory, s.rate = nil, nil, 0, 0
	if d.conf.MaxRate > 0 {
		d.pushLimits()
	}
	d.notifyWatchers()
}

// handleExit decides what the end of a worker means for its slot, for its lease and for the others.
func (d *Daemon) handleExit(s *slot, e End, now time.Time) {
	if e.isClean() && e.Last.Outcome != "" && e.Last.Item != "" {
		d.metrics.Lease(e.Last.Outcome)
	}
	if !e.isClean() {
		d.handleCrash(s, e, now)
		return
	}
	if s.endReason != "" { // it could hand off before it was killed
		d.handleFailure(s, now, s.endReason, "memory")
		return
	}
	if *e.Last.Exit == ExitFailed || s.lease == nil && !s.stopped.IsZero() {
		// It may hold a lease that it could not give back, or did not live to hear of. What it
		// does not hold any more is left alone.
		d.release(s.holder, s.lease, cms.CauseDrain)
	}
	if code := *e.Last.Exit; !s.stopped.IsZero() && code != ExitNoneLeft {
		s.earliest = now // however far it was: it ended because it was asked to
		return
	}
	switch *e.Last.Exit {
	case ExitDone, ExitTimeout:
		s.backoff, s.earliest = 0, now
		d.idleUntil, d.trouble = time.Time{}, "" // a hand-off leaves a successor behind
	case ExitNoneLeft:
		d.trouble = ""
		if !d.done {
			d.done = true
			d.readStoreSoon()
			d.log.Info("no work is left")
		}
	case ExitNoneFree:
		wait := min(max(time.Duration(e.Last.NextMs)*time.Millisecond, 300*time.Millisecond), maxIdleWait)
		d.idleUntil = now.Add(wait)
		if !strings.Contains(d.trouble, clockSkew) { // who finds nothing free was not asked for its clock
			d.trouble = ""
		}
	case ExitUnreadable:
		d.handleFailure(s, now, "snapshot unreadable: "+e.Last.Error, "unreadable")
	default:
		d.handleFailure(s, now, e.Last.Error, "error")
	}
}

// handleFailure notes a worker that ended with an error of its own.
func (d *Daemon) handleFailure(s *slot, now time.Time, why, class string) {
	if why == "" {
		why = "it gave no reason"
	}
	d.trouble = why
	d.metrics.Crash(class)
	d.delayRestart(s, now, why)
	d.log.Error("worker ended with an error", "slot", s.n, "error", why, "next_start_in", time.Until(s.earliest).Round(time.Millisecond))
	d.events.add("worker", nil, "worker_failed", why)
}

// handleCrash notes a worker that did not end by itself, and frees what it held: it is dead for certain.
func (d *Daemon) handleCrash(s *slot, e End, now time.Time) {
	class, counted := classifyExit(s, e)
	why := describeExit(s, e)
	d.metrics.Crash(class)
	if strings.HasPrefix(s.endReason, leaseOver) {
		d.metrics.Reaped()
	}
	if counted {
		d.delayRestart(s, now, why)
	} else { // somebody killed it: that says nothing about the next one
		s.lastExit, s.earliest = why, now.Add(restartAfterKill)
	}
	subject, item := s.lease.subject()
	d.log.Error("worker crashed", "slot", s.n, "subject", subject, "item", item, "pid", s.worker.PID(), "class", class, "reason", why, "stderr", strings.Join(e.Stderr, "\n"))
	d.events.add("worker", s.lease, "worker_"+class, why)
	cause := cms.CauseKilled
	if counted {
		cause = cms.CauseNone // it may be the item that killed it
	}
	d.release(s.holder, s.lease, cause)
}

// classifyExit names what ended a worker, in a few words, and says whether the item may be to blame.
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
		return "panic", true // the runtime of Go ends a panic with 2
	}
	return "exit", true
}

// describeExit says in one line how a worker ended.
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
		parts = append(parts, fmt.Sprintf("exit code %d without a last word", e.Code))
	}
	for _, line := range e.Stderr { // the first line that looks like a reason
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "rfsd:") {
			parts = append(parts, line)
			break
		}
	}
	return strings.Join(parts, "; ")
}

// delayRestart makes the slot wait before its next start: longer with each failure in a row.
func (d *Daemon) delayRestart(s *slot, now time.Time, why string) {
	if !s.since.IsZero() && now.Sub(s.since) >= minGoodRun {
		s.backoff = 0
	}
	s.lastExit = why
	s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
	s.earliest = now.Add(s.backoff)
}
