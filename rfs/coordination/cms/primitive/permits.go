package primitive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Permits divides the limit of an option, in bytes per second, among the processes of a session. Each has a permit: a lease, by the store's
// clock, of a part of the limit. All permits are in one record that is changed by versioned updates, so that the parts of permits that may
// be in use never add up to more than the limit:
//
//   - A process takes at most the part of the limit that the permits of all others leave.
//   - It uses more only after the record has been raised, and uses less before the record is lowered.
//   - It stops using its part a margin before its permit expires; others wait a grace. The part of a killed process
//     stays unused until then, or until ReleaseDead.
//
// A process that joins adds its permit with the part that is left. The others see it at their next renewal and shrink to their fair part.
type Permits struct {
	Store  Store
	Clock  timing.Clock
	Option string // such as max-rate
	Holder string // the process, for ReleaseDead; "": its permit can only expire
	Log    *slog.Logger
}

// Spender limits its use to a part of the limit.
type Spender interface {
	// Limit returns the limit for all processes together, which may change; 0: no limit, and no permit.
	Limit() int64
	// Weight returns how much work it has, such as its number of leases; 0: none at present.
	Weight() int
	// Allow sets the part that may be used while left returns more than 0. Unlimited has no limit and no end.
	Allow(part int64, left func() time.Duration)
	// InUse returns the most that may be in use. It follows Allow, immediately or when the users of the part have followed.
	InUse() int64
}

// Unlimited is the part of a process without a limit.
const Unlimited = -1

// Whole returns the part of a process that has a limit to itself, and Unlimited for 0.
func Whole(limit int64) int64 {
	if limit <= 0 {
		return Unlimited
	}
	return limit
}

const (
	permitsKind = "permits"
	maxPermits  = maxNodes

	permitInterval = 2 * time.Second
	permitPerNode  = 140 * time.Millisecond // of the interval, per process: with 500 it is 70 s
	permitTTL      = 10 * time.Second
	maxPermitTTL   = time.Hour
	settlePoll     = 50 * time.Millisecond
	settleTimeout  = 3 * time.Second
	giveBackTime   = 5 * time.Second
	maxRefused     = 10
	// idlePart is the fraction of an equal part that a process without work keeps, so that it can start.
	idlePart      = 0.1
	maxWeight     = 1 << 14
	maxPermitPart = 1 << 50
)

// PermitInterval returns the interval between renewals of a permit, for a number of permits. It grows with them: all processes together
// make at most 8 renewals per second. Each reads and writes the record; the store's clock is read at about every third.
func PermitInterval(permits int) time.Duration {
	return max(permitInterval, time.Duration(min(permits, maxPermits))*permitPerNode)
}

// leastTTL returns the duration of a permit, for a number of permits, if the store answers immediately.
func leastTTL(permits int) time.Duration { return max(permitTTL, 3*PermitInterval(permits)) }

// entry is a permit in the record.
type entry struct {
	Holder string `json:"holder"` // Permits.Holder with a random token
	Weight int    `json:"weight,omitempty"`
	Part   int64  `json:"part"`
	Expire int64  `json:"expire"` // epoch ms of the store's clock
}

type permitsBody struct {
	Permits []entry `json:"permits"`
}

// permit is a process's permit.
type permit struct {
	*Permits
	leases   *cms.Leases
	spender  Spender
	token    string
	interval time.Duration // as of the last reading of the record
	took     time.Duration // duration of the last renewal
	wanting  bool          // the part is less than fair: others have to shrink first
	free     bool          // the process has no limit
	limit    int64         // from which part was computed
	part     int64         // allowed last
	left     func() time.Duration
}

// none returns the time left without a permit.
func none() time.Duration { return 0 }

