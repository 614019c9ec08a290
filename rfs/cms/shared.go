package cms

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/fault"
)

const (
	kindConfig = "config"
	// mostShared bounds the settings of a fleet, in bytes of JSON.
	mostShared = 256 << 10
)

// Shared are the settings that all nodes of a fleet have in common, by the names of options. Secrets and what
// is one machine's own are not among them.
type Shared map[string][]string

type sharedBody struct {
	SchemaVersion int    `json:"schemaVersion"`
	Settings      Shared `json:"settings"`
}

// Shared gives the fleet's settings, or ErrNotFound when no node has told any.
func (c *Coordinator) Shared(ctx context.Context) (Shared, error) {
	r, err := c.record(ctx, kindConfig)
	if err != nil {
		return nil, err
	}
	var body sharedBody
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, fmt.Errorf("configuration of the fleet: %w: %w", err, fault.ErrCorrupt)
	}
	if body.SchemaVersion != schemaVersion {
		return nil, fmt.Errorf("configuration of the fleet has schema %d: %w", body.SchemaVersion, ErrSchemaMismatch)
	}
	return body.Settings, nil
}

// Share stores the fleet's settings unless there are some; over says to replace those. Errors:
// fault.ErrConfig when they are too big.
func (c *Coordinator) Share(ctx context.Context, s Shared, over bool) (stored bool, err error) {
	raw, err := json.Marshal(sharedBody{schemaVersion, s})
	if err != nil {
		return false, fmt.Errorf("configuration of the fleet: %w", err)
	}
	if len(raw) > mostShared {
		return false, fmt.Errorf("configuration of the fleet has %d bytes, more than %d: %w", len(raw), mostShared, fault.ErrConfig)
	}
	r := Record{ID: kindConfig, Kind: kindConfig, Body: raw}
	if over {
		return true, c.putRecord(ctx, r)
	}
	return c.createRecord(ctx, r)
}
