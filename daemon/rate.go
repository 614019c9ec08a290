package daemon

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// limited is a kind of work with a rate limit.
type limited int

const (
	sends limited = iota // --max-rate
	reads                // --max-read-rate
	limits
)

// settings are the names by which an operator sets the limits.
var settings = [limits]string{sends: session.MaxRate, reads: session.MaxReadRate}

// Limit is a limit of the whole fleet.
type Limit struct {
	Most int64 // bytes per second, unless an operator has set another value; 0: no limit
	// Hold keeps this node's permit for a part of Most until the context is done; nil: the node has all of it. It returns an error when no
	// permit can be had any more; then the node ends.
	Hold func(context.Context, primitive.Spender) error
}

// allowance is the part of a limit that this node may use. d.mu guards it.
type allowance struct {
	Limit
	part   int64                // primitive.Unlimited: no limit
	left   func() time.Duration // nil: no end
	number int64                // of the last command
}

// newAllowance returns all of the limit, or nothing until the node has a permit.
func newAllowance(l Limit) allowance {
	if l.Hold == nil || l.Most <= 0 {
		return allowance{Limit: l, part: primitive.Whole(l.Most)}
	}
	return allowance{Limit: l, left: func() time.Duration { return 0 }}
}

// most returns the limit in effect, from the option or an operator; 0: no limit.
func (d *Daemon) most(of limited) int64 { return d.intent.Set.Of(settings[of], d.allowed[of].Most) }

// limitsSet applies limits that an operator has set. If nodes share a limit, the holder of the permit follows it.
func (d *Daemon) limitsSet() {
	for of := range limits {
		if a := &d.allowed[of]; a.Hold == nil {
			a.part = primitive.Whole(d.most(of))
		}
	}
	if d.conf.Set != nil {
		d.conf.Set(d.intent.Set)
	}
	d.pushLimits()
}

// rateCommands are the rate commands that a worker may be following: the last reported one, and later ones.
type rateCommands []RateCommand

// maxRateCommands limits the commands that a worker has not read yet.
const maxRateCommands = 32

// inUse returns the highest rate that the worker may be using, in bytes per second.
func (r rateCommands) inUse() (most int64) {
	for _, o := range r {
		most = max(most, o.BytesPerSecond)
	}
	return most
}

// last returns the rate of the last command.
func (r rateCommands) last() int64 {
	if len(r) == 0 {
		return 0
	}
	return r[len(r)-1].BytesPerSecond
}

// add returns r with another command. If there are too many, the first two are merged with the higher rate.
func (r rateCommands) add(o RateCommand) rateCommands {
	if len(r) >= maxRateCommands {
		r[1].BytesPerSecond = max(r[0].BytesPerSecond, r[1].BytesPerSecond)
		r = r[1:]
	}
	return append(r, o)
}

// follows returns r after the worker has reported a number: it no longer follows earlier commands.
func (r rateCommands) follows(number int64) rateCommands {
	for len(r) > 1 && r[0].Number < number {
		r = r[1:]
	}
	return r
}

// holdPermit keeps this node's permit until ctx is done. Without a permit the workers would wait indefinitely, so the node ends.
func (d *Daemon) holdPermit(ctx context.Context, of limited) {
	l := d.allowed[of].Limit
	if l.Hold == nil {
		return
	}
	if err := l.Hold(ctx, spender{d, of}); err != nil && ctx.Err() == nil {
		d.fail(err)
	}
}

// spender is the node as holder of a permit.
type spender struct {
	d  *Daemon
	of limited
}

var _ primitive.Spender = spender{}

// recentLease is the time for which a slot counts as busy after the end of its lease, because the next one may take a while.
const recentLease = 15 * time.Second

// Limit returns the limit of the whole fleet.
func (s spender) Limit() int64 {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.d.most(s.of)
}

// Weight returns the number of slots that have, or recently had, a lease, and at first the configured number. A worker that searches for a
// lease sends nothing.
func (s spender) Weight() int {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.started) < recentLease {
		return max(d.conf.Workers, d.auto.n, 1)
	}
	n := 0
	for _, x := range d.slots {
		if x.lease != nil || time.Since(x.leased) < recentLease {
			n++
		}
	}
	return n
}