// Hold keeps a permit for s while it has a limit, until ctx is done; then it releases the permit and returns nil. When no permit can be had
// any more, it sets the part to 0 and returns the reason: immediately when the store is gone, and for other faults that need the user when
// the permit has expired and ten renewals in a row have failed.
func (p *Permits) Hold(ctx context.Context, s Spender) error {
	k := &permit{Permits: p, leases: cms.NewLeases(RememberClock(p.Store, p.Clock), p.Clock, nil), spender: s, token: p.Holder + ofHolder + Token(), interval: permitInterval, left: none}
	s.Allow(0, k.left)
	failing, refused := false, 0
	for {
		if !k.limited(ctx) {
			if p.Clock.Sleep(ctx, permitInterval) != nil {
				return nil
			}
			continue
		}
		begin := p.Clock.Read().Boot
		err := k.renew(ctx)
		every := k.interval
		switch {
		case err == nil:
			k.took, failing, refused = p.Clock.Read().Boot-begin, false, 0
			if k.wanting {
				every /= 2
			}
		case ctx.Err() == nil:
			if !failing {
				p.Log.Warn("permit not renewed", "error", err)
			}
			every, failing = every/4, true
			if refused++; !errors.Is(err, fault.ErrConfig) {
				refused = 0
			}
			if errors.Is(err, cms.ErrStoreGone) || refused >= maxRefused && k.left() <= 0 {
				s.Allow(0, none)
				return fmt.Errorf("no part of --%s can be used any more: %w", p.Option, err)
			}
		}
		if k.rest(ctx, every*3/4+pause(every/4)) != nil {
			break
		}
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	if err := k.giveBack(end); err != nil {
		p.Log.Debug("permit not returned", "error", err)
	}
	return nil
}

// limited reports whether there is a limit. It removes the permit once the limit has been removed.
func (k *permit) limited(ctx context.Context) bool {
	switch limit := k.spender.Limit(); {
	case limit > 0 && k.free:
		k.free = false
		k.spender.Allow(0, k.left) // until the record has the permit
	case limit <= 0 && !k.free:
		k.free, k.left = true, none
		k.spender.Allow(Unlimited, nil)
		if k.limit > 0 {
			k.limit = 0
			ctx, cancel := context.WithTimeout(ctx, giveBackTime)
			defer cancel()
			if err := k.remove(ctx); err != nil {
				k.Log.Debug("permit not returned", "error", err) // it expires
			}
		}
	}
	return !k.free
}

// rest blocks for d, or until the limit is removed. When the limit is lowered, it lowers the part immediately; the next renewal records it.
func (k *permit) rest(ctx context.Context, d time.Duration) error {
	for d > 0 {
		step := min(d, permitInterval)
		if err := k.Clock.Sleep(ctx, step); err != nil {
			return err
		}
		d -= step
		limit := k.spender.Limit()
		if limit <= 0 {
			return nil
		}
		if limit < k.limit {
			k.part, k.limit = int64(float64(k.part)*float64(limit)/float64(k.limit)), limit
			k.spender.Allow(k.part, k.left)
		}
	}
	return nil
}

// renew extends the permit, with the fair part or as much of it as the others leave.
func (k *permit) renew(ctx context.Context) error {
	var part, limit int64
	var left func() time.Duration
	err := k.change(ctx, func(ctx context.Context, all []entry, now time.Time, maxErr time.Duration) ([]entry, error) {
		read := k.Clock.Read()
		others, own := k.current(all, now, maxErr)
		if own == nil {
			if err := k.shrink(ctx, 0); err != nil { // the record lacks what this process may have used
				return nil, err
			}
		}
		weight := min(max(k.spender.Weight(), 0), maxWeight)
		limit = min(max(k.spender.Limit(), 0), maxPermitPart)
		fair := fairPart(others, weight, limit)
		part = min(fair, max(limit-sum(others), 0))
		if err := k.shrink(ctx, part); err != nil && ctx.Err() != nil {
			return nil, err
		}
		part = max(part, k.spender.InUse())
		k.interval, k.wanting = PermitInterval(len(others)+1), part < fair-fair/20
		ttl := min(leastTTL(len(others)+1)+4*k.took, maxPermitTTL)
		is := entry{Holder: k.token, Weight: weight, Part: part, Expire: now.Add(ttl).UnixMilli()}
		if own != nil {
			is.Expire = max(is.Expire, own.Expire) // if the answer is lost, this process continues until the former end
		}
		left = k.until(read, ttl-timing.Margin(ttl)-maxErr)
		return append(others, is), nil
	})
	if err != nil {
		return err
	}
	k.limit, k.part, k.left = limit, part, left
	k.spender.Allow(part, k.left)
	return nil
}

// until returns a function for the time left of usable, counted from a reading of the clocks.
func (k *permit) until(read timing.Reading, usable time.Duration) func() time.Duration {
	end, wall := read.Boot+usable, read.Wall.Add(usable)
	return func() time.Duration {
		at := k.Clock.Read()
		return min(end-at.Boot, wall.Round(0).Sub(at.Wall.Round(0)))
	}
}

// shrink lowers the use to part and blocks until it has fallen. It returns an error after settleTimeout.
func (k *permit) shrink(ctx context.Context, part int64) error {
	if k.spender.InUse() <= part {
		return nil
	}
	k.spender.Allow(part, k.left)
	for waited := time.Duration(0); k.spender.InUse() > part; waited += settlePoll {
		if waited >= settleTimeout {
			return fmt.Errorf("permit: workers use more than %d bytes per second %v after they were to use less: %w", part, settleTimeout, fault.ErrUnavailable)
		}
		if err := k.Clock.Sleep(ctx, settlePoll); err != nil {
			return err
		}
	}
	return nil
}

// giveBack removes the permit. A permit that may still be in use stays until it expires.
func (k *permit) giveBack(ctx context.Context) error {
	if err := k.shrink(ctx, 0); err != nil {
		return err
	}
	return k.remove(ctx)
}

// remove removes the permit from the record.
func (k *permit) remove(ctx context.Context) error {
	return k.change(ctx, func(_ context.Context, all []entry, _ time.Time, _ time.Duration) ([]entry, error) {
		return slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return e.Holder == k.token }), nil
	})
}

