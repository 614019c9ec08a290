package daemon

import (
	"runtime"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// autoscale chooses the number of workers: up to the limit of processors and memory, and fewer while the target rejects requests. It
// increases by one and decreases by a quarter.
type autoscale struct {
	max  int
	n    int
	next time.Time
	last metrics.Sample
}

const (
	autoscaleInterval = 15 * time.Second
	memoryShare       = 0.7 // of the machine's memory, for all workers
	// unlimitedWorker is the assumed memory use of a worker without a limit, in bytes.
	unlimitedWorker = 512 << 20
)

func newAutoscale(most int, perWorker int64) autoscale {
	if perWorker <= 0 {
		perWorker = unlimitedWorker
	}
	n := runtime.GOMAXPROCS(0)
	if total := totalMemory(); total > 0 {
		n = min(n, int(memoryShare*float64(total)/float64(perWorker)))
	}
	n = max(min(n, most), 1)
	return autoscale{max: n, n: n}
}

// wanted returns the number of workers, which it updates every autoscaleInterval. others is the ratio of rejected or throttled requests in
// the whole fleet, as far as known.
func (a *autoscale) wanted(now time.Time, total metrics.Sample, others float64) int {
	if a.next.IsZero() {
		a.next, a.last = now.Add(autoscaleInterval), total
	}
	if now.Before(a.next) {
		return a.n
	}
	since := total.Minus(a.last)
	a.next, a.last = now.Add(autoscaleInterval), total
	if since.Bulk.Count == 0 {
		return a.n
	}
	switch pressure := max(ratio(since.BulkBusy, since.Bulk.Count), ratio(since.RepoErrors, since.RepoRequests), others); {
	case pressure > schedule.HighPressure:
		a.n = max(a.n*3/4, 1)
	case pressure < schedule.LowPressure:
		a.n = min(a.n+1, a.max)
	}
	return a.n
}
