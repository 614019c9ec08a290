package importer

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// Defaults of an Import.
const (
	DefaultWindow      = 64 << 20
	DefaultLease       = time.Minute
	DefaultMaxAttempts = 10
)

// Types selects the treatment of mapping types in action lines; _doc means none.
type Types string

// Treatments of types.
const (
	RefuseTypes Types = "AUTO" // documents with a type fail
	EmitTypes   Types = "ON"   // sent unchanged, for targets that support types
	DropTypes   Types = "OFF"  // removed: documents of two types with the same id become one
)

// Indices checks or creates target indices.
type Indices interface {
	// Made reports whether an index has only documents of this session, as far as this process knows.
	Made(name string) bool
	// Ensure is called before the first document is sent to an index.
	Ensure(ctx context.Context, name []byte) error
	// Create creates an index unless the target has it.
	Create(ctx context.Context, name string) error
}

// Ledger records the state of the created indices when the import ends. *rollback.Ledger is one.
type Ledger interface {
	// Seal is called when every document has arrived, Unseal before an ended import is continued.
	Seal(ctx context.Context, own ...rollback.Own) error
	Unseal(ctx context.Context, names ...string) error
}

// Import is the work of one process in an import. All fields without a default are required.
type Import struct {
	Source  Source
	Store   cms.Store // of the session
	Session Session
	Clock   timing.Clock
	Log     *slog.Logger
	Indices Indices
	Ledger  Ledger // nil: nothing is recorded
	// AskAll is called with all indices before the first document is sent, and returns the reason why documents may not be sent to some
	// of them; nil: the files are not read for the names of their indices, and only Indices decides.
	AskAll func(ctx context.Context, indices []string) error
	// Described returns the indices to create before the first document is sent, because some may have no documents; nil: none.
	Described func(ctx context.Context) ([]string, error)
	// Aliases sets the aliases that wait for the documents; it is called when all have arrived. nil: no alias waits.
	Aliases func(ctx context.Context) error
	// Arrived compares the target with the counts of all sent documents at the end; nil: nothing is compared.
	Arrived func(ctx context.Context, sent cms.Counts) (progress.Arrival, []rollback.Own, error)
	// Missing returns the indices of the import that the target no longer has; it is called when a process finds the import complete. nil:
	// the target is not asked.
	Missing func(ctx context.Context) ([]string, error)
	// Identity binds the session to its destination, and to other settings on which processes must agree.
	Identity    map[string]string
	Destination engine.Destination
	Failed      bulk.Recorder
	Bulk        bulk.Options // limits of one worker's bodies; Run sets Sender, Recorder and MayStart

	Workers       int           // concurrent windows; 1
	Window        int64         // minimum bytes of a part of an uncompressed file; DefaultWindow
	Lease         time.Duration // first lease of an item; DefaultLease
	SkewTolerance time.Duration // maximum difference between the clock and the store's; 0: any
	MaxAttempts   int           // consecutive attempts without progress, after which an item is worked on alone; DefaultMaxAttempts
	Unavailable   time.Duration // tolerated outage of the store; bulk.DefaultStallTimeout
	Types         Types         // RefuseTypes
	MaxSource     int64         // maximum length of a source for the target, in bytes; 0: unknown
	// Memory limits the memory of long lines, within the memory of the process; nil: a budget of the import's own.
	Memory *budget.Budget
	// Frames limits the windows of the zstd frames of all slots; nil: a budget of MaxBack bytes of the import's own.
	Frames        *budget.Budget
	IncludeSystem bool // also import into indices whose names start with a dot; into .ds-… in any case

	// AllowPartial imports the existing part of an export that is incomplete, or whose files are missing or differ.
	AllowPartial bool

	// Token identifies this process and is the prefix of the holder ids of its windows; "": a random one.
	Token string
	// Solo is shared by all slots of the process; nil: the import's own.
	Solo *engine.Solo
	// Tell is called when a window is leased, renewed or ended; nil: not reported.
	Tell func(Hold)

	items    *cms.Coordinator
	runner   *engine.Runner
	claiming chan struct{} // mutex of the workers that search for an item
	seen     seen
	looked   time.Duration // boot time when the account was last read; guarded by claiming
	files    []file
	digests  []expected // of files that a manifest describes
	exports  exports
	bound    bool
	unsealed bool // the import had ended and is continued
	// vanished is the finding that indices of the complete import are gone; nil: they are there.
	vanished *progress.Arrival
}