// permitsID returns the id of the record of an option, such as permits:rate for max-rate.
func permitsID(option string) string { return "permits:" + strings.TrimPrefix(option, "max-") }

// ofHolder separates the holder of a permit from its token.
const ofHolder = "_"

// ReleaseDead removes the permits of an option that a process held which is proven dead, so that nothing of its part is in use.
func ReleaseDead(ctx context.Context, leases *cms.Leases, option, holder string) error {
	_, err := leases.Update(ctx, permitsID(option), permitsKind, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		var body permitsBody
		if len(r.Body) == 0 || r.Decode(&body) != nil {
			return r, cms.Already
		}
		left := slices.DeleteFunc(slices.Clone(body.Permits), func(e entry) bool {
			end := len(e.Holder) - len(Token())
			return end > 0 && e.Holder[:end] == holder+ofHolder
		})
		if len(left) == len(body.Permits) {
			return r, cms.Already
		}
		raw, err := json.Marshal(permitsBody{left})
		if err != nil {
			return r, cms.Already // it expires
		}
		r.Body = raw
		return r, cms.Applied
	})
	if err != nil {
		return fmt.Errorf("permits of a dead process: %w", err)
	}
	return nil
}

// change stores the permits that f returns for the permits in the record, if they differ.
func (k *permit) change(ctx context.Context, f func(ctx context.Context, all []entry, now time.Time, maxErr time.Duration) ([]entry, error)) error {
	err := k.leases.Change(ctx, permitsID(k.Option), permitsKind, func(ctx context.Context, r cms.Record, now time.Time, maxErr time.Duration) (cms.Record, cms.Result, error) {
		var body permitsBody
		if len(r.Body) > 0 {
			if err := r.Decode(&body); err != nil {
				return r, cms.Already, err
			}
		}
		all, err := f(ctx, body.Permits, now, maxErr)
		switch {
		case err != nil:
			return r, cms.Already, err
		case len(all) > maxPermits:
			return r, cms.Already, fmt.Errorf("more than %d processes: %w", maxPermits, fault.ErrUnsupported)
		}
		slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.Holder, b.Holder) })
		if slices.Equal(all, body.Permits) {
			return r, cms.Already, nil
		}
		r.Body, err = json.Marshal(permitsBody{all})
		return r, cms.Applied, err
	})
	if err != nil {
		return fmt.Errorf("permits: %w", err)
	}
	return nil
}

// current returns the permits of others that may be in use, and the permit of this process, which may be nil. Impossible values are
// clamped, so that every permit expires.
func (k *permit) current(all []entry, now time.Time, maxErr time.Duration) (others []entry, own *entry) {
	latest, over := now.Add(maxPermitTTL+timing.Margin(maxPermitTTL)).UnixMilli(), now.Add(-maxErr-timing.Grace(leastTTL(len(all)))).UnixMilli()
	for _, e := range all {
		e.Weight, e.Part, e.Expire = min(max(e.Weight, 0), maxWeight), min(max(e.Part, 0), maxPermitPart), min(e.Expire, latest)
		switch {
		case e.Holder == k.token:
			own = &e
		case e.Expire >= over:
			others = append(others, e)
		}
	}
	return others, own
}

func sum(all []entry) (parts int64) {
	for _, e := range all {
		parts += e.Part
	}
	return parts
}

// fairPart returns the part of the limit due to a process of that weight: a tenth of an equal part, and a share of the rest in proportion
// to the weights.
func fairPart(others []entry, weight int, limit int64) int64 {
	n, weights := int64(len(others)+1), int64(weight)
	for _, e := range others {
		weights += int64(e.Weight)
	}
	least := int64(idlePart * float64(limit) / float64(n))
	rest := limit - least*n
	if weights == 0 {
		return least + rest/n
	}
	return least + int64(float64(rest)*float64(weight)/float64(weights))
}

// pause returns a random time up to d.
func pause(d time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(d) + 1)) }
