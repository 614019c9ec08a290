package daemon

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/daemon/scale"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Demand returns the work that is left for the scaler of the fleet, as of the last read of the store. Of a round after the first it is the
// whole work of the round: at the end of each round machines would be ended that the next one starts again.
func (d *Daemon) Demand() scale.Demand {
	left, known := d.Remaining()
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.lastRead.migration
	read := d.known && d.lastRead.err == "" && m != nil
	is := scale.Demand{
		Known: known && read, Complete: read && m.Complete && d.ended(), Workers: d.intent.Workers, Items: left.ItemsOpen, Bytes: left.BytesLeft(),
	}
	if d.later() {
		is.Items, is.Bytes = left.Items, left.Bytes
	}
	switch {
	case d.intent.State != session.Run:
		is.Held = "the fleet is paused or drained"
	case d.waits() != "":
		is.Held = d.waits()
	case read && m.Complete && !d.ended():
		is.Held = "another round follows"
	}
	return is
}

// readMachines reads what the scaler of the fleet has done; nil before its first turn.
func readMachines(ctx context.Context, store cms.Records) (*status.Machines, error) {
	st, err := scale.Read(ctx, store)
	if err != nil || st.At == 0 {
		return nil, err
	}
	m := &status.Machines{
		Leader: st.Leader, Wanted: st.Machines, Running: st.Running, Reason: st.Reason, Error: st.Error,
		At: time.UnixMilli(st.At).UTC(), Hours: (time.Duration(st.UsedMs) * time.Millisecond).Hours(),
	}
	if st.Changed > 0 {
		t := time.UnixMilli(st.Changed).UTC()
		m.Changed = &t
	}
	return m, nil
}
