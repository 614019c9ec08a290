package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const kindCreated = "created"

// States of a creation.
const (
	CreationIntended = "INTENDED" // recorded before the request; the outcome is unknown
	CreationDone     = "CREATED"
)

// Creation is the record of one object that the session creates outside of the coordination store. It is written before the object is
// created, and confirmed afterwards.
type Creation struct {
	Kind  string
	Name  string
	State string          // CreationIntended or CreationDone
	Since time.Time       // time of the first intent, by the store's clock; the caller may reset it
	Body  json.RawMessage // JSON object of the caller
}

type storedCreation struct {
	Kind  string          `json:"kind"`
	Name  string          `json:"name"`
	Since int64           `json:"since"` // epoch ms
	Body  json.RawMessage `json:"object,omitempty"`
}

// createdID returns an id of bounded length for any name.
func createdID(kind, name string) string {
	return fmt.Sprintf("%s:%x", kindCreated, sha256.Sum256([]byte(kind+"\x00"+name)))
}

func decodeCreation(r cms.Record) (Creation, error) {
	var s storedCreation
	if err := r.Decode(&s); err != nil {
		return Creation{}, err
	}
	return Creation{Kind: s.Kind, Name: s.Name, State: r.State, Since: time.UnixMilli(s.Since), Body: s.Body}, nil
}

// Change replaces the record of an object by the result of f, and reports whether f changed it. f gets a Creation without State if no
// record exists, and the store's time. It returns false to keep the record, and may be called again.
func (s Created) Change(ctx context.Context, kind, name string, f func(Creation, time.Time) (Creation, bool)) (changed bool, err error) {
	var failed error
	ch, err := s.leases.Update(ctx, createdID(kind, name), kindCreated, func(r cms.Record, now time.Time) (cms.Record, cms.Result) {
		was := Creation{Kind: kind, Name: name, Since: now}
		if r.State != "" {
			if was, failed = decodeCreation(r); failed != nil {
				return r, cms.Lost
			}
		}
		is, change := f(was, now)
		if !change {
			return r, cms.Already
		}
		if r.Body, failed = json.Marshal(storedCreation{kind, name, is.Since.UnixMilli(), is.Body}); failed != nil {
			return r, cms.Lost
		}
		r.State = is.State
		return r, cms.Applied
	})
	if err = errors.Join(err, failed); err != nil {
		return false, fmt.Errorf("record of created %s %s: %w", kind, name, err)
	}
	return ch.Result == cms.Applied, nil
}

// Read returns the record of an object, or ErrNotFound.
func (s Created) Read(ctx context.Context, kind, name string) (Creation, error) {
	r, err := s.leases.Record(ctx, createdID(kind, name))
	if err != nil {
		return Creation{}, err
	}
	return decodeCreation(r)
}

// All yields the records of what the session created, in arbitrary order.
func (s Created) All(ctx context.Context) iter.Seq2[Creation, error] {
	return cms.Decoded(s.leases.List(ctx, kindCreated), decodeCreation)
}

// Forget removes the record of an object that does not exist, or is not the session's. It may be repeated.
func (s Created) Forget(ctx context.Context, kind, name string) error {
	if err := s.leases.Forget(ctx, createdID(kind, name)); err != nil {
		return fmt.Errorf("record of created %s %s: %w", kind, name, err)
	}
	return nil
}

// stateUndo is the state of the session's meta record from the start of its undo.
const stateUndo = "UNDO"

// ErrUndone means that what the session created was removed, or is being removed.
var ErrUndone = fmt.Errorf("what this session created was removed by `rfsctl undo`, or is left (rfsctl created lists it): remove its records with `rfsctl cleanup --force` and run the command again, "+
	"or start another session with a new --session-name (and another --coordinator-file, where one is used): %w", fault.ErrConfig)

// BeginUndo ends the session permanently: no process can join it from now on. It returns ErrNotFound when the session does not exist.
func (s Identity) BeginUndo(ctx context.Context) error { return s.end(ctx, stateUndo) }

// stateReplaced is the state of the meta record of a later round that was replaced.
const stateReplaced = "REPLACED"

// ErrReplaced means that a round starts over in place of this one.
var ErrReplaced = fmt.Errorf("this round cannot continue, because a snapshot that it needs is gone: run rfsd follow with --start-over, which starts a round in its place: %w", fault.ErrConfig)

// Replace ends the session of a later round, as BeginUndo ends others.
func (s Identity) Replace(ctx context.Context) error { return s.end(ctx, stateReplaced) }

// end sets a state in which no process can join the session.
func (s Identity) end(ctx context.Context, state string) error {
	ch, err := s.leases.Update(ctx, kindMeta, kindMeta, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		switch {
		case len(r.Body) == 0:
			return r, cms.Lost
		case r.State == state:
			return r, cms.Already
		}
		r.State = state
		return r, cms.Applied
	})
	if err == nil && ch.Result == cms.Lost {
		err = fmt.Errorf("session: %w", cms.ErrNotFound)
	}
	return err
}

// CheckUndone returns ErrUndone after BeginUndo.
func (s Identity) CheckUndone(ctx context.Context) error {
	r, err := s.leases.Record(ctx, kindMeta)
	switch {
	case errors.Is(err, cms.ErrNotFound):
		return nil
	case err != nil:
		return err
	case r.State == stateUndo:
		return ErrUndone
	}
	return nil
}
