package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
)

// nodeReporters is the number of nodes in a fleet that store events about other nodes. Each event is stored once, by the first of them.
const nodeReporters = 3

// goneNodes records the events that this node has stored about nodes that left or failed. Only the reading loop uses it.
type goneNodes struct {
	reported map[string]bool      // subjects followed by codes
	gone     map[string]time.Time // by name: start of the run that is gone
}

// reportNodes stores an event, once for the fleet, for each node that failed, left, or has returned since.
func (d *Daemon) reportNodes(ctx context.Context) {
	store, err := d.store.coordinator()
	if err != nil || d.conf.Fleet == nil {
		return
	}
	if position, _ := d.conf.Fleet.Share(); position >= nodeReporters {
		return
	}
	report := func(n status.Node, code, detail string) bool {
		subject := status.NodeSubject(n)
		if d.others.reported[subject+code] {
			return true
		}
		ectx, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		if _, err := store.Event(ectx, subject, code, detail); err != nil {
			d.log.Debug("change of a node not reported", "node", n.Name, "error", err)
			return false // retried after the next read
		}
		d.log.Info(code, "node", n.Name, "detail", detail)
		if d.others.reported == nil || len(d.others.reported) >= maxExpired {
			d.others.reported = map[string]bool{}
		}
		d.others.reported[subject+code] = true
		return true
	}
	if d.others.gone == nil {
		d.others.gone = map[string]time.Time{}
	}
	for _, n := range d.conf.Fleet.Gone() {
		code, detail := status.NodeLost, "it does not answer any more; its workers hand off if they are alive; otherwise their leases expire, or are released when it starts again"
		if n.State == status.NodeLeft {
			code, detail = status.NodeLeft, "it has ended, and its workers have handed off"
		}
		if report(n, code, detail) && d.others.gone[n.Name].Before(n.Started) {
			d.others.gone[n.Name] = n.Started
		}
	}
	for _, n := range d.conf.Fleet.Nodes() {
		was, ok := d.others.gone[n.Name]
		if ok && n.Started.After(was) && report(n, status.NodeReturned, fmt.Sprintf("its former run had started at %s", was.UTC().Format(time.RFC3339))) {
			delete(d.others.gone, n.Name)
		}
	}
}
