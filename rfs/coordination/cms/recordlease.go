package cms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// RecordStore is the part of a store that leases of records need.
type RecordStore interface {
	Records
	// Now returns the store's clock and its maximum error.
	Now(ctx context.Context) (now time.Time, maxErr time.Duration, err error)
}

// HeldError reports the holder of a record and the end of its lease.
type HeldError struct {
	ID     string
	Holder string
	Until  time.Time // by the store's clock; others may take it a grace later
}

// Error names the record, the holder and the time.
func (h *HeldError) Error() string {
	return fmt.Sprintf("%s is held by %s until %s", h.ID, h.Holder, h.Until.UTC().Format(time.RFC3339Nano))
}

// ErrMoved means that a record is not, or no longer, in a state that is worked on under a lease.
var ErrMoved = errors.New("the record has moved on")

// Leases reads, changes and leases the records of a store: of phases, locks and leaderships. Time is the store's.
type Leases struct {
	store   RecordStore
	clock   timing.Clock
	retries retrier
	budget  retry.Policy // for changes of leases
}

// leaseBudget is for callers that retry by themselves, sharedBudget for records that all processes of a fleet change.
var (
	leaseBudget  = retry.Policy{Tries: 4, First: 50 * time.Millisecond, Max: 200 * time.Millisecond, Jitter: retry.Full}
	sharedBudget = retry.Policy{Tries: 13, First: 20 * time.Millisecond, Max: 3 * time.Second, Jitter: retry.Full}
)

// NewLeases returns the leases of a store's records. random is the source of jitter; nil: a fresh seed.
func NewLeases(store RecordStore, clock timing.Clock, random *rand.Rand) *Leases {
	return &Leases{store: store, clock: clock, retries: retrier{clock: clock, rand: newJitter(random)}, budget: leaseBudget}
}

// Changed is the outcome of a change to a record.
type Changed struct {
	Record Record
	Result Result
	Now    time.Time      // the store's time of the decision
	Before timing.Reading // this machine's clocks, before Now was requested
}

// RecordChange returns the new content of a record, for the store's time, whose error is at most maxErr. It is stored when the result is
// Applied or Exhausted.
type RecordChange func(ctx context.Context, r Record, now time.Time, maxErr time.Duration) (Record, Result, error)

// pure returns f as a RecordChange that cannot fail.
func pure(f func(r Record, now time.Time, maxErr time.Duration) (Record, Result)) RecordChange {
	return func(_ context.Context, r Record, now time.Time, maxErr time.Duration) (Record, Result, error) {
		is, v := f(r, now, maxErr)
		return is, v, nil
	}
}

// Change applies f to a record that all processes of a fleet change, again when another writer was first or the answer was lost: f has to
// recognize what it has already stored. A missing record is passed with id and kind only. An error of f is returned immediately, unless it
// is a fault.ErrUnavailable.
func (s *Leases) Change(ctx context.Context, id, kind string, f RecordChange) error {
	_, err := s.change(ctx, sharedBudget, id, kind, f)
	return err
}

// change is Change within a budget.
func (s *Leases) change(ctx context.Context, b retry.Policy, id, kind string, f RecordChange) (ch Changed, err error) {
	err = s.retries.do(ctx, b, func(ctx context.Context) error {
		old, err := s.store.Record(ctx, id)
		if errors.Is(err, ErrNotFound) {
			old, err = Record{ID: id, Kind: kind}, nil
		}
		if err != nil {
			return err
		}
		return s.changeFrom(ctx, old, f, &ch)
	})
	if err != nil {
		return ch, fmt.Errorf("change record %s: %w", id, err)
	}
	return ch, nil
}

// changeFrom applies f once to the record as it was read. It returns ErrConflict when the record changed since.
func (s *Leases) changeFrom(ctx context.Context, old Record, f RecordChange, ch *Changed) error {
	ch.Before = s.clock.Read()
	now, maxErr, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	ch.Now = now
	if ch.Record, ch.Result, err = f(ctx, old, now, maxErr); err != nil || ch.Result != Applied && ch.Result != Exhausted {
		return err
	}
	if ch.Record.UpdatedAt = now.UnixMilli(); ch.Record.CreatedAt == 0 {
		ch.Record.CreatedAt = ch.Record.UpdatedAt
	}
	ch.Record.Revision, err = s.store.Put(ctx, ch.Record)
	return err
}

