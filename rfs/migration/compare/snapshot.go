package compare

import (
	"context"
	"errors"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/verify"
)

// Snapshot is a snapshot as the source of a comparison.
type Snapshot struct {
	Comparison
	Plan      *plan.Plan
	Rules     *rules.Set
	Overrides metadata.Overrides
	TypesOnly bool // ignore fields that the mappings of the target lack
	// Mine reports whether the session with this state migrates the snapshot.
	Mine func(ctx context.Context, state *cms.Coordinator) (bool, error)
	// Since is the former snapshot of a round whose changes are compared (Comparison.Changed).
	Since string
}

// errNoMarks means that later writes to the target cannot be recognized.
var errNoMarks = errors.New("no session of this name has migrated this snapshot to this target, as far as its state shows")

// Source returns the snapshot as a source.
func (s *Snapshot) Source() Source {
	return Source{
		Identity: s.Identity, Marks: s.marks,
		Groups: func(ctx context.Context, client *target.Client, v target.Version) ([]verify.Group, error) {
			indices := &creation.Indices{Cluster: client, Version: v, Rules: s.Rules, Requester: client, Log: s.Log}
			if err := indices.Locate(ctx, s.Plan); err != nil {
				return nil, err
			}
			return s.Comparison.Groups(s.Plan), nil
		},
		Fields: func(ctx context.Context, client *target.Client, v target.Version, failed *verify.Failed, r *verify.Report) error {
			mappings := Fields{
				Source: s.Comparison, Target: client, Failed: failed.Has, TypesOnly: s.TypesOnly,
				Indices: &creation.Indices{Cluster: objects.DryRunCluster{Target: client}, Version: v, Rules: s.Rules, Overrides: s.Overrides, Requester: client, Log: s.Log},
			}
			all, warnings, err := mappings.Fields(ctx, s.Plan)
			addFields(r, all, warnings)
			return err
		},
		Complete: func(r *verify.Report) {
			r.Snapshot, r.Since = s.Plan.Snapshot, s.Since
			for _, x := range s.Plan.Unread {
				r.Indices = append(r.Indices, &verify.Index{Target: x.Target, Sources: []string{x.Name}, State: verify.Unreadable, Problems: []string{x.Reason}})
			}
			for _, m := range s.Plan.Missing {
				r.Warnings = append(r.Warnings, "the snapshot lacks a shard: "+m)
			}
		},
	}
}

// marks reads the sequence numbers that the target had at the end of the migration of this snapshot.
func (s *Snapshot) marks(ctx context.Context, client *target.Client, state *cms.Coordinator) (m rollback.Marks, err error) {
	if state == nil {
		return m, errNoMarks
	}
	mine, err := s.Mine(ctx, state)
	if err != nil {
		return m, err
	}
	if !mine {
		return m, errNoMarks
	}
	return rollback.ReadMarks(ctx, client, session.CreatedOf(state))
}
