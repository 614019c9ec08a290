// Package preflight finds out what a migration will do before it does anything: what it creates, changes, leaves out and what the
// target refuses, and how much it reads and writes. Nothing that it sends to a target writes.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Evaluation is what a migration would do, without doing any of it.
type Evaluation struct {
	Snapshot string            `json:"snapshot"`
	State    string            `json:"state"`
	Target   string            `json:"target"` // distribution and version
	Indices  []EvaluatedIndex  `json:"indices"`
	Globals  []EvaluatedObject `json:"cluster_objects"` // templates, pipelines, …
	// GlobalsWarning is the reason why there are none.
	GlobalsWarning string        `json:"cluster_objects_warning,omitempty"`
	LeftOut        []string      `json:"left_out,omitempty"`       // system indices that were not asked for
	Missing        []string      `json:"missing_shards,omitempty"` // by the snapshot's own word
	Warnings       []string      `json:"warnings,omitempty"`
	Size           EvaluatedSize `json:"size"`
	// Stops are what would end the migration, or an index of it, with an error.
	Stops []string `json:"stops,omitempty"`
}

// EvaluatedIndex is one index of the snapshot.
type EvaluatedIndex struct {
	Index   string            `json:"index"`
	Shards  int               `json:"shards"`
	Bytes   int64             `json:"bytes"` // of its primaries in the repository
	Reduced string            `json:"reduced_source,omitempty"`
	Sources plan.Sources      `json:"sources"`
	Targets []EvaluatedObject `json:"targets"`
	// Stream is what is done with the backing index of a data stream.
	Stream string `json:"data_stream,omitempty"`
}

// What would become of an object.
const (
	WouldCreate = "create"
	WouldKeep   = "exists" // it is there and left as it is
	WouldRefuse = "refused"
	WouldLeave  = "left out"
)

// EvaluatedObject is an index, a template or another object of the target.
type EvaluatedObject struct {
	Name    string    `json:"name"`
	Action  string    `json:"action"`
	Reason  string    `json:"reason,omitempty"`
	Changes []Differs `json:"changes,omitempty"` // of one that exists: how it differs from what would be created
	// Documents are there already.
	Documents int64 `json:"documents,omitempty"`
	// FinalPipeline of an index that is there would change documents.
	FinalPipeline string `json:"final_pipeline,omitempty"`
	// PipelineEffects are what it does with documents besides changing their fields, as far as that is recognized.
	PipelineEffects []string `json:"final_pipeline_effects,omitempty"`
}

// Differs is one difference from the source.
type Differs struct {
	Rule   string `json:"rule"`
	Path   string `json:"path"`
	Detail string `json:"detail"`
	Loses  bool   `json:"loses"` // searches may find less, or something else
}

// EvaluatedSize is what the migration moves, at most.
type EvaluatedSize struct {
	Repository int64 `json:"repository_bytes"` // of the wanted shards
	Target     int64 `json:"target_bytes"`     // with the replicas of the source; merges need as much again for a while
	Read       int64 `json:"read_bytes"`       // from the repository: egress
	Requests   int64 `json:"read_requests"`
}

// Evaluator finds out what a migration would do. Nothing it sends to the target writes.
type Evaluator struct {
	Target  metadata.DryRunTarget
	Version target.Version
	Indices *worker.TargetIndices // as the migration would have it, with DryRunCluster as its Cluster; nil when the phase is off
	Globals *worker.TargetGlobals // likewise; nil when the phase is off
	Repo    snapshot.Repository
	// Existing is what was chosen for documents whose ids the target has; "": nothing was chosen.
	Existing bulk.Existing
}

// Evaluate previews a plan.
func (e *Evaluator) Evaluate(ctx context.Context, plan *plan.Plan) (*Evaluation, error) {
	r := &Evaluation{
		Snapshot: plan.Snapshot, State: plan.State, Target: e.Version.Distribution + " " + e.Version.Number, LeftOut: plan.LeftOut, Missing: plan.Missing, Warnings: plan.Warnings,
		Indices: []EvaluatedIndex{}, Globals: []EvaluatedObject{},
	}
	for _, x := range plan.Unread {
		r.Stops = append(r.Stops, fmt.Sprintf("index %s fails: its metadata is damaged: %s", x.Name, x.Reason))
	}
	if err := e.Indices.Check(ctx, plan); errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
		return nil, err
	} else if err != nil {
		r.Stops = append(r.Stops, fault.Text(err))
	}
	if err := e.preview(ctx, plan, r); err != nil {
		return nil, err
	}
	if e.Indices != nil {
		if err := e.compareTargets(ctx, plan, r); err != nil {
			return nil, err
		}
	}
	return r, e.measure(ctx, plan, r)
}

