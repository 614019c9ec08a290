package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
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

// Note records settings of an index before they are changed, and reports whether it added any: recorded values are kept. It replaces the
// record of a deleted index of the same name.
func (s Tunings) Note(ctx context.Context, t Tuned) (added bool, err error) {
	var failed error
	_, err = s.leases.Update(ctx, tunedID(t.Target), kindTuned, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		is := Tuned{Target: t.Target, UUID: t.UUID, Was: map[string]*string{}, Set: map[string]string{}}
		if len(r.Body) > 0 {
			var recorded Tuned
			if recorded, failed = decodeTuned(r); failed != nil {
				return r, cms.Lost
			}
			if recorded.UUID == t.UUID {
				maps.Copy(is.Was, recorded.Was)
				maps.Copy(is.Set, recorded.Set)
			}
		}
		added = false
		for key, v := range t.Set {
			if _, there := is.Set[key]; !there {
				is.Set[key], is.Was[key], added = v, t.Was[key], true
			}
		}
		if !added {
			return r, cms.Already
		}
		if r.Body, failed = json.Marshal(is); failed != nil {
			return r, cms.Lost
		}
		return r, cms.Applied
	})
	if err = errors.Join(err, failed); err != nil {
		return false, fmt.Errorf("record of tuned index %s: %w", t.Target, err)
	}
	return added, nil
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
