package config

import (
	"cmp"
	"strings"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// Stored are the settings of commands that open the state of the work.
type Stored struct {
	Target Target
	State  State
	Output Output
}

// Which returns the cluster that keeps the state, and its name: coordinator or target.
func (s Stored) Which() (Cluster, string) {
	if s.State.Coordinator.Host != "" {
		return s.State.Coordinator, "coordinator"
	}
	return s.Target.Cluster, "target"
}

// Named reports whether a place of the state is named.
func (s Stored) Named() bool {
	return cmp.Or(string(s.Target.Cluster.Host), string(s.State.Coordinator.Host), s.State.File, s.State.Bucket.URI) != ""
}

// Asked are the settings of commands that ask a node.
type Asked struct {
	Nodes  Nodes
	Output Output
}

// Either are the settings of commands that open the state of the work or ask a node.
type Either struct {
	Target Target
	State  State
	Nodes  Nodes
	Output Output
}

// Stored returns the part that opens the state.
func (e Either) Stored() Stored { return Stored{Target: e.Target, State: e.State, Output: e.Output} }

// Asked returns the part that asks a node.
func (e Either) Asked() Asked { return Asked{Nodes: e.Nodes, Output: e.Output} }

// Items are the settings of rfsctl items list.
type Items struct {
	Either Either
	Index  OneIndex
	States States
}

// Failures are the settings of rfsctl failures.
type Failures struct {
	Either Either
	Index  OneIndex
	Failed FailedPlace
	Stores Stores
}

// Cleanup are the settings of rfsctl cleanup.
type Cleanup struct {
	Stored Stored
	Force  Force
	Trial  TrialOnly
	// Removal is asked for with Trial: objects of the target are named before they are removed.
	Removal Removal
}

// Check names the trial run of a session where that is meant, and refuses it without a target.
func (c *Cleanup) Check() error {
	switch {
	case !c.Trial.Only && c.Removal.Yes:
		return Usage("--yes confirms what --trial lists; without --trial only records of rfsd are removed, and nothing has to be confirmed")
	case !c.Trial.Only:
		return nil
	}
	if c.Stored.Target.Cluster.Host == "" {
		return Usage("--target-host is missing: from which cluster is the trial run removed?")
	}
	return c.Stored.State.trial()
}

// Undo are the settings of rfsctl undo.
type Undo struct {
	Stored  Stored
	Removal Removal
}

// Check refuses no target.
func (u *Undo) Check() error {
	if u.Stored.Target.Cluster.Host == "" {
		return Usage("--target-host is missing: give the cluster whose created objects are removed")
	}
	return nil
}

// Cutover are the settings of rfsctl cutover.
type Cutover struct {
	Stored  Stored
	Blocks  SourceBlocks
	Cutting CuttingOver
	Dry     Dry
}

// Check refuses two wishes at the same time.
func (c *Cutover) Check() error {
	if c.Dry.Run && c.Cutting.Abort {
		return Usage("--dry-run and --abort exclude each other")
	}
	return nil
}

// Restore are the settings of rfsctl target restore.
type Restore struct{ Stored Stored }

// Check refuses no target.
func (r *Restore) Check() error {
	if r.Stored.Target.Cluster.Host == "" {
		return Usage("--target-host is missing: which cluster's settings are restored?")
	}
	return nil
}

// Snapshots are the settings of rfsctl snapshot list.
type Snapshots struct {
	Repository Repository
	Output     Output
}

// Check refuses no repository.
func (s *Snapshots) Check() error {
	if s.Repository.URI == "" {
		return Usage("--repo-uri is missing: where is the snapshot repository?")
	}
	return nil
}

// ShowSnapshot are the settings of rfsctl snapshot show.
type ShowSnapshot struct {
	Snapshots Snapshots
	Snapshot  Snapshot
}

// Check refuses no snapshot.
func (s *ShowSnapshot) Check() error {
	if s.Snapshot.Name == "" {
		return Usage("--snapshot-name is missing; `rfsctl snapshot list --repo-uri %s` lists them", s.Snapshots.Repository.URI)
	}
	return nil
}

// ExtractSnapshot are the settings of rfsctl snapshot extract.
type ExtractSnapshot struct {
	Importing Importing
	Snapshots Snapshots
	Snapshot  Snapshot
	Files     Extracted
	Names     IndexNames
	Rules     RulesFile
}

// Importing names the OpenSearch Dashboards that imports the saved objects, if any does.
type Importing struct {
	_       struct{} `group:"OpenSearch Dashboards"`
	Cluster Cluster  `prefix:"dashboards-" help:"URL of OpenSearch Dashboards, to import the saved objects there, too (default: they are only written to files)"`
	Dry     Dry
}

// Check refuses several addresses, a tenant for all files, and a dry run without an address.
func (i *Importing) Check() error {
	switch {
	case i.Dry.Run && i.Cluster.Host == "":
		return Usage("--dry-run shows what would be imported: give --dashboards-host, too")
	case strings.Contains(string(i.Cluster.Host), ","):
		return Usage("--dashboards-host takes one address")
	case i.Cluster.header.Get("securitytenant") != "":
		return Usage("--dashboards-header sets no tenant: each file is imported into its own, or into the global one")
	}
	return nil
}

// Extracted names the place of files that are written from a snapshot.
type Extracted struct {
	_   struct{} `group:"Output" section:"output"`
	Dir string   `flag:"to" line:"only" help:"new or empty directory that the files are written to"`
	// Users are secrets even as hashes.
	Users bool `flag:"with-users" line:"only" help:"also write internal users, with the hashes of their passwords"`
}

// Check refuses no snapshot and no directory.
func (s *ExtractSnapshot) Check() error {
	switch {
	case s.Snapshot.Name == "":
		return Usage("--snapshot-name is missing; `rfsctl snapshot list --repo-uri %s` lists them", s.Snapshots.Repository.URI)
	case s.Files.Dir == "":
		return Usage("--to is missing: which directory are the files written to?")
	}
	return metadata.Overrides{Rename: s.Names.Rename}.Check()
}

// DiffSnapshots are the settings of rfsctl snapshot diff.
type DiffSnapshots struct {
	Snapshots Snapshots
	Earlier   Earlier
	Snapshot  Snapshot
	Indices   Indices
}

// Earlier is the snapshot that another one is compared with.
type Earlier struct {
	_    struct{} `group:"Source" section:"source"`
	Name string   `flag:"since" help:"name of the earlier snapshot, with which --snapshot-name is compared"`
	// Documents has more read than numbers.
	Documents bool `flag:"read-documents" help:"count inserted, updated and deleted documents instead of versions; this reads the stored fields that hold them"`
}

// Check refuses less than two snapshots.
func (s *DiffSnapshots) Check() error {
	if s.Earlier.Name == "" || s.Snapshot.Name == "" {
		return Usage("--since and --snapshot-name are needed: which two snapshots are compared? `rfsctl snapshot list --repo-uri %s` lists them", s.Snapshots.Repository.URI)
	}
	return nil
}

// CheckSnapshots are the settings of rfsctl snapshot check.
type CheckSnapshots struct {
	Snapshots Snapshots
	Snapshot  Snapshot
	Subset    Subset
}

// CreateCertificate are the settings of rfsctl cert create.
type CreateCertificate struct {
	Certificate Certificate
	Output      Output
}

// ShowStatus are the settings of rfsctl status.
type ShowStatus struct {
	Either   Either
	Watching Watching
}

// ShowNodes are the settings of rfsctl nodes.
type ShowNodes struct {
	Asked Asked
	All   AllNodes
}

// ShowLast are the settings of rfsctl events.
type ShowLast struct {
	Asked Asked
	Last  Last
}

// ShowLogs are the settings of rfsctl logs.
type ShowLogs struct {
	Asked     Asked
	Last      Last
	Following Following
}

// ShowPage are the settings of rfsctl page.
type ShowPage struct {
	Asked Asked
	Page  Page
}

// None is a command without settings.
type None struct{}

// WrittenFile is the result of a command that writes a file.
type WrittenFile struct {
	File string `json:"file"`
}

// Printed are the settings of a command that only prints.
type Printed struct{ Output Output }
