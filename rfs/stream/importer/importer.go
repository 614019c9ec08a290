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
	RefuseTypes Types = "AUTO" // documents that have one fail
	EmitTypes   Types = "ON"   // sent as they are, for targets that know types
	DropTypes   Types = "OFF"  // left out: documents of two types with one id become one
)

// Indices is asked before the first document goes to an index.
type Indices interface {
	// Made reports whether an index has documents of this session only, as far as this process knows.
	Made(name string) bool
	Ensure(ctx context.Context, name []byte) error
}

// Ledger records what the created indices hold when the import ends. *rollback.Ledger is one.
type Ledger interface {
	// Seal is called when every document has arrived, Unseal before an import that ended is continued.
	Seal(ctx context.Context, own ...rollback.Own) error
	Unseal(ctx context.Context, names ...string) error
}

// Import is one process's part in an import. All fields but those with a default are needed.
type Import struct {
	Source  Source
	Store   cms.Store // of the session
	Session Session
	Clock   timing.Clock
	Log     *slog.Logger
	Indices Indices
	Ledger  Ledger // nil: nothing is recorded
	// AskAll returns why no document may be sent to some of the indices, before the first one is sent; nil: the files are not read for
	// the names of their indices, and Indices alone decides.
	AskAll func(ctx context.Context, indices []string) error
	// Arrived compares the target with the sum of the documents sent, when none is left; nil: nothing is compared.
	Arrived func(ctx context.Context, sent cms.Counts) (progress.Arrival, []rollback.Own, error)
	// Identity binds the session to its destination and to what else two processes must agree on.
	Identity    map[string]string
	Destination engine.Destination
	Failed      bulk.Recorder
	Bulk        bulk.Options // bounds of one worker's bodies; Sender, Recorder and MayStart are set here

	Workers       int           // windows at the same time; 1
	Window        int64         // bytes of a part of an uncompressed file, at least; DefaultWindow
	Lease         time.Duration // of an item, the first; DefaultLease
	SkewTolerance time.Duration // how far the clock may be off the store's; 0: any
	MaxAttempts   int           // in a row without progress, after which an item is worked on alone; DefaultMaxAttempts
	Unavailable   time.Duration // how long the store may not answer; bulk.DefaultGiveUp
	Types         Types         // RefuseTypes
	MaxSource     int64         // the longest source that the target takes, in bytes; 0: unknown
	// Memory bounds the memory of long lines, within the memory of the process; nil: a budget of the import's own.
	Memory *budget.Budget
	// Frames bounds how far zstd frames of all slots look back, of MaxBack bytes; nil: a budget of the import's own.
	Frames        *budget.Budget
	IncludeSystem bool // import into indices whose names start with a dot, too; .ds-… always are

	// AllowPartial imports the existing part of an export that is incomplete, or whose files are missing or differ.
	AllowPartial bool

	// Token identifies this process and is the prefix of the names of all holders of its windows; a random one when empty.
	Token string
	// Solo is shared by all slots of the process; nil: the import's own.
	Solo *engine.Solo
	// Tell is called when a window is claimed, kept or ended; nil: not reported.
	Tell func(Hold)

	items    *cms.Coordinator
	runner   *engine.Runner
	claiming chan struct{} // holds the worker that looks for an item
	seen     seen
	looked   time.Duration // when the account was read, on the boot-time clock; guarded by claiming
	files    []file
	digests  []expected // of files that a manifest describes
	exports  exports
	bound    bool
	unsealed bool // the import had ended and is continued
}

// Hold is an item that this process has. Left is 0 when it has it no more.
type Hold struct {
	Window string // its id
	Holder string
	File   string
	Number int           // of the file in the sorted list
	Left   time.Duration // for which the store has granted it, from now
}

// seen holds the results and findings of this process.
type seen struct {
	documents, failed, bytes, windows atomic.Int64
	fleet                             atomic.Pointer[Status]
}

// Status is the progress of the import of all processes, as last read by this one.
type Status struct {
	Totals
	Complete bool      `json:"complete"`
	Problems []Problem `json:"problems"`
	// Arrival holds the counts of the target when the import was complete; nil before, and where nothing was compared.
	Arrival *progress.Arrival `json:"arrival,omitempty"`
}

// Own counts the work of this process; documents of windows that were lost count, too.
type Own struct {
	Documents int64 // read
	Failed    int64 // of them, those recorded as failed
	Bytes     int64 // of their sources
	Windows   int64
}

// Seen returns the state of the import as of the last look; the zero value before the first.
func (m *Import) Seen() Status {
	if s := m.seen.fleet.Load(); s != nil {
		return *s
	}
	return Status{}
}

// Own returns what this process did.
func (m *Import) Own() Own {
	return Own{Documents: m.seen.documents.Load(), Failed: m.seen.failed.Load(), Bytes: m.seen.bytes.Load(), Windows: m.seen.windows.Load()}
}

// Run participates until the import is complete, ctx ends (no error then), or this process cannot continue. It may
// be called once.
func (m *Import) Run(outer context.Context) (Status, error) {
	m.prepare()
	if err := m.survey(outer); err != nil {
		return m.Seen(), unlessEnded(outer, err)
	}
	if err := m.begin(outer); err != nil || m.Seen().Complete {
		return m.Seen(), unlessEnded(outer, err)
	}
	work, ctx := errgroup.WithContext(outer)
	for slot := range m.Workers {
		work.Go(func() error { return m.work(ctx, slot) })
	}
	err := work.Wait()
	return m.Seen(), unlessEnded(outer, err)
}

// survey lists the files, and refuses an incomplete export.
func (m *Import) survey(ctx context.Context) error {
	s, err := list(ctx, m.Source)
	if err != nil {
		return err
	}
	m.files = s.files
	var partial []finding
	if m.digests, partial, err = m.compareManifests(ctx, s); err != nil {
		return err
	}
	m.exports = s.exports
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
