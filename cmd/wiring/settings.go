package wiring

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/report"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/trial"
	"github.com/rfsd/rfsd/rfs/source/live"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// ForMigration returns the options of a migration.
func ForMigration(version string, m config.Migrate) (Options, error) {
	o := Options{
		version: version,
		repoURI: m.Repository.URI, remotes: m.Repository.Remotes, Snapshot: m.Snapshot.Name, stores: m.Repository.Stores.Options(),
		verifyFirst: m.Reading.VerifyFirst,
		exportDir:   m.Export.Dir, compression: string(m.Export.Compression), Discard: m.Export.Discard, allowSource: m.Confirm.AllowSource, AcceptReduced: m.Accept.Reduced,
		indices: m.Indices.Selection(),
		conversion: plan.Request{
			MultiType: plan.MultiType(m.Conversion.MultiType), EmitType: plan.EmitType(m.Transfer.Types.Emit), DataStreams: plan.DataStreams(m.Conversion.DataStreams),
			RebuildSources: m.Conversion.RebuildSources, RebuildText: m.Conversion.RebuildText, ParentJoin: m.Conversion.ParentJoin,
			DuplicateKeys: plan.DuplicateKeys(m.Conversion.DuplicateKeys), SplitOver: int64(m.Splitting.Over),
		},
		leases: m.Leases,
	}
	o.limitReading(m.Repository.Pace)
	switch {
	case m.Tuning.Tune:
		o.guard.tune = tuning.All
	case !m.Tuning.Keep:
		o.guard.tune = tuning.Refreshes
	}
	o.transfer(m.Transfer)
	if repo.IsBucket(o.exportDir) && o.coordinatorFile == "" && o.bucket.URI == "" {
		o.bucket = m.Repository.Stores.State(strings.TrimRight(o.exportDir, "/") + "/" + export.StateFolder)
	}
	var err error
	if o.order, err = m.Priority.Hints(); err != nil {
		return o, err
	}
	if err := o.derive(m.Origin); err != nil {
		return o, err
	}
	if o.phases, err = phase.Choose(phase.Phases(m.Conversion.Phases), o.origin.derived, o.Target.URL != ""); err != nil {
		return o, err
	}
	if err := o.convert(m.Conversion); err != nil {
		return o, err
	}
	return o, o.defaultPaths()
}

// ForMigrateCommand returns the options of rfsd migrate: of a migration, or of its trial run.
func ForMigrateCommand(version string, m config.MigrateCommand) (Options, error) {
	if m.Trial.Documents == 0 {
		o, err := ForMigration(version, m.Migrate)
		o.Verify = m.End.Verify
		return o, err
	}
	of, err := m.Trial.Of(m.Migrate)
	if err != nil {
		return Options{}, err
	}
	o, err := ForMigration(version, of)
	if err != nil {
		return o, err
	}
	o.Trial, o.overrides.Aliases = &plan.Trial{Documents: int64(m.Trial.Documents), Prefix: m.Trial.Prefix}, metadata.AliasesNone
	o.Measure = m.Trial.Measure
	if m.Trial.Price != "" {
		o.price, err = trial.ReadPrice(m.Trial.Price)
	}
	return o, err
}

// ForImport returns the options of an import.
func ForImport(version string, i config.Import) ImportOptions {
	o := ImportOptions{
		Options: Options{version: version, stores: i.Stores.Options(), compression: string(export.None), fleet: true, leases: taskLeases, from: i.Files.From},
		types:   importer.Types(i.Transfer.Types.Emit), windows: i.Windows,
	}
	o.limitReading(i.Pace)
	o.transfer(i.Transfer)
	return o
}

// ForFiles returns the options of a comparison with files.
func ForFiles(version string, v config.VerifyFiles) ImportOptions {
	o := ImportOptions{Options: Options{version: version, stores: v.Stores.Options(), from: v.Files.From}, types: importer.Types(v.Transfer.Types.Emit)}
	o.limitReading(v.Pace)
	o.transfer(v.Transfer)
	return o
}

// ForStream returns the options of a stream's session.
func ForStream(version string, c config.Consume) StreamOptions {
	o := StreamOptions{Options: Options{version: version, stores: c.Stores.Options(), compression: string(export.None), fleet: true, leases: taskLeases}, Stream: c.Stream, create: c.NewIndices.Create}
	o.transfer(c.Transfer())
	return o
}

// ForRedrive returns the options of a redrive.
func ForRedrive(version string, c config.Redrive) (Options, error) {
	o := Options{version: version, stores: c.Repository.Stores.Options(), repoURI: c.Repository.URI, from: c.Files.From, remotes: c.Repository.Remotes, recorded: c.Recorded.Only, fleet: true, compression: "none"}
	o.limitReading(c.Repository.Pace)
	var err error
	if c.Rules.Path != "" {
		if o.rules, err = rules.Load(c.Rules.Path); err != nil {
			return o, err
		}
	}
	o.indices = c.Indices.Selection()
	o.transfer(c.Transfer())
	o.named = len(c.Indices.Include.List) > 0
	o.sinkNamed = c.Failed.Dir != ""
	return o, nil
}

