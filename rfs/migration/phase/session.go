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

// Targets reads UUIDs of indices of the target cluster.
type Targets interface {
	// IndexUUID returns the UUID of an index; an fs.ErrNotExist if it does not exist.
	IndexUUID(ctx context.Context, name string) (string, error)
}

// Tuner changes settings of target indices for the duration of the migration.
type Tuner interface {
	Tune(ctx context.Context, targets []string, scope tuning.Scope) error
	Harden(ctx context.Context, targets []string) error
	Remember(ctx context.Context, targets []string) error
	Restore(ctx context.Context) ([]tuning.Restored, error)
}

// Session is one process of a migration: the coordination store and what each phase needs. Phases must not include a phase that lacks the
// fields that it needs.
type Session struct {
	Coordinator *cms.Coordinator
	// Root is the coordinator of the session that migrated the first snapshot of a followed cluster, which holds the records of the target;
	// nil: this session.
	Root *cms.Coordinator
	// DeleteVanished states that target indices of the session are deleted if their indices no longer exist on the source.
	DeleteVanished bool

	Holder   string            // id of this process, unique over all processes and runs
	Settings map[string]string // settings that must be the same in all processes of a session
	// Identity binds the session to its destination (Destination… keys) and holds other values that must be the same in all processes. The
	// snapshot's UUID is added when it is known.
	Identity map[string]string
	Phases   Phases
	// Existing is the chosen treatment of documents whose ids exist on the target; "": none chosen.
	Existing bulk.Existing
	// Moved is called with the phase and the state of its record whenever this worker moves to another one, for status reports. nil: not
	// reported.
	Moved func(phase, state string)
	Log   *slog.Logger
	// Jitter returns a random number in [0,1) for pauses; nil: rand.Float64.
	Jitter func() float64
	Source
	Transfer
	Cluster
	findings
}

// Source is the repository of a session and the cluster that creates its snapshot.
type Source struct {
	Snapshot  SnapshotOptions
	Snapshots Snapshots // on the source cluster; nil if no snapshot is created
	// Plan reads a snapshot and plans its migration. Only processes that prepare work call it.
	Plan func(ctx context.Context, snapshot string) (*plan.Plan, error)
	// SnapshotUUID reads the UUID of a snapshot; nil: completed work is not checked against the repository.
	SnapshotUUID func(ctx context.Context, snapshot string) (string, error)
	// Request holds the settings with which index entries are compared; nil: entries are trusted.
	Request *plan.Request
}

// Transfer sends the documents of a session.
type Transfer struct {
	Runner *engine.Runner
	Shards shards.Reader // of the snapshot
	// Redirects returns the target indices to which rules send documents of an index of the snapshot; nil: none.
	Redirects func(index string) []string
	// Exported is called with all indices before an export is complete, possibly by several processes; nil: not called.
	Exported func(ctx context.Context, p *plan.Plan) error
	// Order moves preferred items to the front; nil: none.
	Order cms.Hints
	// Prefer holds ids of items that RunOne tries before it searches. They are hints and may be out of date.
	Prefer []string
	// Solo is shared by the sessions of a process; nil if it runs one lease at a time.
	Solo *engine.Solo
	// SplitOver is the repository size in bytes above which shards are split into parts when their items are created; 0: never. It must be 0
	// in a store whose items other programs lease.
	SplitOver int64
}

// Cluster is the target cluster of a session. Without one, every field except Tune is nil.
type Cluster struct {
	// Ledger records what the session creates outside of the coordination store.
	Ledger Ledger
	// Globals migrates objects that belong to no index.
	Globals func(context.Context, *plan.Plan, objects.Ledger) (creation.GlobalsResult, error)
	// Preview logs, before the first phase that writes to the target, the expected differences; nil: none are logged.
	Preview func(context.Context, *plan.Plan, Phases) error
	// Policies attaches the policies of the source at the end; nil: none are attached.
	Policies Policies
	Indices  Indices
	Targets  Targets
	// UUIDs returns the UUIDs of the indices that exist.
	UUIDs  func(ctx context.Context, names []string) (map[string]string, error)
	Counts arrival.Counts
	// Version is the target's version, on which requests depend.
	Version target.Version
	// Streams returns the UUID of a data stream of the target, and an error if a policy rolls it over.
	Streams func(ctx context.Context, name string) (uuid string, err error)
	// Tuner changes settings of the indices that this session creates while documents are sent, as Tune states, and restores the settings that
	// any run of the session has changed.
	Tuner Tuner
	Tune  tuning.Scope
}