// preview finds out what would become of the objects of the cluster and of the indices.
func (e *Evaluator) preview(ctx context.Context, plan *plan.Plan, r *Evaluation) error {
	if e.Globals != nil {
		if err := e.globals(ctx, plan, r); err != nil {
			return err
		}
	}
	if e.Indices == nil {
		return nil
	}
	// One after the other they would wait for the target three times each.
	indices, stops := make([]EvaluatedIndex, len(plan.Indices)), make([][]string, len(plan.Indices))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(targetReaders)
	for i, x := range plan.Indices {
		g.Go(func() (err error) {
			indices[i], stops[i], err = e.index(gctx, x)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	r.Indices, r.Stops = append(r.Indices, indices...), append(r.Stops, slices.Concat(stops...)...)
	return nil
}

// Bounds of what is asked at the same time: indices of the target, and indices whose shards' manifests are read.
const targetReaders, shardReaders = 8, 8

// index finds out what would become of an index, and what would stop the migration.
func (e *Evaluator) index(ctx context.Context, x plan.Index) (done EvaluatedIndex, stops []string, err error) {
	done = EvaluatedIndex{Index: x.Name, Shards: x.Entry.Shards, Reduced: x.Entry.Reduced, Sources: plan.SourcesOf(x.Source, x.Entry.Rebuild), Stream: x.Entry.Note()}
	if x.Entry.Create {
		object := EvaluatedObject{Name: x.Entry.Naming.Index, Action: WouldCreate, Reason: "data stream"}
		there, err := e.Target.IndexExists(ctx, object.Name)
		if there {
			object.Action = WouldKeep
		}
		done.Targets = append(done.Targets, object)
		return done, nil, err
	}
	all, err := e.Indices.Wanted(ctx, x)
	if err != nil {
		return done, nil, err
	}
	for _, w := range all {
		object := EvaluatedObject{Name: w.Name}
		result, err := e.Indices.Try(ctx, x, w)
		switch {
		case errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil:
			return done, nil, err
		case err != nil:
			object.Action, object.Reason = WouldRefuse, fault.Text(err)
			stops = append(stops, object.Reason)
		case len(result.Existed) > 0:
			object.Action = WouldKeep
		default:
			object.Action, object.Changes = WouldCreate, differs(result.Changes)
		}
		done.Targets = append(done.Targets, object)
	}
	err = e.pipelines(ctx, x, &done)
	return done, stops, err
}

func (e *Evaluator) pipelines(ctx context.Context, x plan.Index, done *EvaluatedIndex) error {
	final, err := e.Target.FinalPipelines(ctx, x.Entry.Naming.Targets())
	if errors.Is(err, fault.ErrConfig) {
		return nil // the permission for it is optional
	}
	for i := range done.Targets {
		o := &done.Targets[i]
		if o.FinalPipeline = final[o.Name]; o.FinalPipeline == "" {
			continue
		}
		effects, eerr := e.Target.PipelineEffects(ctx, o.FinalPipeline)
		if errors.Is(eerr, fault.ErrUnavailable) || ctx.Err() != nil {
			return eerr
		}
		o.PipelineEffects = effects // the permission for it is optional, too
	}
	return err
}

func differs(changes []metadata.Change) []Differs {
	all := make([]Differs, 0, len(changes))
	for _, c := range changes {
		all = append(all, Differs{Rule: c.Rule, Path: c.Path, Detail: c.Detail, Loses: c.Loses()})
	}
	return all
}

func (e *Evaluator) globals(ctx context.Context, plan *plan.Plan, r *Evaluation) error {
	wanted, warning, err := e.Globals.Plan(ctx, plan)
	if err != nil {
		return err
	}
	if r.GlobalsWarning = warning; warning != "" {
		return nil
	}
	done, err := metadata.EnsureGlobals(ctx, e.Globals.Cluster, wanted, nil)
	switch {
	case errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil:
		return err
	case err != nil:
		for line := range strings.SplitSeq(fault.Text(err), "\n") {
			r.Stops = append(r.Stops, line)
		}
	}
	for _, name := range done.Created {
		object := EvaluatedObject{Name: name, Action: WouldCreate}
		object.Changes = differs(slices.DeleteFunc(slices.Clone(done.Changes), func(c metadata.Change) bool { return c.Index != name }))
		r.Globals = append(r.Globals, object)
	}
	for _, name := range done.Existed {
		r.Globals = append(r.Globals, EvaluatedObject{Name: name, Action: WouldKeep})
	}
	for _, left := range done.Left {
		r.Globals = append(r.Globals, EvaluatedObject{Name: string(left.Kind) + " " + left.Name, Action: WouldLeave, Reason: left.Reason})
	}
	return nil
}

// measure adds up sizes from the shards' manifests.
func (e *Evaluator) measure(ctx context.Context, plan *plan.Plan, r *Evaluation) error {
	type cost struct{ total, read, requests int64 }
	costs := make([]cost, len(plan.Indices))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(shardReaders)
	for i, x := range plan.Indices {
		g.Go(func() error {
			for n := range x.Entry.Shards {
				shard, err := snapshot.OpenShard(gctx, e.Repo, x.Entry.Locator, n)
				if errors.Is(err, fault.ErrUnavailable) || gctx.Err() != nil {
					return err
				}
				if err != nil {
					costs[i].requests++
					continue // the migration names it; the plan says what the snapshot lacks
				}
				costs[i].total += shard.TotalBytes
				read, requests := worker.ReadCost(shard)
				costs[i].read += read
				costs[i].requests += requests
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("sizes: %w", err)
	}
	for i, x := range plan.Indices {
		r.Indices[i].Bytes = costs[i].total
		copies := int64(1 + replicas(x.Source.Settings))
		r.Size.Repository += costs[i].total
		r.Size.Target += costs[i].total * copies
		r.Size.Read += costs[i].read
		r.Size.Requests += costs[i].requests
	}
	return nil
}

func replicas(settings map[string]string) int {
	n := 0
	if _, err := fmt.Sscan(settings["index.number_of_replicas"], &n); err != nil {
		return 0
	}
	return max(0, n)
}
