package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// roundsOf simulates the rounds of a followed cluster, controlled by the test.
type roundsOf struct {
	mu  sync.Mutex
	is  Work
	err error
}

func (r *roundsOf) set(w Work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.is = w
}

func (r *roundsOf) work(context.Context, *cms.Coordinator) (Work, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.is, r.err
}

// TestWork_MovesFromRoundToRound: workers process the items of the round in progress, and none between two rounds, while orders apply to
// all rounds.
func TestWork_MovesFromRoundToRound(t *testing.T) {
	first, second := newStore(t, 2), newStore(t, 3)
	var rounds roundsOf
	rounds.set(Work{Store: first, Session: "s-round-1", Round: json.RawMessage(`1`)})
	n := runNode(t, Config{Session: "s", Workers: 2, EndWhenDone: true, Work: rounds.work}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 2)
	started := n.starter.living()
	if _, _, orders := started[0].read(); string(orders[0].Round) != "1" {
		t.Errorf("the worker was told of round %s", orders[0].Round)
	}
	until(t, "round 1 is shown", func() bool {
		m := n.Status(t.Context()).Migration
		return m != nil && m.Session == "s-round-1" && m.Totals.Items == 2
	})

	rounds.set(Work{Store: first, Session: "s-round-1", Round: json.RawMessage(`1`), Waits: "the next round starts at noon"})
	n.untilRunning(t, 0)
	if r := n.Status(t.Context()).Node; r.State != "waiting" || r.Reason != "the next round starts at noon" {
		t.Errorf("between two rounds the node is %s: %s", r.State, r.Reason)
	}
	if d := n.Demand(); d.Held != "the next round starts at noon" || d.Complete {
		t.Errorf("between two rounds the scaler is told %+v", d)
	}

	rounds.set(Work{Store: second, Session: "s-round-2", Round: json.RawMessage(`2`)})
	n.untilRunning(t, 2)
	for _, w := range n.starter.living() {
		if _, _, orders := w.read(); string(orders[0].Round) != "2" {
			t.Errorf("a worker was told of round %s", orders[0].Round)
		}
	}
	if err := n.order(t, "pause", nil); err != nil {
		t.Fatal(err)
	}
	n.untilRunning(t, 0)
	if i, err := session.OrdersOf(n.store).Intent(t.Context()); err != nil || i.State != session.Pause {
		t.Errorf("the order is not kept in the session that is followed: %+v, %v", i, err)
	}
	third := newStore(t, 4)
	rounds.set(Work{Store: third, Session: "s-round-3", Round: json.RawMessage(`3`)})
	until(t, "round 3 is shown", func() bool {
		m := n.Status(t.Context()).Migration
		return m != nil && m.Session == "s-round-3" && m.Totals.Items == 4
	})
	if r := n.Status(t.Context()).Node; r.State != "paused" || r.Running != 0 {
		t.Errorf("the pause ended with the round: %s, %d workers", r.State, r.Running)
	}
	if err := n.order(t, "resume", nil); err != nil {
		t.Fatal(err)
	}
	n.untilRunning(t, 2)
}

// TestWork_OfAFormerRoundEndsNothing: reports of workers of a former round, and the removal of its records, do not affect the current one.
func TestWork_OfAFormerRoundEndsNothing(t *testing.T) {
	var rounds roundsOf
	rounds.set(Work{Store: newStore(t, 2), Session: "s-round-1"})
	n := runNode(t, Config{Session: "s", Workers: 1, EndWhenDone: true, Work: rounds.work}, &fakeStarter{})
	n.untilRunning(t, 1)
	former := n.starter.living()[0]
	n.starter.mu.Lock()
	n.starter.stopped = handsOff // of later workers
	n.starter.mu.Unlock()
	rounds.set(Work{Store: newStore(t, 2), Session: "s-round-2"})
	until(t, "the worker of the former round is to end", func() bool { stops, _, _ := former.read(); return stops > 0 })
	former.exit(ExitNoneLeft, Record{Gone: true})
	n.untilRunning(t, 1)
	if w := n.starter.living()[0]; w == former || n.Healthy() != nil {
		t.Errorf("no worker of the present round runs: %v", n.Healthy())
	}
}

// TestWork_EndsWithTheFollowing: a node and its machines do not end when the items of a round are done, but when no further round comes.
func TestWork_EndsWithTheFollowing(t *testing.T) {
	var rounds roundsOf
	d := New(Config{Session: "s", EndWhenDone: true, Work: rounds.work, Log: discard()})
	d.store.set(newStore(t, 0))
	d.known, d.done, d.work, d.lastRead.migration = true, true, &Work{Session: "s"}, &progress.Migration{Complete: true}
	for _, over := range []bool{false, true} {
		d.work.Over = over
		want := map[bool]string{false: "waiting", true: "done"}[over]
		if state, _ := d.state(); state != want || d.finished() != over {
			t.Errorf("with the following over (%t) the node is %s, and has ended: %t", over, state, d.finished())
		}
		if m := d.Demand(); m.Complete != over || (m.Held == "") != over {
			t.Errorf("with the following over (%t) the scaler is told %+v", over, m)
		}
	}
}

