package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// sent holds the outcomes of the requests of one lease. It is a bulk.Sender.
type sent struct {
	next     bulk.Sender
	requests atomic.Int64
	refused  atomic.Int64 // ended without anything taken
}

// Send passes the request on and notes its end.
func (s *sent) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	s.requests.Add(1)
	res, err := s.next.Send(ctx, body, n)
	if err != nil || len(res.Refused) == n && n > 0 {
		s.refused.Add(1)
	}
	return res, err
}

// unmoved is a lease that comes to its trigger without anything done.
type unmoved struct {
	requests, refused int64
	read              bool          // whether a document was read
	since             time.Duration // since the last one was read, or since the lease was acquired
	age               time.Duration // of the lease
}

// returned decides how such a lease is released. Only an item on one of whose documents the worker stood
// still for half of the time is to blame: the target, the repository and the length of the lease are not
// the item's. For any reason, the next lease is longer.
func (u unmoved) returned() cms.Return {
	switch {
	case u.refused > 0:
		return cms.Return{Cause: cms.CauseBackpressure, Longer: true}
	case u.requests > 0, !u.read, u.since < u.age/2:
		return cms.Return{Cause: cms.CauseOutage, Longer: true}
	}
	return cms.Return{Cause: cms.CauseNone}
}

// unmoved describes the job for returned.
func (j *job) unmoved() cms.Return {
	now := j.runner.Clock.Read().Mono
	j.lookAtReads(int64(now))
	last := time.Duration(j.lastRead.Load())
	u := unmoved{read: last != 0, age: now - j.acquired, since: now - max(last, j.acquired)}
	if j.sent != nil {
		u.requests, u.refused = j.sent.requests.Load(), j.sent.refused.Load()
	}
	return u.returned()
}

const (
	part     = 64  // records between two stored positions of a lease to work on alone
	partSpan = 512 // ordinals after which a part ends all the same
	// around is the number of ordinals before the place where the last worker died each record is a part, and
	// singles how many such parts there are at most. Both are larger than a part, so that the next worker
	// that dies there names the same ordinal.
	around  = 2 * partSpan
	singles = 2 * around
)

// alone is the state of a lease to work on alone; nil for any other. It stops at the start of each part until
// everything before is done and the store knows the worker's position.
type alone struct {
	records    int   // since the last stand
	from, last int64 // ordinals: of the start of the part, and of the last record
	single     int   // parts of one record
}

// stand waits until the store knows the worker's position, when a part is over.
func (a *alone) stand(ctx context.Context, j *job) error {
	if a == nil {
		return nil
	}
	size := part
	if at, ok := j.lease.Suspect(); ok && a.single < singles && max(a.from, a.last) >= at-around {
		size = 1
	}
	if a.records++; a.records <= size && a.last-a.from < partSpan {
		return nil
	}
	a.records = 1
	if size == 1 {
		a.single++
	}
	if err := j.loader.Flush(ctx); err != nil {
		return err
	}
	watermark, counts := j.settled()
	a.from = watermark
	if !j.runner.Destination.Durable() {
		return j.lease.RecordPosition(ctx, j.begin, watermark, cms.Work{})
	}
	w, err := j.work(watermark, counts)
	if err != nil {
		return err
	}
	return j.lease.RecordPosition(ctx, watermark, watermark, w)
}
