package cms

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

	"github.com/rfsd/rfsd/rfs/fault"
)

const schemaVersion = 1

// Meta is what a migration is: two runs with the same session must agree on it.
type Meta struct {
	// Settings are what decides which documents go where: repository, snapshot,
	// allow-list, transformation and naming rules. Never lease windows, rates,
	// credentials or paths of this machine.
	Settings map[string]string
	// AcceptChange stores other settings than those that are recorded.
	AcceptChange bool
}

// ConfigMismatch says in which settings a run differs from the one that began the
// session. It is a fault.ErrConfig.
type ConfigMismatch struct{ Differences []string }

// Error lists the differences.
func (e *ConfigMismatch) Error() string {
	return "this session belongs to another migration: " + strings.Join(e.Differences, "; ")
}

// Is makes every ConfigMismatch a fault.ErrConfig.
func (e *ConfigMismatch) Is(target error) bool { return target == fault.ErrConfig }

type metaBody struct {
	SchemaVersion int               `json:"schemaVersion"`
	ScriptVersion string            `json:"scriptVersion"`
	Digest        string            `json:"digest"`
	Settings      map[string]string `json:"settings"`
}

// Init begins a session or joins it. A *ConfigMismatch when it was begun with other
// settings, ErrSchemaMismatch when by another version.
func (c *Coordinator) Init(ctx context.Context, m Meta) error {
	body := metaBody{SchemaVersion: schemaVersion, ScriptVersion: ScriptVersion, Digest: digest(m.Settings), Settings: m.Settings}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("meta record: %w", err)
	}
	r, err := c.recordOrNew(ctx, Record{ID: kindMeta, Kind: kindMeta, Body: raw})
	if err != nil {
		return err
	}
	var was metaBody
	if err := json.Unmarshal(r.Body, &was); err != nil {
		return fmt.Errorf("meta record: %w: %w", err, fault.ErrCorrupt)
	}
	if was.SchemaVersion != schemaVersion || was.ScriptVersion != ScriptVersion {
		return fmt.Errorf("session of schema %d, scripts %s: %w", was.SchemaVersion, was.ScriptVersion, ErrSchemaMismatch)
	}
	if was.Digest == body.Digest {
		return c.checkSetupVersion(ctx)
	}
	if m.AcceptChange {
		return c.putRecord(ctx, Record{ID: kindMeta, Kind: kindMeta, Body: raw})
	}
	return &ConfigMismatch{Differences: differences(was.Settings, m.Settings)}
}

// Settings gives the settings the session was begun with, or ErrNotFound.
func (c *Coordinator) Settings(ctx context.Context) (map[string]string, error) {
	r, err := c.record(ctx, kindMeta)
	if err != nil {
		return nil, err
	}
	var m metaBody
	if err := json.Unmarshal(r.Body, &m); err != nil {
		return nil, fmt.Errorf("meta record: %w: %w", err, fault.ErrCorrupt)
	}
	return m.Settings, nil
}

// checkSetupVersion refuses a queue that another version of the protocol began.
func (c *Coordinator) checkSetupVersion(ctx context.Context) error {
	it, err := c.get(ctx, SetupID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", SetupID, err)
	case it.ScriptVersion != ScriptVersion:
		return fmt.Errorf("%s has version %q: %w", SetupID, it.ScriptVersion, ErrSchemaMismatch)
	}
	return nil
}

func digest(settings map[string]string) string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(h, "%d:%s=%d:%s\n", len(k), k, len(settings[k]), settings[k])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func differences(was, is map[string]string) []string {
	keys := maps.Clone(was)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, is)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if was[k] != is[k] {
			out = append(out, fmt.Sprintf("%s was %q, is %q", k, was[k], is[k]))
		}
	}
	return out
}