// findings is the state of this process.
type findings struct {
	at      [2]string // last phase and state passed to Moved; used by the main goroutine only
	begun   string    // last start of a phase that was logged; used by the main goroutine only
	mu      sync.Mutex
	planned *plan.Plan
	byName  map[string]*plan.Index // planned by name; all unread indices share one value without a Source; nil until it is needed
	// held is the number of documents that target indices had before this session; nil before they are counted.
	held   map[string]int64
	before map[string]int64 // operations that target indices had executed then; missing if unknown
	resent map[string]bool  // groups of target indices whose shards this process has read again during the audit
	// previewed is used by the main goroutine only.
	previewed bool
	listed    []string             // indices for which this process has just created entries; used by the main goroutine only
	seeded    []session.IndexEntry // entries whose items this process has just seeded; guarded by mu
	known     known
}

// Join starts the session or joins it. It returns a *session.ConfigMismatch if the session belongs to another migration.
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

// Run works on one lease until it ends. near is called when little of the item remains to be read; nil: not called.
func (s *Session) Run(ctx context.Context, lease *cms.Lease, ahead *shards.Ahead, near func()) (engine.Outcome, error) {
	entry, err := s.entry(ctx, lease.ID.Index, engine.KnownFor)
	if err == nil && lease.Item.End != 0 && entry.Ends == nil { // the cached entry was read before the items were created
		entry, err = s.entry(ctx, lease.ID.Index, 0)
	}
	if errors.Is(err, errNoIndex) || errors.Is(err, errUnproven) {
		return engine.Failed, errors.Join(err, lease.Fail(ctx, fault.Text(err), nil))
	}
	if err != nil {
		// Release even if ctx has ended, since no other process can.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.FinalReadTimeout)
		defer cancel()
		return engine.Released, errors.Join(err, lease.Release(rctx, cms.CauseOutage))
	}
	outcome, err := s.Runner.Run(ctx, lease, s.Shards.Source(entry, lease.Item.End, ahead, near), func(ctx context.Context, maxAge time.Duration) error {
		if entry.Stream != nil { // documents sent again after a rollover would be duplicated
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

// acquire leases an item: a preferred one, or else one found by a search. Preferences are used once, because they soon become out of date.
func (s *Session) acquire(ctx context.Context) (*cms.Lease, error) {
	prefer := s.Prefer
	s.Prefer = nil
	lease, err := s.Coordinator.AcquireOneOf(ctx, s.Holder, prefer)
	if lease != nil || err != nil {
		return lease, err
	}
	return s.Coordinator.AcquireNext(ctx, s.Holder, s.Order)
}

// RunOne joins the session and performs one step: a step of a phase before the documents (Stepped), or one lease of an item to its end.
// started, if not nil, is called with the lease before the work starts. In addition to errors of the work it returns cms.ErrAllDone when
// every phase of this run is complete (for documents: after an audit found every chain complete), a *cms.NoneAvailable while others hold
// the remaining work, and a *PhaseFailed.
func (s *Session) RunOne(ctx context.Context, started func(*cms.Lease)) (engine.Outcome, cms.Item, error) {
	s.at = [2]string{} // so that moveTo reports the phase again
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
	// This only updates the record of this process, so it must not block when the store hangs.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.FinalReadTimeout)
	defer cancel()
	if now, gerr := s.Coordinator.Item(rctx, lease.ID); gerr == nil {
		item = now
	}
	return outcome, item, err
}

// next performs the current step unless it is work on an item.
func (s *Session) next(ctx context.Context) (st step, worked bool, err error) {
	if st, err = s.look(ctx); err != nil {
		return st, false, err
	}
	worked, err = s.perform(ctx, st)
	return st, worked, err
}

// perform performs a step unless it is work on an item. It waits for short steps of other workers, and returns a *cms.NoneAvailable while
// another worker watches the snapshot or audits.
func (s *Session) perform(ctx context.Context, st step) (worked bool, err error) {
	if st.over {
		return false, cms.ErrAllDone
	}
	worked, err = s.act(ctx, st)
	var busy *cms.NoneAvailable
	if errors.As(err, &busy) && st.Does != MakeSnapshot && st.Does != AuditItems {
		return false, s.waitForOthers(ctx, st, busy)
	}
	// Listing the indices is only half of the phase.
	return worked && st.Does != ListIndices, err
}
