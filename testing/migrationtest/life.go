package migrationtest

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Life is a process that dies at its n-th external call, before or after the call has taken effect.
type Life struct {
	Mu    sync.Mutex
	Calls int
	Dies  int // number of the call; 0: never
	After bool
	Dead  bool
	Fails error         // error of that call instead of a death; nil: the process dies
	Lasts time.Duration // time for which the calls from then on fail; 0: only that call fails
	until time.Time     // end of that time; zero before
}

// ErrDead is the error of every call by a dead process.
var ErrDead = errors.New("the process is dead")

// Call runs f unless the process is dead.
func (l *Life) Call(f func()) error {
	does, err := l.next()
	if does {
		f()
	}
	return err
}

// next reports whether the next call takes place, and returns what the process sees of it.
func (l *Life) next() (does bool, err error) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Dead {
		return false, ErrDead
	}
	l.Calls++
	if l.Calls == l.Dies && l.Lasts > 0 {
		l.until = time.Now().Add(l.Lasts)
	}
	if l.Calls != l.Dies && !time.Now().Before(l.until) {
		return true, nil
	}
	if l.Fails != nil {
		return l.After, l.Fails
	}
	l.Dead = true
	return l.After, ErrDead
}

// Mortal is the store as seen by a process that may die.
type Mortal struct {
	cms.Store
	Life *Life
}

// Create passes the call on while the process lives.
func (m Mortal) Create(ctx context.Context, items []cms.Item) (n int, err error) {
	if derr := m.Life.Call(func() { n, err = m.Store.Create(ctx, items) }); derr != nil {
		return 0, derr
	}
	return n, err
}

// Apply passes the call on while the process lives.
func (m Mortal) Apply(ctx context.Context, id string, t cms.Transition) (it cms.Item, v cms.Result, err error) {
	if derr := m.Life.Call(func() { it, v, err = m.Store.Apply(ctx, id, t) }); derr != nil {
		return cms.Item{}, 0, derr
	}
	return it, v, err
}

// ApplyAll passes the call on while the process lives.
func (m Mortal) ApplyAll(ctx context.Context, changes []cms.Change) (outcomes []cms.Outcome, err error) {
	if derr := m.Life.Call(func() { outcomes, err = m.Store.ApplyAll(ctx, changes) }); derr != nil {
		return nil, derr
	}
	return outcomes, err
}

// PutAll passes the call on while the process lives.
func (m Mortal) PutAll(ctx context.Context, records []cms.Record) (errs []error, err error) {
	if derr := m.Life.Call(func() { errs, err = m.Store.PutAll(ctx, records) }); derr != nil {
		return nil, derr
	}
	return errs, err
}

// Put passes the call on while the process lives.
func (m Mortal) Put(ctx context.Context, r cms.Record) (v cms.Revision, err error) {
	if derr := m.Life.Call(func() { v, err = m.Store.Put(ctx, r) }); derr != nil {
		return cms.Revision{}, derr
	}
	return v, err
}

// Record passes the call on while the process lives.
func (m Mortal) Record(ctx context.Context, id string) (r cms.Record, err error) {
	if derr := m.Life.Call(func() { r, err = m.Store.Record(ctx, id) }); derr != nil {
		return cms.Record{}, derr
	}
	return r, err
}

// Fallible is a Mortal whose read-only calls may fail, too.
type Fallible struct{ Mortal }

// Get passes the call on, or fails.
func (m Fallible) Get(ctx context.Context, id string) (it cms.Item, err error) {
	if derr := m.Life.Call(func() { it, err = m.Store.Get(ctx, id) }); derr != nil {
		return cms.Item{}, derr
	}
	return it, err
}

// Candidates passes the call on, or fails.
func (m Fallible) Candidates(ctx context.Context, grace time.Duration, n int) (items []cms.Item, err error) {
	if derr := m.Life.Call(func() { items, err = m.Store.Candidates(ctx, grace, n) }); derr != nil {
		return nil, derr
	}
	return items, err
}

// Open passes the call on, or fails.
func (m Fallible) Open(ctx context.Context) (o cms.Open, err error) {
	if derr := m.Life.Call(func() { o, err = m.Store.Open(ctx) }); derr != nil {
		return cms.Open{}, derr
	}
	return o, err
}

// List passes the call on, or fails.
func (m Fallible) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return FailsFirst(m.Life, m.Store.List(ctx, kind))
}

// Scan passes the call on, or fails.
func (m Fallible) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	return FailsFirst(m.Life, m.Store.Scan(ctx))
}

// FailsFirst yields what the store yields, or the error of the call.
func FailsFirst[T any](l *Life, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := l.Call(func() {}); err != nil {
			var none T
			yield(none, err)
			return
		}
		all(yield)
	}
}
