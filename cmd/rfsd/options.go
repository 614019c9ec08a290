package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/trial"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// options are what one run does, made of its settings.
type options struct {
	version string // of this program

	repoURI      string
	from         string // files of an import
	snapshot     string
	stores       repo.Options
	remotes      []string // remote stores that shallow snapshots refer to: URI or NAME=URI
	allowPartial bool
	verifyFirst  bool
	splitOver    int64 // bytes; 0: shards stay whole
	verify       bool  // compare the target with the snapshot at the end

	origin      origin // the source cluster
	target      target.Config
	exportDir   string
	compression string
	discard     bool
	// allowDuplicates: documents may go to a target that gives them ids of its own.
	allowDuplicates bool
	allowSource     bool // the target may be the source
	// acceptReduced: documents whose sources lack parts do not change the exit code.
	acceptReduced bool

	indices        pattern.Selection
	includeSystem  bool
	phases         phase.Phases
	globals        metadata.Selection // what of the cluster's state is migrated
	rules          *rules.Set         // nil: none
	overrides      metadata.Overrides // wishes about every created index
	multiType      plan.MultiType
	emitType       plan.EmitType
	dataStreams    plan.DataStreams
	parentJoin     string
	rebuildSources bool
	rebuildText    bool
	duplicateKeys  plan.DuplicateKeys
	existing       bulk.Existing // "": not chosen

	number         int  // of the round of a cluster that is followed
	repeats        bool // it runs rounds until it is stopped
	deleteVanished bool // target indices of indices that the source has no more

	follow *plan.Follow // place in a chain of snapshots; nil: none
	first  *options     // of the session that migrated the first snapshot of the chain; nil: this session
	driver *slog.Logger // of a node that drives rounds, whose items the workers of its fleet work on; nil: this process works on them

	trial   *plan.Trial   // nil: none
	measure time.Duration // the rate of a trial run, for at most so long; 0: not at all
	price   *trial.Price  // nil: none

	session          string
	coordinatorFile  string
	coordinator      target.Config      // another cluster for the state of the work; no URL: the target
	bucket           config.StateBucket // or a bucket
	ownerFile        string
	minExponent      int           // of new items' leases; a hint of the fleet
	tries            int           // items of a search, likewise
	recordEvery      time.Duration // progress is recorded so often, likewise; 0: the default
	guard            targetGuard
	leases           config.Leases
	slots            int
	bulkDocs         int
	bulkBytes        int
	maxDocument      int64 // longest source that is read, in bytes
	connections      int
	maxRate          int64 // bytes per second that are sent; 0: no limit
	maxReadRate      int64 // bytes per second that are read; 0: no limit
	reading          *throttle.Bucket
	maxLatency       time.Duration // of requests of the target, beyond which its load is lowered; 0: never
	order            cms.Hints
	failedDir        string // or s3://bucket/prefix
	sinkNamed, named bool   // of a redrive: --failed-documents and --index-allowlist were given
	failedContent    failed.Content
	recorded         bool // redrive takes failed documents from the control index
	failedShared     bool // every process of the fleet sees the directory
	fleet            bool // there may be others who take part
	maxFailed        int64
	unavailable      time.Duration
	log              report.Logging
}

// newOptions returns the options of a migration.
func newOptions(version string, m config.Migrate) (options, error) {
	o := options{
		version: version,
		repoURI: m.Repository.URI, remotes: m.Repository.Remotes, snapshot: m.Snapshot.Name, stores: m.Repository.Stores.Options(),
		verifyFirst: m.Reading.VerifyFirst,
		exportDir:   m.Export.Dir, compression: string(m.Export.Compression), discard: m.Export.Discard, allowSource: m.Confirm.AllowSource, acceptReduced: m.Accept.Reduced,
		indices:   m.Indices.Selection(),
		multiType: plan.MultiType(m.Conversion.MultiType), emitType: plan.EmitType(m.Transfer.Types.Emit), dataStreams: plan.DataStreams(m.Conversion.DataStreams),
		rebuildSources: m.Conversion.RebuildSources, rebuildText: m.Conversion.RebuildText,
		parentJoin: m.Conversion.ParentJoin, duplicateKeys: plan.DuplicateKeys(m.Conversion.DuplicateKeys),
		leases: m.Leases, splitOver: int64(m.Splitting.Over),
	}
	o.limitReading(m.Repository.Pace)
	switch {
	case m.Tuning.Tune:
		o.guard.tune = tuning.All
	case !m.Tuning.Keep:
		o.guard.tune = tuning.Refreshes
	}
	if err := o.transfer(m.Transfer); err != nil {
		return o, err
	}
	var err error
	if o.order, err = m.Priority.Hints(); err != nil {
		return o, err
	}
	if err := o.derive(m.Origin); err != nil {
		return o, err
	}
	if err := o.choosePhases(phase.Phases(m.Conversion.Phases)); err != nil {
		return o, err
	}
	if err := o.convert(m.Conversion); err != nil {
		return o, err
	}
	return o, o.defaultPaths()
}

