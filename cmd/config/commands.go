package config

import (
	"strings"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/worker"
)

// The structs below are the settings of commands: a command honours all of its groups, and knows nothing else.

// Transfer are the settings that all commands which send documents have in common.
type Transfer struct {
	Target   Target
	Sending  Sending
	Existing Existing
	Disks    Disks
	Partial  Partial
	System   System
	Types    Types
	Slots    Slots
	Bulk     Bulk
	Document Document
	Failed   Failed
	Patience Patience
	State    State
	Output   Output
	Log      Log
}

// Migrate are the settings of a migration: rfsd migrate, rfsd worker and rfsd plan.
type Migrate struct {
	Repository Repository
	Snapshot   Snapshot
	Reading    Reading
	Origin     Origin
	Transfer   Transfer
	Confirm    Confirmation
	Accept     Acceptance
	Tuning     Tuning
	Export     Export
	Indices    Indices
	Conversion Conversion
	Splitting  Splitting
	Priority   IndexPriority
	Leases     Leases
}

// Hints returns the order in which indices are worked on; nil for any.
func (o IndexPriority) Hints() (cms.Hints, error) {
	return worker.IndexPriority(o.First.Texts, o.Priorities)
}

// Check refuses a migration without a source, or with none or several places for its documents.
func (m *Migrate) Check() error {
	return m.check(m.named())
}

// named reports whether the snapshot is known, or is created.
func (m *Migrate) named() bool { return m.Snapshot.Name != "" || m.Origin.Cluster.Host != "" }

// check refuses the same; named reports whether the snapshot is known.
func (m *Migrate) check(named bool) error {
	if m.Repository.URI == "" {
		return Usage("--repo-uri is missing: where is the snapshot repository?")
	}
	if !named {
		return Usage("--snapshot-name is missing; `rfsctl snapshot list --repo-uri %s` lists them; with --source-host a snapshot is created", m.Repository.URI)
	}
	if m.Conversion.RebuildText && !m.Conversion.RebuildSources {
		return Usage("--rebuild-text-from-terms adds approximate text to rebuilt sources: give --rebuild-sources, too")
	}
	if m.Tuning.Tune && m.Tuning.Keep {
		return Usage("--tune-target and --no-tune-target exclude each other")
	}
	given := 0
	for _, is := range []bool{m.Transfer.Target.Cluster.Host != "", m.Export.Dir != "", m.Export.Discard} {
		if is {
			given++
		}
	}
	if given != 1 {
		return Usage("exactly one of --target-host, --export-dir and --discard is required: it is the destination of the documents")
	}
	if m.Export.Dir != "" && m.Transfer.State.Coordinator.Host != "" {
		return Usage("--coordinator-host has no meaning with --export-dir: an export keeps the state of the work in its directory, for one process, or in its bucket; leave it out, or let several processes meet in a bucket with --coordinator-bucket")
	}
	if m.Export.Dir != "" && m.Transfer.Existing.Documents != "" {
		return Usage("--existing-documents has no meaning with --export-dir: files have no documents yet; give it to rfsd import")
	}
	if err := m.Export.outside(m.Repository.URI); err != nil {
		return err
	}
	return m.Transfer.Failed.outside(m.Repository.URI)
}

// MigrateCommand are the settings of rfsd migrate.
type MigrateCommand struct {
	Migrate Migrate
	End     AtTheEnd
	Trial   Trial
}

// Check rejects a comparison with a target that is not a cluster.
func (m *MigrateCommand) Check() error {
	if err := m.End.check(m.Migrate.Transfer); err != nil {
		return err
	}
	return m.checkTrial()
}

// checkTrial refuses a trial run with what it cannot have.
func (m *MigrateCommand) checkTrial() error {
	switch t := m.Trial; {
	case t.Documents == 0 && t.Price != "":
		return Usage("--price states the cost after a trial run: give --trial, too")
	case t.Documents == 0:
		return nil
	case m.Migrate.Transfer.Target.Cluster.Host == "":
		return Usage("--trial sends documents to a cluster: give --target-host")
	case m.Migrate.Snapshot.Name == "":
		return Usage("--trial reads a snapshot that is there: give --snapshot-name")
	case m.End.Verify:
		return Usage("--trial and --verify exclude each other: a part of the documents is not a copy of the snapshot")
	case len(m.Migrate.Conversion.Phases) > 0:
		return Usage("--trial and --phases exclude each other: a trial run creates its own indices and sends documents")
	case strings.HasPrefix(t.Prefix, "-") || t.Prefix == "":
		return Usage("invalid --trial-prefix %q: want a name that starts with a–z or 0–9", t.Prefix)
	}
	return nil
}

