// Package limits limits the rates of a process: to its options, to the limits that an operator has set in their place, and to its part of
// them. The part is a permit in the coordination store, or a command of the daemon of the process.
package limits

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Options are the limits of the options of a process, and its work.
type Options struct {
	MaxRate, MaxReadRate int64         // bytes per second; 0: no limit
	MaxLatency           time.Duration // 0: none
	Alone                bool          // no other process uses the store, so that this one has the whole rates
	Slots                int
	Reading              *throttle.Bucket // the pace of reading; nil: the process reads nothing
}

// Limits are the limits of a process in effect.
type Limits struct {
	Options
	Sending *throttle.Bucket
	// Numbers of the last commands of the daemon for the two rates.
	RateCommand, ReadCommand int64
	set                      atomic.Pointer[session.Limits] // nil: nothing
}

// New returns the limits of a process's options.
func New(o Options) *Limits { return &Limits{Options: o, Sending: throttle.New(o.MaxRate)} }

// Follow applies what an operator has set.
func (l *Limits) Follow(set session.Limits) {
	before := l.now()
	l.set.Store(&set)
	if !l.Alone || set.Same(before) {
		return // the holders of the permits follow it
	}
	l.Sending.Allow(primitive.Whole(l.rate()), nil)
	if l.Reading != nil {
		l.Reading.Allow(primitive.Whole(l.readRate()), nil)
	}
}

// Apply applies the limits of a command of the daemon. Of its rates, the one with the highest number is in effect.
func (l *Limits) Apply(c daemon.WorkerCommand) {
	if r := c.Rate; r != nil && r.Number > l.RateCommand {
		l.RateCommand = r.Number
		l.Sending.Allow(r.BytesPerSecond, r.Left(timing.SystemClock()))
	}
	if r := c.ReadRate; r != nil && r.Number > l.ReadCommand && l.Reading != nil {
		l.ReadCommand = r.Number
		l.Reading.Allow(r.BytesPerSecond, r.Left(timing.SystemClock()))
	}
	if c.Set != nil {
		l.set.Store(c.Set)
	}
}

func (l *Limits) now() session.Limits {
	if set := l.set.Load(); set != nil {
		return *set
	}
	return session.Limits{}
}

// Latency returns the latency of the target above which its load is lowered; 0: it never is.
func (l *Limits) Latency() time.Duration { return l.now().Latency(l.MaxLatency) }

// rate and readRate return the bytes per second that all processes together may send, and read; 0: no limit.
func (l *Limits) rate() int64 { return l.now().Of(session.MaxRate, l.MaxRate) }

func (l *Limits) readRate() int64 { return l.now().Of(session.MaxReadRate, l.MaxReadRate) }

// Hold lets a process without a daemon send and read no more than its parts of the rates among all processes that share the store, until
// stop is called. holder is the name of the process, by which its parts are released when it is proven dead.
func (l *Limits) Hold(ctx context.Context, store cms.Store, holder string, log *slog.Logger) (stop func() error) {
	if l.Alone {
		return func() error { return nil }
	}
	sending := hold(ctx, permits(session.MaxRate, store, holder, log), spender{l.Sending, l.Slots, l.rate})
	reading := func() {}
	if l.Reading != nil {
		reading = hold(ctx, permits(session.MaxReadRate, store, holder, log), spender{l.Reading, l.Slots, l.readRate})
	}
	return func() error { reading(); sending(); return nil }
}

// permits returns the permits of an option in a store.
func permits(option string, store primitive.Store, holder string, log *slog.Logger) *primitive.Permits {
	return &primitive.Permits{Store: store, Clock: timing.SystemClock(), Option: option, Holder: holder, Log: log}
}

// permitUse is the time for which a process that sends or reads nothing counts as working.
const permitUse = 15 * time.Second

// spender is a process that sends or reads by itself, as the holder of a permit.
type spender struct {
	*throttle.Bucket
	slots int
	most  func() int64
}

// Weight returns the number of slots while they take from the bucket.
func (s spender) Weight() int {
	if s.Used(permitUse) {
		return max(s.slots, 1)
	}
	return 0
}

// Limit returns the rate of all processes.
func (s spender) Limit() int64 { return s.most() }

// hold keeps a permit for what takes from the bucket, until stop is called; afterwards the bucket has the whole rate, for a comparison.
// When no permit can come any more, what waits ends with the reason.
func hold(ctx context.Context, p *primitive.Permits, s spender) (stop func()) {
	if s.Limit() > 0 {
		s.Allow(0, nil) // until it has a permit
	}
	held, end := context.WithCancel(context.WithoutCancel(ctx)) // a lease that is handed off needs it, too
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Hold(held, s); err != nil {
			s.End(err)
		}
	}()
	return func() {
		end()
		<-done
		s.Allow(primitive.Whole(s.Limit()), nil)
	}
}

// OfNode returns the limit of a daemon for an option, whose permits are in a store that open opens. holder is the prefix of the holders of
// its workers; "" if nothing proves that it is dead. The error of open is of its context.
func OfNode(option string, most int64, holder string, open func(context.Context) (cms.Store, func() error, error), log *slog.Logger) daemon.Limit {
	return daemon.Limit{Most: most, Hold: func(ctx context.Context, s primitive.Spender) error {
		for s.Limit() <= 0 {
			if err := timing.SystemClock().Sleep(ctx, time.Second); err != nil {
				return nil //nolint:nilerr // ctx is done
			}
		}
		store, closeStore, err := open(ctx)
		if err != nil {
			return nil //nolint:nilerr // ctx is done
		}
		held := permits(option, store, holder, log).Hold(ctx, s)
		if err := closeStore(); err != nil {
			log.Debug("closing the store failed", "error", err)
		}
		return held
	}}
}