// limitReading sets how fast this process reads.
func (o *options) limitReading(p config.ReadPace) {
	o.maxReadRate = int64(p.Max)
	o.reading = throttle.New(o.maxReadRate)
	o.stores.Rate = o.reading
}

// transfer sets what all commands that send documents have in common.
func (o *options) transfer(t config.Transfer) (err error) {
	o.connections, o.bulkDocs, o.bulkBytes, o.maxRate = t.Bulk.Connections, t.Bulk.Documents, int(t.Bulk.Size.Bytes), int64(t.Bulk.MaxRate)
	o.allowDuplicates = t.Sending.AllowDuplicates
	o.maxDocument, o.maxLatency = int64(t.Document.Most), t.Bulk.MaxLatency
	o.existing = bulk.Existing(t.Existing.Documents)
	o.slots, o.unavailable, o.log = t.Slots.Number, t.Patience.Unavailable, report.Logging{Level: t.Log.Least(), Format: t.Log.Format, Quiet: t.Log.Quiet}
	o.allowPartial, o.includeSystem, o.guard.ignoreDisks = t.Partial.Allow, t.System.Include, t.Disks.Ignore
	o.session, o.coordinatorFile = t.State.Session.Name, t.State.File
	o.failedDir, o.failedShared, o.maxFailed = t.Failed.Place.Dir, t.Failed.Shared, int64(t.Failed.Limit.Max)
	o.failedContent = failed.Content(t.Failed.Content)
	if o.failedDir == "" && !o.discard {
		o.failedDir = defaultFailedDir(t.State.Session.OrDefault())
	}
	o.bucket = t.State.Bucket
	if t.State.Coordinator.Host != "" {
		o.coordinator = o.cluster(t.State.Coordinator, "coordinator")
	}
	if t.Target.Cluster.Host != "" {
		o.target = o.cluster(t.Target.Cluster, "target")
		o.target.RunPipelines = t.Sending.RunPipelines
		// Compressing for one's own machine costs the processor and saves nothing.
		o.target.CompressRequests = !t.Sending.DisableCompression && !isLoopback(o.target.URL)
		o.target.Discover = t.Bulk.Discover
		o.target.PlainAnswers = !o.target.CompressRequests
	}
	return nil
}

// cluster returns a cluster as its client takes it.
func (o *options) cluster(c config.Cluster, role string) target.Config {
	return c.Config(role, "rfsd/"+o.version, o.connections)
}

// shares reports whether a cluster or a bucket keeps the state of the work, so that any number of processes can share it.
func (o options) shares() bool {
	return o.coordinatorFile == "" && (o.target.URL != "" || o.coordinator.URL != "" || o.bucket.URI != "")
}

// stateInTarget reports whether the target keeps the state of the work.
func (o options) stateInTarget() bool {
	return o.shares() && o.bucket.URI == "" && o.coordinator.URL == ""
}

// isLoopback reports whether all addresses of a cluster are of this machine.
func isLoopback(text string) bool {
	all, err := target.Addresses(text)
	return err == nil && !slices.ContainsFunc(all, func(u *url.URL) bool { return !target.IsLoopback(u) })
}

