package phase

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/migration/arrival"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
)

// Targets knows the indices of a target cluster.
type Targets interface {
	// IndexUUID returns the UUID of an index; an error that is fs.ErrNotExist when there is none.
	IndexUUID(ctx context.Context, name string) (string, error)
}

// Tuner changes settings of target indices for the time of the migration.
type Tuner interface {
	Tune(ctx context.Context, targets []string, wish tuning.Wish) error
	Harden(ctx context.Context, targets []string) error
	Remember(ctx context.Context, targets []string) error
	Restore(ctx context.Context) ([]tuning.Restored, error)
}

// Session is what all processes of one migration share: the coordination, and the means
// of each phase. A phase without means must not be among Phases.
type Session struct {
	Coordinator *cms.Coordinator
	// Root is the coordinator of the session that migrated the first snapshot of a cluster that is followed, which has the records of
	// the target; nil: this session.
	Root *cms.Coordinator
	// DeleteVanished deletes target indices of the session whose indices the source has no more.
	DeleteVanished bool

	Holder   string            // of this process; unique over all processes and runs
	Settings map[string]string // two processes of a session must agree on them
	// Identity binds the session to its destination, by the keys Destination…, and holds what else two processes must
	// agree on. The snapshot's UUID is added when it is known.
	Identity map[string]string
	Phases   Phases
	// Existing is what was chosen for documents whose ids the target has; "": nothing was chosen.
	Existing bulk.Existing
	// Moved is called with phase and state whenever this worker goes on to another: what it acts on, as its other goroutines and
	// its parent see it. State is that of the phase's record. nil: not reported.
	Moved func(phase, state string)
	Log   *slog.Logger
	// Jitter returns a random number in [0,1) for pauses; nil means rand.Float64.
	Jitter func() float64
	Source
	Transfer
	Cluster
	findings
}

// Source is the repository of a session, and the cluster that makes its snapshot.
type Source struct {
	Snapshot  SnapshotOptions
	Snapshots Snapshots // the source cluster; nil when no snapshot is created
	// Plan reads the snapshot of that name; only a process that prepares work needs it.
	Plan func(ctx context.Context, snapshot string) (*plan.Plan, error)
	// SnapshotUUID reads what tells the snapshot from another of the same name; nil: work that is done already is not
	// compared with the repository.
	SnapshotUUID func(ctx context.Context, snapshot string) (string, error)
	// Request is what the settings ask for, with which the entries of indices are compared; nil: they are taken as they are.
	Request *plan.Request
}

// Transfer sends the documents of a session.
type Transfer struct {
	Runner *engine.Runner
	Shards shards.Reader // of the snapshot
	// Redirects returns the target indices that rules send documents of an index of the snapshot to; nil: none.
	Redirects func(index string) []string
	// Exported is called with all indices before a destination of files is complete, perhaps by several processes; nil: not called.
	Exported func(ctx context.Context, p *plan.Plan) error
	// Order puts the items that are wanted first to the front; nil: none.
	Order cms.Hints
	// Prefer are ids of items that RunOne tries before it searches; hints, so they may be wrong.
	Prefer []string
	// Solo is shared by the sessions of a process; nil when it runs one lease at a time.
	Solo *engine.Solo
	// SplitOver splits shards of more bytes in the repository into parts when their items are created; 0: none. Not in a store
	// whose items other engines lease.
	SplitOver int64
}

// Cluster is the target cluster of a session. Every field but Tune is nil when the session has none.
type Cluster struct {
	// Ledger records what the session creates outside of the coordination store.
	Ledger Ledger
	// Globals migrates what belongs to no index.
	Globals func(context.Context, *plan.Plan, objects.Ledger) (creation.GlobalsResult, error)
	// Preview logs, before the first phase that writes to the target, how it will differ; nil: nothing.
	Preview func(context.Context, *plan.Plan, Phases) error
	// Policies attaches the policies of the source at the end; nil: none are attached.
	Policies Policies
	Indices  Indices
	Targets  Targets
	// UUIDs returns the UUIDs of those indices that exist.
	UUIDs  func(ctx context.Context, names []string) (map[string]string, error)
	Counts arrival.Counts
	// Version is the target's, which decides on the requests.
	Version target.Version
	// Streams tells data streams of the target apart as Targets does indices, and refuses one that a policy rolls over.
	Streams func(ctx context.Context, name string) (uuid string, err error)
	// Tuner changes settings of the indices this session creates while documents come, as Tune says,
	// and restores what any run of the session has changed.
	Tuner Tuner
	Tune  tuning.Wish
}

// findings are what this process has found out about the session.
type findings struct {
	at      [2]string // phase and state, as Moved was called last; of the main goroutine
	mu      sync.Mutex
	planned *plan.Plan
	byName  map[string]*plan.Index // of planned; all unread indices share one, without a Source; nil before it is needed
	// held are the documents that target indices had before this session; nil before they were counted.
	held   map[string]int64
	before map[string]int64 // operations that target indices had executed then; absent where that is unknown
	resent map[string]bool  // groups of target indices that this process has read again; of the audit
	// previewed belongs to the main flow: phases are worked on one after the other.
	previewed bool
	known     known
}

// Join begins the session or joins it. A *session.ConfigMismatch when it belongs to another migration.
func (s *Session) Join(ctx context.Context) error {
	recorded, err := session.IdentityOf(s.Coordinator).Init(ctx, session.Meta{Settings: s.Settings, Identity: s.Identity})
	if err != nil {
		return err
	}
	if err := s.complete(ctx, recorded); err != nil {
		return err
	}
	s.takeExisting(recorded[ExistingKey])
	return s.retrySnapshot(ctx)
}

