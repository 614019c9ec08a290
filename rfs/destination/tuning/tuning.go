// Package tuning changes settings of target indices for the duration of the load, and restores them.
package tuning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// Records stores the former settings; session.Tunings is one.
type Records interface {
	Note(ctx context.Context, t session.Tuned) (added bool, err error)
	All(ctx context.Context) iter.Seq2[session.Tuned, error]
	Forget(ctx context.Context, target string) error
}

// tuned are the settings during the load: no refreshes, no replicas, no acknowledgement before documents are on disk, and versions of
// deleted documents kept for a day.
var tuned = map[string]string{refreshInterval: "-1", replicas: "0", durability: hardened, gcDeletes: remembered}

// remembered is the time for which a target keeps the versions of deleted documents while it follows another cluster, so that late
// requests of earlier rounds restore none of them. Other programs are unlikely to use this spelling of a day.
const remembered = "1441m"

// hardened is the durability "request" in a spelling that no other program uses. Clusters accept and keep any spelling, so that any
// process recognizes hardened indices, even without a mark.
const hardened = "ReQuest"

const (
	refreshInterval = "index.refresh_interval"
	replicas        = "index.number_of_replicas"
	durability      = "index.translog.durability"
	gcDeletes       = "index.gc_deletes"
)

// Tuner changes settings of indices for the duration of a migration.
type Tuner struct {
	API     rest.API
	Records Records
	// Mark returns the mark of the session's indices. Settings of other indices are neither changed nor restored, regardless of the
	// records, except by Harden.
	Mark func(ctx context.Context) (objects.Mark, error)
	// Follows states that Restore keeps the setting of Remember.
	Follows bool
	Log     *slog.Logger
}

// Scope states which settings of an index are tuned.
type Scope int

// The values of Scope.
const (
	Nothing   Scope = iota
	Refreshes       // no refreshes during the load
	All             // no refreshes and no replicas
)

// settings returns the settings to change.
func (w Scope) settings() map[string]string {
	set := map[string]string{}
	for key, v := range tuned {
		if w == All && key == replicas || w != Nothing && key == refreshInterval {
			set[key] = v
		}
	}
	return set
}

// Tune changes the settings of target indices that this migration has created. It first records the former
// settings, so that any process can restore them. It is idempotent: values that an earlier call has recorded are kept. It returns
// fault.ErrConfig if the target does not permit the change.
func (t *Tuner) Tune(ctx context.Context, targets []string, scope Scope) error {
	for _, target := range targets {
		uuid, now, ours, err := t.settings(ctx, target)
		if err != nil {
			return err
		}
		if !ours {
			t.Log.WarnContext(ctx, "settings stay as they are: the index does not carry the mark of this session", "index", target)
			continue
		}
		set := scope.settings()
		noted, err := t.change(ctx, target, uuid, now, set)
		if err != nil {
			return fmt.Errorf("tune %s: %w", target, err)
		}
		if noted {
			t.Log.InfoContext(ctx, "settings tuned", "index", target, "settings", set)
		}
	}
	return nil
}

