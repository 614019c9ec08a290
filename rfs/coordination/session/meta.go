package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const schemaVersion = 1

// Meta defines a migration: two runs with the same session must agree on it.
type Meta struct {
	// Settings determine which documents go where: repository, snapshot, allow-list, transformation and naming rules. They never include
	// lease windows, rates, credentials or paths of this machine.
	Settings map[string]string
	// Identity binds the session to its snapshot, its destination, and settings that change the documents. An empty or absent value is unknown:
	// it equals any other, and Bind can record it later.
	Identity map[string]string
}

// ConfigMismatch lists how the settings of a run differ from those with which the session started. It is a fault.ErrConfig.
type ConfigMismatch struct{ Differences []string }

// Error lists the differences and the remedy.
func (e *ConfigMismatch) Error() string {
	return "this session belongs to another migration: " + strings.Join(e.Differences, "; ") +
		"; give the former values to continue it, or start another session with a new --session-name (and another --coordinator-file, where one is used)"
}

// Is makes every ConfigMismatch a fault.ErrConfig.
func (e *ConfigMismatch) Is(target error) bool { return target == fault.ErrConfig }

type metaBody struct {
	SchemaVersion int               `json:"schemaVersion"`
	ScriptVersion string            `json:"scriptVersion"`
	Digest        string            `json:"digest"`
	Settings      map[string]string `json:"settings"`
	Identity      map[string]string `json:"identity,omitempty"`
}

// Init starts or joins a session and returns its recorded identity. It returns a *ConfigMismatch when the session has other settings or
// another identity, ErrSchemaMismatch when it is of another version, and cms.ErrForeign when it is another tool's.
func (s Identity) Init(ctx context.Context, m Meta) (identity map[string]string, err error) {
	body := metaBody{SchemaVersion: schemaVersion, ScriptVersion: cms.ScriptVersion, Digest: digest(m.Settings), Settings: m.Settings, Identity: known(m.Identity)}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("meta record: %w", err)
	}
	r, err := s.leases.ReadOrCreate(ctx, cms.Record{ID: kindMeta, Kind: kindMeta, Body: raw})
	if err != nil {
		return nil, err
	}
	switch r.State {
	case stateUndo:
		return nil, ErrUndone
	case stateReplaced:
		return nil, ErrReplaced
	case stateFollowed:
		return nil, ErrFollowed
	}
	was, err := decodeMeta(r)
	if err != nil {
		return nil, err
	}
	if was.SchemaVersion != schemaVersion || was.ScriptVersion != cms.ScriptVersion {
		return nil, fmt.Errorf("session of schema %d, scripts %s: %w", was.SchemaVersion, was.ScriptVersion, cms.ErrSchemaMismatch)
	}
	other := conflicts(was.Identity, m.Identity)
	if was.Digest != body.Digest {
		other = append(other, differences(was.Settings, m.Settings)...)
	}
	if len(other) > 0 {
		return nil, &ConfigMismatch{Differences: other}
	}
	return was.Identity, s.items.CheckSetup(ctx)
}

// Bind adds missing values to the recorded identity of a session. It returns a *ConfigMismatch when a recorded value differs.
func (s Identity) Bind(ctx context.Context, identity map[string]string) error {
	var failed error
	_, err := s.leases.Update(ctx, kindMeta, kindMeta, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		was, err := decodeMeta(r)
		if failed = err; err != nil {
			return r, cms.Lost
		}
		if other := conflicts(was.Identity, identity); len(other) > 0 {
			failed = &ConfigMismatch{Differences: other}
			return r, cms.Lost
		}
		is := known(identity)
		maps.Copy(is, was.Identity)
		if maps.Equal(is, was.Identity) {
			return r, cms.Already
		}
		was.Identity = is
		if r.Body, failed = json.Marshal(was); failed != nil {
			return r, cms.Lost
		}
		return r, cms.Applied
	})
	return errors.Join(err, failed)
}

func decodeMeta(r cms.Record) (metaBody, error) {
	var m metaBody
	if err := r.Decode(&m); err != nil {
		return m, fmt.Errorf("meta record: %w", err)
	}
	return m, nil
}

// known returns the non-empty values.
func known(identity map[string]string) map[string]string {
	all := make(map[string]string, len(identity))
	for k, v := range identity {
		if v != "" {
			all[k] = v
		}
	}
	return all
}

// conflicts returns the differences between values that both sides know.
func conflicts(was, is map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(is)) {
		if was[k] != "" && is[k] != "" && was[k] != is[k] {
			out = append(out, difference(k, was[k], is[k]))
		}
	}
	return out
}

func difference(key, was, is string) string { return fmt.Sprintf("%s was %q, is %q", key, was, is) }

// Head returns the settings of the session, and whether it was undone; it returns ErrNotFound without one.
func (s Identity) Head(ctx context.Context) (settings map[string]string, undone bool, err error) {
	r, err := s.leases.Record(ctx, kindMeta)
	if err != nil {
		return nil, false, err
	}
	m, err := decodeMeta(r)
	return m.Settings, r.State == stateUndo, err
}

// Settings returns the settings with which the session started, or ErrNotFound.
func (s Identity) Settings(ctx context.Context) (map[string]string, error) {
	settings, _, err := s.Head(ctx)
	return settings, err
}

// Started returns when the session started, by the store's clock, or ErrNotFound.
func (s Identity) Started(ctx context.Context) (time.Time, error) {
	r, err := s.leases.Record(ctx, kindMeta)
	return time.UnixMilli(r.CreatedAt), err
}

// Read returns the identity of the session, or ErrNotFound.
func (s Identity) Read(ctx context.Context) (map[string]string, error) {
	r, err := s.leases.Record(ctx, kindMeta)
	if err != nil {
		return nil, err
	}
	m, err := decodeMeta(r)
	return m.Identity, err
}

func digest(settings map[string]string) string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(h, "%d:%s=%d:%s\n", len(k), k, len(settings[k]), settings[k])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// CheckSettings returns a *ConfigMismatch if settings differ from the recorded ones of a session.
func CheckSettings(recorded, settings map[string]string) error {
	if d := differences(recorded, settings); len(d) > 0 {
		return &ConfigMismatch{Differences: d}
	}
	return nil
}

// differences lists the settings in which a recorded session differs from another, for a ConfigMismatch.
func differences(was, is map[string]string) []string {
	keys := maps.Clone(was)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, is)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if was[k] != is[k] {
			out = append(out, difference(k, was[k], is[k]))
		}
	}
	return out
}
