package daemon

import (
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/schedule"
)

// pace is which part of their connections the workers of this node may use. It gives way to a busy target and a throttling
// repository where the number of workers does not: because somebody has said it, or because there is one only.
type pace struct {
	less Pace // what is not used, so that the zero value uses all
	next time.Time
	last metrics.Sample
}

const (
	slower    = 0.75
	quicker   = 0.125
	leastPace = 1.0 / 16
)

// follow looks at what happened since the last decision, every autoEvery. others is what the fleet tells; firm says that the
// number of workers will not give way.
func (p *pace) follow(now time.Time, total metrics.Sample, others schedule.Plan, firm bool) {
	if p.next.IsZero() {
		p.next, p.last = now.Add(autoEvery), total
	}
	if now.Before(p.next) {
		return
	}
	since := total.Minus(p.last)
	p.next, p.last = now.Add(autoEvery), total
	p.less.Target = 1 - step(1-p.less.Target, max(part(since.BulkBusy, since.Bulk.Count), others.Busy), firm)
	p.less.Repository = 1 - step(1-p.less.Repository, max(part(since.RepoErrors, since.RepoRequests), others.Slow), firm)
}

// step is the next part to use.
func step(part, pressure float64, firm bool) float64 {
	switch {
	case pressure > schedule.TooBusy && firm:
		return max(part*slower, leastPace)
	case pressure < schedule.NotBusy:
		return min(part+quicker, 1)
	}
	return part
}

// is gives the parts to use.
func (p *pace) is() Pace { return Pace{Target: 1 - p.less.Target, Repository: 1 - p.less.Repository} }