// Harden makes indices with index.translog.durability: async, which acknowledge documents before these are on disk, write them first,
// for the duration of the load. It first records their setting for Restore. targets may be aliases and data streams.
// It returns fault.ErrConfig if the target does not permit the change.
func (t *Tuner) Harden(ctx context.Context, targets []string) error {
	for _, path := range rest.InParts(targets) {
		all, err := t.values(ctx, path, durability)
		switch {
		case errors.Is(err, fault.ErrConfig), errors.Is(err, fault.ErrRejected): // the check at the end finds losses
			t.Log.WarnContext(ctx, "the target does not let see whether it acknowledges documents before they are on disk", "reason", fault.Text(err))
			return nil
		case err != nil:
			return err
		}
		for _, index := range slices.Sorted(maps.Keys(all)) {
			if !strings.EqualFold(all[index][durability], "async") {
				continue
			}
			if err := t.harden(ctx, index, all[index]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remember makes indices of the session keep the versions of deleted documents for a day, until Restore is called without Follows.
func (t *Tuner) Remember(ctx context.Context, targets []string) error {
	var others []string // without the setting; an earlier round has set it on the rest
	for part, path := range rest.InParts(targets) {
		all, err := t.values(ctx, path, gcDeletes)
		if err != nil {
			return err
		}
		for _, target := range part {
			if all[target][gcDeletes] != remembered {
				others = append(others, target)
			}
		}
	}
	for _, target := range others {
		uuid, now, ours, err := t.settings(ctx, target)
		switch {
		case err != nil:
			return err
		case !ours:
			t.Log.WarnContext(ctx, "the index does not carry the mark of this session, so that its settings stay: a request that is delayed for longer than its index.gc_deletes (60 s by default) may bring back a deleted document", "index", target)
			continue
		}
		if _, err := t.change(ctx, target, uuid, now, map[string]string{gcDeletes: remembered}); err != nil {
			return fmt.Errorf("tune %s: %w", target, err)
		}
	}
	return nil
}

// change records the former values of settings of an index, and then sets them. It reports whether some had not been recorded before.
func (t *Tuner) change(ctx context.Context, index, uuid string, now, set map[string]string) (noted bool, err error) {
	is := session.Tuned{Target: index, UUID: uuid, Was: map[string]*string{}, Set: set}
	values := map[string]*string{}
	for key, value := range set {
		values[key] = &value
		if v, has := now[key]; has {
			is.Was[key] = &v
		}
	}
	if noted, err = t.Records.Note(ctx, is); err != nil {
		return false, err
	}
	return noted, t.put(ctx, "/"+url.PathEscape(index), values)
}

// harden sets the durability of one index; now are its current settings.
func (t *Tuner) harden(ctx context.Context, index string, now map[string]string) error {
	if _, err := t.change(ctx, index, now["index.uuid"], now, map[string]string{durability: hardened}); err != nil {
		return fmt.Errorf("index %s acknowledges documents before they are on disk (%s: async), so that it loses some when a node dies, and this cannot be changed for the duration of the documents: %w", index, durability, err)
	}
	t.Log.InfoContext(ctx, "settings tuned", "index", index, "settings", map[string]string{durability: hardened})
	return nil
}

// values returns the UUIDs of the indices behind the names of a path, and a setting of each if it is set.
func (t *Tuner) values(ctx context.Context, path, key string) (map[string]map[string]string, error) {
	var answer map[string]struct {
		Settings map[string]string `json:"settings"`
	}
	if err := rest.Get(ctx, t.API, path+"/_settings/index.uuid,"+key, url.Values{"flat_settings": {"true"}, "ignore_unavailable": {"true"}, "allow_no_indices": {"true"}}, &answer); err != nil {
		return nil, err
	}
	all := map[string]map[string]string{}
	for index, x := range answer {
		all[index] = x.Settings
	}
	return all, nil
}

// formerValue matches durations and numbers of replicas in the form of the target's answers.
var formerValue = regexp.MustCompile(`^(-1|[0-9]{1,12}(nanos|micros|ms|s|m|h|d)?)$`)

// former reports whether a recorded value is plausible for a setting before it was tuned.
func former(key string, v *string) bool {
	if key == durability {
		return v != nil && strings.EqualFold(*v, "async")
	}
	return v == nil || formerValue.MatchString(*v)
}

var errGone = fmt.Errorf("no such index: %w", fault.ErrRejected)

// settings returns the explicit settings of an index, its UUID, and whether it has the mark of the session.
func (t *Tuner) settings(ctx context.Context, target string) (uuid string, set map[string]string, ours bool, err error) {
	if objects.CheckName("index", target) != nil {
		return "", nil, false, fmt.Errorf("no index has the name %.100q: %w", target, errGone)
	}
	var answer map[string]json.RawMessage
	err = rest.Get(ctx, t.API, "/"+url.PathEscape(target), url.Values{"flat_settings": {"true"}, "filter_path": {"*.settings,*.mappings._meta,error,status"}}, &answer)
	if fault.HasStatus(err, http.StatusNotFound) {
		return "", nil, false, errGone
	}
	if err != nil {
		return "", nil, false, err
	}
	raw, is := answer[target]
	if !is || len(answer) != 1 {
		return "", nil, false, fmt.Errorf("%s is not an index but an alias: %w", target, errGone)
	}
	var x struct {
		Settings map[string]json.RawMessage `json:"settings"`
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		return "", nil, false, fmt.Errorf("settings of %s: %w: %w", target, err, fault.ErrRejected)
	}
	mark, err := t.Mark(ctx)
	if err != nil {
		return "", nil, false, err
	}
	ours = mark.Matches(objects.IndexMark, target, raw) || mark.Matches(objects.ScratchMark, target, raw)
	set = map[string]string{}
	for key, raw := range x.Settings {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			set[key] = text
		}
	}
	return set["index.uuid"], set, ours, nil
}

// put sets settings on the indices of a path, in one change of the cluster's state.
func (t *Tuner) put(ctx context.Context, path string, settings map[string]*string) error {
	body, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	return rest.Call(ctx, t.API, http.MethodPut, path+"/_settings", nil, body, nil)
}
