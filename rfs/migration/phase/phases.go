package phase

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Phases are the phases of a migration that a run includes, by their names in --phases: snapshot, metadata, indices, documents.
type Phases []string

// Names of phases as users write them.
const (
	PhaseSnapshot  = "snapshot"
	PhaseMetadata  = "metadata"
	PhaseIndices   = "indices"
	PhaseDocuments = "documents"
)

// ParsePhases parses a comma-separated list of phases; their order does not matter.
func ParsePhases(s string) (Phases, error) {
	var wanted Phases
	for name := range strings.SplitSeq(s, ",") {
		switch name = strings.TrimSpace(name); name {
		case PhaseSnapshot, PhaseMetadata, PhaseIndices, PhaseDocuments:
			wanted = append(wanted, name)
		case "":
		default:
			return nil, fmt.Errorf("phase %q is not one of snapshot, metadata, indices, documents: %w", name, fault.ErrConfig)
		}
	}
	return wanted, nil
}

// Choose returns the wanted phases, or all possible ones if none is wanted. created means that the session creates its snapshot, cluster
// that it has a target cluster. It returns a fault.ErrConfig for a wanted phase that is not possible.
func Choose(wanted Phases, created, cluster bool) (Phases, error) {
	var possible Phases
	if created {
		possible = append(possible, PhaseSnapshot)
	}
	if cluster {
		possible = append(possible, PhaseMetadata, PhaseIndices)
	}
	possible = append(possible, PhaseDocuments)
	if len(wanted) == 0 {
		return possible, nil
	}
	for _, name := range wanted {
		switch {
		case possible.Has(name):
		case name == PhaseSnapshot:
			return nil, fmt.Errorf("--phases: %s needs a source cluster (--source-host), and no --snapshot-name: %w", name, fault.ErrConfig)
		default:
			return nil, fmt.Errorf("--phases: %s needs a target cluster (--target-host): %w", name, fault.ErrConfig)
		}
	}
	return wanted, nil
}

// Without returns the phases but one.
func (p Phases) Without(name string) Phases {
	return slices.DeleteFunc(slices.Clone(p), func(x string) bool { return x == name })
}

// Has reports whether the run includes a phase.
func (p Phases) Has(name string) bool { return slices.Contains(p, name) }

// Action is the action of a worker in a state of a phase's record.
type Action int

// Actions of a worker.
const (
	Proceed      Action = iota // to the next phase
	MakeSnapshot               // under the lease of the record
	MoveGlobals                // under the lease of the record
	ListIndices                // under the lease of the record
	MakeIndices                // without a lease
	SeedItems                  // under the lease of the item shard_setup
	WorkOnItem                 // under the item's lease
	AuditItems                 // under a lease of its own
	LookForItems               // without a lease
	Stop                       // with the record's reason
)

// actions describe each Action in the documentation.
var actions = map[Action]string{
	Proceed:      "nothing; the phase is done",
	MakeSnapshot: "lease the record; note the name if the source has no snapshot of it; create it unless its UUID is recorded; record its progress until it ends. While another worker holds the lease, wait",
	MoveGlobals:  "lease the record; create the templates (legacy, component, index) and what else was asked for, never changing what exists. While another worker holds the lease, wait",
	ListIndices:  "lease the record; create an entry for each index. While another worker holds the lease, wait",
	MakeIndices:  "take entries at random, of more than 64 a batch under its own lease; create what the target lacks, mark each entry COMPLETED, or FAILED after too many attempts; when no entry is left, move on",
	SeedItems:    "lease shard_setup; create an item for each shard, or each part of a split shard, FAILED immediately for an index that does not exist. While another worker holds the lease, wait",
	WorkOnItem:   "lease an item and move its documents; when no item is open, move on",
	AuditItems:   "lease the audit; compare the target indices with the sent documents; verify that every chain of items is whole, repair broken ones; set aliases that waited. While another worker holds the lease, wait",
	LookForItems: "end, unless an operator has opened an item again",
	Stop:         "report the failure once and end",
}

// String returns the description of the action.
func (a Action) String() string { return actions[a] }

// Row is one row of the state machine: the action of a worker for a state of a phase's record, and the states or phases that may follow.
type Row struct {
	Number string // of the phase in the documentation
	Phase  string // name in --phases
	Record string // name of the record in the coordination store: phase:<record>
	State  string // state of the record; "" if it does not exist
	Does   Action
	Next   []string // states of the same record, or numbers of phases
	Again  []string // states that follow when an operator retries a failure
}

// Start and End are the states at which the machine starts and stops.
const (
	Start = "0"
	End   = "end"
)

