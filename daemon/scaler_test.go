package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func TestTheFleetScalesAsTheOperatorSays(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		n := startNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
		n.untilRunning(t, 1)
		for _, want := range []int{0, 8, 2, 0} {
			if err := n.order(t, "scale", &want); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			n.untilRunning(t, want)
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("scaling to %d took %v", want, took)
			}
		}
		if err := n.order(t, "scale", nil); err != nil {
			t.Fatal(err)
		}
		n.untilRunning(t, 1)
		for _, w := range n.starter.workers() {
			if _, kills, _ := w.read(); kills > 0 {
				t.Error("a worker that hands off was killed")
			}
		}
	})
}

func TestPauseHandsOffAndResumeStartsAgainWithinTwoSeconds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		n := startNode(t, Config{Workers: 3}, &fakeStarter{stopped: handsOff})
		n.untilRunning(t, 3)
		begin := time.Now()
		if err := n.order(t, "pause", nil); err != nil {
			t.Fatal(err)
		}
		n.untilRunning(t, 0)
		r := n.Status(t.Context())
		if took := time.Since(begin); took > 2*time.Second || r.Node.State != "paused" || r.Migration.Intent.State != "pause" {
			t.Errorf("after %v: %+v, intent %+v", took, r.Node, r.Migration.Intent)
		}
		begin = time.Now()
		if err := n.order(t, "resume", nil); err != nil {
			t.Fatal(err)
		}
		n.untilRunning(t, 3)
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("resuming took %v", took)
		}
	})
}

