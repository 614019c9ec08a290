// Package primitive gives locks, semaphores, leader election, a list of nodes and
// partitions of work on the control records of a coordination store. All of them
// are versioned updates: a record is written only if nobody wrote it since it was read.
package primitive

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
)

// Store is the part of a coordination store that primitives need.
type Store interface {
	cms.Records
	Now(ctx context.Context) (now time.Time, maxErr time.Duration, err error)
}

// Held says who has a lock and until when.
type Held struct {
	Name   string
	Holder string    // random token
	Until  time.Time // by the store's clock
}

// Error names lock, holder and time.
func (h *Held) Error() string {
	return fmt.Sprintf("lock %s is held by %s until %s", h.Name, h.Holder, h.Until.UTC().Format(time.RFC3339Nano))
}

// Token is a new random name for a holder: 16 bytes in hexadecimal.
func Token() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Locks hands out locks kept in a store.
type Locks struct {
	Store Store
	Clock cms.Clock
	// Wait is how much longer than needed Acquire waits before it asks again for a lock that is held: of many that wait, few
	// ask at a time. nil: not at all.
	Wait func() time.Duration
}

// Lock is a held lock. Whatever needs it must stop when Left is over.
type Lock struct {
	locks *Locks
	id    string
	token string
	ttl   time.Duration

	mu   sync.Mutex // of what a renewal changes
	rec  cms.Record
	end  time.Duration // on the boot-time clock
	wall time.Time     // on the wall clock
}

const kindLock = "lock"

// Try takes the lock, or gives a *Held.
func (l *Locks) Try(ctx context.Context, name string, ttl time.Duration) (*Lock, error) {
	return l.take(ctx, kindLock+":"+name, kindLock, Token(), ttl)
}

func (l *Locks) take(ctx context.Context, id, kind, token string, ttl time.Duration) (*Lock, error) {
	before := l.Clock.Read()
	now, maxErr, err := l.Store.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", id, err)
	}
	r, err := l.Store.Record(ctx, id)
	switch {
	case errors.Is(err, cms.ErrNotFound):
		r = cms.Record{ID: id, Kind: kind, CreatedAt: now.UnixMilli()}
	case err != nil:
		return nil, fmt.Errorf("lock %s: %w", id, err)
	case r.Expire != 0 && now.Add(-maxErr).UnixMilli() <= r.Expire && r.Holder != token:
		return nil, &Held{Name: id, Holder: r.Holder, Until: time.UnixMilli(r.Expire)}
	}
	return l.write(ctx, r, before, now, token, ttl)
}

func (l *Locks) write(ctx context.Context, r cms.Record, before cms.Reading, now time.Time, token string, ttl time.Duration) (*Lock, error) {
	r.Holder, r.Expire, r.UpdatedAt = token, now.Add(ttl).UnixMilli(), now.UnixMilli()
	rev, err := l.Store.Put(ctx, r)
	if errors.Is(err, cms.ErrConflict) || errors.Is(err, fault.ErrUnavailable) {
		// Somebody else was quicker, or the answer was lost: what is stored tells.
		got, gerr := l.Store.Record(ctx, r.ID)
		if gerr != nil {
			return nil, fmt.Errorf("lock %s: %w", r.ID, errors.Join(err, gerr))
		}
		if got.Holder != token || got.Expire != r.Expire || got.State != r.State || !bytes.Equal(got.Body, r.Body) {
			return nil, &Held{Name: r.ID, Holder: got.Holder, Until: time.UnixMilli(got.Expire)}
		}
		rev, err = got.Revision, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", r.ID, err)
	}
	r.Revision = rev
	usable := ttl - cms.Margin(ttl)
	return &Lock{locks: l, id: r.ID, token: token, ttl: ttl, rec: r, end: before.Boot + usable, wall: before.Wall.Add(usable)}, nil
}