// choosePhases takes the phases that were asked for, or all that are possible.
func (o *options) choosePhases(wanted phase.Phases) error {
	var possible phase.Phases
	if o.origin.derived {
		possible = append(possible, phase.PhaseSnapshot)
	}
	if o.target.URL != "" {
		possible = append(possible, phase.PhaseMetadata, phase.PhaseIndices)
	}
	possible = append(possible, phase.PhaseDocuments)
	if o.phases = wanted; len(wanted) == 0 {
		o.phases = possible
	}
	for _, name := range o.phases {
		if !possible.Has(name) {
			if name == phase.PhaseSnapshot {
				return config.Usage("--phases: %s needs a source cluster (--source-host), and no --snapshot-name", name)
			}
			return config.Usage("--phases: %s needs a target cluster (--target-host)", name)
		}
	}
	return nil
}

// convert takes over what is migrated of the cluster's state, and how indices are changed.
func (o *options) convert(c config.Conversion) (err error) {
	if c.Rules.Path != "" {
		o.rules, err = rules.Load(c.Rules.Path)
	} else if c.RulesText != "" {
		o.rules, err = rules.Parse("the fleet's rules", []byte(c.RulesText))
	}
	if err != nil {
		return err
	}
	o.globals = metadata.Selection{
		Templates: c.Templates.Match(), ComponentTemplates: c.ComponentTemplates.Match(), IndexTemplates: c.IndexTemplates.Match(),
		Pipelines: c.Include.Pipelines, Scripts: c.Include.Scripts, Policies: c.Include.Policies, Attach: c.Include.Attachments, Managed: c.Include.Managed,
		Rules: o.rules, Without: c.WithoutRules,
	}
	o.overrides = metadata.Overrides{Aliases: metadata.AliasTime(c.Aliases), Replicas: c.Replicas.Number, Shards: c.Shards, Rename: c.Names.Rename, Without: c.WithoutRules}
	return o.overrides.Check()
}

// editor returns the rules about the documents of an index, nil when there are none.
func (o options) editor(index string) shards.DocumentEditor {
	if e := o.rules.Documents(index); e != nil {
		return e
	}
	return nil
}

func (o *options) sessionOrDefault() string {
	if o.session == "" {
		return "default"
	}
	return o.session
}

// defaultPaths derives where the state of the work is kept.
func (o *options) defaultPaths() error {
	if o.coordinatorFile != "" || o.discard && !o.shares() {
		return nil
	}
	if o.exportDir != "" && o.bucket.URI == "" {
		o.coordinatorFile = filepath.Join(o.exportDir, ".rfsd", "coordinator.db")
		return nil
	}
	dir, err := state.Dir()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(o.repoURI + "\x00" + o.snapshot + "\x00" + o.target.URL + "\x00" + o.coordinator.URL + "\x00" + o.bucket.URI))
	o.ownerFile = filepath.Join(dir, fmt.Sprintf("%s-%s.owner", o.sessionOrDefault(), hex.EncodeToString(sum[:8])))
	return nil
}

// origin is the source cluster and how the snapshot is created on it.
type origin struct {
	cluster  target.Config
	derived  bool // the session creates the snapshot, under a name that follows from its settings
	name     string
	kind     string            // of the repository: fs, s3, gcs or azure
	settings map[string]string // of the repository, as the source takes them
	global   bool
	retry    bool
	noWait   bool
}

// derive takes over the source cluster.
func (o *options) derive(from config.Origin) error {
	if from.Cluster.Host == "" {
		return nil
	}
	o.origin = origin{
		cluster: o.cluster(from.Cluster, "source"), derived: o.snapshot == "", name: from.Repository,
		global: !from.WithoutGlobalState, retry: from.Retry, noWait: from.NoWait,
	}
	kind, settings, err := live.RepositorySettings(from.Type, o.repoURI, from.Location, o.stores.S3.Region)
	if err != nil {
		return err
	}
	maps.Copy(settings, from.Settings)
	if from.MaxRate != "" {
		settings["max_snapshot_bytes_per_sec"] = from.MaxRate
	}
	o.origin.kind, o.origin.settings = kind, settings
	return nil
}

// defaultFailedDir returns the folder for failed documents of a session that names no other.
func defaultFailedDir(session string) string { return filepath.Join("rfsd-failed", session) }