// Machine returns the whole state machine, in the order of the phases.
func Machine() []Row {
	return []Row{
		{"1", PhaseSnapshot, session.SnapshotPhase, "", MakeSnapshot, []string{session.PhaseNotStarted}, nil},
		{"1", PhaseSnapshot, session.SnapshotPhase, session.PhaseNotStarted, MakeSnapshot, []string{session.PhaseInProgress, session.PhaseFailed}, nil},
		{"1", PhaseSnapshot, session.SnapshotPhase, session.PhaseInProgress, MakeSnapshot, []string{session.PhaseCompleted, session.PhaseFailed}, nil},
		{"1", PhaseSnapshot, session.SnapshotPhase, session.PhaseCompleted, Proceed, []string{"2"}, nil},
		{"1", PhaseSnapshot, session.SnapshotPhase, session.PhaseFailed, Stop, []string{End}, []string{session.PhaseNotStarted}},

		{"2", PhaseMetadata, session.MetadataPhase, "", MoveGlobals, []string{session.PhaseInProgress}, nil},
		{"2", PhaseMetadata, session.MetadataPhase, session.PhaseInProgress, MoveGlobals, []string{session.PhaseCompleted, session.PhaseFailed}, nil},
		{"2", PhaseMetadata, session.MetadataPhase, session.PhaseCompleted, Proceed, []string{"3.1"}, nil},
		{"2", PhaseMetadata, session.MetadataPhase, session.PhaseFailed, Stop, []string{End}, []string{session.PhaseInProgress}},

		{"3.1", PhaseIndices, session.IndexPhase, "", ListIndices, []string{session.PhaseSetup}, nil},
		{"3.1", PhaseIndices, session.IndexPhase, session.PhaseSetup, ListIndices, []string{session.PhaseInProgress, session.PhaseFailed}, nil},
		{"3.1", PhaseIndices, session.IndexPhase, session.PhaseFailed, Stop, []string{End}, []string{session.PhaseSetup}},
		{"3.2", PhaseIndices, session.IndexPhase, session.PhaseInProgress, MakeIndices, []string{session.PhaseCompleted}, nil},
		{"3.2", PhaseIndices, session.IndexPhase, session.PhaseCompleted, Proceed, []string{"4.1"}, []string{session.PhaseInProgress}},

		{"4.1", PhaseDocuments, session.DocsPhase, "", SeedItems, []string{session.PhaseSetup}, nil},
		{"4.1", PhaseDocuments, session.DocsPhase, session.PhaseSetup, SeedItems, []string{session.PhaseInProgress, session.PhaseFailed}, nil},
		{"4.1", PhaseDocuments, session.DocsPhase, session.PhaseFailed, Stop, []string{End}, []string{session.PhaseSetup}},
		{"4.2", PhaseDocuments, session.DocsPhase, session.PhaseInProgress, WorkOnItem, []string{session.PhaseAudit}, nil},
		{"4.2", PhaseDocuments, session.DocsPhase, session.PhaseAudit, AuditItems, []string{session.PhaseInProgress, session.PhaseCompleted}, nil},
		{"4.2", PhaseDocuments, session.DocsPhase, session.PhaseCompleted, LookForItems, []string{End}, []string{session.PhaseInProgress}},
	}
}

// RowFor returns the row for a state of a record.
func RowFor(record, state string) (Row, error) {
	for _, r := range Machine() {
		if r.Record == record && r.State == state {
			return r, nil
		}
	}
	return Row{}, fmt.Errorf("phase %s in the state %q, which this version does not know: %w", record, state, fault.ErrConfig)
}

// PhaseFailed means that a phase was marked FAILED, by this worker or another.
type PhaseFailed struct {
	Phase   string // name in --phases
	Reason  string
	Renewed bool // each run of the command makes another snapshot
}

// Error returns the phase, the reason, and the remedy.
func (e *PhaseFailed) Error() string {
	remedy := "repair the cause and run the same command of rfsd migrate again"
	switch {
	case e.Renewed:
		remedy = "the next run of the same command makes another snapshot"
	case e.Phase == PhaseSnapshot:
		remedy = "repair the cause and run again with --retry-snapshot"
	}
	return fmt.Sprintf("the phase %s failed: %s (%s)", e.Phase, e.Reason, remedy)
}

// preview checks for conflicts with existing target indices and logs the expected differences, before the first phase that writes to the
// target. The differences are logged once per process.
func (s *Session) preview(ctx context.Context, plan *plan.Plan) error {
	if err := s.checkForeign(ctx, plan); err != nil {
		return err
	}
	if err := s.checkHeld(ctx, plan); err != nil {
		return err
	}
	if s.Preview == nil || s.previewed {
		return nil
	}
	if err := s.Preview(ctx, plan, s.Phases); err != nil {
		return err
	}
	s.previewed = true
	return nil
}