// Acquire waits for the lock. It does not ask again before the running lock expires.
func (l *Locks) Acquire(ctx context.Context, name string, ttl time.Duration) (*Lock, error) {
	for {
		lock, err := l.Try(ctx, name, ttl)
		var held *Held
		if !errors.As(err, &held) {
			return lock, err
		}
		now, maxErr, err := l.Store.Now(ctx)
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		pause := max(held.Until.Sub(now)+maxErr, 0) + time.Millisecond
		if l.Wait != nil {
			pause += l.Wait()
		}
		if err := l.Clock.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// Token names the holder.
func (k *Lock) Token() string { return k.token }

// Left is the time in which the lock may be relied on; it ends a margin before the
// lock does, by the boot-time or the wall clock, whichever is first.
func (k *Lock) Left() time.Duration {
	now := k.locks.Clock.Read()
	k.mu.Lock()
	defer k.mu.Unlock()
	return min(k.end-now.Boot, k.wall.Round(0).Sub(now.Wall.Round(0)))
}

// Renew holds the lock for another period. A fault.ErrLeaseLost when it is over or
// somebody else's: then everything it protects must stop.
func (k *Lock) Renew(ctx context.Context) error { return k.renew(ctx, nil) }

// renew also replaces the body of the record, unless that is nil.
func (k *Lock) renew(ctx context.Context, body json.RawMessage) error {
	if k.Left() <= 0 {
		return fmt.Errorf("lock %s ran out: %w", k.id, fault.ErrLeaseLost)
	}
	before := k.locks.Clock.Read()
	now, _, err := k.locks.Store.Now(ctx)
	if err != nil {
		return fmt.Errorf("renew lock %s: %w", k.id, err)
	}
	r := k.record()
	if body != nil {
		r.Body = body
	}
	next, err := k.locks.write(ctx, r, before, now, k.token, k.ttl)
	var held *Held
	if errors.As(err, &held) {
		return fmt.Errorf("%w: %w", err, fault.ErrLeaseLost)
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec, k.end, k.wall = next.rec, next.end, next.wall
	return nil
}

func (k *Lock) record() cms.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec
}

// Unlock frees the lock by setting its expiry to 0. A lock that is lost already is no error.
func (k *Lock) Unlock(ctx context.Context) error {
	r := k.record()
	r.Expire = 0
	_, err := k.locks.Store.Put(ctx, r)
	if errors.Is(err, cms.ErrConflict) || errors.Is(err, cms.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("unlock %s: %w", k.id, err)
	}
	return nil
}

// Guard gives a context that ends before the lock does, unless it is renewed by
// then; its cause is a fault.ErrLeaseLost. stop ends the guard and waits for it.
func (k *Lock) Guard(ctx context.Context) (guarded context.Context, stop func()) {
	guarded, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for left := k.Left(); left > 0; left = k.Left() {
			// In small steps: a clock may jump while we sleep.
			if k.locks.Clock.Sleep(guarded, min(left, time.Second)) != nil {
				return
			}
		}
		cancel(fmt.Errorf("lock %s ran out: %w", k.id, fault.ErrLeaseLost))
	}()
	return guarded, func() {
		cancel(nil)
		<-done
	}
}

// Semaphore admits at most n holders at a time.
type Semaphore struct {
	Locks *Locks
	Name  string
	Size  int
}

// Try takes one of the places, or gives the *Held of the place that gets free first.
func (s *Semaphore) Try(ctx context.Context, ttl time.Duration) (*Lock, error) {
	var first *Held
	for i := range s.Size {
		lock, err := s.Locks.Try(ctx, fmt.Sprintf("%s/%d", s.Name, i), ttl)
		var held *Held
		switch {
		case err == nil:
			return lock, nil
		case !errors.As(err, &held):
			return nil, err
		case first == nil || held.Until.Before(first.Until):
			first = held
		}
	}
	if first == nil {
		return nil, fmt.Errorf("semaphore %s has no places: %w", s.Name, fault.ErrConfig)
	}
	return nil, first
}

// Lead runs lead whenever this process is the leader, until ctx ends or lead
// returns. The context of lead ends before the leadership does.
func (l *Locks) Lead(ctx context.Context, name string, ttl time.Duration, lead func(context.Context) error) error {
	for {
		lock, err := l.Acquire(ctx, "leader/"+name, ttl)
		if err != nil {
			return err
		}
		over, err := l.reign(ctx, lock, lead)
		if over {
			return err
		}
	}
}

// reign runs lead under the lock and renews it; over is false when the lock was lost.
func (l *Locks) reign(ctx context.Context, lock *Lock, lead func(context.Context) error) (over bool, err error) {
	term, end := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		for {
			if l.Clock.Sleep(term, min(lock.ttl/3, max(lock.Left(), 0))) != nil {
				return
			}
			err := lock.Renew(term)
			if errors.Is(err, fault.ErrLeaseLost) || lock.Left() <= 0 {
				end(fmt.Errorf("leadership is over: %w", fault.ErrLeaseLost))
				return
			}
		}
	}()
	err = lead(term)
	lost := errors.Is(context.Cause(term), fault.ErrLeaseLost)
	end(nil)
	<-renewed
	if lost && ctx.Err() == nil {
		return false, nil
	}
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return true, errors.Join(err, lock.Unlock(free))
}