// snapshotOptions say which snapshot is read, or created under a name that every worker derives.
func (o options) snapshotOptions(settings map[string]string) phase.SnapshotOptions {
	s := phase.SnapshotOptions{
		Name: o.snapshot, Derived: o.origin.derived, Repository: o.origin.name, Retry: o.origin.retry, AllowPartial: o.allowPartial, NoWait: o.origin.noWait,
	}
	if s.Derived {
		s.Name = session.SnapshotName(o.session, settings)
	}
	return s
}

// liveSource returns the source cluster. The snapshot is made of the allowed indices when all of them are named, without the ones that are
// not followed any more.
func (o options) liveSource() *live.Source {
	s := &live.Source{
		Connect:    func(ctx context.Context) (rest.API, error) { return target.New(ctx, o.origin.cluster) },
		Repository: live.Repository{Name: o.origin.name, Type: o.origin.kind, Settings: o.origin.settings}, Global: o.origin.global, Partial: o.allowPartial,
	}
	if o.indices.Exclude == nil && !slices.ContainsFunc(o.indices.Include, func(p pattern.Pattern) bool { return !p.Exact() }) {
		s.Indices = o.indices.Include.Strings()
	}
	if o.follow != nil {
		s.Without, s.Vanishing = o.follow.Ended, o.follow.Since != ""
		if len(o.follow.Group) > 0 {
			s.Selects = o.request().Selects
		}
	}
	return s
}

// makesSnapshots reports whether this session creates the snapshot that it reads.
func (o options) makesSnapshots() bool { return o.origin.derived }

// pauses reports whether this process waits while it is paused; another one would end.
func (o options) pauses() bool { return o.repeats && o.shares() }

// importOptions are what an import does, made of its settings.
type importOptions struct {
	options
	types   importer.Types
	windows config.Windows
}

// newImportOptions returns the options of an import.
func newImportOptions(version string, i config.Import) (importOptions, error) {
	o := importOptions{
		options: options{version: version, stores: i.Stores.Options(), compression: string(export.None), fleet: true, leases: taskLeases, from: i.Files.From},
		types:   importer.Types(i.Transfer.Types.Emit), windows: i.Windows,
	}
	o.limitReading(i.Pace)
	return o, o.transfer(i.Transfer)
}

// newFilesOptions returns the options of a comparison with files.
func newFilesOptions(version string, v config.VerifyFiles) (importOptions, error) {
	o := importOptions{options: options{version: version, stores: v.Stores.Options(), from: v.Files.From}, types: importer.Types(v.Transfer.Types.Emit)}
	o.limitReading(v.Pace)
	return o, o.transfer(v.Transfer)
}

// consumeOptions are what a stream's session does, made of its settings.
type consumeOptions struct {
	options
	stream config.Stream
	create bool // missing indices
}

// newConsumeOptions returns the options of a stream's session.
func newConsumeOptions(version string, c config.Consume) (consumeOptions, error) {
	o := consumeOptions{options: options{version: version, stores: c.Stores.Options(), compression: string(export.None), fleet: true, leases: taskLeases}, stream: c.Stream, create: c.NewIndices.Create}
	return o, o.transfer(c.Transfer())
}

// newRedriveOptions returns the options of a redrive.
func newRedriveOptions(version string, c config.Redrive) (options, error) {
	o := options{version: version, stores: c.Repository.Stores.Options(), repoURI: c.Repository.URI, from: c.Files.From, remotes: c.Repository.Remotes, recorded: c.Recorded.Only, fleet: true, compression: "none"}
	o.limitReading(c.Repository.Pace)
	var err error
	if c.Rules.Path != "" {
		if o.rules, err = rules.Load(c.Rules.Path); err != nil {
			return o, err
		}
	}
	o.indices = c.Indices.Selection()
	if err := o.transfer(c.Transfer()); err != nil {
		return o, err
	}
	o.named = len(c.Indices.Include.List) > 0
	o.sinkNamed = c.Failed.Dir != ""
	return o, nil
}

