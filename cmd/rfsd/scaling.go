package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/scale"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// scaler returns what starts and ends machines for this node; nil without --scale-driver.
func (r runOptions) scaler(d *daemon.Daemon, log *slog.Logger) *scale.Scaler {
	o := r.own.Scaling
	if o.Driver == "" {
		return nil
	}
	s := &scale.Scaler{
		Settings: scale.Settings{
			Min: o.Min, Max: o.Max, MachineWorkers: o.MachineWorkers, WorkerBytes: int64(o.WorkerBytes),
			Cooldown: o.Cooldown, Budget: time.Duration(o.Budget) * time.Hour, KeepMin: o.KeepMin,
		},
		Driver: scale.AutoScaling{Group: o.Group, Region: o.Region, Endpoint: o.Endpoint},
		Node:   r.own.Node.Name, Demand: d.Demand, Log: log,
	}
	if o.Driver == "exec" {
		s.Driver = &scale.Exec{Args: o.Command}
	}
	return s
}

// drive starts and stops machines while this node is the leader, until ctx is done. loads returns the known loads of the other nodes.
func (r runOptions) drive(ctx context.Context, s *scale.Scaler, loads func() []schedule.Load, log *slog.Logger) {
	store, closeStore, err := wiring.OpenWithRetry(ctx, r.Options, false, log)
	if err != nil {
		return // ctx is done
	}
	l := scale.Leadership{Store: store, Clock: timing.SystemClock(), TTL: 30 * time.Second, Every: 15 * time.Second, Loads: loads}
	if r.own.Fleet.OneMachine {
		l.TTL, l.Every = 3*time.Second, 500*time.Millisecond
	}
	l.Run(ctx, s)
	if err := closeStore(); err != nil {
		log.Debug("closing the store failed", "error", err)
	}
}
