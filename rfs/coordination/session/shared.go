package session

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	kindConfig = "config"
	// mostShared limits the settings of a fleet, in bytes of JSON.
	mostShared = 256 << 10
)

// Shared are the settings that all nodes of a fleet have in common, by the names of options. They include no secrets and no settings
// specific to a machine.
type Shared map[string][]string

// SharedRecord is the record of the shared settings. The store is not trusted: package sharing checks revision and signature.
type SharedRecord struct {
	Settings  Shared `json:"settings"`
	Revision  int64  `json:"revision,omitempty"`
	Signature string `json:"signature,omitempty"`
}

type sharedBody struct {
	SchemaVersion int `json:"schemaVersion"`
	SharedRecord
}

// Read returns the record of the fleet's settings, or ErrNotFound.
func (s SharedSettings) Read(ctx context.Context) (SharedRecord, error) {
	r, err := s.leases.Record(ctx, kindConfig)
	if err != nil {
		return SharedRecord{}, err
	}
	if len(r.Body) > mostShared {
		return SharedRecord{}, fmt.Errorf("configuration of the fleet has %d bytes, more than %d: %w", len(r.Body), mostShared, fault.ErrCorrupt)
	}
	var body sharedBody
	if err := r.Decode(&body); err != nil {
		return SharedRecord{}, fmt.Errorf("configuration of the fleet: %w", err)
	}
	if body.SchemaVersion != schemaVersion {
		return SharedRecord{}, fmt.Errorf("configuration of the fleet has schema %d: %w", body.SchemaVersion, cms.ErrSchemaMismatch)
	}
	return body.SharedRecord, nil
}

// Share stores the fleet's settings unless a record exists, or replaces it if over is set. It reports whether it stored them, and returns
// fault.ErrConfig when they are too big.
func (s SharedSettings) Share(ctx context.Context, r SharedRecord, over bool) (stored bool, err error) {
	raw, err := json.Marshal(sharedBody{schemaVersion, r})
	if err != nil {
		return false, fmt.Errorf("configuration of the fleet: %w", err)
	}
	if len(raw) > mostShared {
		return false, fmt.Errorf("configuration of the fleet has %d bytes, more than %d: %w", len(raw), mostShared, fault.ErrConfig)
	}
	record := cms.Record{ID: kindConfig, Kind: kindConfig, Body: raw}
	if over {
		return true, s.leases.Put(ctx, record)
	}
	return s.leases.Create(ctx, record)
}