// ForState returns the options of a process that only reads the state of a session. A target without an address is none.
func ForState(version string, to config.Cluster, at config.State) Options {
	o := Options{version: version, connections: 1, Session: at.Session.Name, bucket: at.Bucket}
	if to.Host != "" {
		o.Target = o.cluster(to, "target")
	}
	if at.Coordinator.Host != "" {
		o.coordinator = o.cluster(at.Coordinator, "coordinator")
	}
	return o
}

// taskLeases are the rules of windows and partitions, whose lengths are options of their own.
var taskLeases = config.Leases{Skew: config.Skew{Tolerance: timing.DefaultTolerance}}

// limitReading sets how fast this process reads.
func (o *Options) limitReading(p config.ReadPace) {
	o.maxReadRate = int64(p.Max)
	o.reading = throttle.New(o.maxReadRate)
	o.stores.Rate = o.reading
}

// transfer sets what all commands that send documents have in common.
func (o *Options) transfer(t config.Transfer) {
	o.connections, o.bulkDocs, o.bulkBytes, o.maxRate = t.Bulk.Connections, t.Bulk.Documents, int(t.Bulk.Size.Bytes), int64(t.Bulk.MaxRate)
	if o.Discard {
		o.bulkBytes = min(o.bulkBytes, bulk.UnsentBytes)
	}
	o.allowDuplicates = t.Sending.AllowDuplicates
	o.maxDocument, o.maxLatency = int64(t.Document.Most), t.Bulk.MaxLatency
	o.existing = bulk.Existing(t.Existing.Documents)
	o.Slots, o.Unavailable, o.Log = t.Slots.Number, t.Patience.Unavailable, report.Logging{Level: t.Log.MinLevel(), Format: t.Log.Format, Quiet: t.Log.Quiet}
	o.AllowPartial, o.includeSystem, o.guard.ignoreDisks = t.Partial.Allow, t.System.Include, t.Disks.Ignore
	o.Session, o.coordinatorFile = t.State.Session.Name, t.State.File
	o.FailedDir, o.failedShared, o.maxFailed = t.Failed.Place.Dir, t.Failed.Shared, int64(t.Failed.Limit.Max)
	o.FailedContent = failed.Content(t.Failed.Content)
	if o.FailedDir == "" && !o.Discard {
		o.FailedDir = defaultFailedDir(t.State.Session.OrDefault())
	}
	o.bucket = t.State.Bucket
	if t.State.Coordinator.Host != "" {
		o.coordinator = o.cluster(t.State.Coordinator, "coordinator")
	}
	if t.Target.Cluster.Host != "" {
		o.Target = o.cluster(t.Target.Cluster, "target")
		o.Target.RunPipelines = t.Sending.RunPipelines
		// Compressing for one's own machine costs the processor and saves nothing.
		o.Target.CompressRequests = !t.Sending.DisableCompression && !isLoopback(o.Target.URL)
		o.Target.Discover = t.Bulk.Discover
		o.Target.PlainAnswers = !o.Target.CompressRequests
	}
}

// cluster returns a cluster as its client takes it.
func (o *Options) cluster(c config.Cluster, role string) target.Config {
	return c.Config(role, "rfsd/"+o.version, o.connections)
}

// isLoopback reports whether all addresses of a cluster are of this machine.
func isLoopback(text string) bool {
	all, err := target.Addresses(text)
	return err == nil && !slices.ContainsFunc(all, func(u *url.URL) bool { return !target.IsLoopback(u) })
}

// convert takes over which objects of the cluster are migrated, and how indices are changed.
func (o *Options) convert(c config.Conversion) (err error) {
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

// defaultPaths derives where the state of the work is kept.
func (o *Options) defaultPaths() error {
	if o.coordinatorFile != "" || o.Discard && !o.Shares() {
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
	// Without the repository and the snapshot: the session has one of each, however they are spelled, or several snapshots that it follows.
	sum := sha256.Sum256([]byte(o.Target.URL + "\x00" + o.coordinator.URL + "\x00" + o.bucket.URI))
	o.ownerFile = filepath.Join(dir, fmt.Sprintf("%s-%s.owner", o.SessionOrDefault(), hex.EncodeToString(sum[:8])))
	return nil
}

// defaultFailedDir returns the folder for failed documents of a session that names no other.
func defaultFailedDir(session string) string { return filepath.Join("rfsd-failed", session) }

// origin is the source cluster and how the snapshot is created on it.
type origin struct {
	cluster    target.Config
	derived    bool // the session creates the snapshot, under a name that follows from its settings
	repository live.Repository
	from       config.Origin
}

// derive takes over the source cluster.
func (o *Options) derive(from config.Origin) error {
	if from.Cluster.Host == "" {
		return nil
	}
	kind, settings, err := live.RepositorySettings(from.Type, o.repoURI, from.Location, o.stores.S3.Region)
	if err != nil {
		return err
	}
	maps.Copy(settings, from.Settings)
	if from.MaxRate != "" {
		settings["max_snapshot_bytes_per_sec"] = from.MaxRate
	}
	o.origin = origin{o.cluster(from.Cluster, "source"), o.Snapshot == "", live.Repository{Name: from.Repository, Type: kind, Settings: settings}, from}
	return nil
}