// Terms are the conditions on which a record is leased.
type Terms struct {
	Kind     string        // of a record that does not exist yet
	Holder   string        // fresh for each acquisition
	States   []string      // states in which the record may be leased; a new record gets the first; empty: any
	Window   time.Duration // duration of the lease
	Grow     bool          // the n-th attempt in a row is leased for n windows
	Grace    time.Duration // a lease may be taken over only this long after its end
	Attempts int           // consecutive attempts without progress after which the record is FAILED; 0: any number
}

func (t Terms) length(attempts int) time.Duration {
	if t.Grow {
		return time.Duration(max(attempts, 1)) * t.Window
	}
	return t.Window
}

// acquire leases a record whose lease is free or expired, or marks it FAILED after too many attempts.
func (t Terms) acquire(r Record, now time.Time, maxErr time.Duration) (Record, Result) {
	switch {
	case r.State != "" && len(t.States) > 0 && !slices.Contains(t.States, r.State):
		return r, Done
	case r.Holder == t.Holder && r.Expire > now.UnixMilli():
		return r, Already
	case r.Expire != 0 && r.Expire+(t.Grace+maxErr).Milliseconds() >= now.UnixMilli():
		return r, Held
	case t.Attempts > 0 && r.Attempts >= t.Attempts:
		r.State, r.Holder, r.Expire = StatusFailed, "", 0
		why := r.Error
		if why == "" {
			why = "every worker that tried died or lost its lease"
		}
		r.Error = fmt.Sprintf("given up after %d attempts: %s", r.Attempts, why)
		return r, Exhausted
	}
	if r.State == "" && len(t.States) > 0 {
		r.State = t.States[0]
	}
	r.Attempts++
	r.Holder, r.Expire = t.Holder, now.Add(t.length(r.Attempts)).UnixMilli()
	return r, Applied
}

// HolderChange is a change to a record that only the holder of its unexpired lease may make. It renews the lease.
type HolderChange struct {
	State  string          // "" keeps it
	Body   json.RawMessage // nil keeps it
	Moved  bool            // there was progress: attempts count from one again
	Free   bool            // releases the lease, even after its end unless another holder took it
	Forget bool            // with Free: the attempt does not count
	Error  string          // with Free: the reason
}

// apply makes the change for the holder of t.
func (h HolderChange) apply(t Terms, r Record, now time.Time) (Record, Result) {
	freed := r.Holder == "" && (h.State == "" && h.Free || h.State != "" && r.State == h.State)
	switch {
	case freed && r.Revision != (Revision{}):
		return r, Already // the answer to our change was lost, or another holder ended it the same way
	case r.Holder != t.Holder, r.Expire <= now.UnixMilli() && !h.Free:
		return r, Lost
	}
	if h.State != "" {
		r.State = h.State
	}
	if h.Body != nil {
		r.Body = h.Body
	}
	if h.Moved {
		r.Attempts = 1
	}
	if h.Free {
		r.Holder, r.Expire, r.Error = "", 0, h.Error
		if h.Forget {
			r.Attempts = max(r.Attempts-1, 0)
		}
		return r, Applied
	}
	r.Expire = now.Add(t.length(r.Attempts)).UnixMilli()
	return r, Applied
}

// RecordLease is the right to a record while it is renewed. Work under it stops when its Guard does.
type RecordLease struct {
	Guard
	leases *Leases
	id     string
	terms  Terms

	mu     sync.Mutex
	record Record // as it was read or written last
}

// Acquire leases a record. It returns a *HeldError with the holder, or ErrMoved with the record when that is in another state or was marked
// FAILED.
func (s *Leases) Acquire(ctx context.Context, id string, t Terms) (*RecordLease, Record, error) {
	ch, err := s.change(ctx, s.budget, id, t.Kind, pure(t.acquire))
	if err != nil {
		return nil, ch.Record, err
	}
	return s.leased(id, t, ch)
}

func (s *Leases) leased(id string, t Terms, ch Changed) (*RecordLease, Record, error) {
	switch ch.Result {
	case Held:
		return nil, ch.Record, &HeldError{ID: id, Holder: ch.Record.Holder, Until: time.UnixMilli(ch.Record.Expire)}
	case Done, Exhausted:
		return nil, ch.Record, fmt.Errorf("record %s is %s: %w", id, ch.Record.State, ErrMoved)
	}
	l := &RecordLease{leases: s, id: id, terms: t}
	l.clock, l.name, l.confirm = s.clock, id, l.Renew
	l.note(ch)
	return l, ch.Record, nil
}

