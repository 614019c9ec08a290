package preflight

import (
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Section is a section of a report that can be requested individually.
type Section string

// Sections of a report.
const (
	Changes  Section = "changes"  // objects created, changed, left out and rejected
	Sizes    Section = "sizes"    // bytes, requests and documents, from the repository alone
	Access   Section = "access"   // permissions of the target's user
	Versions Section = "versions" // of the target
	Disks    Section = "disks"    // of the target
	Limits   Section = "limits"   // of the target: health, clocks, shards, fields, heap, requests
)

// Sections is a list of sections.
type Sections []Section

// AllSections returns every section, in display order.
func AllSections() Sections { return Sections{Changes, Sizes, Versions, Access, Disks, Limits} }

// Choose returns the wanted sections, or all possible ones if none is wanted: for a target cluster, for an empty target of a version, or
// without a target. It returns a fault.ErrConfig for a wanted section that is not possible.
func Choose(wanted Sections, cluster bool, version string) (Sections, error) {
	possible := AllSections()
	switch {
	case cluster && version != "":
		return nil, fmt.Errorf("--target-host and --target-version exclude each other: the target reports its version: %w", fault.ErrConfig)
	case version != "":
		possible = Sections{Changes, Sizes}
	case !cluster:
		possible = Sections{Sizes}
	}
	for _, x := range wanted {
		if !possible.Has(x) {
			return nil, fmt.Errorf("--only %s needs a target (--target-host): %w", x, fault.ErrConfig)
		}
	}
	if len(wanted) > 0 {
		return wanted, nil
	}
	return possible, nil
}

// Has reports whether s contains a section.
func (s Sections) Has(x Section) bool { return slices.Contains(s, x) }

// NeedTarget reports whether any of the sections needs the target.
func (s Sections) NeedTarget() bool {
	return slices.ContainsFunc(s, func(x Section) bool { return x != Sizes })
}

// Report states what a migration would do.
type Report struct {
	Snapshot string   `json:"snapshot"`
	State    string   `json:"state"`
	Target   string   `json:"target,omitempty"` // distribution and version
	Sections Sections `json:"sections"`
	Indices  []Index  `json:"indices"`
	Globals  []Object `json:"cluster_objects,omitempty"` // templates, pipelines, …
	// GlobalsWarning is the reason why Globals is empty.
	GlobalsWarning string   `json:"cluster_objects_warning,omitempty"`
	LeftOut        []string `json:"left_out,omitempty"`       // system indices that were not requested
	Missing        []string `json:"missing_shards,omitempty"` // according to the snapshot
	Warnings       []string `json:"warnings,omitempty"`
	Size           *Size    `json:"size,omitempty"` // of all indices
	// Checks are the findings of the sections about the target.
	Checks []Checked `json:"checks,omitempty"`
	// Stops are the findings that would end the migration, or an index of it, with an error.
	Stops []string `json:"stops,omitempty"`

	toCreate int64 // shards with replicas; valid with Changes
}

// Index is one index of the snapshot.
type Index struct {
	Index   string       `json:"index"`
	Shards  int          `json:"shards"`
	Size    *Size        `json:"size,omitempty"`
	Reduced string       `json:"reduced_source,omitempty"`
	Sources plan.Sources `json:"sources"`
	Targets []Object     `json:"targets,omitempty"`
	// Stream is the treatment of the backing index of a data stream.
	Stream string `json:"data_stream,omitempty"`
}

func newIndex(x plan.Index) Index {
	return Index{Index: x.Name, Shards: x.Entry.Shards, Reduced: x.Entry.Reduced, Sources: plan.SourcesOf(x.Source, x.Entry.Rebuild), Stream: x.Entry.Note()}
}

// Effects on an object.
const (
	WouldCreate = "create"
	WouldKeep   = "exists" // it exists and is left as it is
	WouldRefuse = "refused"
	WouldLeave  = "left out"
)

// Object is an index, a template or another object of the target.
type Object struct {
	Name    string    `json:"name"`
	Action  string    `json:"action"`
	Reason  string    `json:"reason,omitempty"`
	Changes []Differs `json:"changes,omitempty"` // how an existing object differs from the one to be created
	// Documents is the number of existing documents.
	Documents int64 `json:"documents,omitempty"`
	// FinalPipeline is the final pipeline of an existing index, which would change documents.
	FinalPipeline string `json:"final_pipeline,omitempty"`
	// PipelineEffects are its effects other than changing fields, as far as they are recognized.
	PipelineEffects []string `json:"final_pipeline_effects,omitempty"`
}

// Differs is one difference from the source.
type Differs struct {
	Rule   string `json:"rule"`
	Path   string `json:"path"`
	Detail string `json:"detail"`
	Loses  bool   `json:"loses"` // searches may find less, or other documents
}

func differs(changes []metadata.Change) []Differs {
	all := make([]Differs, 0, len(changes))
	for _, c := range changes {
		all = append(all, Differs{Rule: c.Rule, Path: c.Path, Detail: c.Detail, Loses: c.Loses()})
	}
	return all
}

// Size is an upper bound of what a migration moves.
type Size struct {
	Shards     int64 `json:"shards"`
	Repository int64 `json:"repository_bytes"` // of all files of the shards
	Target     int64 `json:"target_bytes"`     // with the replicas of the source; merges temporarily need as much again
	Read       int64 `json:"read_bytes"`       // from the repository: files of stored documents, or the compound files that hold them
	Requests   int64 `json:"read_requests"`
	// Documents is the number of live Lucene documents, nested ones included; nil if they were not counted.
	Documents *int64 `json:"documents,omitempty"`
}

func (s *Size) add(o Size) {
	s.Shards += o.Shards
	s.Repository += o.Repository
	s.Target += o.Target
	s.Read += o.Read
	s.Requests += o.Requests
	if s.Documents != nil && o.Documents != nil {
		*s.Documents += *o.Documents
	} else {
		s.Documents = nil
	}
}

// Problems returns the number of reasons why the migration, or a part of it, would fail.
func (r *Report) Problems() int {
	n := len(r.Stops) + len(r.Missing)
	for _, c := range r.Checks {
		if c.Level == Bad {
			n++
		}
	}
	return n
}

// refuse adds a reason why a part of the migration would fail.
func (r *Report) refuse(format string, args ...any) {
	r.Stops = append(r.Stops, fmt.Sprintf(format, args...))
}
