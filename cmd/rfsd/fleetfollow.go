package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/migration/follow"
)

// fleetRounds is the part of a node in a cluster that its fleet follows. Its workers work on the items of the round in progress, and
// while it holds the lock of drivers, it starts and completes rounds and carries out cut-overs, as rfsd follow does.
type fleetRounds struct {
	rounds
	every time.Duration
	ttl   time.Duration // of the lock of drivers

	// The store of the round in progress; the goroutine of work alone uses them.
	session string
	store   *cms.Coordinator
	closing []func() error // the stores of this round and of the one before it, which a worker may still hold leases of
}

// driverTTL is for how long no node drives after the driver was killed.
const driverTTL = 30 * time.Second

// askForLock is the interval in which a node of a small fleet asks for the lock of drivers.
const askForLock = 5 * time.Second

func newFleetRounds(r runOptions, log *slog.Logger) *fleetRounds {
	f := &fleetRounds{
		rounds: rounds{Options: r.Options.Driving(log), out: output.New(io.Discard), program: "rfsd run --follow", mayBlock: r.follows.Blocks.Block, stops: r.follows.Rounds.Stop.List, log: log},
		every:  r.follows.Rounds.Every, ttl: driverTTL,
	}
	if r.own.Fleet.OneMachine {
		f.ttl = 3 * time.Second
	}
	f.DeleteVanished = r.follows.Rounds.Delete
	return f
}

// work returns the session whose items the workers of this node work on.
func (f *fleetRounds) work(ctx context.Context, orders *cms.Coordinator) (daemon.Work, error) {
	c := &follow.Chain{Root: orders, Session: f.SessionOrDefault(), Clock: timing.SystemClock()}
	now, err := c.Now(ctx, f.every)
	if err != nil {
		return daemon.Work{}, err
	}
	w := daemon.Work{Store: orders, Session: now.Session, Over: now.Over}
	switch {
	case !now.Started:
		w.Waits = "the first round has not started yet"
		return w, nil
	case now.Over:
		return w, nil
	case !now.Next.IsZero():
		w.Waits = nextRound(now.Next)
	}
	if w.Round, err = json.Marshal(toldRound{now.Round, f.DeleteVanished}); err != nil || now.Number == 0 {
		return w, err
	}
	w.Store, err = f.open(ctx, now.Round)
	return w, err
}

// open returns the store of a later round, which its driver has made.
func (f *fleetRounds) open(ctx context.Context, x follow.Round) (*cms.Coordinator, error) {
	if f.session == x.Session {
		return f.store, nil
	}
	o, err := f.Options.Round(x)
	if err != nil {
		return nil, err
	}
	store, shut, err := wiring.OpenStore(ctx, o, true)
	if errors.Is(err, cms.ErrStoreGone) {
		return nil, fmt.Errorf("round %d has no state yet, or has none any more: %w", x.Number, fault.ErrUnavailable)
	}
	if err != nil {
		return nil, err
	}
	if f.closing = append(f.closing, shut); len(f.closing) > 2 {
		if err := f.closing[0](); err != nil {
			f.log.Debug("closing the store of a former round failed", "error", err)
		}
		f.closing = f.closing[1:]
	}
	f.session, f.store = x.Session, o.StateIn(store)
	return f.store, nil
}

// close closes the stores of the last rounds when the node has ended.
func (f *fleetRounds) close() error {
	var errs []error
	for _, shut := range slices.Backward(f.closing) {
		errs = append(errs, shut())
	}
	return errors.Join(errs...)
}

// drive drives the rounds of the fleet while this node is the leader, until the following has ended or ctx is done. position returns the
// node's position in its fleet.
func (f *fleetRounds) drive(ctx context.Context, position func() schedule.NodePosition) {
	store, shut, err := wiring.OpenWithRetry(ctx, f.Options, false, f.log)
	if err != nil {
		return // ctx is done
	}
	d := &follow.Driver{
		Root: f.StateIn(store), TTL: f.ttl,
		Ask:  func() time.Duration { return position().Interval(askForLock, schedule.ElectionRate) },
		Loop: follow.Loop{Clock: timing.SystemClock(), Every: f.every, Round: f.arrives, CutOver: f.cutsOver, Log: f.log},
	}
	d.Run(ctx)
	if err := shut(); err != nil {
		f.log.Debug("closing the store failed", "error", err)
	}
}

// arrives runs the round that is due, and logs what it did when it has arrived.
func (f *fleetRounds) arrives(ctx context.Context) (arrived bool, err error) {
	if arrived, err = f.round(ctx); arrived {
		all, rerr := f.read(ctx)
		if last, ok := all.Last(); rerr == nil && ok {
			f.log.Info("a round has arrived", "round", last.Number, "snapshot", last.Snapshot, "inserted", last.Inserted, "updated", last.Updated, "deleted", last.Deleted, "failed", last.Failed)
		}
	}
	return arrived, err
}

// toldRound is a round as a worker gets it from its daemon.
type toldRound struct {
	follow.Round
	Delete bool // target indices of indices that vanished
}

// ofRound returns the options of a worker in a round.
func ofRound(o wiring.Options, told json.RawMessage) (wiring.Options, error) {
	var r toldRound
	if err := json.Unmarshal(told, &r); err != nil {
		return o, fmt.Errorf("the round that the daemon has named: %w", err)
	}
	o.DeleteVanished = r.Delete
	return o.Round(r.Round)
}