// Run works on one lease. near is called when little of it is left to be read; nil: nothing is.
func (s *Session) Run(ctx context.Context, lease *cms.Lease, ahead *shards.Ahead, near func()) (engine.Outcome, error) {
	entry, err := s.entry(ctx, lease.ID.Index, engine.KnownFor)
	if err == nil && lease.Item.End != 0 && entry.Ends == nil { // read before the items were created
		entry, err = s.entry(ctx, lease.ID.Index, 0)
	}
	if errors.Is(err, errNoIndex) || errors.Is(err, errUnproven) {
		return engine.Failed, errors.Join(err, lease.Fail(ctx, fault.Text(err), nil))
	}
	if err != nil {
		// Also when ctx has ended: no other process releases it.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.FinalReadTimeout)
		defer cancel()
		return engine.Released, errors.Join(err, lease.Release(rctx, cms.CauseOutage))
	}
	outcome, err := s.Runner.Run(ctx, lease, s.Shards.Source(entry, lease.Item.End, ahead, near), func(ctx context.Context, maxAge time.Duration) error {
		if entry.Stream != nil { // what a policy rolls over meanwhile would be there twice if it is sent again
			maxAge = 0
		}
		return s.checkTargets(ctx, entry, maxAge)
	})
	if errors.Is(err, engine.ErrTargetReplaced) && ctx.Err() == nil {
		if _, ferr := s.Coordinator.FailIndex(ctx, lease.ID.Index, fault.Text(err)); ferr != nil {
			err = errors.Join(err, ferr)
		}
	}
	return outcome, err
}

// acquire leases an item: one that hints prefer, else what a search finds. Preferences are given up
// after one use, because they were right for one moment only.
func (s *Session) acquire(ctx context.Context) (*cms.Lease, error) {
	prefer := s.Prefer
	s.Prefer = nil
	lease, err := s.Coordinator.AcquireOneOf(ctx, s.Holder, prefer)
	if lease != nil || err != nil {
		return lease, err
	}
	return s.Coordinator.AcquireNext(ctx, s.Holder, s.Order)
}

// RunOne joins the session and does one step of it: what one phase before the documents
// needs (Stepped), or one lease of an item to its end. started, when not nil, is given the
// lease before the work begins. Errors beside those of the work: cms.ErrAllDone when
// every phase of this run is complete, for documents after an audit that found every chain
// whole; a *cms.NoneAvailable when others hold what is left; a *PhaseFailed.
func (s *Session) RunOne(ctx context.Context, started func(*cms.Lease)) (engine.Outcome, cms.Item, error) {
	s.at = [2]string{} // a slot that runs again reports its phase again
	if err := s.Join(ctx); err != nil {
		return engine.Released, cms.Item{}, err
	}
	for {
		st, worked, err := s.next(ctx)
		if errors.Is(err, cms.ErrAllDone) {
			if cerr := s.checkSnapshot(ctx); cerr != nil {
				err = cerr
			}
		}
		if err != nil {
			return engine.Released, cms.Item{}, err
		}
		if worked {
			return engine.Stepped, cms.Item{}, nil
		}
		if st.Does == WorkOnItem {
			break
		}
	}
	lease, err := s.acquire(ctx)
	if errors.Is(err, cms.ErrAllDone) {
		s.moveTo(PhaseDocuments, session.PhaseAudit)
		report, clean, ferr := s.EndDocuments(ctx, false)
		switch {
		case ferr != nil:
			return engine.Released, cms.Item{}, ferr
		case !clean:
			return engine.Released, cms.Item{}, &cms.NoneAvailable{Holder: "none", Open: int64(report.Open + len(report.Repaired))}
		}
		return engine.Released, cms.Item{}, err
	}
	var none *cms.NoneAvailable
	if errors.As(err, &none) && none.Unseeded {
		if err = s.SeedOnce(ctx, s.Holder); err == nil {
			return engine.Stepped, cms.Item{}, nil
		}
	}
	if err != nil {
		return engine.Released, cms.Item{}, err
	}
	if !s.Solo.Enter(lease.Alone()) {
		if err := lease.Release(ctx, cms.CausePause); err != nil {
			return engine.Released, lease.Item, err
		}
		now, _, err := s.Coordinator.Leases().Now(ctx)
		if err != nil {
			return engine.Released, lease.Item, err
		}
		return engine.Released, lease.Item, &cms.NoneAvailable{Holder: s.Holder, NextExpiry: now.Add(time.Second), Open: 1}
	}
	defer s.Solo.Leave()
	if started != nil {
		started(lease)
	}
	outcome, err := s.Run(ctx, lease, nil, nil)
	item, ended := lease.Ended()
	if ended {
		return outcome, item, err
	}
	item = lease.Item
	// Only for the record of this process, which must end even when the store hangs.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.FinalReadTimeout)
	defer cancel()
	if now, gerr := s.Coordinator.Item(rctx, lease.ID); gerr == nil {
		item = now
	}
	return outcome, item, err
}

// next performs the current step, unless that is work on an item. It waits for other workers'
// short steps; it returns a *cms.NoneAvailable while another worker watches the snapshot or makes the audit.
func (s *Session) next(ctx context.Context) (st step, worked bool, err error) {
	if st, err = s.look(ctx); err != nil {
		return st, false, err
	}
	if st.over {
		return st, false, cms.ErrAllDone
	}
	worked, err = s.act(ctx, st)
	var busy *cms.NoneAvailable
	if errors.As(err, &busy) && st.Does != MakeSnapshot && st.Does != AuditItems {
		return st, false, s.waitForOthers(ctx, st, busy)
	}
	// Listing the indices is half of the phase only.
	return st, worked && st.Does != ListIndices, err
}
