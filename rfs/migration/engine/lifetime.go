package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lifetime holds the contexts of one lease. A context ends at the latest with its parent; next to each are the events that end it earlier.
//
//	caller                 a signal, or the end of the run
//	└─ stopping            the trigger of the lease: reading stops
//	(the caller's values)
//	├─ ending              close; a hand-off after a signal that takes too long
//	│  ├─ work             the guard of the lease, with a cause: the deadline, loss of the lease, a replaced target
//	│  │  └─ reports       the end of copying, so that no progress report is in flight while the lease is ended
//	│  └─ after, work done the end of the lease plus FinalReadTimeout
//	└─ after, work ended   some seconds, to release the lease
//
// So a signal ends stopping only. Work continues until the lease's deadline or for ShutdownTimeout, because a hand-off takes time.
type lifetime struct {
	j        *job
	caller   context.Context
	stopping context.Context
	ending   context.Context
	work     context.Context

	endWork     context.CancelCauseFunc // ends work with a cause
	stopReports func()                  // cancels the reports and blocks until they have returned
	cancels     []func()                // called by close in reverse order
}

// live starts the lifetime of a lease.
func (j *job) live(caller context.Context) *lifetime {
	l := &lifetime{j: j, caller: caller, stopReports: func() {}}
	var abandon, stop context.CancelFunc
	l.ending, abandon = context.WithCancel(context.WithoutCancel(caller))
	l.stopping, stop = context.WithTimeout(caller, j.lease.UntilTrigger())
	ended, end := context.WithCancelCause(l.ending)
	work, unwatch := j.lease.Watch(ended, j.looked(caller.Done(), stop))
	l.work, l.endWork = work, end
	silence := context.AfterFunc(work, func() {
		why := context.Cause(work)
		j.log.Warn("work ends", "error", why)
		if errors.Is(why, errHandoffTimeout) {
			abandon()
		}
	})
	l.cancels = []func(){abandon, stop, func() { end(nil) }, unwatch, func() { silence() }}
	return l
}

// report starts the progress reports of a job.
func (l *lifetime) report(j *job) {
	ctx, cancel := context.WithCancel(l.work)
	l.cancels = append(l.cancels, cancel)
	var reports sync.WaitGroup
	reports.Go(func() { j.report(ctx, l.endWork) })
	l.stopReports = func() { cancel(); reports.Wait() }
}

// after stops the reports. err is the result of the copying. It returns the context in which to end the lease, and the error that decides
// how it ends.
func (l *lifetime) after(err error) (context.Context, error) {
	// No progress report may be in flight while the lease is ended: the store would reject the second of the two updates.
	l.stopReports()
	switch {
	case l.work.Err() == nil:
		return l.until(l.ending, l.j.lease.UntilEnd()+FinalReadTimeout), err
	case err == nil: // the guard ended the work after the last document
		return l.work, nil
	}
	err = context.Cause(l.work) // the guard ended the work; releasing the lease takes a moment more
	moment := 10 * time.Second
	if errors.Is(err, errHandoffTimeout) {
		moment = FinalReadTimeout
	}
	return l.until(context.WithoutCancel(l.caller), moment), err
}

// until returns a context that ends after d. The lease's deadline applies to documents only. The requests that end a lease are conditional
// on the holder id, so they may be sent until the lease itself ends and answered a moment later.
func (l *lifetime) until(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	l.cancels = append(l.cancels, cancel)
	return ctx
}

// close ends all contexts.
func (l *lifetime) close() {
	for i := len(l.cancels) - 1; i >= 0; i-- {
		l.cancels[i]()
	}
}
