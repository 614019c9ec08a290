package daemon

import (
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// pacer determines the share of their connections that the workers of this node may use. It reacts to rejections of the target and
// throttling of the repository if the number of workers does not: because it is fixed, or because only one worker runs.
type pacer struct {
	less Pace // unused shares, so that the zero value uses all
	next time.Time
	last metrics.Sample
}

const (
	paceDecrease = 0.75
	paceIncrease = 0.125
	minPace      = 1.0 / 16
)

// update updates the shares every autoscaleInterval. others has the ratios of the fleet; firm means that the number of workers is not
// reduced instead.
func (p *pacer) update(now time.Time, total metrics.Sample, others schedule.Plan, firm bool) {
	if p.next.IsZero() {
		p.next, p.last = now.Add(autoscaleInterval), total
	}
	if now.Before(p.next) {
		return
	}
	since := total.Minus(p.last)
	p.next, p.last = now.Add(autoscaleInterval), total
	p.less.Target = 1 - nextShare(1-p.less.Target, max(ratio(since.BulkBusy, since.Bulk.Count), others.TargetRejectRatio), firm)
	p.less.Repository = 1 - nextShare(1-p.less.Repository, max(ratio(since.RepoErrors, since.RepoRequests), others.RepoThrottleRatio), firm)
}

// nextShare returns the next share to use.
func nextShare(part, pressure float64, firm bool) float64 {
	switch {
	case pressure > schedule.HighPressure && firm:
		return max(part*paceDecrease, minPace)
	case pressure < schedule.LowPressure:
		return min(part+paceIncrease, 1)
	}
	return part
}

// current returns the shares to use.
func (p *pacer) current() Pace {
	return Pace{Target: 1 - p.less.Target, Repository: 1 - p.less.Repository}
}
