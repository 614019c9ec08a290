package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// GlobalsRecord is the body of phase:metadata: what became of everything that belongs to
// no index (templates, pipelines, scripts, policies). Names are "<kind> <name>".
type GlobalsRecord struct {
	Created []string        `json:"created,omitempty"`
	Existed []string        `json:"existed,omitempty"` // left as they are
	LeftOut []GlobalLeftOut `json:"left_out,omitempty"`
	Warning string          `json:"warning,omitempty"`
	Measure
}

// GlobalLeftOut is an object that was not migrated.
type GlobalLeftOut struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// moveGlobals creates what the snapshot's global metadata holds. The plan comes first: what
// it refuses, such as two indices under one name, is refused before anything is written.
func (s *Session) moveGlobals(ctx context.Context, lease *session.PhaseLease) error {
	plan, err := s.plan(ctx)
	if err != nil {
		return err
	}
	if err := s.preview(ctx, plan); err != nil {
		return err
	}
	var done GlobalsRecord
	if s.Globals != nil {
		if done, err = s.Globals(ctx, plan, s.Ledger); err != nil {
			return err
		}
	}
	if done.Warning != "" {
		s.Log.WarnContext(ctx, done.Warning)
		if _, err := s.Coordinator.Event(ctx, "phase "+session.MetadataPhase, "warning", done.Warning); err != nil {
			return err
		}
	}
	n := int64(len(done.Created) + len(done.Existed))
	done.Measure = Measure{Done: n, Total: n, Unit: "objects"}
	body, err := json.Marshal(done)
	if err != nil {
		return fmt.Errorf("record of the metadata: %w", err)
	}
	s.Log.InfoContext(ctx, "cluster metadata migrated", "created", len(done.Created), "existed", len(done.Existed), "left_out", len(done.LeftOut))
	return lease.Advance(ctx, session.PhaseCompleted, body)
}
