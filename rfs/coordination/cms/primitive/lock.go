// Package primitive has locks, leader election, permits and a list of nodes on the control records of a coordination
// store. All of them are versioned updates: a record is written only if it has not changed since it was read.
package primitive

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Store is the part of a coordination store that primitives need.
type Store = cms.RecordStore

// Held reports who has a lock and until when.
type Held = cms.HeldError

// Token returns a new random name for a holder: 16 bytes in hexadecimal.
func Token() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Locks hands out locks kept in a store.
type Locks struct {
	Store Store
	Clock timing.Clock
	// Wait returns extra time before Acquire retries a lock that is held, so that many waiting processes spread their requests. nil: none.
	Wait func() time.Duration
	// Ask returns the longest time after which Acquire retries, so that it soon gets a lock that its holder released. nil: it retries when
	// the running lock expires.
	Ask func() time.Duration
}

// Lock is a held lock: the lease of a record. Work under it must stop when its guard does.
type Lock struct{ *cms.RecordLease }

const kindLock = "lock"

// Try acquires the lock, or returns a *Held.
func (l *Locks) Try(ctx context.Context, name string, ttl time.Duration) (*Lock, error) {
	lease, _, err := l.leases().Acquire(ctx, kindLock+":"+name, cms.Terms{Kind: kindLock, Holder: Token(), Window: ttl})
	if err != nil {
		return nil, err
	}
	return &Lock{lease}, nil
}

func (l *Locks) leases() *cms.Leases { return cms.NewLeases(l.Store, l.Clock, nil) }

// Acquire blocks until it has the lock. It retries when the running lock expires, or after Ask.
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
		if l.Ask != nil {
			pause = min(pause, l.Ask())
		}
		if err := l.Clock.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// Unlock releases the lock. It returns no error when the lock is already lost.
func (k *Lock) Unlock(ctx context.Context) error {
	if err := k.Change(ctx, cms.HolderChange{Free: true}); !errors.Is(err, fault.ErrLeaseLost) {
		return err
	}
	return nil
}

// Lead runs lead whenever this process is the leader, until ctx is done or lead returns. The context of lead ends before the leadership
// does.
func (l *Locks) Lead(ctx context.Context, name string, ttl time.Duration, lead func(context.Context) error) error {
	for {
		lock, err := l.Acquire(ctx, "leader/"+name, ttl)
		if err != nil {
			return err
		}
		err = lock.Run(ctx, lead)
		if errors.Is(lock.Check(), fault.ErrLeaseLost) && ctx.Err() == nil {
			continue
		}
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel() //nolint:revive // the function returns here
		return errors.Join(err, lock.Unlock(free))
	}
}
