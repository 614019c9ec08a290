package phase

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/creation"
)

// GlobalsRecord is the body of phase:metadata.
type GlobalsRecord struct {
	creation.GlobalsResult
	Measure
}

// moveGlobals creates the objects of the snapshot's global metadata. It plans first, so that problems such as two indices with one name
// are found before anything is written.
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
		if done.GlobalsResult, err = s.Globals(ctx, plan, s.Ledger); err != nil {
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
