package wiring

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/trial"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/rfs/stream/resend"
)

// Options describe one run, made of its settings.
type Options struct {
	version string // of this program

	repoURI      string
	from         string // files of an import
	Snapshot     string
	stores       repo.Options
	remotes      []string // remote stores that shallow snapshots refer to: URI or NAME=URI
	AllowPartial bool
	verifyFirst  bool
	Verify       bool // compare the target with the snapshot at the end

	origin      origin // the source cluster
	Target      target.Config
	exportDir   string
	compression string
	Discard     bool
	// allowDuplicates permits a target that assigns ids itself.
	allowDuplicates bool
	allowSource     bool // the target may be the source
	// AcceptReduced keeps documents whose sources lack parts from changing the exit code.
	AcceptReduced bool

	indices       pattern.Selection
	includeSystem bool
	phases        phase.Phases
	globals       metadata.Selection // what of the cluster's state is migrated
	rules         *rules.Set         // nil: none
	overrides     metadata.Overrides // wishes about every created index
	conversion    plan.Request       // how documents and shards are read; Request completes it
	existing      bulk.Existing      // "": not chosen

	round          follow.Round // of a cluster that is followed
	Repeats        bool         // it runs rounds until it is stopped
	Renews         bool         // each run of a round replaces a failed snapshot
	DeleteVanished bool         // target indices of indices that the source has no more

	follow *plan.Follow // place in a chain of snapshots; nil: none
	first  *Options     // of the session that migrated the first snapshot of the chain; nil: this session
	Driver *slog.Logger // of a node that drives rounds, whose items the workers of its fleet work on; nil: this process works on them

	Trial   *plan.Trial   // nil: none
	Measure time.Duration // the rate of a trial run, for at most so long; 0: not at all
	price   *trial.Price  // nil: none

	Session          string
	coordinatorFile  string
	coordinator      target.Config      // another cluster for the state of the work; no URL: the target
	bucket           config.StateBucket // or a bucket
	ownerFile        string
	minExponent      int           // of new items' leases, as the fleet hints
	tries            int           // maximum number of items of a search, as the fleet hints
	recordEvery      time.Duration // interval at which progress is recorded, as the fleet hints; 0: the default
	guard            targetGuard
	leases           config.Leases
	Slots            int
	bulkDocs         int
	bulkBytes        int
	maxDocument      int64 // longest source that is read, in bytes
	connections      int
	maxRate          int64 // bytes per second that are sent; 0: no limit
	maxReadRate      int64 // bytes per second that are read; 0: no limit
	reading          *throttle.Bucket
	maxLatency       time.Duration // of requests of the target, beyond which its load is lowered; 0: never
	order            cms.Hints
	FailedDir        string // or s3://bucket/prefix
	sinkNamed, named bool   // of a redrive: --failed-documents and --index-allowlist were given
	FailedContent    failed.Content
	recorded         bool // redrive takes failed documents from the control index
	failedShared     bool // every process of the fleet sees the directory
	fleet            bool // other processes may share the work
	maxFailed        int64
	Unavailable      time.Duration
	Log              report.Logging
}

// ImportOptions describe an import, or a comparison with its files.
type ImportOptions struct {
	Options
	types   importer.Types
	windows config.Windows
}

// StreamOptions describe the session of a stream.
type StreamOptions struct {
	Options
	Stream config.Stream
	create bool // missing indices
}

// Shares reports whether a cluster or a bucket keeps the state of the work, so that any number of processes can share it.
func (o Options) Shares() bool {
	return o.coordinatorFile == "" && (o.Target.URL != "" || o.coordinator.URL != "" || o.bucket.URI != "")
}

// stateInTarget reports whether the target keeps the state of the work.
func (o Options) stateInTarget() bool {
	return o.Shares() && o.bucket.URI == "" && o.coordinator.URL == ""
}

// MakesSnapshots reports whether this session creates the snapshot that it reads.
func (o Options) MakesSnapshots() bool { return o.origin.derived }

// Merges reports whether rules send documents of indices to target indices of others.
func (o Options) Merges() bool { return o.rules.Merges() }

// Pauses reports whether this process waits while it is paused; another one would end.
func (o Options) Pauses() bool { return o.Repeats && o.Shares() }

// SessionOrDefault returns the name of the session.
func (o Options) SessionOrDefault() string {
	return cmp.Or(o.Session, config.DefaultSession)
}

// RedrivePlace returns the name of the place that a redrive takes documents from.
func (o Options) RedrivePlace() string {
	if o.recorded {
		return resend.ControlIndex
	}
	return o.FailedDir
}

// Driving returns the options of a node that drives rounds: the workers of its fleet work on their items, and it sends no documents.
func (o Options) Driving(log *slog.Logger) Options {
	o.Driver, o.Slots, o.maxRate = log, 1, 0
	return o
}

// OfSlot returns the options of one worker, which reads at its pace.
func (o Options) OfSlot(in *Resources) Options {
	o.Slots, o.stores.Pace = 1, &in.reads
	return o
}

// OfWorker returns the options of a worker whose daemon has sent hints.
func (o Options) OfWorker(hints daemon.WorkerCommand) Options {
	o.minExponent, o.tries, o.recordEvery, o.fleet = hints.Exponent, hints.Tries, hints.Record, true
	return o
}

// skewTolerance returns the allowed distance to the clock of the coordination store; 0, which is any, for a file,
// which takes the clock of this process.
func (o Options) skewTolerance() time.Duration {
	if !o.Shares() {
		return 0
	}
	return o.leases.Skew.Tolerance
}