// Follow are the settings of rfsd follow.
type Follow struct {
	Migrate Unnamed
	Rounds  Rounds
	Blocks  SourceBlocks
}

// Check refuses what cannot be followed.
func (f *Follow) Check() error {
	r, m := f.Rounds, Migrate(f.Migrate)
	switch {
	case !r.Once && !r.Finish && m.Snapshot.Name != "":
		return Usage("--snapshot-name names one snapshot: give --once, or --source-host without --snapshot-name, so that each round makes a snapshot")
	case r.Once && r.Finish:
		return Usage("--once and --finish exclude each other")
	case r.Over && r.Finish:
		return Usage("--start-over and --finish exclude each other")
	}
	if err := m.check(r.Finish || m.named()); err != nil {
		return err
	}
	return m.checkFollowed("rfsd follow")
}

// checkFollowed refuses what no round can have; program names the command in messages.
func (m *Migrate) checkFollowed(program string) error {
	switch {
	case m.Transfer.Target.Cluster.Host == "":
		return Usage("%s changes documents of a cluster: give --target-host", program)
	case m.Transfer.Existing.Documents != "" && m.Transfer.Existing.Documents != "overwrite":
		return Usage("--existing-documents %s and %s exclude each other: a later snapshot decides about its documents; only overwrite is possible", m.Transfer.Existing.Documents, program)
	case m.Conversion.DataStreams == "create":
		return Usage("--data-streams create and %s exclude each other: documents of a data stream cannot be changed or deleted; leave it out, so that backing indices become ordinary ones", program)
	case m.Conversion.Include.Attachments:
		return Usage("--include attachments and %s exclude each other: a policy could lock or delete an index that is still followed; attach it after the cut-over", program)
	case len(m.Conversion.Phases) > 0:
		return Usage("--phases and %s exclude each other: a round has all phases", program)
	}
	return nil
}

// FleetFollow are the settings of a node that follows a cluster with its fleet.
type FleetFollow struct {
	Migrate   Migrate
	Following FollowCluster
	Rounds    EachRound
	Blocks    SourceBlocks
}

// Check refuses what a fleet cannot follow.
func (f *FleetFollow) Check() error {
	switch m := f.Migrate; {
	case m.Transfer.State.File != "":
		return Usage("--coordinator-file and --follow exclude each other: a file belongs to one process; use rfsd follow, or keep the state of the work in a cluster or a bucket")
	case m.Origin.Cluster.Host == "" || m.Snapshot.Name != "":
		return Usage("--follow makes a snapshot for each round: give --source-host, and no --snapshot-name; for snapshots that others make, run rfsd follow --once")
	}
	return f.Migrate.checkFollowed("rfsd run --follow")
}

// Verify holds the settings of rfsd verify for a comparison with a snapshot and with files; only one of them is decoded.
type Verify struct {
	Migrate      Unnamed
	Files        Files
	Verification Verification
}

// VerifySnapshot are the settings of a comparison with a snapshot.
type VerifySnapshot struct {
	Migrate      Unnamed
	Verification Verification
}

// Unnamed are the settings of a migration whose snapshot may be unnamed: the chain of a cluster that is followed names its last one.
type Unnamed Migrate

// Check refuses what a comparison of changes cannot have.
func (v *VerifySnapshot) Check() error {
	m, changed := Migrate(v.Migrate), v.Verification.Changed
	switch {
	case changed && v.Verification.Quick:
		return Usage("--quick and --changed exclude each other: numbers of documents do not show what a round changed")
	case changed && m.Snapshot.Name != "":
		return Usage("--changed compares the snapshot of the last round: leave --snapshot-name out")
	}
	return m.check(changed || m.Snapshot.Name != "")
}

// VerifyFiles are the settings of a comparison with files.
type VerifyFiles struct {
	Files        Files
	Stores       Stores
	Pace         ReadPace
	Transfer     Transfer
	Verification Verification
}

// Check refuses what files cannot be compared with.
func (v *VerifyFiles) Check() error {
	switch {
	case v.Transfer.Target.Cluster.Host == "":
		return Usage("--target-host is missing: give the cluster to compare the files with")
	case v.Verification.Quick:
		return Usage("--quick compares numbers of Lucene documents, which files do not state: leave it out")
	case v.Verification.Changed:
		return Usage("--changed compares what a round changed, not files: leave it out")
	}
	return nil
}

// CheckEnd refuses a node's comparison at the end of what cannot be compared.
func (o *Own) CheckEnd(files, topic string, t Transfer) error {
	switch {
	case topic != "" && (o.Node.EndWhenDone || o.End.Verify):
		return Usage("--exit-when-done and --verify have no meaning for a stream (--topic), which has no end: rfsd consume --until-end ends")
	case topic != "" && o.Scaling.Driver != "":
		return Usage("--scale-driver has no meaning for a stream (--topic): it goes by the work that is left")
	}
	if o.End.Verify && files != "" {
		return Usage("--verify compares a snapshot with the target: leave it out, and run rfsd verify --from when the import has ended")
	}
	return o.End.check(t)
}

