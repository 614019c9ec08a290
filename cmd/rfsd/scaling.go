package main

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/daemon/scale"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/schedule"
)

// scaler returns the function by which this node starts and ends machines; nil without --scale-driver.
func (m *member) scaler(store cms.RecordStore) func(context.Context, []schedule.Load) error {
	o := m.r.own.Scaling
	if o.Driver == "" {
		return nil
	}
	s := &scale.Scaler{
		Settings: scale.Settings{
			Min: o.Min, Max: o.Max, MachineWorkers: o.MachineWorkers, WorkerBytes: int64(o.WorkerBytes),
			Cooldown: o.Cooldown, Budget: time.Duration(o.Budget) * time.Hour, KeepMin: o.KeepMin,
		},
		Driver: scale.AutoScaling{Group: o.Group, Region: o.Region, Endpoint: o.Endpoint},
		Node:   m.r.own.Node.Name, Demand: func() scale.Demand { return m.daemon().Demand() }, Log: m.log,
	}
	if o.Driver == "exec" {
		s.Driver = &scale.Exec{Args: o.Command}
	}
	return func(ctx context.Context, loads []schedule.Load) error { return s.Turn(ctx, store, loads) }
}
