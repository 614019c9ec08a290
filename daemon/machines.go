package daemon

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/daemon/scale"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Demand returns the work that is left for the scaler of the fleet, as of the last read of the store.
func (d *Daemon) Demand() scale.Demand {
	left, known := d.Remaining()
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.lastRead.migration
	read := d.known && d.lastRead.err == "" && m != nil
	return scale.Demand{
		Known: known && read, Complete: read && m.Complete && d.ended(), Workers: d.intent.Workers,
		Held:  d.intent.State != session.Run || d.waits() != "" || read && m.Complete && !d.ended(), // another round follows
		Items: left.ItemsOpen, Bytes: left.BytesLeft(),
	}
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