// TestWork_EndsWithAnUndoneSession: the workers hand off and the node ends with the reason; after other errors it continues.
func TestWork_EndsWithAnUndoneSession(t *testing.T) {
	var rounds roundsOf
	rounds.set(Work{Store: newStore(t, 2), Session: "s-round-1"})
	orders := newStore(t, 0)
	n := runNode(t, Config{
		Session: "s", Workers: 2, Work: rounds.work, Open: func(context.Context) (*cms.Coordinator, error) { return orders, nil },
	}, &fakeStarter{stopped: handsOff})
	n.untilRunning(t, 2)
	fails := func(err error) {
		rounds.mu.Lock()
		defer rounds.mu.Unlock()
		rounds.err = err
	}
	fails(fault.ErrUnavailable)
	n.untilRunning(t, 2)
	if err := n.Healthy(); err != nil {
		t.Errorf("after another error: %v", err)
	}
	fails(session.ErrUndone)
	until(t, "the node ends", func() bool { return n.Healthy() != nil })
	if state, why := n.state(); state != "failed" || why != fault.Text(session.ErrUndone) {
		t.Errorf("%s: %s", state, why)
	}
	n.untilRunning(t, 0)
	if err := n.stop(); !errors.Is(err, session.ErrUndone) {
		t.Errorf("the node ended with %v", err)
	}
}

// TestWork_NothingIsReadBeforeItsSessionIsAskedFor: a node that has just started reports no failure of the store, and reports why the
// session of its work is unknown.
func TestWork_NothingIsReadBeforeItsSessionIsAskedFor(t *testing.T) {
	var rounds roundsOf
	var said strings.Builder
	d := New(Config{Session: "s", Work: rounds.work, Log: slog.New(slog.NewTextHandler(&said, nil))})
	d.store.set(newStore(t, 0))
	d.readStore(t.Context())
	if said.Len() > 0 || d.lastRead.err != "" {
		t.Errorf("before the first answer: %s, %s", d.lastRead.err, &said)
	}
	d.workError = "round 7 has no state"
	d.readStore(t.Context())
	if !strings.Contains(said.String(), "round 7 has no state") || !strings.Contains(d.lastRead.err, "round 7 has no state") {
		t.Errorf("without a session: %s, %s", d.lastRead.err, &said)
	}
}

// TestWork_OrdersInEachPhase: in each phase of a followed cluster, a node shows each order and follows it, keeps its machines while no work
// is done, and continues when the order is withdrawn.
func TestWork_OrdersInEachPhase(t *testing.T) {
	const first, between = "the first round has not started yet", "following; the next round starts at noon"
	type seen struct {
		state, reason string
		workers       int
		held          string // of the scaler
	}
	ordered := func(state string) seen { return seen{state, "by ann", 0, "the fleet is paused or drained"} }
	running := seen{"running", "", 2, ""}
	for _, phase := range []struct {
		name string
		is   Work
		seen seen
	}{
		{"before the first round", Work{Session: "s", Waits: first}, seen{"waiting", first, 0, first}},
		{"in the first round", Work{Session: "s"}, running},
		{"between two rounds", Work{Session: "s-round-1", Waits: between}, seen{"waiting", between, 0, between}},
		{"in a round, also the last one of a cut-over", Work{Session: "s-round-2"}, running},
	} {
		for _, order := range []struct {
			kind    string
			workers *int
			nodes   []string
			seen    seen
			back    string
		}{
			{kind: "pause", seen: ordered("paused"), back: "resume"},
			{kind: "drain", seen: ordered("drained"), back: "resume"},
			{kind: "drain", nodes: []string{"n1"}, seen: seen{"drained", "by ann", 0, phase.seen.held}, back: "resume"},
			{kind: "drain", nodes: []string{"n2"}, seen: phase.seen, back: "resume"},
			{kind: "scale", workers: new(1), seen: seen{phase.seen.state, phase.seen.reason, min(phase.seen.workers, 1), phase.seen.held}, back: "scale"},
		} {
			t.Run(phase.name+"/"+strings.Join(append([]string{order.kind}, order.nodes...), " "), func(t *testing.T) {
				store := newStore(t, 4)
				open := func(context.Context) (*cms.Coordinator, error) { return store, nil }
				var rounds roundsOf
				is := phase.is
				if is.Store = store; strings.Contains(is.Session, "round") {
					is.Store = newStore(t, 3)
				}
				rounds.set(is)
				n := runNode(t, Config{Session: "s", Workers: 2, Open: open, Work: rounds.work}, &fakeStarter{stopped: handsOff})
				n.store = store
				shows := func(what string, want seen) {
					t.Helper()
					var got seen
					until(t, what, func() bool {
						r := n.Status(t.Context())
						got = seen{r.Node.State, r.Node.Reason, r.Node.Running, n.Demand().Held}
						return got == want && r.Migration != nil && r.Migration.Session == is.Session
					})
				}
				shows("the phase is shown", phase.seen)
				if err := n.order(t, order.kind, order.workers, order.nodes...); err != nil {
					t.Fatal(err)
				}
				shows("the order is shown", order.seen)
				if d := n.Demand(); d.Complete {
					t.Errorf("the scaler is told %+v", d)
				}
				if err := n.order(t, order.back, nil, order.nodes...); err != nil {
					t.Fatal(err)
				}
				shows("the phase is shown again", phase.seen)
			})
		}
	}
}