// newMigrateOptions returns the options of rfsd migrate: of a migration, or of its trial run.
func newMigrateOptions(version string, m config.MigrateCommand) (options, error) {
	if m.Trial.Documents == 0 {
		o, err := newOptions(version, m.Migrate)
		o.verify = m.End.Verify
		return o, err
	}
	of, err := m.Trial.Of(m.Migrate)
	if err != nil {
		return options{}, err
	}
	o, err := newOptions(version, of)
	if err != nil {
		return o, err
	}
	o.trial, o.overrides.Aliases = &plan.Trial{Documents: int64(m.Trial.Documents), Prefix: m.Trial.Prefix}, metadata.AliasesNone
	o.measure = m.Trial.Measure
	if m.Trial.Price != "" {
		o.price, err = trial.ReadPrice(m.Trial.Price)
	}
	return o, err
}

// newStateOptions returns the options of a process that only reads the state of a session. A target without an address is none.
func newStateOptions(version string, to config.Cluster, at config.State) options {
	o := options{version: version, connections: 1, session: at.Session.Name, bucket: at.Bucket}
	if to.Host != "" {
		o.target = o.cluster(to, "target")
	}
	if at.Coordinator.Host != "" {
		o.coordinator = o.cluster(at.Coordinator, "coordinator")
	}
	return o
}

// driving returns the options of a node that drives rounds: the workers of its fleet work on their items, and it sends no documents.
func (o options) driving(log *slog.Logger) options {
	o.driver, o.slots, o.maxRate = log, 1, 0
	return o
}

// ofSlot returns the options of one worker, which reads at its pace.
func (o options) ofSlot(in *resources) options {
	o.slots, o.stores.Pace = 1, &in.reads
	return o
}

// ofWorker returns the options of a worker whose daemon has sent hints.
func (o options) ofWorker(hints daemon.WorkerCommand) options {
	o.minExponent, o.tries, o.recordEvery, o.fleet = hints.Exponent, hints.Tries, hints.Record, true
	return o
}

// round returns the options of a round of the cluster that o follows.
func (o options) round(x follow.Round) (options, error) {
	first := o
	if err := clusterOnly(o.target, "following, which changes and deletes documents by their ids and needs index.gc_deletes,"); err != nil {
		return o, err
	}
	o.session, o.follow, o.snapshot, o.number = x.Session, x.Follow, x.Snapshot, x.Number
	switch {
	case x.Snapshot != "":
		o.origin.derived = false
		o.phases = slices.DeleteFunc(slices.Clone(o.phases), func(name string) bool { return name == phase.PhaseSnapshot })
	case !o.origin.derived:
		return o, config.Usage("round %d, which has not ended, makes its snapshot on the source: give --source-host, and no --snapshot-name", x.Number)
	}
	if x.Number == 0 {
		return o, nil
	}
	o.first = &first
	suffix := strings.TrimPrefix(o.session, first.sessionOrDefault()) // -round-1
	if o.coordinatorFile != "" {
		o.coordinatorFile += suffix
	}
	if o.failedDir == defaultFailedDir(first.sessionOrDefault()) {
		o.failedDir = defaultFailedDir(o.session)
	} else if o.failedDir = strings.TrimSuffix(o.failedDir, "/") + "/" + suffix[1:]; !config.InBucket(o.failedDir) {
		o.failedDir = path.Clean(o.failedDir)
	}
	return o, o.defaultPaths()
}

// deleteSnapshot deletes the snapshot that a round made. The record is input: only a snapshot with the derived name of the session is deleted.
func (o options) deleteSnapshot(ctx context.Context, x follow.Round, blobs repo.Repository) error {
	if !x.Made || !o.origin.derived {
		return nil
	}
	made := x
	made.Snapshot = ""
	of, err := o.round(made)
	if err != nil {
		return err
	}
	if name := of.snapshotOptions(of.sessionSettings(blobs)).Name; x.Snapshot == name || x.Snapshot == name+"-2" {
		return of.liveSource().Delete(ctx, x.Snapshot)
	}
	return nil
}

// forgetRound removes the records of a round that is over. Round 0 keeps its records: they hold the others.
func (o options) forgetRound(ctx context.Context, x follow.Round) error {
	of, err := o.round(x)
	switch {
	case err != nil || x.Number == 0:
		return err
	case of.shares():
		return of.place(false).Remove(ctx)
	}
	if err := os.Remove(of.coordinatorFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
