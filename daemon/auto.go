package daemon

import (
	"runtime"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
)

// autoscale chooses the number of workers: as many as processors and memory bear, fewer while the
// target says that it is busy. It adds one at a time and takes a quarter away.
type autoscale struct {
	most int
	n    int
	next time.Time
	last metrics.Sample
}

const (
	autoEvery = 15 * time.Second
	// Parts of the bulk requests that the target refused for being busy.
	tooBusy    = 0.10
	notBusy    = 0.01
	memoryPart = 0.7 // of the machine's memory, for all workers
	// unlimitedWorker is what a worker without a memory limit is taken to need, in bytes.
	unlimitedWorker = 512 << 20
)

func newAutoscale(most int, perWorker int64) autoscale {
	if perWorker <= 0 {
		perWorker = unlimitedWorker
	}
	n := runtime.GOMAXPROCS(0)
	if total := totalMemory(); total > 0 {
		n = min(n, int(memoryPart*float64(total)/float64(perWorker)))
	}
	n = max(min(n, most), 1)
	return autoscale{most: n, n: n}
}

// wanted looks at what happened since the last decision, every autoEvery.
func (a *autoscale) wanted(now time.Time, total metrics.Sample) int {
	if a.next.IsZero() {
		a.next, a.last = now.Add(autoEvery), total
	}
	if now.Before(a.next) {
		return a.n
	}
	since := total.Minus(a.last)
	a.next, a.last = now.Add(autoEvery), total
	if since.Bulk.Count == 0 {
		return a.n
	}
	switch busy := float64(since.BulkBusy) / float64(since.Bulk.Count); {
	case busy > tooBusy:
		a.n = max(a.n*3/4, 1)
	case busy < notBusy:
		a.n = min(a.n+1, a.most)
	}
	return a.n
}