// Worker are the settings of rfsd worker. They may come from a fleet, so that they are checked as a Migrate later.
type Worker struct {
	Migrate Migrate
	Key     FleetKey
	Link    Link
}

// Import are the settings of an import.
type Import struct {
	Files    Files
	Windows  Windows
	Stores   Stores
	Pace     ReadPace
	Transfer Transfer
}

// Check refuses an import without files or target.
func (i *Import) Check() error {
	switch {
	case i.Files.From == "":
		return Usage("--from is missing: where are the files?")
	case i.Transfer.Target.Cluster.Host == "":
		return Usage("--target-host is missing: where do the documents go?")
	}
	if i.Transfer.Existing.Documents == "newer" {
		return Usage("--existing-documents newer is not possible for an import: files hold no versions; choose overwrite or keep")
	}
	return i.Transfer.Failed.outside(i.Files.From)
}

// ImportCommand are the settings of rfsd import.
type ImportCommand struct {
	Import Import
	Link   Link
}

// Recorded chooses what a fleet has recorded.
type Recorded struct {
	_    struct{} `group:"Processing"`
	Only bool     `flag:"from-control-index" help:"send the failed documents that a fleet has recorded in the control index, in place of those in files; they are read from the snapshot again"`
}

// Redrive are the settings of rfsd redrive.
type Redrive struct {
	Repository Repository
	Files      Files
	Rules      RulesFile
	Recorded   Recorded
	Target     Target
	Sending    Sending
	Disks      Disks
	Indices    Indices
	System     System
	Bulk       Bulk
	Document   Document
	Failed     FailedPlace
	Limit      RefusalLimit
	Patience   Patience
	State      State
	Output     Output
	Log        Log
}

// Check refuses no target, and places that exclude each other.
func (r *Redrive) Check() error {
	switch {
	case r.Target.Cluster.Host == "":
		return Usage("--target-host is missing: where do the documents go?")
	case r.Rules.Path != "" && r.Repository.URI == "":
		return Usage("--rules is about documents that are read from the snapshot again: give --repo-uri, too")
	case r.Files.From != "" && r.Repository.URI != "":
		return Usage("--repo-uri and --from exclude each other: a session has read a snapshot or files")
	case r.Recorded.Only && r.Repository.URI == "" && r.Files.From == "":
		return Usage("--from-control-index reads the documents again: give --repo-uri, or --from of an import")
	case r.Recorded.Only && r.Failed.Dir != "":
		return Usage("--from-control-index and --failed-documents exclude each other: from which are documents sent?")
	case r.Recorded.Only && r.State.File != "":
		return Usage("--from-control-index and --coordinator-file exclude each other: failed documents are recorded in clusters only")
	}
	return nil
}

// Transfer returns what sending failed documents again has in common with other transfers.
func (r *Redrive) Transfer() Transfer {
	return Transfer{
		Target: r.Target, Sending: r.Sending, Disks: r.Disks, System: r.System, Slots: Slots{Number: 1}, Bulk: r.Bulk, Document: r.Document,
		Failed: Failed{Place: r.Failed, Limit: r.Limit}, Patience: r.Patience, State: r.State, Output: r.Output, Log: r.Log,
	}
}

// Plan are the settings of rfsd plan.
type Plan struct {
	Migrate  Migrate
	Planning Planning
}

// Own holds the settings of a node in addition to the settings of its task.
type Own struct {
	Node    Node
	Events  Events
	API     API
	Key     FleetKey
	Fleet   Fleet
	Scaling Scaling
	End     AtTheEnd
}

// Check refuses a comparison at the end of a node that does not end.
func (o *Own) Check() error {
	if o.End.Verify && !o.Node.EndWhenDone {
		return Usage("--verify compares when the migration has ended: give --exit-when-done, too, or run rfsd verify afterwards")
	}
	return nil
}

// Run holds the settings of rfsd run: the node's own, and the settings of a migration, an import or a stream; only one of these is decoded.
type Run struct {
	Migrate   Migrate
	Files     Files
	Windows   Windows
	Stream    Stream
	Own       Own
	File      ConfigFile
	Following FollowCluster
	Rounds    EachRound
	Blocks    SourceBlocks
}

// Checked holds the settings of rfsd config check, which come from a file.
type Checked struct {
	Migrate   Migrate
	Files     Files
	Windows   Windows
	Stream    Stream
	Own       Own
	Following FollowCluster
	Rounds    EachRound
	Blocks    SourceBlocks
}