// note keeps the stored record and sets the deadline.
func (l *RecordLease) note(ch Changed) {
	l.mu.Lock()
	l.record = ch.Record
	l.mu.Unlock()
	length := time.UnixMilli(ch.Record.Expire).Sub(ch.Now)
	l.granted(ch.Before, length, timing.Margin(length))
}

// Holder returns the name under which the record is leased.
func (l *RecordLease) Holder() string { return l.terms.Holder }

// Renew extends the lease by another period. It returns fault.ErrLeaseLost when the lease is over or another's; then all work under it must
// stop.
func (l *RecordLease) Renew(ctx context.Context) error { return l.Change(ctx, HolderChange{}) }

// Change makes a change that only the holder may make, and renews the lease unless it releases it.
func (l *RecordLease) Change(ctx context.Context, h HolderChange) error {
	if !h.Free {
		if err := l.Check(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	old := l.record
	l.mu.Unlock()
	var ch Changed
	again := false
	err := l.leases.retries.do(ctx, l.leases.budget, func(ctx context.Context) (err error) {
		if again { // another writer was first, or the answer was lost
			if old, err = l.leases.store.Record(ctx, l.id); errors.Is(err, ErrNotFound) {
				old, err = Record{ID: l.id}, nil
			}
			if err != nil {
				return err
			}
		}
		again = true
		err = l.leases.changeFrom(ctx, old, pure(func(r Record, now time.Time, _ time.Duration) (Record, Result) {
			return h.apply(l.terms, r, now)
		}), &ch)
		if errors.Is(err, ErrNotFound) {
			return fmt.Errorf("%w: %w", ErrConflict, err)
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("change record %s: %w", l.id, err)
	case ch.Result == Lost:
		return l.lose(fmt.Errorf("%s belongs to %q now: %w", l.id, ch.Record.Holder, fault.ErrLeaseLost))
	case !h.Free:
		l.note(ch)
	}
	return nil
}

// End makes a change that releases the lease. It returns no error when the lease is lost: another process does the work again.
func (l *RecordLease) End(ctx context.Context, h HolderChange) error {
	err := l.Change(ctx, h)
	if errors.Is(err, fault.ErrLeaseLost) {
		return nil
	}
	return err
}

// Run calls work and renews the lease after each third of it. The context of work ends before the lease does, with a fault.ErrLeaseLost as
// its cause; Run returns that cause if work fails. A store that does not answer delays only the renewal.
func (l *RecordLease) Run(ctx context.Context, work func(context.Context) error) error {
	guarded, stop := l.Watch(ctx, nil)
	var renewals sync.WaitGroup
	renewals.Go(func() {
		for pause := l.renewAfter(); l.leases.clock.Sleep(guarded, pause) == nil; {
			switch err := l.Renew(guarded); {
			case err == nil:
				pause = l.renewAfter()
			case errors.Is(err, fault.ErrLeaseLost):
				return // the watch sees it
			default:
				pause = l.renewAfter() / 4
			}
		}
	})
	err := work(guarded)
	cause := context.Cause(guarded)
	stop()
	renewals.Wait()
	if err != nil && errors.Is(cause, fault.ErrLeaseLost) {
		return cause
	}
	return err
}

// LeaseRecord leases a record under a fresh holder id, with the coordinator's grace. It returns a *NoneAvailable with the holder and the
// end of its lease, or ErrMoved with the record when that is in another state.
func (c *Coordinator) LeaseRecord(ctx context.Context, id, holder string, t Terms) (*RecordLease, Record, error) {
	t.Holder, t.Grace = c.freshHolder(holder), c.grace
	l, r, err := c.leases.Acquire(ctx, id, t)
	var held *HeldError
	if errors.As(err, &held) {
		return nil, r, &NoneAvailable{Holder: held.Holder, NextExpiry: held.Until.Add(c.grace), Open: 1}
	}
	return l, r, err
}

// freshHolder returns a holder id that is unique to an acquisition of this process.
func (c *Coordinator) freshHolder(holder string) string {
	return holder + "_" + strconv.FormatInt(c.seq.Add(1), 10)
}
