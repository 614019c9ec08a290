package daemon

import (
	"slices"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// loadWindow is the period over which the load of a node is measured.
type loadWindow struct {
	began time.Time
	total metrics.Sample
	last  schedule.Load
}

const minLoadWindow = 5 * time.Second

func ratio(of, all int64) float64 {
	if all <= 0 {
		return 0
	}
	return min(max(float64(of)/float64(all), 0), 1)
}

// Load returns this node's load, for the other nodes.
func (d *Daemon) Load() schedule.Load {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, total, w := time.Now(), d.metrics.Total(), &d.window
	if took := now.Sub(w.began); w.began.IsZero() || took >= minLoadWindow {
		if !w.began.IsZero() {
			since := total.Minus(w.total)
			w.last = schedule.Load{
				Rate:              int64(float64(since.SourceBytes) / took.Seconds()),
				TargetRejectRatio: ratio(since.BulkBusy, since.Bulk.Count), RepoThrottleRatio: ratio(since.RepoErrors, since.RepoRequests),
			}
		}
		w.began, w.total = now, total
	}
	l := w.last
	l.Intent = d.intent.Revision.Seq
	l.Workers, l.MaxWorkers = d.running(), d.conf.Workers
	if l.MaxWorkers == 0 {
		l.MaxWorkers = d.auto.max
	}
	l.MaxWorkers = max(l.MaxWorkers, 0)
	if d.intent.Drains(d.conf.Name) {
		l.MaxWorkers = 0
	}
	return l
}

// Remaining returns the progress of the migration as of the last read of the store.
func (d *Daemon) Remaining() (left schedule.Remaining, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.lastRead.migration
	if m == nil || m.Totals.Items == 0 {
		return left, false
	}
	t := m.Totals
	return schedule.Remaining{
		Items: t.Items, ItemsFailed: t.ItemsBad, ItemsOpen: t.ItemsOpen, Shards: t.Shards, ShardsDone: t.ShardsDone,
		Indexed: t.Indexed, Failed: t.Failed, Filtered: t.Filtered, Kept: t.Kept, Bytes: t.Bytes - t.BytesLost, BytesDone: t.BytesDone,
	}, true
}

// ReadIntent makes the daemon read the intent in the store immediately.
func (d *Daemon) ReadIntent() { trySend(d.readIntentNow) }

// plan returns the fleet's proposal, or the zero Plan for a single node.
func (d *Daemon) plan() schedule.Plan {
	if d.conf.Fleet == nil {
		return schedule.Plan{}
	}
	return d.conf.Fleet.Plan()
}

// nodeShare returns this node's share of a number for the fleet.
func (d *Daemon) nodeShare(total int) int {
	if d.conf.Fleet == nil {
		return total
	}
	position, count := d.conf.Fleet.Share()
	return share(total, position, count)
}

// nodes returns the live nodes with their states and workers.
func (d *Daemon) nodes() []status.Node {
	all := slices.Clone(d.conf.Fleet.Nodes())
	for i, n := range all {
		if n.Name == d.conf.Name { // gossip about this node itself is outdated
			all[i].Running, all[i].Order = d.running(), d.intent.Revision.Seq
		}
		switch {
		case all[i].Order < d.intent.Revision.Seq: // it does not follow the intent yet
		case d.intent.State == session.Pause:
			all[i].State = "paused"
		case d.intent.Drains(n.Name) && n.Running == 0:
			all[i].State = "drained"
		case d.intent.Drains(n.Name):
			all[i].State = "draining"
		}
	}
	return all
}
