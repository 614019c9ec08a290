package progress

import (
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Limits of the time by which a request may outlive its lease: the maximum grace and margin of a lease (cms), and the timeout of requests
// to the target.
const (
	maxLeaseSlack = 5*time.Second + 15*time.Second
	// RequestTimeout is the timeout of requests to the target.
	RequestTimeout = 2 * time.Minute
)

// WriteBarrier determines from when on no request of this migration can reach the target. A worker that has lost its lease starts no
// request, but earlier requests, or requests that the kernel got before the worker was stopped, may arrive until their timeout. Only then
// can other clients write to the migrated indices without being overwritten.
type WriteBarrier struct {
	Open     int       // open items; they may be leased at any time
	SafeFrom time.Time // end of the last possible request, by the store's clock
}

// Add adds an item, including shard_setup.
func (q *WriteBarrier) Add(it cms.Item) {
	if it.Open() {
		if it.ID != cms.SetupID {
			q.Open++
		}
		if it.Holder != "" {
			q.later(time.Unix(it.Expiration, 0).Add(maxLeaseSlack))
		}
	}
	// The former holder sent its last request before this acquisition. Requests that were repeated after a lost connection may arrive again
	// after the item has ended.
	if it.AcquiredAt != 0 {
		q.later(time.UnixMilli(it.AcquiredAt))
	}
	if it.CompletedAt != 0 {
		q.later(time.Unix(it.CompletedAt+1, 0))
	}
}

func (q *WriteBarrier) later(lastStart time.Time) {
	if t := lastStart.Add(RequestTimeout); t.After(q.SafeFrom) {
		q.SafeFrom = t
	}
}
