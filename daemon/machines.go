package daemon

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/daemon/scale"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Demand returns the remaining work for the fleet's scaler, as of the last read of the store. For rounds after the first, it is the whole
// work of the round: otherwise machines would be terminated at the end of each round, and started again by the next one.
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

// finalMachinesLimit is the time for which a node that ends with the work waits for the scaler's last change.
const finalMachinesLimit = 2 * time.Minute

// machinesEnded reports whether the machines of the fleet need no further change after the work was complete. It reports true, too, when
// that could not be done within finalMachinesLimit. d.mu is held.
func (d *Daemon) machinesEnded(now time.Time) bool {
	m := d.lastRead.machines
	if !d.conf.Scales || m != nil && m.Final {
		return true
	}
	if d.completeSince.IsZero() {
		d.completeSince = now
	}
	if now.Sub(d.completeSince) < finalMachinesLimit {
		return false
	}
	wanted, cause := 0, ""
	if m != nil {
		wanted, cause = m.Wanted, m.Error
	}
	d.log.Error("the work is complete, but machines may still run: end them yourself", "machines_wanted", wanted, "error", cause)
	return true
}

// readMachines returns the state of the fleet's scaler, or nil before its first round.
func readMachines(ctx context.Context, store cms.Records) (*status.Machines, error) {
	st, err := scale.Read(ctx, store)
	if err != nil || st.At == 0 {
		return nil, err
	}
	m := &status.Machines{
		Leader: st.Leader, Wanted: st.Machines, Running: st.Running, Reason: st.Reason, Error: st.Error,
		At: time.UnixMilli(st.At).UTC(), Hours: (time.Duration(st.UsedMs) * time.Millisecond).Hours(), Final: st.Final,
	}
	if st.Changed > 0 {
		t := time.UnixMilli(st.Changed).UTC()
		m.Changed = &t
	}
	return m, nil
}
