package daemon

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
)

// allowance is the part of --max-rate that this node may use. It is guarded by the daemon's mutex.
type allowance struct {
	part   int64
	left   func() time.Duration // nil: without end
	number int64                // of the last command
}

// rateCommands are the rate commands that a worker may follow: the last one that it has reported, and later ones.
type rateCommands []RateCommand

// maxRateCommands limits the commands that a worker has not read.
const maxRateCommands = 32

// inUse returns the most that the worker may be using, in bytes per second.
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

// add returns r with another command. Of too many, the first ones become one with their highest rate.
func (r rateCommands) add(o RateCommand) rateCommands {
	if len(r) >= maxRateCommands {
		r[1].BytesPerSecond = max(r[0].BytesPerSecond, r[1].BytesPerSecond)
		r = r[1:]
	}
	return append(r, o)
}

// follows returns r after the worker has reported a number: it follows no earlier command any more.
func (r rateCommands) follows(number int64) rateCommands {
	for len(r) > 1 && r[0].Number < number {
		r = r[1:]
	}
	return r
}

// holdPermit keeps this node's permit until ctx is done. Without one the workers would wait indefinitely, so the node ends.
func (d *Daemon) holdPermit(ctx context.Context) {
	if d.conf.MaxRate <= 0 || d.conf.HoldPermit == nil {
		return
	}
	if err := d.conf.HoldPermit(ctx, spender{d}); err != nil && ctx.Err() == nil {
		d.fail(err)
	}
}

// spender is the node as the holder of a permit.
type spender struct{ d *Daemon }

var _ primitive.Spender = spender{}

// recentLease is for how long a slot counts as busy after the end of its lease: the next one may take a while to come.
const recentLease = 15 * time.Second

// Weight returns the number of slots that have, or recently had, a lease; at first the configured number. A worker that
// looks for a lease sends nothing.
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
	if d.rateLeft() <= 0 { // nothing that was allowed before is followed any more
		for _, x := range d.slots {
			x.rates = nil
		}
	}
	d.allowed.part, d.allowed.left = min(part, d.conf.MaxRate), left
	d.pushLimits()
}

// InUse returns the most that the workers of this node may be using together.
func (s spender) InUse() int64 {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.rateLeft() <= 0 {
		return 0
	}
	return s.d.rateInUse()
}

// rateLeft returns how long the node's part of the rate holds.
func (d *Daemon) rateLeft() time.Duration {
	if d.allowed.left == nil {
		return time.Hour
	}
	return d.allowed.left()
}

// rateLimit returns this node's part of the rate, in bytes per second; 0 without a limit, and without a permit.
func (d *Daemon) rateLimit() int64 {
	if d.conf.MaxRate == 0 || d.rateLeft() <= 0 {
		return 0
	}
	return d.allowed.part
}

// rateInUse returns the most that all workers may be using.
func (d *Daemon) rateInUse() (sum int64) {
	for _, s := range d.slots {
		if s.worker != nil {
			sum += s.rates.inUse()
		}
	}
	return sum
}

// rateCommand returns the next command for the worker of a slot, and notes it: an equal part of n, or as much of it as others are
// known not to use any more. It is nil without a limit.
func (d *Daemon) rateCommand(s *slot, n int) *RateCommand {
	if d.conf.MaxRate == 0 {
		return nil
	}
	part := d.rateLimit()
	rate, own := part/int64(max(n, 1)), s.rates.inUse()
	if rate > own {
		rate = own + min(rate-own, max(part-d.rateInUse(), 0))
	}
	d.allowed.number++
	o := RateCommand{Number: d.allowed.number, BytesPerSecond: rate}
	if d.allowed.left != nil {
		left := d.rateLeft()
		o.LeftMs, o.Until = left.Milliseconds(), time.Now().Add(left).UnixMilli()
	}
	s.rates = s.rates.add(o)
	return &o
}

// pushLimits sends every worker its part of the rate, and the pace. Workers in this process share one bucket.
func (d *Daemon) pushLimits() {
	d.metrics.Limit(d.rateMetric())
	pace, n := d.pacer.current(), d.running()
	for _, s := range d.slots {
		if s.worker != nil {
			d.sendCommand(s.worker, WorkerCommand{Rate: d.rateCommand(s, n), Pace: &pace})
		}
	}
}

// rateMetric returns the limit in the form of the metric, where 0 means no limit.
func (d *Daemon) rateMetric() int64 {
	if d.conf.MaxRate == 0 {
		return 0
	}
	return max(d.rateLimit(), 1)
}

// followsRate notes that a worker follows a command. What it uses less others may have.
func (d *Daemon) followsRate(s *slot, number int64) {
	before := s.rates.inUse()
	s.rates = s.rates.follows(number)
	if s.rates.inUse() == before || d.running() == 0 {
		return
	}
	each := d.rateLimit() / int64(d.running())
	for _, x := range d.slots {
		if x.worker != nil && x.rates.last() < each {
			d.pushLimits()
			return
		}
	}
}