// Hold is the state of an item of this process. Left is 0 after its lease has ended.
type Hold struct {
	Window string // its id
	Holder string
	File   string
	Number int           // of the file in the sorted list
	Left   time.Duration // remaining time of the lease
}

// seen is the work of this process, and its last reading of the Status.
type seen struct {
	documents, failed, bytes, windows atomic.Int64
	fleet                             atomic.Pointer[Status]
}

// Status is the progress of the import of all processes, as last read by this one.
type Status struct {
	Totals
	Complete bool      `json:"complete"`
	Problems []Problem `json:"problems"`
	// Arrival is the comparison with the target at the end of the import; nil before, and if nothing was compared.
	Arrival *progress.Arrival `json:"arrival,omitempty"`
}

// Own is the work of this process, including windows whose lease was lost.
type Own struct {
	Documents int64 // read
	Failed    int64 // recorded as failed
	Bytes     int64 // of their sources
	Windows   int64
}

// Seen returns the last reading of the Status; the zero value before the first.
func (m *Import) Seen() Status {
	if s := m.seen.fleet.Load(); s != nil {
		return *s
	}
	return Status{}
}

// Own returns the work of this process so far.
func (m *Import) Own() Own {
	return Own{Documents: m.seen.documents.Load(), Failed: m.seen.failed.Load(), Bytes: m.seen.bytes.Load(), Windows: m.seen.windows.Load()}
}

// Run imports until the import is complete, ctx is done (then without an error), or this process cannot continue. It may
// be called once.
func (m *Import) Run(outer context.Context) (Status, error) {
	m.prepare()
	if err := m.survey(outer); err != nil {
		return m.Seen(), unlessEnded(outer, err)
	}
	if err := m.join(outer); err != nil || m.Seen().Complete {
		return m.Seen(), unlessEnded(outer, err)
	}
	work, ctx := errgroup.WithContext(outer)
	for slot := range m.Workers {
		work.Go(func() error { return m.work(ctx, slot) })
	}
	err := work.Wait()
	return m.Seen(), unlessEnded(outer, err)
}

// survey lists the files. It returns ErrPartial for an incomplete export.
func (m *Import) survey(ctx context.Context) error {
	s, err := list(ctx, m.Source)
	if err != nil {
		return err
	}
	var partial []finding
	if m.digests, partial, err = m.compareManifests(ctx, s); err != nil {
		return err
	}
	m.files, m.exports = s.files, s.exports
	return m.refuse(partial)
}

// unlessEnded drops the error of a process that was asked to stop.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (m *Import) prepare() {
	m.Workers = max(m.Workers, 1)
	if m.Window <= 0 {
		m.Window = DefaultWindow
	}
	if m.Lease <= 0 {
		m.Lease = DefaultLease
	}
	if m.MaxAttempts <= 0 {
		m.MaxAttempts = DefaultMaxAttempts
	}
	if m.Unavailable <= 0 {
		m.Unavailable = bulk.DefaultStallTimeout
	}
	if m.Types == "" {
		m.Types = RefuseTypes
	}
	if m.Memory == nil {
		m.Memory = budget.New(maxLine, 0)
	}
	if m.Frames == nil {
		m.Frames = budget.New(MaxBack, 0)
	}
	if m.Token == "" {
		m.Token = primitive.Token()
	}
	if m.Tell == nil {
		m.Tell = func(Hold) {}
	}
	if m.Solo == nil {
		m.Solo = new(engine.Solo)
	}
	m.claiming = make(chan struct{}, 1)
	if m.Bulk.StallTimeout <= 0 {
		m.Bulk.StallTimeout = bulk.DefaultStallTimeout
	}
	m.runner = &engine.Runner{
		Destination: m.Destination, Failed: m.Failed, Bulk: m.Bulk, Meter: engine.NewMeter(), Clock: m.Clock, Log: m.Log, RecordEvery: m.Lease / 6,
	}
}
