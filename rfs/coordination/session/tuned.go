package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const kindTuned = "tuned"

// Tuned is a target index whose settings were changed during the migration: the former and the new values, as the target returns them. A
// setting that had no value is null.
type Tuned struct {
	Target string             `json:"target"`
	UUID   string             `json:"uuid"`
	Was    map[string]*string `json:"was"`
	Set    map[string]string  `json:"set"`
}

func tunedID(target string) string { return kindTuned + ":" + cms.NameKey(target) }

// Note records settings before they are changed, and returns the record in effect, which is the first one of an index; created is false if
// it existed already.
func (s Tunings) Note(ctx context.Context, t Tuned) (recorded Tuned, created bool, err error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return t, false, fmt.Errorf("record of tuned index %s: %w", t.Target, err)
	}
	created, err = s.leases.Create(ctx, cms.Record{ID: tunedID(t.Target), Kind: kindTuned, Body: raw})
	if created || err != nil {
		return t, created, err
	}
	r, err := s.leases.Record(ctx, tunedID(t.Target))
	if err != nil {
		return t, false, err
	}
	recorded, err = decodeTuned(r)
	return recorded, false, err
}

// Extend adds further settings of an index to its record before they are changed. Recorded settings are kept.
func (s Tunings) Extend(ctx context.Context, t Tuned) error {
	if _, created, err := s.Note(ctx, t); created || err != nil {
		return err
	}
	var failed error
	_, err := s.leases.Update(ctx, tunedID(t.Target), kindTuned, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		is := t
		if len(r.Body) > 0 {
			if is, failed = decodeTuned(r); failed != nil {
				return r, cms.Lost
			}
		}
		if is.UUID != t.UUID { // of a deleted index
			is = t
		}
		changed := len(r.Body) == 0 || is.UUID != t.UUID
		for key, v := range t.Set {
			if _, there := is.Set[key]; !there {
				is.Set[key], is.Was[key], changed = v, t.Was[key], true
			}
		}
		if !changed {
			return r, cms.Already
		}
		if r.Body, failed = json.Marshal(is); failed != nil {
			return r, cms.Lost
		}
		return r, cms.Applied
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("record of tuned index %s: %w", t.Target, err)
	}
	return nil
}

func decodeTuned(r cms.Record) (t Tuned, err error) {
	if err := r.Decode(&t); err != nil {
		return t, err
	}
	return t, nil
}

// All yields the records of settings that were changed and not restored yet.
func (s Tunings) All(ctx context.Context) iter.Seq2[Tuned, error] {
	return cms.Decoded(s.leases.List(ctx, kindTuned), decodeTuned)
}

// Forget removes the record of an index that was restored, or belongs to others now.
func (s Tunings) Forget(ctx context.Context, target string) error {
	err := s.leases.Forget(ctx, tunedID(target))
	if errors.Is(err, cms.ErrConflict) {
		return nil // another process has removed it, and created a new one
	}
	return err
}