// TestWork_ARoundKeepsItsMachines: the scaler gets the remaining work of the first round, and the whole work of later ones.
func TestWork_ARoundKeepsItsMachines(t *testing.T) {
	for name, want := range map[string]int64{"s": 1, "s-round-1": 4} {
		d := New(Config{Session: "s", Log: discard()})
		root := newStore(t, 0)
		d.store.set(root)
		if d.known, d.work = true, (&Work{Session: name, Store: root}); name != "s" {
			d.work.Store = newStore(t, 0)
		}
		d.lastRead.migration = &progress.Migration{Totals: progress.Counts{Items: 4, ItemsOpen: 1}}
		if is := d.Demand(); is.Items != want || is.Held != "" {
			t.Errorf("of %s the scaler is told %+v", name, is)
		}
	}
}

// TestWork_HintsAreOfTheirRound: the leader's reading is shown by nodes in the same round, whose own reading determines the end of the
// round. Hints on the order of items apply to the first round.
func TestWork_HintsAreOfTheirRound(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		first, later := newStore(t, 4), newStore(t, 3)
		var rounds roundsOf
		rounds.set(Work{Store: first, Session: "s"})
		mirror, scheduler := &fakeMirror{}, &schedule.Scheduler{}
		scheduler.SetPosition(schedule.NodePosition{Nodes: 1})
		scheduler.SetShards([]schedule.Shard{{Index: "logs", Bytes: 9}, {Index: "logs", Shard: 1, Bytes: 7}})
		open := func(context.Context) (*cms.Coordinator, error) { return first, nil }
		n := startNode(t, Config{Session: "s", Workers: 1, Open: open, Work: rounds.work, Mirror: mirror, Scheduler: scheduler, Position: fleetOf(3), ReadInterval: 3 * time.Second}, &fakeStarter{stopped: handsOff})
		leads := func(of string, store *cms.Coordinator) {
			mirror.set(false, func() *progress.Reading {
				r := readingOf(t, store)
				r.Session, r.Snapshot = of, "as the leader read it"
				return r
			})
		}
		shown := func(session string, items int64, fromLeader bool) {
			t.Helper()
			time.Sleep(10 * time.Second)
			if own := n.Migration(); own.Session != session || own.Snapshot != "" {
				t.Errorf("the own reading is of %s", own.Session)
			}
			n.Status(t.Context())
			time.Sleep(20 * time.Second)
			m := n.Status(t.Context()).Migration
			if m == nil || m.Session != session || m.Totals.Items != items || (m.Snapshot != "") != fromLeader {
				t.Errorf("of %s %+v is shown, want %d items of %s; as the leader read it: %t", m.Session, m.Totals, items, session, fromLeader)
			}
		}
		prefers := func() int {
			_, _, commands := n.starter.living()[0].read()
			return len(commands[0].Prefer)
		}
		leads("s-round-1", later)
		shown("s", 4, false)
		leads("s", first)
		shown("s", 4, true)
		if prefers() == 0 {
			t.Error("in the first round the worker is told of no item")
		}
		rounds.set(Work{Store: later, Session: "s-round-1"})
		shown("s-round-1", 3, false)
		leads("s-round-1", later)
		shown("s-round-1", 3, true)
		if n := prefers(); n > 0 {
			t.Errorf("in a later round the worker is told of %d items of the first one", n)
		}
		next := newStore(t, 2)
		leads("s-round-2", next) // before this node knows of it
		rounds.set(Work{Store: next, Session: "s-round-2"})
		shown("s-round-2", 2, true)
		mirror.set(false, nil)
	})
}

// TestWork_FailuresDoNotDelayTheNextRound: the back-off of a slot whose workers failed in a round ends with the round.
func TestWork_FailuresDoNotDelayTheNextRound(t *testing.T) {
	var rounds roundsOf
	d := New(Config{Session: "s", Workers: 1, Work: rounds.work, Log: discard()})
	store := newStore(t, 1)
	s := &slot{}
	d.slots = append(d.slots, s)
	for _, c := range []struct {
		session string
		delayed bool
	}{{"s-round-1", false}, {"s-round-1", true}, {"s-round-2", false}} {
		rounds.set(Work{Store: store, Session: c.session})
		d.followWork(t.Context(), store)
		if got := s.earliest.After(time.Now()); got != c.delayed {
			t.Errorf("%s: delayed: %t", c.session, got)
		}
		d.handleFailure(s, time.Now(), "the former snapshot is gone", "error")
	}
}