// Allow sets the part of the rate that the workers of this node may use together.
func (s spender) Allow(part int64, left func() time.Duration) {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rateLeft(s.of) <= 0 { // workers no longer follow earlier commands
		for _, x := range d.slots {
			x.rates[s.of] = nil
		}
	}
	a := &d.allowed[s.of]
	a.part, a.left = part, left
	if part != primitive.Unlimited {
		a.part = min(part, d.most(s.of))
	}
	d.pushLimits()
}

// InUse returns the highest rate that the workers of this node may be using together.
func (s spender) InUse() int64 {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.rateLeft(s.of) <= 0 {
		return 0
	}
	return s.d.rateInUse(s.of)
}

// rateLeft returns how long the node's part of the rate is valid.
func (d *Daemon) rateLeft(of limited) time.Duration {
	if d.allowed[of].left == nil {
		return time.Hour
	}
	return d.allowed[of].left()
}

// rateLimit returns this node's part of the rate, in bytes per second; 0 without a limit, and without a permit.
func (d *Daemon) rateLimit(of limited) int64 {
	if d.rateLeft(of) <= 0 {
		return 0
	}
	return max(d.allowed[of].part, 0)
}

// rateInUse returns the highest rate that all workers may be using together.
func (d *Daemon) rateInUse(of limited) (sum int64) {
	for _, s := range d.slots {
		if s.worker != nil {
			sum += s.rates[of].inUse()
		}
	}
	return sum
}

// rateCommand returns and records the next command for the worker of a slot: one of n equal parts of the rate, or as much as the others no
// longer use. It returns nil for a worker that has no limit and needs none.
func (d *Daemon) rateCommand(s *slot, of limited, n int) *RateCommand {
	a := &d.allowed[of]
	if a.part == primitive.Unlimited {
		if r := s.rates[of]; len(r) == 0 || r.last() == primitive.Unlimited {
			return nil
		}
		a.number++
		o := RateCommand{Number: a.number, BytesPerSecond: primitive.Unlimited}
		s.rates[of] = s.rates[of].add(o)
		return &o
	}
	part := d.rateLimit(of)
	rate, own := part/int64(max(n, 1)), s.rates[of].inUse()
	if rate > own {
		rate = own + min(rate-own, max(part-d.rateInUse(of), 0))
	}
	a.number++
	o := RateCommand{Number: a.number, BytesPerSecond: rate}
	if a.left != nil {
		left := d.rateLeft(of)
		o.LeftMs, o.Until = left.Milliseconds(), time.Now().Add(left).UnixMilli()
	}
	s.rates[of] = s.rates[of].add(o)
	return &o
}

// limitCommand returns the next command for the worker of a slot, one of n: its parts of the rates, and the pace.
func (d *Daemon) limitCommand(s *slot, n int) WorkerCommand {
	pace, set := d.pacer.current(), d.intent.Set
	return WorkerCommand{Set: &set, Rate: d.rateCommand(s, sends, n), ReadRate: d.rateCommand(s, reads, n), Pace: &pace}
}

// pushLimits sends every worker its parts of the rates, and the pace. Workers in this process share their buckets.
func (d *Daemon) pushLimits() {
	d.noteLimits()
	n := d.running()
	for _, s := range d.slots {
		if s.worker != nil {
			d.sendCommand(s.worker, d.limitCommand(s, n))
		}
	}
}

// pushRates is pushLimits after a change of the number of workers.
func (d *Daemon) pushRates() {
	if d.allowed[sends].part != primitive.Unlimited || d.allowed[reads].part != primitive.Unlimited {
		d.pushLimits()
	}
}

// noteLimits sets the metrics of the limits.
func (d *Daemon) noteLimits() { d.metrics.Limit(d.rateMetric(sends), d.rateMetric(reads)) }

// rateMetric returns the limit as the metric shows it, where 0 means no limit.
func (d *Daemon) rateMetric(of limited) int64 {
	if d.allowed[of].part == primitive.Unlimited {
		return 0
	}
	return max(d.rateLimit(of), 1)
}

// followsRate records that a worker follows a command. Other workers may use the rate that it no longer uses.
func (d *Daemon) followsRate(s *slot, of limited, number int64) {
	before := s.rates[of].inUse()
	s.rates[of] = s.rates[of].follows(number)
	if s.rates[of].inUse() == before || d.running() == 0 {
		return
	}
	each := d.rateLimit(of) / int64(d.running())
	for _, x := range d.slots {
		if x.worker != nil && x.rates[of].last() < each {
			d.pushLimits()
			return
		}
	}
}