func TestAnIntentThatAnotherNodeWroteIsFollowed(t *testing.T) {
	n := runNode(t, Config{Workers: 2}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 2)
	if _, err := session.OrdersOf(n.store).Issue(t.Context(), session.Order{Kind: session.OrderDrain, Who: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	n.untilRunning(t, 0)
	if r := n.Status(t.Context()); r.Node.State != "drained" || !strings.Contains(r.Node.Reason, "elsewhere") {
		t.Errorf("%+v", r.Node)
	}
}

func TestAWantedNumberIsSharedByTheNodes(t *testing.T) {
	for _, c := range []struct{ total, position, count, want int }{
		{8, 0, 1, 8}, {8, 0, 3, 3}, {8, 1, 3, 3}, {8, 2, 3, 2}, {1, 1, 2, 0}, {0, 0, 0, 0},
	} {
		if got := share(c.total, c.position, c.count); got != c.want {
			t.Errorf("share(%d, %d, %d) = %d, want %d", c.total, c.position, c.count, got, c.want)
		}
	}
}

func TestWorkersThatFindNothingFreeWaitAndOthersGoOn(t *testing.T) {
	n := runNode(t, Config{Workers: 2}, &fakeStarter{stopped: handsOff})
	// Everything is leased, or else the reading of the store would end the waiting.
	for range 4 {
		if _, err := n.store.AcquireNext(t.Context(), "others", nil); err != nil {
			t.Fatal(err)
		}
	}
	n.untilRunning(t, 2)
	n.starter.living()[0].exit(ExitNoneFree, Record{NextMs: 1500})
	begin := time.Now()
	until(t, "a slot waits", func() bool {
		for _, w := range n.Status(t.Context()).Workers {
			if w.State == "waiting" {
				return true
			}
		}
		return false
	})
	n.untilRunning(t, 2)
	if took := time.Since(begin); took < time.Second {
		t.Errorf("asked again after %v", took)
	}
}

func TestNoWorkLeftEndsTheWorkersUntilAnItemIsOpenAgain(t *testing.T) {
	n := runNode(t, Config{Workers: 2}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 2)
	for range 4 {
		l, err := n.store.AcquireNext(t.Context(), "w", nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.ID.Shard == 3 {
			err = l.Fail(t.Context(), "damaged", nil)
		} else {
			err = l.Complete(t.Context(), cms.Work{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the node has read that", func() bool { return n.Status(t.Context()).Migration.Totals.ItemsOpen == 0 })
	n.starter.living()[0].exit(ExitNoneLeft, Record{})
	n.untilRunning(t, 0)
	r := n.Status(t.Context())
	if r.Node.State != "done" || r.Node.Wanted != 0 || len(r.Migration.Failures) != 1 {
		t.Errorf("%+v", r.Node)
	}
	if f, err := n.Failures(t.Context()); err != nil || f.GivenUp[0].Reason != "damaged" {
		t.Errorf("%+v, %v", f, err)
	}
	if err := n.store.Reopen(t.Context(), cms.ItemID{Index: "logs", Shard: 3}, "ann"); err != nil {
		t.Fatal(err)
	}
	n.untilRunning(t, 2)
}

func TestAnUnreadableSnapshotBacksOffAndIsReported(t *testing.T) {
	starter := &fakeStarter{stopped: handsOff}
	starter.born = func(w *fakeWorker) { w.exit(ExitUnreadable, Record{Error: "no index-0"}) }
	n := runNode(t, Config{Workers: 1}, starter)
	until(t, "it is reported", func() bool {
		r := n.Status(t.Context())
		return r.Node.State == "failed" && strings.Contains(r.Node.Reason, "snapshot unreadable: no index-0")
	})
	if n.Ready() == nil || n.Healthy() != nil {
		t.Errorf("ready %v, healthy %v", n.Ready(), n.Healthy())
	}
	until(t, "it is tried again", func() bool { return len(starter.workers()) == 2 })
	w := n.Status(t.Context()).Workers[0]
	if w.Restarts != 1 || !strings.Contains(w.LastExit, "no index-0") {
		t.Errorf("%+v", w)
	}
}

func TestBackoffDoublesAndStartsAfreshAfterAGoodRun(t *testing.T) {
	d := New(Config{Log: discard(), Starter: &fakeStarter{}})
	now := time.Now()
	s := &slot{since: now}
	var waits []time.Duration
	for range 8 {
		d.delayRestart(s, now, "x")
		waits = append(waits, s.earliest.Sub(now))
	}
	if waits[0] != time.Second || waits[1] != 2*time.Second || waits[7] != restarts.Max {
		t.Errorf("%v", waits)
	}
	later := now.Add(minGoodRun)
	if d.delayRestart(s, later, "x"); s.earliest.Sub(later) != restarts.First {
		t.Errorf("%v after a good run", s.earliest.Sub(later))
	}
}

func TestTheEndOfAWorkerIsNamedAndBlamedRightly(t *testing.T) {
	for _, c := range []struct {
		name    string
		s       slot
		e       End
		class   string
		counted bool
		words   string
	}{
		{"killed from outside", slot{}, End{Code: -1, Signal: "SIGKILL"}, "killed", false, "ended by SIGKILL"},
		{"killed by the kernel", slot{}, End{Code: -1, Signal: "SIGKILL", OOM: true}, "memory", true, "lack of memory"},
		{"killed by us after patience", slot{killed: true}, End{Code: -1, Signal: "SIGKILL"}, "killed", false, "SIGKILL"},
		{"hung", slot{killed: true, endReason: leaseOver + ": x"}, End{Code: -1, Signal: "SIGKILL"}, "hung", true, "lease over: x; ended by SIGKILL"},
		{"too fat", slot{endReason: "memory: 9 MB"}, End{Code: -1, Signal: "SIGTERM"}, "memory", true, "memory: 9 MB"},
		{"segmentation fault", slot{}, End{Code: -1, Signal: "SIGSEGV"}, "signal", true, "SIGSEGV"},
		{"panic", slot{}, End{Code: 2, Stderr: []string{"x", "panic: index out of range", "goroutine 1"}}, "panic", true, "panic: index out of range"},
		{"exit without a word", slot{}, End{Code: 7}, "exit", true, "exit code 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			class, counted := classifyExit(&c.s, c.e)
			if class != c.class || counted != c.counted {
				t.Errorf("%s, counted %v", class, counted)
			}
			if text := describeExit(&c.s, c.e); !strings.Contains(text, c.words) {
				t.Errorf("%q does not say %q", text, c.words)
			}
		})
	}
}

func TestTheLeaseOfAKilledWorkerIsFreeAtOnceAndNotCounted(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 1)
	l, err := n.store.AcquireNext(t.Context(), "w1", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := n.starter.living()[0]
	w.report(Record{Holder: "w1"})
	w.report(Record{Lease: &Lease{Item: l.Item.ID, Holder: l.Holder, Index: "logs", LeftMs: 600_000}})
	if got := n.Status(t.Context()).Workers[0]; got.State != "working" || got.Index != "logs" || got.Item != l.Item.ID || got.Expiry == nil {
		t.Errorf("%+v", got)
	}
	w.end(End{Code: -1, Signal: "SIGKILL"})
	until(t, "its item is free", func() bool {
		it, err := n.store.Item(t.Context(), l.ID)
		return err == nil && it.Holder == "" && it.Attempts == 0
	})
	until(t, "another worker runs", func() bool { return len(n.starter.workers()) == 2 })
	if events, err := n.Events(t.Context(), 0); err != nil || len(events) != 1 || events[0].Code != "worker_killed" || events[0].Subject != l.ID.Name() || events[0].Item != l.Item.ID {
		t.Errorf("%+v, %v", events, err)
	}
}

func TestTheLeaseOfAPanicCountsAsAnAttempt(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 1)
	l, err := n.store.AcquireNext(t.Context(), "w1", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := n.starter.living()[0]
	w.report(Record{Lease: &Lease{Item: l.Item.ID, Holder: l.Holder, LeftMs: 600_000}})
	w.end(End{Code: 2, Stderr: []string{"panic: poison"}})
	until(t, "its item is free", func() bool {
		it, err := n.store.Item(t.Context(), l.ID)
		return err == nil && it.Holder == "" && it.Attempts == 1
	})
}

func TestAWorkerThatDiedBeforeItSaidWhatItHeldHoldsNothing(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 1)
	if _, err := n.store.AcquireSetup(t.Context(), "w1"); err != nil {
		t.Fatal(err)
	}
	w := n.starter.living()[0]
	w.report(Record{Holder: "w1"})
	w.end(End{Code: -1, Signal: "SIGKILL"})
	until(t, "the setup is free", func() bool {
		_, err := n.store.AcquireSetup(t.Context(), "w2")
		return err == nil
	})
}

func TestAHungWorkerIsReapedWhenItsLeaseIsOverByTheStoresClock(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{}) // does nothing when it is asked to end
	n.untilRunning(t, 1)
	l, err := n.store.AcquireNext(t.Context(), "w1", nil) // for 2 s
	if err != nil {
		t.Fatal(err)
	}
	w := n.starter.living()[0]
	// By the worker's own word the lease ends earlier than the store says: it must live until then.
	w.report(Record{Lease: &Lease{Item: l.Item.ID, Holder: l.Holder, LeftMs: 1}})
	until(t, "it is killed", func() bool {
		_, kills, _ := w.read()
		return kills == 1
	})
	if now, _, err := n.store.Leases().Now(t.Context()); err != nil || now.Unix() <= l.Item.Expiration {
		t.Errorf("killed at %v, before its lease was over at %v", now.Unix(), l.Item.Expiration)
	}
	if stops, _, _ := w.read(); stops != 1 {
		t.Errorf("asked %d times before", stops)
	}
	until(t, "its item is free and it is told", func() bool {
		it, err := n.store.Item(t.Context(), l.ID)
		events, eerr := n.Events(t.Context(), 0)
		return err == nil && eerr == nil && it.Holder == "" && len(events) > 0 && events[0].Code == "worker_hung"
	})
}

func TestAWorkerWhoseItemAnotherHoldsIsReaped(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 1)
	l, err := n.store.AcquireNext(t.Context(), "other", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := n.starter.living()[0]
	w.report(Record{Lease: &Lease{Item: l.Item.ID, Holder: "w1_1", LeftMs: 1}})
	until(t, "it is asked to end", func() bool {
		stops, _, _ := w.read()
		return stops == 1
	})
	if it, err := n.store.Item(t.Context(), l.ID); err != nil || it.Holder != l.Holder {
		t.Errorf("%+v, %v: the lease of the other was taken", it, err)
	}
}

func TestStoppingHandsOffAndASecondSignalKills(t *testing.T) {
	starter := &fakeStarter{}
	n := runNode(t, Config{Workers: 2}, starter)
	n.untilRunning(t, 2)
	done := make(chan error, 1)
	go func() { done <- n.stop() }()
	until(t, "all are asked to end", func() bool {
		for _, w := range starter.workers() {
			if stops, kills, _ := w.read(); stops != 1 || kills != 0 {
				return false
			}
		}
		return true
	})
	if n.Status(t.Context()).Node.State != "stopping" || n.Ready() == nil {
		t.Error("it does not say that it is stopping")
	}
	n.KillWorkers()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, w := range starter.workers() {
		if _, kills, _ := w.read(); kills != 1 {
			t.Error("not killed")
		}
	}
	if n.Healthy() == nil {
		t.Error("healthy after its end")
	}
}

func TestAWorkerThatDoesNotEndInTimeIsKilled(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		starter := &fakeStarter{}
		n := startNode(t, Config{Workers: 1, StopTimeout: 300 * time.Millisecond}, starter)
		n.untilRunning(t, 1)
		begin := time.Now()
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

func TestAWorkerThatIsStoppedBeforeItHeardOfItsLeaseLeavesNoneBehind(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		starter := &fakeStarter{stopped: func(w *fakeWorker) { w.exit(ExitFailed, Record{Error: "context canceled"}) }}
		n := startNode(t, Config{Workers: 1}, starter)
		n.untilRunning(t, 1)
		l, err := n.store.AcquireNext(t.Context(), "w1", nil)
		if err != nil {
			t.Fatal(err)
		}
		n.starter.living()[0].report(Record{Holder: "w1"})
		if err := n.order(t, "pause", nil); err != nil {
			t.Fatal(err)
		}
		until(t, "its item is free", func() bool {
			it, err := n.store.Item(t.Context(), l.ID)
			return err == nil && it.Holder == "" && it.Attempts == 0
		})
		if err := n.order(t, "resume", nil); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		n.untilRunning(t, 1)
		if took := time.Since(begin); took > time.Second {
			t.Errorf("started again after %v: it was asked to end, and is not to blame", took)
		}
		if events, err := n.Events(t.Context(), 0); err != nil || len(events) != 2 { // pause and resume
			t.Errorf("%+v, %v", events, err)
		}
	})
}

func TestEachWorkerGetsItsShareOfTheRate(t *testing.T) {
	n := runNode(t, Config{Workers: 2, Send: Limit{Most: 1000}}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 2)
	until(t, "both have half", func() bool {
		all := n.starter.living()
		return len(all) == 2 && rateTold(all[0], sends) == 500 && rateTold(all[1], sends) == 500
	})
	one := 1
	if err := n.order(t, "scale", &one); err != nil {
		t.Fatal(err)
	}
	until(t, "the last one has all", func() bool {
		all := n.starter.living()
		return len(all) == 1 && rateTold(all[0], sends) == 1000
	})
}

func TestSamplesOfAllWorkersAddUp(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 1)
	for i := range 3 {
		until(t, "a worker runs", func() bool { return len(n.starter.living()) == 1 })
		w := n.starter.living()[0]
		w.report(Record{Sample: &metrics.Sample{Documents: 10, Failed: 1}})
		w.report(Record{Sample: &metrics.Sample{Documents: 25, Failed: 1}})
		if i == 2 {
			w.end(End{Code: -1, Signal: "SIGKILL"})
			break
		}
		last := Record{Outcome: "completed", Item: "x", Sample: &metrics.Sample{Documents: 30, Failed: 2}}
		w.report(last) // the final flush comes as a record, too
		w.exit(ExitDone, last)
	}
	if sum := n.metrics.Total(); sum.Documents != 85 || sum.Failed != 5 {
		t.Errorf("%+v", sum)
	}
}

func TestAnAPIThatCannotBeOpenedEndsTheNodeBeforeItIsReady(t *testing.T) {
	n := runNode(t, Config{Workers: 1, Open: func(context.Context) (*cms.Coordinator, error) { return nil, fault.ErrUnavailable },
		Serve: func(*Daemon) (func() error, error) { return nil, fault.ErrConfig }}, &fakeStarter{})
	if err := n.stop(); !errors.Is(err, fault.ErrConfig) || n.Healthy() == nil {
		t.Errorf("%v", err)
	}
	opened, closed := 0, 0
	d := New(Config{Log: discard(), Starter: &fakeStarter{}, Open: func(context.Context) (*cms.Coordinator, error) { return nil, fault.ErrUnavailable },
		Serve: func(*Daemon) (func() error, error) { opened++; return func() error { closed++; return nil }, nil }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Run(ctx); err != nil || opened != 1 || closed != 1 {
		t.Errorf("%v, opened %d times, closed %d times", err, opened, closed)
	}
}

func TestAStoreThatRefusesEndsTheNodeAndOneThatIsSilentDoesNot(t *testing.T) {
	tries := 0
	n := runNode(t, Config{Open: func(context.Context) (*cms.Coordinator, error) {
		if tries++; tries < 3 {
			return nil, fault.ErrUnavailable
		}
		return nil, fault.ErrConfig
	}}, &fakeStarter{})
	until(t, "it has ended", func() bool { return n.Healthy() != nil })
	if err := n.stop(); !errors.Is(err, fault.ErrConfig) || tries != 3 {
		t.Errorf("%v after %d tries", err, tries)
	}
	if r := n.Status(t.Context()); r.Node.State != "failed" {
		t.Errorf("%+v", r.Node)
	}
}

// TestAClockThatIsWrongStaysTheReason: workers that find no free item in between have not checked their clock.
func TestAClockThatIsWrongStaysTheReason(t *testing.T) {
	n := runNode(t, Config{Workers: 1}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 1)
	end := func(code int, why string) {
		t.Helper()
		until(t, "a worker runs", func() bool { return len(n.starter.living()) == 1 })
		n.starter.living()[0].exit(code, Record{Error: why})
	}
	reason := func() string { return n.Status(t.Context()).Node.Reason }
	end(ExitFailed, fault.Text(fmt.Errorf("off by 10m0s: %w", cms.ErrClockSkew)))
	until(t, "it states so", func() bool { return strings.Contains(reason(), clockSkew) })
	end(ExitNoneFree, "")
	until(t, "the next one runs", func() bool { return len(n.starter.living()) == 1 })
	if !strings.Contains(reason(), clockSkew) {
		t.Errorf("the reason is %q", reason())
	}
	end(ExitDone, "")
	until(t, "it is over when one has worked", func() bool { return reason() == "" })
}
