package daemon

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// TestConnectionsGiveWayWhereTheNumberOfWorkersDoesNot simulates counters and the reports of other nodes.
func TestConnectionsGiveWayWhereTheNumberOfWorkersDoesNot(t *testing.T) {
	var p pacer
	var total metrics.Sample
	now := time.Now()
	p.update(now, total, schedule.Plan{}, true)
	after := func(bulks, busy, reads, errors int64, others schedule.Plan, firm bool) Pace {
		total.Bulk.Count += bulks
		total.BulkBusy += busy
		total.RepoRequests += reads
		total.RepoErrors += errors
		now = now.Add(autoscaleInterval)
		p.update(now, total, others, firm)
		return p.current()
	}
	all, calm := Pace{1, 1}, schedule.Plan{}
	if got := after(100, 0, 100, 0, calm, true); got != all {
		t.Errorf("nothing is refused: %+v", got)
	}
	if got := after(100, 50, 100, 0, calm, false); got != all {
		t.Errorf("workers give way: %+v", got)
	}
	if got := after(100, 50, 100, 0, calm, true); got != (Pace{0.75, 1}) {
		t.Errorf("the target is busy: %+v", got)
	}
	if got := after(100, 5, 100, 50, calm, true); got != (Pace{0.75, 0.75}) {
		t.Errorf("the target is a little busy, the repository throttles: %+v", got)
	}
	if got := after(0, 0, 0, 0, schedule.Plan{TargetRejectRatio: 0.5, RepoThrottleRatio: 0.05}, true); got != (Pace{0.5625, 0.75}) {
		t.Errorf("others are refused: %+v", got)
	}
	if got := after(100, 0, 100, 0, calm, true); got != (Pace{0.6875, 0.875}) {
		t.Errorf("calm again: %+v", got)
	}
	for range 50 {
		after(1, 1, 1, 1, schedule.Plan{TargetRejectRatio: 7, RepoThrottleRatio: 7}, true)
	}
	if got := p.current(); got != (Pace{minPace, minPace}) {
		t.Errorf("never less than %v: %+v", minPace, got)
	}
	for range 50 {
		after(1, 0, 1, 0, schedule.Plan{TargetRejectRatio: -7, RepoThrottleRatio: -7}, true)
	}
	if got := p.current(); got != all {
		t.Errorf("never more than all: %+v", got)
	}
}

// paceTold returns the last pace that a worker was sent.
func paceTold(w *fakeWorker) (p Pace) {
	_, _, orders := w.read()
	for _, o := range orders {
		if o.Pace != nil {
			p = *o.Pace
		}
	}
	return p
}

// TestAFixedNumberOfWorkersSlowsDownWhenOthersAreRefused has a fleet that reports a busy target; running and new workers slow down.
func TestAFixedNumberOfWorkersSlowsDownWhenOthersAreRefused(t *testing.T) {
	f, starter := &neighbours{count: 1}, &fakeStarter{stopped: handsOff}
	d := New(Config{Workers: 1, Fleet: f, Starter: starter, Log: discard()})
	d.store.set(&cms.Coordinator{})
	d.known, d.intent = true, session.Intent{State: session.Run}
	now := time.Now()
	d.reconcile(now)
	w := starter.living()[0]
	if p := paceTold(w); p != (Pace{1, 1}) {
		t.Errorf("at the start %+v", p)
	}
	f.propose(schedule.Plan{TargetRejectRatio: 0.3})
	now = now.Add(autoscaleInterval)
	d.reconcile(now)
	d.background.Wait()
	if p := paceTold(w); p != (Pace{0.75, 1}) {
		t.Errorf("a running worker was told %+v", p)
	}
	w.exit(ExitDone, Record{})
	d.reconcile(now.Add(time.Second))
	if p := paceTold(starter.living()[0]); p != (Pace{0.75, 1}) {
		t.Errorf("a new worker was told %+v", p)
	}
}
